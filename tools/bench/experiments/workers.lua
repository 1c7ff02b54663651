-- How the rate grows with workers.
experiment {
  name = "workers",
  title = "Router: number of workers",
  about = [[Does a second worker double the rate? The thesis of 2015 scaled linearly up to line rate on seven cores. Workers share nothing that
    is written; what they share is the memory, the last cache and, on a virtual machine, possibly one physical core.]],
  measures = "router",
  parameters = {
    { name = "case", values = { "one-destination", "networks" } },
    { name = "workers", values = { 1, 2 } },
  },
  runs = 7,
  window = "200 ms",
  plots = {
    { title = "Rate of all workers together", x = "workers", y = "rate", by = "case", form = "bars" },
  },
}
