-- A switch with a router in it: two access ports, a trunk, and interfaces of `router` in two of the VLANs, which it routes between and to the world.
port { name = "desk",    device = "mem:null" }
port { name = "printer", device = "mem:null" }
port { name = "trunk",   device = "mem:null" }
port { name = "wan",     device = "mem:null", address = "192.0.2.1/24" }

bridge {
  name    = "lan",
  tagging = "802.1q",
  ports   = {
    desk    = { vlan = 10, max_macs = 4, storm = { broadcast = "200 pps", unknown = "1 kpps" } },
    printer = { vlan = 10, accept = "untagged", isolated = true },
    trunk   = { tagged = "10,20-29", storm = { broadcast_bits = "10 Mbit/s" } },
  },
  macs      = { { mac = "02:00:00:00:00:09", vlan = 10, port = "printer" } },
  ageing    = "5 min",
  max_moves = "100 pps",
  snooping  = { enabled = true },
  limits    = { macs = 100000, macs_per_vlan = 50000 },
}

-- The routed side of the bridge: the gateway of each VLAN.
interface { name = "office", on = "bridge:lan", vlan = 10, address = { "10.0.10.1/24", "2001:db8:10::1/64" } }
interface { name = "guests", on = "bridge:lan", vlan = 20, address = "10.0.20.1/24" }

router { ports = { "wan" }, routes = { ["0.0.0.0/0"] = "192.0.2.254" } }
