"""FRR and BIRD speak for the router, each in a namespace of its own, with peers across it."""

import json

from lab.daemons import Bird, Frr
from lab.hosts import ping
from lab.netns import Lab
from lab.weir import Weir, check_account, wait_for

_WEIR = """
port {{ name = "lan", device = "af_packet:lan", address = {{ "10.0.0.1/24", "2001:db8:a::1/64" }} }}
port {{ name = "wan", device = "af_packet:wan", address = {{ "10.0.9.1/24" }} }}
router {{ ports = {{ "lan", "wan" }}, workers = {{ 1 }}, linux = {{ netns = "{netns}", {more} }} }}
"""

# What each of FRR's daemons reads. Sessions end when nobody has spoken for seconds, not for tenths of one: who speaks may have no core for a while.
_FRR = {
    "zebra": """
ip nht resolve-via-default
interface wan
 no ipv6 nd suppress-ra
 ipv6 nd ra-interval 1
""",
    "ospfd": """
interface lan
 ip ospf area 0
 ip ospf hello-interval 1
 ip ospf dead-interval 20
 ip ospf network point-to-point
router ospf
 ospf router-id 10.0.0.1
 timers throttle spf 0 50 500
 timers throttle lsa all 0
 timers lsa min-arrival 0
""",
    "ospf6d": """
interface lan
 ipv6 ospf6 area 0
 ipv6 ospf6 hello-interval 1
 ipv6 ospf6 dead-interval 20
 ipv6 ospf6 network point-to-point
router ospf6
 ospf6 router-id 10.0.0.1
 timers throttle spf 0 50 500
 timers lsa min-arrival 0
""",
    "isisd": """
interface wan
 ip router isis core
 isis circuit-type level-2-only
 isis network point-to-point
 isis hello-interval 1
router isis core
 lsp-gen-interval 1
 net 49.0001.0000.0000.0001.00
 is-type level-2-only
""",
    "bfdd": """
bfd
 profile quick
  detect-multiplier 50
  receive-interval 100
  transmit-interval 100
""",
    "bgpd": """
router bgp 65001
 bgp router-id 10.0.0.1
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 timers bgp 1 30
 neighbor 10.0.0.2 remote-as 65002
 neighbor 10.0.0.2 bfd profile quick
 neighbor 10.0.0.2 timers connect 1
 neighbor 2001:db8:a::2 remote-as 65002
 neighbor 2001:db8:a::2 timers connect 1
 neighbor wan interface remote-as 65003
 neighbor wan timers connect 1
 neighbor wan capability extended-nexthop
 address-family ipv4 unicast
  neighbor 10.0.0.2 activate
  neighbor wan activate
 exit-address-family
 address-family ipv6 unicast
  neighbor 2001:db8:a::2 activate
  neighbor wan activate
 exit-address-family
""",
}

# The peer on `lan`: BGP of both families, BFD, OSPF, OSPFv3, each with a network of its own.
_LAN_BIRD = """
router id 10.0.0.2;
protocol device {{ scan time 1; }}
protocol direct {{ ipv4; ipv6; }}
protocol kernel {{ ipv4 {{ export where source != RTS_DEVICE; }}; }}
protocol kernel {{ ipv6 {{ export where source != RTS_DEVICE; }}; }}
protocol static own4 {{ ipv4; route 198.18.1.0/24 unreachable; }}
protocol static own6 {{ ipv6; route 2001:db8:b1::/48 unreachable; }}
protocol static ospf4 {{ ipv4; route 198.18.2.0/24 unreachable; }}
protocol static ospf6 {{ ipv6; route 2001:db8:b2::/48 unreachable; }}
protocol bfd {{ interface "eth0" {{ interval 100 ms; multiplier 50; }}; neighbor 10.0.0.1; }}
protocol bgp four {{
  local 10.0.0.2 as 65002; neighbor 10.0.0.1 as 65001; hold time 30; connect delay time 1; error wait time 1, 2; bfd on;
  ipv4 {{ import all; export where proto = "own4"; }};
}}
protocol bgp six {{
  local 2001:db8:a::2 as 65002; neighbor 2001:db8:a::1 as 65001; hold time 30; connect delay time 1; error wait time 1, 2;
  ipv6 {{ import all; export where proto = "own6"; }};
}}
protocol ospf v2 {{
  ipv4 {{ import all; export where proto = "ospf4"; }};
  area 0 {{ interface "eth0" {{ type ptp; hello 1; dead 20; }}; }};
}}
protocol ospf v3 {{
  ipv6 {{ import all; export where proto = "ospf6"; }};
  area 0 {{ interface "eth0" {{ type ptp; hello 1; dead 20; }}; }};
}}
"""

# The peer on `wan`: BGP unnumbered (RFC 8950), and IS-IS.
_WAN_FRR = {
    "zebra": """
interface eth0
 no ipv6 nd suppress-ra
 ipv6 nd ra-interval 1
""",
    "isisd": """
interface eth0
 ip router isis core
 isis circuit-type level-2-only
 isis network point-to-point
 isis hello-interval 1
interface lo
 ip router isis core
 isis passive
router isis core
 lsp-gen-interval 1
 net 49.0001.0000.0000.0009.00
 is-type level-2-only
""",
    "bgpd": """
router bgp 65003
 bgp router-id 10.0.9.2
 no bgp ebgp-requires-policy
 no bgp network import-check
 timers bgp 1 30
 neighbor eth0 interface remote-as 65001
 neighbor eth0 timers connect 1
 neighbor eth0 capability extended-nexthop
 address-family ipv4 unicast
  network 198.18.3.0/24
 exit-address-family
 address-family ipv6 unicast
  network 2001:db8:b3::/48
  neighbor eth0 activate
 exit-address-family
""",
}

_CONTROL_BIRD = """
router id 10.0.0.1;
protocol device {{ scan time 1; }}
protocol direct {{ ipv4; ipv6; }}
protocol kernel {{ ipv4 {{ export where source != RTS_DEVICE; }}; }}
protocol kernel {{ ipv6 {{ export where source != RTS_DEVICE; }}; }}
protocol bfd {{ interface "lan" {{ interval 100 ms; multiplier 50; }}; neighbor 10.0.0.2; }}
protocol bgp four {{
  local 10.0.0.1 as 65001; neighbor 10.0.0.2 as 65002; hold time 30; connect delay time 1; error wait time 1, 2; bfd on; graceful restart on;
  ipv4 {{ import all; export all; }};
}}
protocol bgp six {{
  local 2001:db8:a::1 as 65001; neighbor 2001:db8:a::2 as 65002; hold time 30; connect delay time 1; error wait time 1, 2;
  ipv6 {{ import all; export all; }};
}}
protocol ospf v2 {{ ipv4 {{ import all; }}; area 0 {{ interface "lan" {{ type ptp; hello 1; dead 20; }}; }}; }}
protocol ospf v3 {{ ipv6 {{ import all; }}; area 0 {{ interface "lan" {{ type ptp; hello 1; dead 20; }}; }}; }}
"""


class _Net:
    """The router, the namespace that speaks for it, and a peer on each side."""

    def __init__(self, lab, more=""):
        self.lab = lab
        self.router, self.control = lab.namespace("r"), lab.namespace("cp")
        self.lan, self.wan = lab.namespace("lan"), lab.namespace("wan")
        for namespace in (self.control, self.lan, self.wan):
            namespace.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.default.disable_ipv6=0")
        lab.wire((self.router, "lan", "02:00:00:00:00:02"), (self.lan, "eth0", "02:00:00:00:01:02"))
        lab.wire((self.router, "wan", "02:00:00:00:00:09"), (self.wan, "eth0", "02:00:00:00:01:09"))
        self.lan.run("ip", "address", "add", "10.0.0.2/24", "dev", "eth0")
        self.lan.run("ip", "address", "add", "2001:db8:a::2/64", "dev", "eth0", "nodad")
        self.wan.run("ip", "address", "add", "10.0.9.2/24", "dev", "eth0")
        for host, address in ((self.lan, "198.18.1.1"), (self.wan, "198.18.3.1"), (self.wan, "198.18.4.1")):
            host.run("ip", "address", "add", f"{address}/32", "dev", "lo")
        self.weir = Weir(self.router, _WEIR.format(netns=self.control.name, more=more))
        lab.at_end(lambda: self.weir.__exit__(None, None, None))
        assert wait_for(lambda: self.control.run("ip", "-o", "link").count("LOWER_UP") == 3), self.weir.log()
        # BGP of IPv6 tells the link's own address as a next hop only if there is one when a session begins (RFC 2545 section 3).
        ends = (self.control, self.lan, self.wan)
        assert wait_for(lambda: not any("tentative" in end.run("ip", "-6", "address") for end in ends)), "addresses stay tentative"

    def via(self, prefix):
        """Where the active route of Linux's to a prefix leads."""
        routes = self.weir.show("routes", prefix)
        return next((route["via"] for route in routes if route["active"] and route["source"] == "linux"), None)

    def follows(self, wanted, why):
        """Waits until prefixes lead where they should."""
        lead = lambda: {prefix: self.via(prefix) for prefix in wanted}
        assert wait_for(lambda: lead() == wanted), (lead(), why(), self.weir.log())

    def check(self):
        """Nothing differs, and the account is exact."""
        settled = lambda: json.loads(self.weir.command("show", "routes", "--compare", "linux", "--json"))["rows"] == []
        assert wait_for(settled), self.weir.command("show", "routes", "--compare", "linux")
        check_account(self.weir.show("stats"))


def test_frr_speaks_for_the_router():
    """BGP of both families and unnumbered, BFD, OSPF, OSPFv3 and IS-IS; the routes carry packets; a killed daemon's routes go and come."""
    with Lab() as lab:
        net = _Net(lab)
        lan = Bird(lab, net.lan, _LAN_BIRD.format())
        wan = Frr(lab, net.wan, _WAN_FRR)
        control = Frr(lab, net.control, _FRR)
        why = lambda: "\n".join((control.ask("show bgp summary"), control.ask("show ip route"), lan.ask("show", "protocols"), control.told(), wan.told()))
        link = net.wan.link("eth0")["address"]
        assert link == "02:00:00:00:01:09"
        lan_link, wan_link = "fe80::ff:fe00:102%lan", "fe80::ff:fe00:109%wan"
        net.follows(
            {
                "198.18.1.0/24": ["10.0.0.2%lan"],
                "2001:db8:b1::/48": [lan_link],
                "198.18.2.0/24": ["10.0.0.2%lan"],
                "2001:db8:b2::/48": [lan_link],
                "198.18.3.0/24": [wan_link],
                "2001:db8:b3::/48": [wan_link],
                "198.18.4.1/32": ["10.0.9.2%wan"],
            },
            why,
        )
        assert wait_for(lambda: "Up" in lan.ask("show", "bfd", "sessions")), lan.ask("show", "bfd", "sessions")
        # By BGP on both sides, one of them unnumbered.
        ping(net.wan, "198.18.1.1", 5, "-I", "198.18.3.1", interval=0.05)
        net.check()
        control.kill("bgpd")
        control.start("bgpd")
        net.follows({"198.18.1.0/24": ["10.0.0.2%lan"], "198.18.3.0/24": [wan_link]}, why)
        net.check()


def test_bird_speaks_for_the_router():
    """BGP of both families, BFD, OSPF, OSPFv3; all is withdrawn and comes back; it is killed, and its routes stay until it says otherwise."""
    with Lab() as lab:
        net = _Net(lab)
        lan = Bird(lab, net.lan, _LAN_BIRD.format())
        control = Bird(lab, net.control, _CONTROL_BIRD.format())
        why = lambda: control.ask("show", "protocols") + control.ask("show", "route") + control.told()
        lan_link = "fe80::ff:fe00:102%lan"
        wanted = {
            "198.18.1.0/24": ["10.0.0.2%lan"],
            "2001:db8:b1::/48": ["2001:db8:a::2%lan"],
            "198.18.2.0/24": ["10.0.0.2%lan"],
            "2001:db8:b2::/48": [lan_link],
        }
        net.follows(wanted, why)
        assert wait_for(lambda: "Up" in control.ask("show", "bfd", "sessions")), why()
        net.check()
        lan.ask("disable", "four")
        lan.ask("disable", "six")
        net.follows({"198.18.1.0/24": None, "2001:db8:b1::/48": None, "198.18.2.0/24": ["10.0.0.2%lan"]}, why)
        lan.ask("enable", "four")
        lan.ask("enable", "six")
        net.follows(wanted, why)
        control.kill()
        assert {prefix: net.via(prefix) for prefix in wanted} == wanted, "the kernel has them still"
        control.start()
        net.follows(wanted, why)
        net.check()


def test_frr_tells_by_fpm():
    """Routes by FRR's own connection: they are there though the kernel holds them no more, and go when FRR takes them back."""
    with Lab() as lab:
        net = _Net(lab, more="fpm = 2620")
        static = "ip route 198.18.7.0/24 10.0.0.2\nipv6 route 2001:db8:b7::/48 2001:db8:a::2\n"
        daemons = {"zebra": "fpm address 127.0.0.1 port 2620\n", "staticd": static}
        control = Frr(lab, net.control, daemons, zebra=("-M", "dplane_fpm_nl"))
        why = lambda: control.ask("show ip route") + control.ask("show fpm counters") + control.told()
        wanted = {"198.18.7.0/24": ["10.0.0.2%lan"], "2001:db8:b7::/48": ["2001:db8:a::2%lan"]}
        net.follows(wanted, why)
        told = lambda: "a routing daemon tells its routes" in net.weir.log()
        assert wait_for(told), why()
        assert wait_for(lambda: "198.18.7.0" in net.control.run("ip", "route")), why()
        net.control.run("ip", "route", "del", "198.18.7.0/24")
        net.check()
        net.follows(wanted, why)
        control.ask("configure terminal\nno ip route 198.18.7.0/24 10.0.0.2")
        net.follows({"198.18.7.0/24": None, "2001:db8:b7::/48": ["2001:db8:a::2%lan"]}, why)
