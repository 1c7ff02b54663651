-- A router that tells a collector of one packet in a thousand, by IPFIX.
--
--   hosts --- lan --- router --- wan --- the Internet

port { name = "lan", device = "af_packet:veth-lan", address = { "10.0.0.1/24", "2001:db8:0:1::1/64" } }
port { name = "wan", device = "af_packet:veth-wan", address = { "192.0.2.1/24", "2001:db8:0:2::1/64" } }

router {
  ports  = { "lan", "wan" },
  routes = { ["0.0.0.0/0"] = "192.0.2.254", ["::/0"] = "2001:db8:0:2::254" },

  flow_export = {
    collector  = "198.51.100.9:4739",        -- or several, which get the same
    protocol   = "ipfix",                    -- or "sflow", at whose collectors the port is usually 6343
    sample     = 1000,                       -- one packet in so many, of each interface
    interfaces = { "lan", "wan" },           -- all of them when absent
  },
}
