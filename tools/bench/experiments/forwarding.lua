-- How the switch forwards between two ports, by the length of packets and the number of workers.
experiment {
  name = "forwarding",
  title = "Switch: port to port",
  about = [[Flows that ask for the port alone (figure 2.5 of deliverable D5.4 of UNIFY, 2015): 9.6 Mpps with one core, 12.7 with two, and no more with three, as one core had each
    port. Here each worker has a queue of every port, and no card and no wire limits what it moves.]],
  measures = "switch",
  fixed = { case = "port-to-port" },
  parameters = {
    { name = "frame", values = { 64, 128, 129, 256, 512 } },
    { name = "workers", values = { 1, 2 } },
    { name = "switch.compile", values = { true, false } },
  },
  runs = 3,
  window = "200 ms",
  plots = {
    { title = "Rate by length of frames, one worker and two", x = "frame", y = "rate", by = "workers" },
    { title = "Own cycles by length of frames", x = "frame", y = "own", by = "switch.compile" },
  },
}
