-- A switch with a router in it: two access ports, a trunk, and a joint to `router`, which routes between the two VLANs and to the world.
--
-- The routed side of the bridge is the joint: one end of it is a port of the bridge like any other, a trunk here; on the other end the router
-- has an interface for each VLAN.
port { name = "desk",    device = "mem:null" }
port { name = "printer", device = "mem:null" }
port { name = "trunk",   device = "mem:null" }
port { name = "wan",     device = "mem:null", address = "192.0.2.1/24" }
port { name = "inside",  device = "joint:lan" }
port { name = "routed",  device = "joint:lan" }

interface { name = "office", on = "routed", vlan = 10, address = { "10.0.10.1/24", "2001:db8:10::1/64" } }
interface { name = "guests", on = "routed", vlan = 20, address = "10.0.20.1/24" }

bridge {
  tagging = "802.1q",
  ports   = {
    desk    = { vlan = 10, max_macs = 4, storm = { broadcast = "200 pps", unknown = "1 kpps" } },
    printer = { vlan = 10, accept = "untagged", isolated = true },
    trunk   = { tagged = "10,20-29", storm = { broadcast_bits = "10 Mbit/s" } },
    inside  = { tagged = "10,20", multicast_router = "always" },
  },
  macs      = { { mac = "02:00:00:00:00:09", vlan = 10, port = "printer" } },
  ageing    = "5 min",
  max_moves = "100 pps",
  snooping  = { enabled = true },
  limits    = { macs = 100000, macs_per_vlan = 50000 },
}

router { ports = { "wan", "routed" }, routes = { ["0.0.0.0/0"] = "192.0.2.254" } }
