-- A script that asks Weir's tables: whose address a packet comes from (longest prefix match), and whether that customer keeps to his
-- rate (a meter for each). What is beyond the rate goes to a port where somebody looks at it; who is no customer is dropped.
--
-- A customer more, while packets flow: weir table add customers 192.0.2.0/24 value 7; another rate: weir table set meters 7 rate 5Mbit/s burst 20kB.
--
-- It is code of your own in the data path: start it with `weir run configs/lua-tables.lua --allow-lua-stages`.

port { name = "west",  device = "af_packet:veth-west" }
port { name = "east",  device = "af_packet:veth-east" }
port { name = "watch", device = "tap:weir-watch" }

lua {
  file   = "lua/customers.lua",
  paths  = { "west -> east" },
  ways   = { "watch" },
  tables = {
    customers = { prefixes_csv = "lua/customers.csv" },
    meters    = { meters = 1000, rate = "10 Mbit/s", burst = "64 kB" },
  },
}
