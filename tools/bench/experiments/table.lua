-- How many networks packets go to: from what fits into the first cache to what fits into none.
experiment {
  name = "table",
  title = "Router: table size against caches",
  about = [[How many different /24 networks are looked up? The thesis of 2015 saw its rate fall by 14 to 20 % between 65,536 and 16 million
    networks, with the knee where the entries in use outgrow the last cache. Networks lie side by side here as there, so that one line of the
    cache holds the entries of 16.]],
  measures = "router",
  parameters = {
    { name = "case", values = { "networks", "networks-packed" } },
    { name = "networks", values = { 1, 256, 4096, 65536, 262144, 1048576 } },
  },
  runs = 5,
  window = "200 ms",
  plots = {
    { title = "Rate by networks in use", x = "networks", y = "rate", by = "case" },
    { title = "Cost by networks in use", x = "networks", y = "own", by = "case" },
  },
}
