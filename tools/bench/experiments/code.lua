-- What machine code that is made at run time is good for, by the length of packets.
experiment {
  name = "code",
  title = "Switch: machine code made at run time, one flow",
  about = [[A router made of OpenFlow tables (deliverable D5.4 of UNIFY, 2015, figure 2.10) moved 12 Mpps on one port with code that it generated at run time,
    and fell at 129 bytes, where the line rate does not explain it: its authors suspected the driver of their cards. Here there is no card: what code saves, and
    whether a second line of a packet costs anything.]],
  measures = "switch",
  fixed = { case = "paper-single" },
  parameters = {
    { name = "frame", values = { 64, 96, 128, 129, 192, 256, 384, 512 } },
    { name = "switch.compile", values = { true, false } },
  },
  runs = 5,
  window = "200 ms",
  plots = {
    { title = "Rate by length of frames", x = "frame", y = "rate", by = "switch.compile" },
    { title = "Own cycles by length of frames", x = "frame", y = "own", by = "switch.compile" },
  },
}
