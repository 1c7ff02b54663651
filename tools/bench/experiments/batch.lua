-- How many packets a worker receives at once, and hands over at once.
experiment {
  name = "batch",
  title = "Router: batch sizes of receive and transmit",
  about = [[What does a packet cost when so many are received, and so many handed to the port, at once? A router scripted in
    LuaJIT over DPDK (thesis of 2015) doubled its rate from receive batches of 2 to 16, was fastest at 128, and gained up to
    28 % by transmit batches. Here the port is memory: a transmit batch saves calls, not doorbells of a card.]],
  measures = "router",
  fixed = { case = "networks", networks = 65536 },
  parameters = {
    { name = "transmit", values = { 1, 8, 64 } },
    { name = "fill", values = { 1, 2, 4, 8, 16, 32, 64 } },
  },
  runs = 5,
  window = "200 ms",
  plots = {
    { title = "Rate by packets per receive", x = "fill", y = "rate", by = "transmit" },
    { title = "Cost by packets per receive", x = "fill", y = "own", by = "transmit" },
  },
}
