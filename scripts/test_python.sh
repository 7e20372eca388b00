#!/usr/bin/env bash
# Builds the Python package as a wheel, installs it into an environment of its own under target/, and runs its tests.
# The wheel shares the profile and the build folder of `cargo test`. With --torch, PyTorch's tests run too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

environment=target/python
[ -x "$environment/bin/python" ] || python3 -m venv "$environment"
packages=("maturin>=1.7,<2" pytest numpy onnx onnxruntime)
if [ "${1:-}" = --torch ]; then
    shift
    "$environment/bin/python" -m pip install -q torch --index-url https://download.pytorch.org/whl/cpu
fi
"$environment/bin/python" -m pip install -q --disable-pip-version-check "${packages[@]}"

rm -rf target/wheels
"$environment/bin/maturin" build -q --profile dev --locked --interpreter "$environment/bin/python" --out target/wheels
"$environment/bin/python" -m pip install -q --disable-pip-version-check --no-deps --force-reinstall target/wheels/*.whl
"$environment/bin/python" -m pytest -q -p no:cacheprovider python/tests "$@"
