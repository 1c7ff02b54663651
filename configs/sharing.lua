-- Shares what others leave: homes and offices behind two access nodes, with guarantees, ceilings and weights.
--
-- Users are known by where packets go.
port { name = "core",   device = "mem:null" }
port { name = "access", device = "mem:null" }

qos {
  from    = "core",
  to      = "access",
  user_by = "destination",
  others  = "rest", -- what is for nobody shares one user

  users = {
    { prefix = "10.1.0.0/24", each = 32, profile = "home",   subport = "north" },
    { prefix = "10.2.0.0/24", each = 32, profile = "home",   subport = "south" },
    { prefix = "10.2.1.0/28", each = 32, profile = "office", subport = "south" },
  },

  scheduler = {
    rate     = "10 Gbit/s",
    subports = {
      north = { tb_rate = "4 Gbit/s", ceil = "8 Gbit/s" }, -- of which 3 Gbit/s are lent where homes leave them
      south = { ceil = "8 Gbit/s", weight = 2 },
    },
    profiles = {
      home   = {
        tb_rate = "4 Mbit/s",
        ceil    = "1 Gbit/s",
        classes = { {}, {}, {}, { flows = "fair", queue_size = 256, codel = { ecn = true } } }, -- a burst of one flow holds up no other
      },
      office = { tb_rate = "50 Mbit/s", ceil = "1 Gbit/s", weight = 4 },
      rest   = { tb_rate = "1 Mbit/s" },
    },
  },
}
