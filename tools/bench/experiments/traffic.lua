-- What machine code that is made at run time is good for, by the kind of traffic.
experiment {
  name = "traffic",
  title = "Switch: machine code made at run time, three kinds of traffic",
  about = [[Packets of one flow, as real networks have them, and each for another address (table 1 of deliverable D5.4 of UNIFY, 2015): code that was generated at run time
    gained 69 % with small packets of one flow, nothing that the line rate let be seen with realistic traffic, and 71 % in almost the worst case.]],
  measures = "switch",
  parameters = {
    { name = "case", values = { "paper-single", "paper-realistic", "paper-router" } },
    { name = "switch.compile", values = { true, false } },
  },
  runs = 5,
  window = "200 ms",
  plots = {
    { title = "Rate by kind of traffic", x = "case", y = "rate", by = "switch.compile", form = "bars" },
    { title = "Own cycles by kind of traffic", x = "case", y = "own", by = "switch.compile", form = "bars" },
  },
}
