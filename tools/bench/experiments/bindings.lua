-- How many softwires a lwAFTR has: the binding tables of paper 4, table 2 of its section 4.4.
experiment {
  name = "bindings",
  title = "lwAFTR: size of the binding table",
  about = [[How many softwires are packets of, all at random? The benchmark of 2015 (Unify D5.4, table 2) had 1,000 to 1,000,000 bindings: encapsulation fell
    below the line's rate at 10,000 and 25,000 (88 and 95 %), which a larger table mended, and from 200,000 on. There is room for four million in
    each of these runs.]],
  measures = "lwaftr",
  parameters = {
    { name = "case", values = { "encap", "decap" } },
    { name = "softwires", values = { 1000, 5000, 10000, 25000, 50000, 100000, 200000, 500000, 1000000, 4000000 } },
  },
  runs = 5,
  window = "200 ms",
  plots = {
    { title = "Rate by softwires", x = "softwires", y = "rate", by = "case" },
    { title = "Cost by softwires", x = "softwires", y = "own", by = "case" },
  },
}
