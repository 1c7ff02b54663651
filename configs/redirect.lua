-- A router that sends what hosts ask the web for by a proxy, and all else by the Internet (policy-based routing).
--
--   hosts --- lan --- router --- wan --- the Internet
--                       |
--                     proxy

port { name = "lan",   device = "af_packet:veth-lan",   address = { "10.0.0.1/24", "2001:db8:0:1::1/64" } }
port { name = "wan",   device = "af_packet:veth-wan",   address = { "192.0.2.1/24", "2001:db8:0:2::1/64" } }
port { name = "proxy", device = "af_packet:veth-proxy", address = { "10.0.9.1/24", "2001:db8:0:9::1/64" } }

router {
  ports  = { "lan", "wan", "proxy" },
  routes = { ["0.0.0.0/0"] = "192.0.2.254", ["::/0"] = "2001:db8:0:2::254" },
  -- Where redirected packets go is said by routes, here of a VRF that no interface is in.
  vrfs = { web = { routes = { ["0.0.0.0/0"] = "10.0.9.2%proxy", ["::/0"] = "2001:db8:0:9::2%proxy" } } },

  acls = {
    hosts = {
      default = "permit",
      rules = {
        "permit to 192.0.2.0/24",                              -- what is near goes there itself
        "permit protocol tcp to-port 80,443 redirect vrf web",
        "permit protocol udp to-port 443 redirect vrf web",
      },
    },
  },
  acl_in = { lan = "hosts" },
}
