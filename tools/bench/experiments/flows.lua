-- Whether there is a cliff where flows become many.
experiment {
  name = "flows",
  title = "Switch: concurrent flows",
  about = [[A switch with a cache of flows falls when they no longer fit. Every table of this one is searched for each packet: from one address to a million at random, in a
    table of 410,000 prefixes, which no cache holds beyond 100,000.]],
  measures = "switch",
  fixed = { case = "paper-router" },
  parameters = {
    { name = "flows", values = { 1, 10, 100, 1000, 10000, 100000, 1000000 } },
  },
  runs = 5,
  window = "200 ms",
  plots = {
    { title = "Rate by number of flows", x = "flows", y = "rate" },
    { title = "Own cycles by number of flows", x = "flows", y = "own" },
  },
}
