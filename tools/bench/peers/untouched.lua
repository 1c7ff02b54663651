-- What DPDK's null devices receive goes out by the other one, untouched.
port { name = "a", device = "null" }
port { name = "b", device = "null" }

forward { pairs = { { "a", "b" } }, workers = { core } }
