-- A router that judges what comes in from outside, and marks what leaves.
--
--   hosts --- lan --- router --- wan --- the Internet

port { name = "lan", device = "af_packet:veth-lan", address = { "10.0.0.1/24", "2001:db8:0:1::1/64" } }
port { name = "wan", device = "af_packet:veth-wan", address = { "192.0.2.1/24", "2001:db8:0:2::1/64" } }

router {
  ports  = { "lan", "wan" },
  routes = { ["0.0.0.0/0"] = "192.0.2.254", ["::/0"] = "2001:db8:0:2::254" },

  prefix_sets = { bogons = { "203.0.113.0/24", "198.51.100.0/24", "2001:db8:bad::/48" } },

  acls = {
    edge = {
      default = "deny",
      rules = {
        "permit protocol tcp to 10.0.0.80/32 to-port 80,443",
        "permit protocol tcp flags ack",                       -- what belongs to connections from inside
        "permit protocol udp from-port 53 to 10.0.0.53/32 police 10Mbit/s",
        "permit protocol icmp icmp 8",
        "permit protocol icmpv6",                              -- neighbour discovery is among it
        "deny from @bogons log",
      },
    },
    marked = {
      default = "permit",
      rules = { "permit protocol udp to-port 5060-5061 set-dscp ef" },
    },
    own = {
      default = "deny",
      rules = { "permit protocol icmp police 1Mbit/s", "permit protocol icmpv6", "permit protocol tcp from 192.0.2.254/32 to-port 179" },
    },
  },
  acl_in  = { wan = "edge" },
  acl_out = { wan = "marked" },
  acl_own = { default = "own" },                               -- before the router's own addresses
  urpf    = { lan = "strict", wan = "loose" },                 -- hosts of lan can not pretend to be others
}
