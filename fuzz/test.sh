#!/usr/bin/env bash
# Bounded fuzzing of everything that parses bytes. The last line is `N passed, N failed, N skipped`.
#
#   fuzz/test.sh [--inputs N] [--seed N]     a fixed number of inputs for each target, on stable Rust
#
# Every target runs in a process of its own, with 2 GiB of address space: no crash, no hang, bounded memory. With cargo-fuzz
# and a nightly each is then fuzzed by coverage for a few seconds. See README.md.
set -uo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

SECONDS_EACH=${WEIR_FUZZ_SECONDS:-5}
passed=0 failed=0 skipped=0

# Adds up the last line of what was run; a run that ended without one is one failure.
add() { # STATUS OUTPUT
    local p f s
    if read -r p _ f _ s _ < <(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' <<<"$2" | tail -n 1); then
        passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    elif [ "$1" -ne 0 ]; then
        failed=$((failed + 1))
    fi
}

bounded() {
    local output status
    cargo build --quiet --locked -p weir-fuzz || {
        failed=$((failed + 1))
        return
    }
    output=$(ulimit -v 2097152 && ulimit -c 0 && target/debug/weir-fuzz run "$@" 2>&1)
    status=$?
    grep -vE '^[0-9]+ passed, ' <<<"$output"
    add "$status" "$output"
}

guided() {
    local target own count=0
    count=$(find fuzz/fuzz_targets -name '*.rs' | wc -l)
    if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
        echo "skipped: fuzzing by coverage: cargo-fuzz or a nightly is missing (rustup install nightly; cargo install cargo-fuzz)"
        skipped=$((skipped + count))
        return
    fi
    for target in fuzz/fuzz_targets/*.rs; do
        target=$(basename "$target" .rs)
        # What is found goes here; the kept corpus is only read.
        own=target/fuzz/found/$target
        mkdir -p "$own"
        if cargo +nightly fuzz run "$target" "$own" "fuzz/corpus/$target" -- \
            -max_total_time="$SECONDS_EACH" -max_len=4096 -rss_limit_mb=2048 -timeout=20 >"$own.log" 2>&1; then
            echo "$target: $(grep -E '^(Done|#[0-9]+[[:space:]]+DONE)' "$own.log" | tail -n 1)"
            passed=$((passed + 1))
        else
            tail -n 30 "$own.log"
            echo "$target: FAILED by coverage; the whole output is in $own.log"
            failed=$((failed + 1))
        fi
    done
}

bounded "$@"
guided
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
