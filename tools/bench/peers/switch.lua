-- Packets go from the first device to the second by the flows that are entered over `channel`.
-- A device that reads a capture over and over takes a buffer for each of its packets.
engine { buffers = 65536 }

port { name = "in", device = devices[1] }
port { name = "out", device = devices[2] }

switch {
  ports   = { "in", "out" },
  listen  = channel,
  fail    = "secure",
  workers = { core },
}
