-- Whether the length of packets matters.
experiment {
  name = "size",
  title = "Router: packet size",
  about = [[A router looks at headers: does the length of packets matter to it? The thesis of 2015 saw the packet rate stay constant up to
    the speed of the wire. Here nothing copies the payload and there is no wire.]],
  measures = "router",
  parameters = {
    { name = "case", values = { "one-destination", "networks" } },
    { name = "frame", values = { 64, 128, 256, 512, 1024, 1518 } },
  },
  runs = 5,
  window = "200 ms",
  plots = {
    { title = "Rate by length of frames", x = "frame", y = "rate", by = "case" },
    { title = "Whole cost by length of frames", x = "frame", y = "whole", by = "case" },
  },
}
