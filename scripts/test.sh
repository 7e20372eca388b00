#!/usr/bin/env bash
# Sets the machine up, then runs every check a change must pass: formatting,
# lints and tests. Needs neither a terminal nor an environment variable.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

run() {
    printf '+ %s\n' "$*"
    "$@" </dev/null
}

run cargo fmt --all --check
run cargo clippy --workspace --all-targets --locked -- -D warnings
run cargo test --workspace --locked
echo "all checks passed"
