#!/usr/bin/env bash
# Builds the Python package as a wheel, installs it into an environment of its own under target/, and runs its tests;
# further arguments are pytest's. The wheel shares the profile and the build folder of `cargo test`. Where there are
# peers to compare with (.venv-peers), the tests of the PyTorch backend run on their PyTorch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

environment=target/python
python=$environment/bin/python
[ -x "$python" ] || python3 -m venv "$environment"
install() { "$python" -m pip install -q --disable-pip-version-check "$@"; }
install "maturin>=1.7,<2" pytest numpy onnx onnxruntime

rm -rf target/wheels
"$environment/bin/maturin" build -q --profile dev --locked --interpreter "$python" --out target/wheels
install --no-deps --force-reinstall target/wheels/*.whl
"$python" -m pytest -q -p no:cacheprovider python/tests "$@"

if [ -x .venv-peers/bin/python ] && [ $# -eq 0 ]; then
    rm -rf target/python-torch
    install --no-deps --target target/python-torch target/wheels/*.whl
    install --target target/python-torch pytest
    PYTHONPATH="$PWD/target/python-torch" .venv-peers/bin/python -m pytest -q -p no:cacheprovider python/tests/test_torch.py
fi
