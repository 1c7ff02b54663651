-- What DPDK's null devices receive, frames of whatever was in their buffers, goes out by the other one, untouched.
port { name = "a", device = "null:blank=0" }
port { name = "b", device = "null:blank=0" }

forward { pairs = { { "a", "b" } }, workers = { core } }
