-- What DPDK's null devices receive goes out by the other one, its MAC addresses exchanged.
port { name = "a", device = "null" }
port { name = "b", device = "null" }

forward { pairs = { { "a", "b" } }, swap_macs = true, workers = { core } }
