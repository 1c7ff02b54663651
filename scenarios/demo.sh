#!/usr/bin/env bash
# Routes a shipped capture file and shows what became of its packets. Needs no root, huge pages or NIC.
#
#   scenarios/demo.sh       `make demo` installs and builds what is missing first
#
# The input is scenarios/demo/demo.pcap; what the router sent is in target/demo/ afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."

weir=${WEIR:-target/release/weir}
if [ ! -x "$weir" ]; then
    echo "scenarios/demo.sh: $weir is missing: make build" >&2
    exit 1
fi

out=target/demo
scratch=$(mktemp -d "${TMPDIR:-/tmp}/weir-demo.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$out"

route() { # ARGUMENTS...
    "$weir" run configs/demo.lua --until-drained --socket "$scratch/weir.sock" "$@" 2>"$scratch/log" ||
        { cat "$scratch/log" >&2 && return 1; }
}

echo "weir run configs/demo.lua --until-drained"
route | grep -vx ready >"$scratch/account"
/usr/bin/python3 -B scenarios/demo/report.py scenarios/demo/demo.pcap "$out"
echo
cat "$scratch/account"

# Time is virtual, so the same input gives the same output, stamps included.
cp "$out"/*.pcap "$scratch"
route --json >"$scratch/stats"
for file in "$out"/*.pcap; do
    cmp "$file" "$scratch/$(basename "$file")"
done
/usr/bin/python3 -B scenarios/demo/report.py --check scenarios/demo/demo.pcap "$out" "$scratch/stats"
