#!/usr/bin/env bash
# Sets the machine up, then builds, checks and times one operator: a 512^3
# matrix product with bias and ReLU. Arguments replace the default operator
# and options: scripts/demo.sh softmax:rows=1536,n=128 --threads 2
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

[ $# -gt 0 ] || set -- matmul:m=512,n=512,k=512,epilogue=bias+relu
exec cargo run --release -q -p talweg -- op "$@" </dev/null
