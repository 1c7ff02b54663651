-- A border relay of Lightweight 4over6 that tells a collector of one packet in 1,000, by sFlow: of tunnels the IPv4 packet inside.
--
--   the Internet (IPv4) --- internet --- lwaftr --- access --- customers (IPv6)

port { name = "internet", device = "af_xdp:veth-inet", address = "192.0.2.1/24" }
port { name = "access",   device = "af_xdp:veth-access", address = "2001:db8:f::1/64" }

lwaftr {
  ports     = { "internet", "access" },
  aftr      = "2001:db8:a::1",
  softwires = { { ipv4 = "203.0.113.1", psid = 1, psid_length = 4, b4 = "2001:db8:c::1" } },
  routes    = { ["0.0.0.0/0"] = "192.0.2.254", ["2001:db8:c::/48"] = "2001:db8:f::2" },

  flow_export = {
    collector = "198.51.100.9:6343",
    protocol  = "sflow",
    sample    = 1000,
  },
}
