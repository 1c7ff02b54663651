-- A line card of a provider: three functions in one process, joined to each other inside of it.
--
--   access --- bng --- joint:core --- router --- joint:uplink --- qos --- uplink
--
-- The gateway ends customers' lines, the router finds the way of what they send, and the scheduler shapes what goes out.

port { name = "access", device = "af_packet:veth-access" }
port { name = "bng-core", device = "joint:core", address = "10.255.0.1/30" }
port { name = "core", device = "joint:core", address = "10.255.0.2/30" }
port { name = "out", device = "joint:uplink", address = "192.0.2.1/24" }
port { name = "in", device = "joint:uplink" }
port { name = "uplink", device = "af_packet:veth-uplink" }

bng {
  access             = { "access" },
  core               = { "bng-core" },
  core_encapsulation = "ip",
  workers            = { 1 },
  addresses          = "10.0.0.1/16",
  subscribers        = "subscribers.csv",
  gateways           = { router = { port = "bng-core", address = "10.255.0.2" } },
  routes             = { ["0.0.0.0/0"] = "router" },
}

router {
  ports   = { "core", "out" },
  workers = { 1 },
  routes  = { ["10.0.0.0/16"] = "10.255.0.1", ["0.0.0.0/0"] = "192.0.2.254" },
}

qos {
  from    = "in",
  to      = "uplink",
  workers = { 1 },
  user_by = "source",
  others  = "other", -- ARP, and what the router itself says
  users   = { { prefix = "10.0.0.0/16", each = 32, profile = "home" } },

  scheduler = {
    rate     = "1 Gbit/s",
    users    = 65537,
    profiles = { home = { tb_rate = "10 Mbit/s", tb_size = "16 KiB" }, other = { tb_rate = "10 Mbit/s" } },
  },
}
