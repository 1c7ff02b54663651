-- Flows from a table, written to a capture file: each packet takes a row.
engine { clock = "virtual" }
port { name = "file", device = "pcap:,flows.pcap" }

gen {
  streams = {
    { port = "file", size = "100", rate = "1 kpps", count = 10, table = "flows.csv",
      layers = {
        { ethernet = {} },
        { ipv4 = { source = "column", destination = "column" } },
        { udp = { destination = "column" } },
      } },
  },
}
