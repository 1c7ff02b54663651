#!/usr/bin/env bash
# Shows Weir at work: a router between two hosts, each a network namespace of its own. Needs root.
#
#   scenarios/run.sh        `make run` installs and builds what is missing first
#
# Everything it makes has a name that begins with weir-PID, and is gone at the end, also when interrupted.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=/usr/sbin:/sbin:$PATH

weir=${WEIR:-target/release/weir}
seconds=${SECONDS_OF_TRAFFIC:-4}

fail() {
    echo "scenarios/run.sh: $*" >&2
    exit 1
}

[ "$(id -u)" -eq 0 ] || fail "making network namespaces needs root: sudo make run"
for program in ip ethtool ping traceroute iperf3 python3; do
    command -v "$program" >/dev/null || fail "$program is missing: make deps"
done
[ -x "$weir" ] || fail "$weir is missing: make build"

id=weir-$$
lan=$id-lan wan=$id-wan router=$id-router
scratch=$(mktemp -d "/tmp/$id.XXXXXX")
pids=()

clean_up() {
    local status=$? namespace
    trap - EXIT INT TERM HUP
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    for pid in "${pids[@]}"; do
        wait "$pid" 2>/dev/null || true
    done
    for namespace in "$lan" "$wan" "$router"; do
        ip netns del "$namespace" 2>/dev/null || true
    done
    rm -rf "$scratch"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

say() {
    if [ -t 1 ]; then
        printf '\n\033[1m%s\033[0m\n' "$*"
    else
        printf '\n%s\n' "$*"
    fi
}

inside() { # NAMESPACE COMMAND...
    local namespace=$1
    shift
    ip netns exec "$namespace" "$@"
}

# A host HOST-END in a namespace, wired to the router's end; its checksums are finished before they are sent.
make_host() { # NAMESPACE ROUTER-END ADDRESS GATEWAY
    ip link add eth0 netns "$1" type veth peer name "$2" netns "$router"
    inside "$1" ethtool -K eth0 tx off >/dev/null
    inside "$1" ip address add "$3" dev eth0
    inside "$1" ip link set lo up
    inside "$1" ip link set eth0 up
    inside "$router" ip link set "$2" up
    inside "$1" ip route add default via "$4"
}

# The kernel says within a second that a new link is up; until then the router lets nothing pass there.
wait_for_links() { # NAMESPACE INTERFACE...
    local namespace=$1 interface tries
    shift
    for interface in "$@"; do
        for ((tries = 0; tries < 200; tries++)); do
            inside "$namespace" ip -oneline link show "$interface" | grep -q 'state UP' && continue 2
            sleep 0.05
        done
        fail "the link of $interface does not come up"
    done
}

start_weir() { # DRIVER; whether it is ready
    sed "s/af_xdp:/$1:/" configs/router.lua >"$scratch/router.lua"
    : >"$scratch/out"
    # Not by `inside`: signals must reach Weir, not a shell around it.
    ip netns exec "$router" "$weir" run "$scratch/router.lua" --name "$id" --socket "$scratch/weir.sock" \
        >"$scratch/out" 2>"$scratch/log" &
    weir_pid=$!
    pids+=("$weir_pid")
    local tries
    for ((tries = 0; tries < 200; tries++)); do
        grep -qx ready "$scratch/out" && return 0
        kill -0 "$weir_pid" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}

for namespace in "$lan" "$wan" "$router"; do
    ip netns add "$namespace"
    inside "$namespace" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
done
make_host "$lan" veth-lan 10.0.0.2/24 10.0.0.1
make_host "$wan" veth-wan 192.0.2.254/24 192.0.2.1
# A network behind the host on the other side, which only the default route leads to.
inside "$wan" ip address add 198.51.100.1/32 dev lo
wait_for_links "$router" veth-lan veth-wan

driver=AF_XDP
if ! start_weir af_xdp; then
    echo "AF_XDP is refused here, so this runs on AF_PACKET:" "$(tail -n 1 "$scratch/log")"
    driver=AF_PACKET
    start_weir af_packet || fail "Weir does not start: $(cat "$scratch/log")"
fi
cat <<END

  10.0.0.2 ---- 10.0.0.1 [ Weir on $driver ] 192.0.2.1 ---- 192.0.2.254 (behind it 198.51.100.1)
  "lan" host          configs/router.lua                  "wan" host

END

say "ping from 10.0.0.2 to 198.51.100.1, through Weir"
inside "$lan" ping -n -c 5 -i 0.2 -W 2 198.51.100.1 | grep -v '^$'

say "traceroute: Weir is the first hop"
inside "$lan" traceroute -n -q 1 -w 2 198.51.100.1 | tee "$scratch/trace"
grep -q '^ *1  10\.0\.0\.1 ' "$scratch/trace" || fail "the router does not show up as the first hop"
grep -q '^ *2  198\.51\.100\.1 ' "$scratch/trace" || fail "the host does not show up as the second hop"

say "TCP from 10.0.0.2 to 198.51.100.1, $seconds seconds"
ip netns exec "$wan" iperf3 -s -1 --forceflush >"$scratch/iperf3" 2>&1 &
pids+=("$!")
for ((tries = 0; tries < 100; tries++)); do
    grep -q listening "$scratch/iperf3" && break
    sleep 0.05
done
# In the background, so that an interrupt need not wait for its end; and not by `inside`, which would be what is ended in its place.
ip netns exec "$lan" iperf3 -c 198.51.100.1 -t "$seconds" --json >"$scratch/stream" &
pids+=("$!")
wait "$!" ||
    fail "iperf3: $(python3 -c 'import json, sys; print(json.load(open(sys.argv[1])).get("error"))' "$scratch/stream")"

ask() {
    "$weir" show "$@" --socket "$scratch/weir.sock"
}

ask stats --json >"$scratch/stats"
/usr/bin/env python3 - "$scratch/stream" "$scratch/stats" <<'PYTHON'
import json, sys

stream, stats = (json.load(open(name, encoding="utf-8")) for name in sys.argv[1:])
end = stream["end"]
sent, received = end["sum_sent"], end["sum_received"]
print(f"{received['bytes'] / 1e6:,.0f} MB arrived: {received['bits_per_second'] / 1e9:.2f} Gbit/s, "
      f"{sent['retransmits']} retransmissions")
for name, port in sorted(stats["ports"].items()):
    print(f"{name}: {port['rx_packets']:,} packets received, {port['tx_packets']:,} sent")
PYTHON

say "The account (weir show stats)"
ask stats

kill -TERM "$weir_pid"
wait "$weir_pid" || fail "Weir did not end well: $(cat "$scratch/log")"

/usr/bin/env python3 - "$scratch/stream" "$scratch/stats" <<'PYTHON' || fail "something did not work"
import json, sys

stream, stats = (json.load(open(name, encoding="utf-8")) for name in sys.argv[1:])
if stats["account"]["unaccounted"] != 0:
    sys.exit(f"unaccounted packets: {stats['account']}")
if stream["end"]["sum_received"]["bytes"] == 0:
    sys.exit("nothing arrived")
PYTHON
say "Everything arrived, and nothing is unaccounted for."
