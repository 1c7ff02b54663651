-- What comes by a link to another process, which sends back whatever it receives, goes back by it; `swap`: with its MAC addresses exchanged.
engine { idle = "spin" }

port { name = "link", device = device }

forward { paths = { "link -> link" }, swap_macs = swap, workers = { core } }
