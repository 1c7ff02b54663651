-- Sleeping until the kernel wakes, against asking all the time.
experiment {
  name = "polling",
  title = "Kernel sockets: polling against interrupts",
  about = [[A datagram goes to an echo and back through the kernel's UDP, over the loopback. Both ends either sleep until the kernel wakes them,
    as interrupts do, or ask again and again. The thesis of 2016 gained by polling in the driver, because each interrupt costs a switch of
    context.]],
  measures = "sockets",
  parameters = {
    { name = "wait", values = { "interrupt", "poll" } },
    { name = "size", values = { 18, 512, 1472 } },
  },
  runs = 5,
  window = "300 ms",
  plots = {
    { title = "There and back, median", x = "size", y = "round trip", by = "wait", form = "bars" },
    { title = "Rounds per second", x = "size", y = "rate", by = "wait", form = "bars" },
  },
}
