#!/usr/bin/env bash
# Follows docs/adding-a-function.md word by word in a copy of the sources, which stays below target/.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH=$HOME/.cargo/bin:$PATH
# What is built is run for a second: it need be neither fast nor easy to debug.
export CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_OPT_LEVEL=0

exec /usr/bin/python3 tools/docs/follow.py target/follow
