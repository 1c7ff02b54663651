#!/usr/bin/env bash
# Routes a shipped capture file and shows what became of every packet: no root, huge pages or NIC.
#
#   scenarios/demo.sh       `make demo` installs and builds what is missing first
set -euo pipefail
cd "$(dirname "$0")/.."

weir=${WEIR:-target/release/weir}
[ -x "$weir" ] || { echo "scenarios/demo.sh: $weir is missing: make build" >&2; exit 1; }

out=target/demo
mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cat <<END

  demo.pcap --> lan 10.0.0.1/24  [ Weir ]  wan 192.0.2.1/24 --> $out/wan.pcap
  $out/lan.pcap <--              configs/demo.lua

END

"$weir" run configs/demo.lua --until-drained --json --socket "$scratch/weir.sock" --log "$scratch/log" >"$scratch/out" ||
    { cat "$scratch/log" >&2; exit 1; }
grep -v '^ready$' "$scratch/out" >"$scratch/stats"

python3 - "$scratch/stats" <<'PYTHON'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    stats = json.load(file)
account = stats["account"]
received = ", ".join(f"{port['rx_packets']} on {name}" for name, port in stats["ports"].items() if port["rx_packets"])
print(f"{account['received']} packets came ({received}).\n")


def rows(title, entries):
    entries = [entry for entry in entries if entry[0]]
    if entries:
        print(f"{title}: {sum(entry[0] for entry in entries)}")
    for packets, name, help in entries:
        print(f"  {packets:>4}  {name:<42}{help}")
    print()


forwarded = [
    (port["tx_packets"], f"sent by {name}", "answers and fragments included") for name, port in stats["ports"].items()
]
rows("Sent", forwarded)
for fate in ("consumed", "created"):
    found = [fate_ for fate_ in stats["fates"] if fate_["fate"] == fate]
    title = "Answered, learned, taken apart" if fate == "consumed" else "Made by the router"
    rows(title, [(entry["packets"], f"{entry['stage']}.{entry['reason']}", entry["help"]) for entry in found])
rows("Dropped", [(drop["packets"], f"{drop['stage']}.{drop['reason']}", drop["help"]) for drop in stats["drops"]])

print("The account:")
print(f"  {account['received']} received + {account['created']} created\n"
      f"  = {account['transmitted']} transmitted + {account['dropped']} dropped + {account['consumed']} consumed"
      f" + {account['held']} held, and {account['unaccounted']} unaccounted for.\n")
sys.exit(account["unaccounted"] != 0)
PYTHON
echo "What was sent is in $out/lan.pcap and $out/wan.pcap: tcpdump -nr $out/wan.pcap"
