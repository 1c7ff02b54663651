-- Packets go from the first device to the second by the flows that are entered over `channel`.
port { name = "in", device = devices[1] }
port { name = "out", device = devices[2] }

switch {
  ports   = { "in", "out" },
  listen  = channel,
  fail    = "secure",
  workers = { core },
}
