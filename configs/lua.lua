-- An idea tried out before it becomes Rust: a script between two interfaces that looks for busy senders.
--
-- It is code of your own in the data path: start it with `weir run configs/lua.lua --allow-lua-stages`.

port { name = "west",  device = "af_packet:veth-west" }
port { name = "east",  device = "af_packet:veth-east" }
port { name = "watch", device = "tap:weir-watch" }

lua {
  file    = "lua/count.lua",
  paths   = { "west -> east", "east -> west" },
  ways    = { "watch" },
  workers = { 1 },
}
