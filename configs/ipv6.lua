-- A router of both families: hosts on the LAN take addresses by themselves, and learn of the router and of a name server.
--
--   hosts --- lan --- router --- wan --- the provider's router, fe80::1

port { name = "lan", device = "af_packet:veth-lan", address = { "10.0.0.1/24", "2001:db8:1::1/64" } }
port { name = "wan", device = "af_packet:veth-wan", address = { "192.0.2.1/24", "2001:db8:ff::1/64" } }

router {
  ports  = { "lan", "wan" },
  routes = {
    ["0.0.0.0/0"]         = "192.0.2.254",
    ["::/0"]              = "fe80::1%wan",        -- a link-local address needs its interface
    ["2001:db8:1::/48"]   = "unreachable",        -- what of our own network is not used goes nowhere, and not back to the provider
    ["198.51.100.0/24"]   = "2001:db8:ff::2",     -- IPv4 by a router that has an IPv6 address only (RFC 8950)
  },
  advertise = {
    lan = { interval = "30 s", dns = { "2001:db8:1::53" }, search = { "example.net" } },
  },
}
