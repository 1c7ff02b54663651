#!/usr/bin/env bash
# Runs every tier of tests and sums them up. The last line is `N passed, N failed, N skipped`.
#
#   tools/test.sh [TIER...]     tiers: cargo loom scripts; all of them by default
#
# A cargo test that skips itself prints a line that begins with `skipped: ` and says why. A script is the test.sh in scenarios/, fuzz/ or
# tools/docs/; its last line is `N passed, N failed, N skipped`, or else its exit status counts as one test (77: skipped).
# What failed is named once more before the last line. The full output is kept in target/test-logs/.
set -uo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

logs=target/test-logs
mkdir -p "$logs"
passed=0 failed=0 skipped=0
faults=()

# Shows what is worth reading of cargo's output: no passed tests, but their reasons for skipping themselves.
# Line by line, so that a test that hangs is the last thing to be read.
interesting() {
    sed -uE \
        -e '/^skipped: /{ s/^/  /; b' -e '}' \
        -e '/^successes:$/,/^(failures:|test result: |running )/{ /^(failures:|test result: |running )/!d' -e '}' \
        -e '/^test .* \.\.\. ok$/d; /^$/d; /^running 0 tests$/d' \
        -e '/^ *(Doc-tests|Compiling|Downloaded|Downloading) /d; /^test result: ok\. 0 passed; 0 failed; 0 ignored/d'
}

# Names in `faults` what a log says has failed; where it says nothing, the run itself.
name_faults() { # NAME LOG STATUS
    local found
    mapfile -t found < <(sed -nE \
        -e 's/^test (.*) \.\.\. FAILED$/\1/p' \
        -e 's/^FAILED +//p' \
        -e 's/^([a-z0-9_-]+: FAILED .*)$/\1/p' \
        -e 's/^(error(\[E[0-9]+\])?: .*)$/\1/p' "$2" | head -n 40)
    case $3 in
    0) [ ${#found[@]} -eq 0 ] && return ;;
    124 | 137) found+=("stopped, because it ran too long") ;;
    *) [ ${#found[@]} -eq 0 ] && found+=("exit status $3") ;;
    esac
    faults+=("${found[@]/#/failed: $1: }")
}

# Adds up the result lines in cargo's log; a run that failed without saying so is one failed test.
count_cargo() { # LOG STATUS
    local p f s quiet
    read -r p f s quiet < <(awk '
        /^test result: (ok|FAILED)\. [0-9]+ passed; [0-9]+ failed; / { p += $4; f += $6; i += $8 }
        /^skipped: / { q++ }
        END          { print p + 0, f + 0, i + 0, q + 0 }' "$1")
    [ "$2" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    [ "$quiet" -gt "$p" ] && quiet=$p
    passed=$((passed + p - quiet)) failed=$((failed + f)) skipped=$((skipped + s + quiet))
}

cargo_tests() { # NAME MINUTES COMMAND...
    local log=$logs/$1.log minutes=$2
    echo "== $1"
    shift 2
    # Not --foreground: what hangs is a child of the command, and would keep the pipe open.
    timeout -k 10 "${minutes}m" "$@" 2>&1 | tee "$log" | interesting
    local status=${PIPESTATUS[0]}
    [ "$status" -eq 124 ] && echo "ran longer than $minutes minutes and was stopped"
    count_cargo "$log" "$status"
    name_faults "$(basename "$log" .log)" "$log" "$status"
}

# Where a script's output goes.
log_of() { # PATH
    echo "$logs/${1//\//-}.log"
}

# Runs a script; its output and its exit status stay in files, too.
run_script() { # PATH
    local log
    log=$(log_of "$1")
    timeout -k 10 25m "$1" 2>&1 | tee "$log"
    echo "${PIPESTATUS[0]}" >"$log.status"
}

# Adds up what a script said that has run.
count_script() { # PATH
    local log status line p=0 f=0 s=0
    log=$(log_of "$1")
    status=$(cat "$log.status")
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
    if [ -n "$line" ]; then
        read -r p _ f _ s _ <<<"$line"
        [ "$status" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    else
        case $status in
        0) p=1 ;;
        77) s=1 ;;
        *) f=1 ;;
        esac
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    [ "$f" -gt 0 ] && name_faults "$1" "$log" "$((status > 0 ? status : 1))"
}

# Everybody may write there, as to /tmp: some tests give their privileges up.
temporary() {
    local folder
    folder=$(mktemp -d /tmp/weir-tests.XXXXXX) && chmod 1777 "$folder" && echo "$folder"
}

tier_cargo() {
    local folder left
    folder=$(temporary) || exit 1
    # Tests of devices and namespaces share them: they say so themselves, the rest runs in parallel.
    TMPDIR=$folder cargo_tests cargo 40 cargo test --workspace --locked --no-fail-fast -- --show-output
    # What tests leave behind fills the disks of others.
    left=$(find "$folder" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort)
    if [ -n "$left" ]; then
        printf 'tests left files behind in TMPDIR:\n%s\n' "$left"
        failed=$((failed + 1))
        faults+=("failed: cargo: left files behind: ${left//$'\n'/ }")
    else
        passed=$((passed + 1))
    fi
    rm -rf "$folder"
}

tier_loom() {
    local manifest package
    for manifest in crates/*/tests/loom.rs; do
        [ -e "$manifest" ] || continue
        package=weir-$(basename "$(dirname "$(dirname "$manifest")")")
        RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo_tests "loom-$package" 10 \
            cargo test -p "$package" --locked --release --target-dir target/loom --test loom -- --show-output
    done
}

# Scenarios wait more than they compute: what builds and computes runs beside them, and gives way to them.
tier_scripts() {
    local path beside=(fuzz/test.sh tools/docs/test.sh)
    {
        renice -n 19 "$BASHPID"
        for path in "${beside[@]}"; do
            run_script "$path"
        done
    } >/dev/null &
    echo "== scenarios/test.sh"
    run_script scenarios/test.sh
    wait
    count_script scenarios/test.sh
    for path in "${beside[@]}"; do
        echo "== $path"
        cat "$(log_of "$path")"
        count_script "$path"
    done
}

tiers=("$@")
[ ${#tiers[@]} -eq 0 ] && tiers=(cargo loom scripts)
for tier in "${tiers[@]}"; do
    case $tier in
    cargo | loom | scripts) "tier_$tier" ;;
    *)
        echo "no such tier: $tier (cargo, loom, scripts)" >&2
        exit 2
        ;;
    esac
done

echo
{
    [ ${#faults[@]} -gt 0 ] && printf '%s\n' "${faults[@]}"
    echo "$passed passed, $failed failed, $skipped skipped"
} | tee "$logs/summary"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
