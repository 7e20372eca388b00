#!/usr/bin/env bash
# Sets the machine up, then runs every check a change must pass: formatting,
# lints, tests, whole networks against ONNX Runtime, pages in a browser, and the Python package.
# Needs neither a terminal nor an environment variable.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

run() {
    printf '+ %s\n' "$*"
    "$@" </dev/null
}

# The same random cases in every run; unset, or set to another number, for new ones.
export PROPTEST_RNG_SEED="${PROPTEST_RNG_SEED:-1}"

run cargo fmt --all --check
run cargo clippy --workspace --all-targets --locked -- -D warnings
run cargo test --workspace --locked
run scripts/check_networks.py --talweg target/debug/talweg
run scripts/test_pages.sh target/debug/talweg
run scripts/test_python.sh
echo "all checks passed"
