-- Two workers though each interface has one queue only: the first receives and spreads flows, the second routes.

port { name = "wan", device = "af_packet:veth-wan", address = "192.0.2.1/31" }
port { name = "lan", device = "af_packet:veth-lan", address = { "10.0.0.1/24", "10.0.1.1/24" } }

router {
  ports   = { "wan", "lan" },
  workers = { 0, 1 },
  layout  = "distributor",
  routes  = { ["0.0.0.0/0"] = "192.0.2.0" },
}
