#!/usr/bin/env bash
# Builds the program and runs scenarios and whole-system tests. The last line is `N passed, N failed, N skipped`.
#
#   scenarios/test.sh [-j N] [WORD...]     only tests whose name contains a WORD
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=/usr/sbin:/sbin:$HOME/.cargo/bin:$PATH PYTHONDONTWRITEBYTECODE=1

# Overflow and debug assertions are on in this build.
cargo build --quiet --locked --bin weir
exec /usr/bin/python3 scenarios/test.py "$@"
