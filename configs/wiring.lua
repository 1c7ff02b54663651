-- Stages wired by hand: DNS between two interfaces is copied to a third, ICMP is sent back to where it came from, and the rest
-- goes through.

port { name = "west",  device = "af_packet:veth-west" }
port { name = "east",  device = "af_packet:veth-east" }
port { name = "watch", device = "tap:weir-watch" }

local stages = {}

-- One direction each: the language's functions make what is alike.
local function direction(from, to)
  stages[from .. "-dns"]  = { kind = "match", filter = "udp port 53",
                              ways = { out = from .. "-copy", other = from .. "-icmp" } }
  stages[from .. "-copy"] = { kind = "copy", ways = { out = "port " .. to, copy = "port watch" } }
  stages[from .. "-icmp"] = { kind = "match", filter = "icmp",
                              ways = { out = from .. "-back", other = "port " .. to } }
  stages[from .. "-back"] = { kind = "swap-macs", ways = { out = "port " .. from } }
end

direction("west", "east")
direction("east", "west")

wiring {
  receive = { west = "west-dns", east = "east-dns" },
  stages  = stages,
  workers = { 1 },
}
