#!/usr/bin/env bash
# Looks at the page of `talweg report` and at a live dashboard in a real browser, which it installs if there is none.
# Takes the talweg to use, and optionally a folder that keeps the pictures.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh
talweg_install_packages chromium
talweg=${1:-target/debug/talweg}
[ -x "$talweg" ] || cargo build --locked -p talweg
command -v chromium >/dev/null || { echo "there is no chromium; install the package of your system" >&2; exit 1; }
exec timeout 175 python3 scripts/test_pages.py --talweg "$talweg" ${2:+--pictures "$2"}
