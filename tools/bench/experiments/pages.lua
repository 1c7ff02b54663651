-- What large pages are worth.
experiment {
  name = "pages",
  title = "Router: huge pages against 4 KiB pages",
  about = [[Buffers and tables in pages of 2 MiB or of 4 KiB: the thesis of 2016 on small packets names huge pages as one of the parts
    of its gain of 61 %, and that of 2014 lists tables in huge pages among its largest. Where a host backs the memory of a virtual
    machine by 4 KiB pages, the reach of the TLB stays as it is and little is to be seen.]],
  measures = "router",
  parameters = {
    { name = "networks", values = { 256, 65536, 1048576 } },
    { name = "pages", values = { "huge", "base" } },
  },
  fixed = { case = "networks" },
  runs = 7,
  window = "200 ms",
  plots = {
    { title = "Own cost by kind of pages", x = "networks", y = "own", by = "pages", form = "bars" },
  },
}
