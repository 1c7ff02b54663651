#!/usr/bin/env bash
# Runs the tests of scripts under valgrind, each packet in a buffer of its own: it sees what machine code that LuaJIT made reads and writes, too, of which
# the address sanitizer knows nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v valgrind >/dev/null; then
    echo "skipped: valgrind is missing (apt-get install valgrind)"
    exit 0
fi
export RUSTFLAGS="--cfg weir_separate_buffers"
built=$(cargo test --locked -p weir-lua --test making --target-dir target/memcheck --no-run --message-format=json)
program=$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' <<<"$built" | tail -n 1)
cd crates/lua
# Where words are compared that are half there, LuaJIT does not use what is not: that is no access beyond anything.
exec valgrind --quiet --smc-check=all --undef-value-errors=no --error-exitcode=9 "$program"
