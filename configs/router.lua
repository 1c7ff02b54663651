-- A router between two Linux interfaces, here the ends of two veth pairs. `make run` starts it between two namespaces.
--
-- What a Linux host sends through a veth has unfinished checksums: `ethtool -K DEV tx off` on the host's end.

port { name = "wan", device = "af_xdp:veth-wan", address = "192.0.2.1/24" }
port { name = "lan", device = "af_xdp:veth-lan", address = "10.0.0.1/24" }

router {
  ports   = { "wan", "lan" },
  workers = { 1 },
  routes  = { ["0.0.0.0/0"] = "192.0.2.254" },
}
