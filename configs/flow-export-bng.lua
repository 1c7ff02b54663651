-- A broadband network gateway that tells a collector of one packet in 500 of its customers', without the tunnels around them, by IPFIX.
--
--   customers --- access --- bng --- core --- GRE to the gateway of the core

port { name = "access", device = "af_xdp:veth-access" }
port { name = "core",   device = "af_xdp:veth-core", address = "198.51.100.1/24" }

bng {
  access        = { "access" },
  core          = { "core" },
  local_address = "21.22.23.24",
  subscribers   = { { svlan = 100, cvlan = 1, key = 1, ipv4 = "10.0.0.9", mac = "02:00:00:00:01:01" } },
  gateways      = { west = { port = "core", address = "198.51.100.2", mac = "02:00:00:00:01:02", labels = { 73744 } } },
  routes        = { ["0.0.0.0/0"] = "west" },

  flow_export = {
    collector  = "198.51.100.9:4739",
    protocol   = "ipfix",                    -- tells customers by both of their tags
    sample     = 500,
    interfaces = { "access", "core" },       -- access ports are interfaces, too
  },
}
