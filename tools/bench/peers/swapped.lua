-- What DPDK's null devices receive, frames of whatever was in their buffers, goes out by the other one, its MAC addresses exchanged.
port { name = "a", device = "null:blank=0" }
port { name = "b", device = "null:blank=0" }

forward { pairs = { { "a", "b" } }, swap_macs = true, workers = { core } }
