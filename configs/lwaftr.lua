-- The border relay of Lightweight 4over6: IPv4 addresses that customers share by port sets, carried to them in IPv6 tunnels.

port { name = "internet", device = "af_xdp:veth-inet", address = "192.0.2.1/24" }
port { name = "access",   device = "af_xdp:veth-access", address = "2001:db8:f::1/64" }

lwaftr {
  ports     = { "internet", "access" },
  workers   = { 1 },
  aftr      = { "2001:db8:a::1", "2001:db8:a::2" },
  softwires = "softwires.csv",
  port_sets = {
    ["203.0.113.0/24"] = { psid_length = 6, psid_offset = 4 }, -- 64 customers share an address; ports below 4096 are nobody's
    ["203.0.113.9"]    = {},                                   -- one customer has this one alone
  },
  prefixes  = "203.0.113.0/24",
  ipv4      = { interfaces = "internet", error_rate = { packets = 1000, period = "2 s" } },
  ipv6      = { interfaces = "access", mtu = 1500 },
  routes    = {
    ["0.0.0.0/0"]       = "192.0.2.254",
    ["2001:db8:c::/48"] = "2001:db8:f::2",
  },
}
