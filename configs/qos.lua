-- Shapes 32,768 users between two ports: each has 1 Mbit/s, telephony goes first, and one of them has paid for more.
--
-- Users are known by the tags of their frames.
port { name = "access", device = "mem:null" }
port { name = "core",   device = "mem:null" }

qos {
  from   = "access",
  to     = "core",
  others = "basic", -- what has no such tags shares one user

  users = {
    { tags = "1-16.1-2048", profile = "basic" }, -- a user for each pair
    { tags = "3.7",         profile = "gold" },
  },

  classify = {
    dscp     = { ef = "0", af41 = "1", cs1 = "3.1" }, -- class, or class and queue
    priority = { [5] = "0" },
    rules    = { { protocol = "udp", destination_port = "5060-5061", class = "1" } },
  },

  police = { gold = { meter = "trtcm", cir = "5 Mbit/s", cbs = "16 KiB", eir = "20 Mbit/s", ebs = "32 KiB" } },

  scheduler = {
    rate     = "40 Gbit/s",
    users    = 32769,
    buffers  = 8192,
    profiles = {
      basic = { tb_rate = "1 Mbit/s", tb_size = "4 KiB", weights = { 4, 1 } },
      gold  = {
        tb_rate = "10 Mbit/s",
        classes = {
          { tc_rate = "1 Mbit/s", queue_size = 16 },
          { tc_rate = "5 Mbit/s", codel = { ecn = true } },
          {},
          { red = { min = 16, max = 48, ecn = true, yellow = { min = 8, max = 24 } } },
        },
      },
    },
  },
}
