#!/usr/bin/env bash
# Runs the tests of everything that owns or touches packet buffers under the address sanitizer, on heap buffers.
# Needs a nightly toolchain; is skipped with a message where there is none.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "skipped: the address sanitizer needs a nightly toolchain (rustup toolchain install nightly)"
    exit 0
fi
packages=()
for package in mem packet stage engine port-mem port-pcap forward; do
    packages+=(-p "weir-$package")
done
# Leaks are not errors here: the leak checker needs ptrace, which containers forbid, and pools account for buffers.
export ASAN_OPTIONS=detect_leaks=0 RUSTFLAGS="-Zsanitizer=address --cfg weir_separate_buffers"
exec cargo +nightly test --locked --target x86_64-unknown-linux-gnu --target-dir target/asan --lib --tests "${packages[@]}"
