"""A real B4: two customers' Linux routers with `ip6tnl` tunnels and NAT, in an emulated machine, browse through the relay; BIRD announces its
prefix.

```text
 home - CPE "one" --(1,400 bytes)--+                                        +-- BIRD of the relay
 10.0.0.2                          access (Linux) --- Weir ---(bridge)--- core (Linux, BIRD) --- far
 home - CPE "two" --(1,500 bytes)--+                                                         198.51.100.7
```

Both customers share 203.0.113.1; homes and CPEs are namespaces of the guest. The prefix is a static route of the relay's BIRD, which announces it
with the relay's address for a next hop: Weir tells no routing daemon of its prefixes by itself.
"""

import hashlib
import http.server
import json
import pathlib
import re
import shutil
import socket
import tempfile
import threading

from lab import Skipped
from lab.guest import BOOT, Card, Guest
from lab.hosts import PATIENT, check_answered, speaks_ipv6
from lab.netns import Lab
from lab.packets import payload
from lab.weir import Weir, wait_for

COMPANY = "no guest"

SHARED, FAR, NARROW = "203.0.113.1", "198.51.100.7", "198.51.100.8"
AFTR = "2001:db8:a::1"

# RFC 7597 section 5.1 with k = 4 and a = 0: ports 4096 to 8191, and 8192 to 12287.
CUSTOMERS = {"one": 1, "two": 2}
# What a tunnel's packet may have on the way to each.
ACCESS_MTU = {"one": 1400, "two": 1500}

RELAY = f"""
port {{ name = "internet", device = "af_packet:internet", address = "192.0.2.1/24" }}
port {{ name = "access", device = "af_packet:access", address = "2001:db8:f::1/64" }}
lwaftr {{
  ports     = {{ "internet", "access" }},
  workers   = {{ 1 }},
  aftr      = "{AFTR}",
  prefixes  = "203.0.113.0/24",
  softwires = {{
    {{ ipv4 = "{SHARED}", psid = 1, psid_length = 4, b4 = "2001:db8:c:1::1" }},
    {{ ipv4 = "{SHARED}", psid = 2, psid_length = 4, b4 = "2001:db8:c:2::1" }},
  }},
  ipv4      = {{ interfaces = "internet" }},
  ipv6      = {{ interfaces = "access" }},
  routes    = {{ ["0.0.0.0/0"] = "192.0.2.254", ["2001:db8:c::/48"] = "2001:db8:f::2" }},
}}
"""

# Who needs a checksum asks for it by a name that busybox knows no module by.
_MODULES = ("crc32c_generic", "ip6_tunnel", "veth", "nf_tables", "nft_chain_nat", "nft_nat", "nft_ct", "nf_nat")

# A customer: the CPE has a tunnel, NAT to its own ports, and a home behind it. Nothing but its own ports may come out of the tunnel: what does all
# the same is counted as a stranger's.
_CUSTOMER = """
set -e
ip netns add {name}; ip netns add home-{name}
ip link set {card} netns {name}
ip -n {name} link set lo up; ip -n home-{name} link set lo up
ip netns exec {name} sysctl -qw net.ipv4.ip_forward=1
ip -n {name} address add {b4}/64 dev {card} nodad
ip -n {name} link set {card} mtu {mtu} up
ip -n {name} -6 route add default via {gateway}
ip -n {name} link add name lw4o6 type ip6tnl mode ipip6 local {b4} remote {aftr} dev {card} hoplimit 64 tclass inherit encaplimit none
ip -n {name} address add {shared}/32 dev lw4o6
ip -n {name} link set lw4o6 up
ip -n {name} route add default dev lw4o6
ip -n {name} link add lan type veth peer name eth0 netns home-{name}
ip -n {name} address add 10.0.0.1/24 dev lan
ip -n {name} link set lan up
ip -n home-{name} address add 10.0.0.2/24 dev eth0
ip -n home-{name} link set eth0 up
ip -n home-{name} route add default via 10.0.0.1
ip netns exec {name} nft -f - <<'END'
table ip customer {{
  chain translate {{
    type nat hook postrouting priority srcnat;
    oifname "lw4o6" ip protocol {{ tcp, udp, icmp }} ip saddr 10.0.0.0/24 snat to {shared}:{first}-{last}
  }}
  chain tunnel {{
    type filter hook prerouting priority raw;
    iifname "lw4o6" meta l4proto {{ tcp, udp }} th dport {first}-{last} counter comment "own"
    iifname "lw4o6" meta l4proto {{ tcp, udp }} th dport != {first}-{last} counter comment "stranger"
  }}
}}
END
"""

_BIRD_OF_THE_RELAY = """
router id 192.0.2.2;
protocol device {}
protocol static relay { ipv4; route 203.0.113.0/24 unreachable; }
protocol bgp core {
  local 192.0.2.2 as 64512;
  neighbor 192.0.2.254 as 64513;
  connect retry time 1; error wait time 1, 2; connect delay time 1;
  ipv4 {
    import none;
    export filter { if source != RTS_STATIC then reject; bgp_next_hop = 192.0.2.1; accept; };
  };
}
"""

_BIRD_OF_THE_CORE = """
router id 192.0.2.254;
protocol device {}
protocol direct { ipv4; }
protocol kernel { ipv4 { export where source = RTS_BGP; }; }
protocol bgp relay {
  local 192.0.2.254 as 64513;
  neighbor 192.0.2.2 as 64512;
  passive;
  ipv4 { import all; export none; };
}
"""


def _ports(name):
    first = CUSTOMERS[name] * 4096
    return first, first + 4095


def _page(length):
    """So many bytes of text: who sends them back takes them for a text that ends at the first NUL."""
    return payload(length // 2).hex().encode()


class _Pages(http.server.BaseHTTPRequestHandler):
    """A page of so many bytes by GET, and the hash of what is sent by POST."""

    def do_GET(self):  # pylint: disable=invalid-name
        """`/N`"""
        self._answer(_page(int(self.path[1:])))

    def do_POST(self):  # pylint: disable=invalid-name
        """Answers a hash, and who asked."""
        body = self.rfile.read(int(self.headers["content-length"]))
        self._answer(f"{hashlib.sha256(body).hexdigest()} {self.client_address[0]} {self.client_address[1]}\n".encode())

    def _answer(self, body):
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        """Says nothing."""


class Net:
    """What the picture above shows, up and running."""

    def __init__(self, lab):
        for program in ("bird", "nft"):
            if shutil.which(program) is None:
                raise Skipped(f"{program} is missing: tools/deps.sh")
        self.lab = lab
        self.relay, self.access, self.core, self.far = (lab.namespace(name) for name in ("relay", "access", "core", "far"))
        self._folder = tempfile.TemporaryDirectory(prefix="weir-b4-")  # pylint: disable=consider-using-with
        lab.at_end(self._folder.cleanup)
        self._internet_side()
        self._access_side()
        self._bird(self.core, "core", _BIRD_OF_THE_CORE)
        self._bird(self.relay, "relay", _BIRD_OF_THE_RELAY)
        server = http.server.ThreadingHTTPServer
        with self.far.entered():
            self._server = server(("", 80), _Pages)
        lab.at_end(self._server.server_close)
        lab.at_end(self._server.shutdown)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.weir = Weir(self.relay, RELAY)
        lab.at_end(lambda: self.weir.__exit__(None, None, None))
        if not wait_for(lambda: self.learnt() is not None):
            raise AssertionError(f"no route by BIRD: {self.birdc('relay', 'show', 'protocols', 'all')}")

    def _internet_side(self):
        core, far = self.core, self.far
        self.lab.wire((self.relay, "internet", "02:00:00:00:00:01"), (core, "weir", "02:00:00:00:01:01"))
        self.lab.wire((self.relay, "control", "02:00:00:00:00:03"), (core, "bird", "02:00:00:00:01:03"))
        self.lab.wire((core, "far", "02:00:00:00:02:01"), (far, "eth0", "02:00:00:00:02:02"))
        core.run("ip", "link", "add", "br0", "address", "02:00:00:00:01:00", "type", "bridge")
        for port in ("weir", "bird"):
            core.run("ip", "link", "set", port, "master", "br0")
        core.run("ip", "link", "set", "br0", "up")
        core.run("ip", "address", "add", "192.0.2.254/24", "dev", "br0")
        core.run("ip", "address", "add", "198.51.100.1/24", "dev", "far")
        core.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.icmp_ratelimit=0", "net.ipv4.conf.all.send_redirects=0")
        # A way on which less fits, of which the sender has to be told (RFC 1191).
        core.run("ip", "route", "add", f"{NARROW}/32", "via", FAR, "mtu", "lock", "1300")
        self.relay.run("ip", "address", "add", "192.0.2.2/24", "dev", "control")
        far.run("ip", "address", "add", f"{FAR}/24", "dev", "eth0")
        far.run("ip", "address", "add", f"{NARROW}/32", "dev", "lo")
        far.run("ip", "route", "add", "default", "via", "198.51.100.1")
        far.run("sysctl", "-qw", "net.ipv4.icmp_ratelimit=0")

    def _access_side(self):
        access = self.access
        speaks_ipv6(access)
        access.run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1", "net.ipv6.icmp.ratelimit=0")
        self.lab.wire((self.relay, "access", "02:00:00:00:00:02"), (access, "weir", "02:00:00:00:03:02"))
        access.run("ip", "address", "add", "2001:db8:f::2/64", "dev", "weir", "nodad")
        access.run("ip", "-6", "route", "add", f"{AFTR}/128", "via", "2001:db8:f::1")
        cards = [Card("virtio-net-pci", f"02:00:00:00:04:0{n}", access, name, f"02:00:00:00:05:0{n}") for name, n in CUSTOMERS.items()]
        for name, n in CUSTOMERS.items():
            access.run("ip", "address", "add", f"2001:db8:c:{n}::ff/64", "dev", name, "nodad")
            access.run("ip", "link", "set", name, "mtu", str(ACCESS_MTU[name]))
        self.guest = Guest(self.lab, cards, iommu=False, memory=512, cores=2, modules=_MODULES)
        for card, (name, n) in enumerate(CUSTOMERS.items()):
            first, last = _ports(name)
            ends = {"b4": f"2001:db8:c:{n}::1", "gateway": f"2001:db8:c:{n}::ff", "aftr": AFTR, "shared": SHARED}
            of_card = {"card": f"eth{card}", "mtu": ACCESS_MTU[name]}
            self.guest.run(_CUSTOMER.format(name=name, first=first, last=last, **ends, **of_card))

    def _bird(self, namespace, name, text):
        folder = pathlib.Path(self._folder.name)
        (folder / f"{name}.conf").write_text(text, encoding="ascii")
        bird = ("bird", "-f", "-c", folder / f"{name}.conf", "-s", folder / f"{name}.ctl", "-P", folder / f"{name}.pid")
        process = namespace.popen(*map(str, bird), stdout=-3, stderr=-3)
        self.lab.at_end(process.wait)
        self.lab.at_end(process.terminate)

    def birdc(self, name, *words):
        """Tells a BIRD something."""
        return self.core.run("birdc", "-s", f"{self._folder.name}/{name}.ctl", *words, check=False)

    def learnt(self):
        """The next hop of the core's route to the relay's prefix, which it has from BIRD, or None."""
        routes = json.loads(self.core.run("ip", "-j", "route", "show", "203.0.113.0/24", "proto", "bird"))
        return routes[0].get("gateway") if routes else None

    def at_home(self, name, command, check=True):
        """Runs a line of shell in a customer's home."""
        return self._inside(f"home-{name}", command, check)

    def at_cpe(self, name, command, check=True):
        """Runs a line of shell on a customer's router."""
        return self._inside(name, command, check)

    def _inside(self, namespace, command, check):
        return self.guest.run(f"ip netns exec {namespace} {command}", check=check, patience=BOOT)

    def strangers(self, name):
        """Packets that came out of a customer's tunnel, and are for ports of others; and for its own."""
        listing = self.at_cpe(name, "nft list chain ip customer tunnel")
        count = lambda comment: int(re.search(rf'packets (\d+) bytes \d+ comment "{comment}"', listing)[1])
        return count("stranger"), count("own")

    def pmtu(self, host, target):
        """The MTU of the way to an address, as a host here has found it."""
        found = re.search(r" mtu (\d+)", host.run("ip", "route", "get", target))
        return int(found[1]) if found else None

    def fetch(self, name, length):
        """A home fetches a page and sends it back; both ways nothing is changed, and who asks is the shared address with a port of its own."""
        digest = hashlib.sha256(_page(length)).hexdigest()
        file = f"/run/page-{name}"
        self.at_home(name, f"busybox wget -q -O {file} http://{FAR}/{length}")
        assert self.guest.run(f"sha256sum {file}").split()[0] == digest, "what came is not what was sent"
        said = self.at_home(name, f"busybox wget -q -O - --post-file {file} http://{FAR}/")
        back, address, port = said.split()
        first, last = _ports(name)
        assert (back, address) == (digest, SHARED) and first <= int(port) <= last, said


def _ping(count, *more):
    """A ping of which `check_answered` is told."""
    return " ".join(("ping", "-n", "-c", str(count), *PATIENT, *more))


def test_two_customers_browse_behind_one_address():
    """Pages of megabytes both ways, with the MTU of each way found by what routers and relay tell (RFC 1191, RFC 2473 section 7); pings and routes
    traced from either side; fragments; and neither customer gets or sends what is the other's."""
    with Lab() as lab:
        net = Net(lab)
        assert net.learnt() == "192.0.2.1"
        for name in CUSTOMERS:
            check_answered(net.at_home(name, _ping(3, FAR)), 3)
        # The wider way first: what the server learns counts for the address, which both share.
        for name, expected in (("two", 1460), ("one", 1360)):
            net.fetch(name, 3_000_000)
            assert net.pmtu(net.far, SHARED) == expected, (name, net.far.run("ip", "route", "get", SHARED))
        # Too big for a way behind the relay: who is told sits behind NAT in a tunnel.
        said = net.at_home("two", f"ping -n -c 2 -W 20 -M do -s 1400 {NARROW}", check=False)[1]
        assert "mtu = 1300" in said or "mtu=1300" in said, said
        check_answered(net.at_home("two", _ping(2, "-M", "do", "-s", "1272", NARROW)), 2)
        # Without DF all of it arrives in pieces, of IPv4 and of the tunnel. Nobody on the way cuts what is in pieces already (RFC 8200 section
        # 5), so the relay has to know the narrowest way.
        large = _ping(3, "-M", "dont", "-s", "4000", FAR)
        check_answered(net.at_home("two", large), 3)
        net.weir.reload(RELAY.replace('"access" },\n  routes', '"access", mtu = 1400 },\n  routes'))
        for name in CUSTOMERS:
            check_answered(net.at_home(name, large), 3)
        for name in CUSTOMERS:
            first, _ = _ports(name)
            check_answered(net.far.run(*_ping(3, "-e", str(first + 7), SHARED).split()), 3)
        _trace(net)
        # What Linux does if it is not told otherwise: a limit of tunnels within tunnels, in front of the packet (RFC 2473 section 4.1.1).
        net.at_cpe("two", "ip link set dev lw4o6 type ip6tnl encaplimit 4")
        net.fetch("two", 100_000)
        _keep_apart(net)
        _withdraw(net)
        net.weir.stats()
        net.weir.stop()


def _trace(net):
    """Hops, as either side sees them; the relay is one where it takes a hop, towards the customers."""
    ways = (
        (net.at_home("one", f"traceroute -n -N 1 -q 1 -w 60 {FAR}"), ["10.0.0.1", "192.0.2.254", FAR]),
        (net.far.run("traceroute", "-n", "-N", "1", "-q", "1", "-w", "60", "-U", "-p", "8200", SHARED), ["198.51.100.1", "192.0.2.1", SHARED]),
    )
    for said, expected in ways:
        assert re.findall(r"^ *\d+ +(\S+)", said, re.M) == expected, said


# Sends from these ports of the shared address.
_SAY = f"""
import socket
for port in {{ports}}:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("{SHARED}", port))
        one.sendto(b"it is %d" % port, ("{FAR}", 9))
"""


def _keep_apart(net):
    """What is for a port comes to its customer alone; what pretends to be another's goes nowhere."""
    before = {name: net.strangers(name) for name in CUSTOMERS}
    assert all(strange == 0 for strange, _ in before.values()), before
    # The first and last port of each, and those beside.
    edges = [port for name in CUSTOMERS for first, last in [_ports(name)] for port in (first - 1, first, last, last + 1)]
    with net.far.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
        far.bind((FAR, 9))
        far.settimeout(BOOT)
        for port in edges:
            far.sendto(b"x", (SHARED, port))
        own = lambda name: net.strangers(name)[1] - before[name][1]
        assert wait_for(lambda: own("one") >= 3 and own("two") >= 3), (own("one"), own("two"))
        assert {name: (net.strangers(name)[0], own(name)) for name in CUSTOMERS} == {"one": (0, 3), "two": (0, 3)}
        refused = net.weir.drops().get("lwaftr.relay no-softwire-ipv6", 0)
        net.at_cpe("one", f"python3 -c '{_SAY.format(ports=(8192, 4100))}'")
        assert far.recvfrom(100) == (b"it is 4100", (SHARED, 4100))
        assert net.weir.drops()["lwaftr.relay no-softwire-ipv6"] > refused, net.weir.drops()


def _withdraw(net):
    """The core's way to the prefix goes when the relay's BIRD no longer announces it, and comes back."""
    for command, hop in (("disable", None), ("enable", "192.0.2.1")):
        net.birdc("relay", command, "core")
        assert wait_for(lambda expected=hop: net.learnt() == expected), (command, net.learnt())
    check_answered(net.at_home("one", _ping(1, FAR)), 1)
