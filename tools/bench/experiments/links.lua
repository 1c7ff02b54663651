-- A pipeline whose links drop, or hold back.
experiment {
  name = "links",
  title = "Router: links that do not drop against links that do",
  about = [[In a pipeline, a worker that is faster than the next can be held back, or drop what finds the link full. The thesis of 2014 holds
    back: the card then drops instead, and no work is thrown away. The share of packets that were dropped after work had been done on them stands
    beside the rate of those that left.]],
  measures = "router",
  fixed = { workers = 2, ["router.layout"] = "pipeline" },
  parameters = {
    { name = "case", values = { "one-destination", "networks" } },
    { name = "engine.links", values = { "no-drop", "drop" } },
  },
  runs = 7,
  window = "200 ms",
  plots = {
    { title = "Rate of what left", x = "case", y = "rate", by = "engine.links", form = "bars" },
    { title = "Dropped between the workers", x = "case", y = "dropped", by = "engine.links", form = "bars" },
  },
}
