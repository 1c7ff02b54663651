-- Between the same two veth interfaces as the kernel's router, with the same route and the same neighbour.
port { name = "r0", device = "af_xdp:r0", address = "192.0.2.1/24" }
port { name = "r1", device = "af_xdp:r1", address = "198.51.100.1/24" }

router {
  ports     = { "r0", "r1" },
  workers   = { core },
  routes    = { ["198.18.0.0/15"] = "198.51.100.2" },
  neighbors = { ["198.51.100.2"] = "02:00:00:00:00:02" },
}
