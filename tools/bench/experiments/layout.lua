-- Two workers: each does everything, or each does a part, or one spreads packets over both.
experiment {
  name = "layout",
  title = "Router: run-to-completion against pipeline and distributor",
  about = [[Two workers that each do everything, or one that receives and checks while the other looks up, rewrites and transmits, or one that
    receives and spreads packets over both. The thesis of 2014 chose pipelines and names their limit, the slowest stage, and that balance is
    never perfect; that of 2015 ran to completion.]],
  measures = "router",
  fixed = { workers = 2 },
  parameters = {
    { name = "case", values = { "one-destination", "networks" } },
    { name = "router.layout", values = { "run-to-completion", "pipeline", "distributor" } },
  },
  runs = 7,
  window = "200 ms",
  plots = {
    { title = "Rate of two workers", x = "case", y = "rate", by = "router.layout", form = "bars" },
  },
}
