-- A patch cable with counters: what comes in by one interface goes out by the other, untouched.

port { name = "west", device = "af_packet:veth-west" }
port { name = "east", device = "af_packet:veth-east" }

forward {
  pairs   = { { "west", "east" } },
  workers = { 1 },
}
