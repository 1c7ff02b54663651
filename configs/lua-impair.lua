-- A bad line in the middle of a good one: packets take 20 to 30 ms, so that some overtake others, one in a hundred is lost, and one in a
-- hundred comes twice. For trying out what an application makes of it.
--
-- It is code of your own in the data path: start it with `weir run configs/lua-impair.lua --allow-lua-stages`.

port { name = "west", device = "af_packet:veth-west" }
port { name = "east", device = "af_packet:veth-east" }

lua {
  file     = "lua/impair.lua",
  paths    = { "west -> east", "east -> west" },
  max_held = 20000, -- 30 ms at 600,000 packets a second; what finds no place is lost
}
