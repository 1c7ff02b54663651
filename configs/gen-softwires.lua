-- Both sides of a lwAFTR, by its binding table: random softwires, and random ports of their port sets.
engine { clock = "virtual" }
port { name = "internet", device = "pcap:,internet.pcap" }
port { name = "customers", device = "pcap:,customers.pcap" }

local common = { rate = "1 Mpps", count = 1000, table = "gen-softwires.csv", rows = "random" }

local function stream(port, size, layers)
  local stream = { port = port, size = size, layers = layers }
  for key, value in pairs(common) do
    stream[key] = value
  end
  return stream
end

gen {
  streams = {
    stream("internet", "64", {
      { ethernet = {} },
      { ipv4 = { source = "198.18.0.0/15 random", destination = "column ipv4" } },
      { udp = { source = 53, destination = "port set" } },
    }),
    stream("customers", "86", {
      { ethernet = {} },
      { ipv6 = { source = "column b4", destination = "column aftr" } },
      { ipv4 = { source = "column ipv4", destination = "198.18.0.0/15 random" } },
      { udp = { source = "port set", destination = 53 } },
    }),
  },
}
