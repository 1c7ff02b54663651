-- A bridge that spans three places: what is behind `desk` and `lab` is one segment with what is behind two other VXLAN end points (RFC 7348), over
-- whatever IP network there is between them. One tunnel to each of the others; in the bridge a tunnel looks like any other port.
--
--   weir show vxlans
--   weir show macs vx-berlin
port { name = "wan",  device = "mem:null", address = { "192.0.2.1/24", "2001:db8::1/64" }, mtu = 1600 }
port { name = "desk", device = "mem:null" }
port { name = "lab",  device = "mem:null" }

-- Each tunnel has a joint: one end is a port of the bridge, the other one of `vxlan`.
port { name = "vx-berlin",     device = "joint:berlin" }
port { name = "tunnel-berlin", device = "joint:berlin" }
port { name = "vx-oslo",       device = "joint:oslo" }
port { name = "tunnel-oslo",   device = "joint:oslo" }

bridge {
  name  = "lan",
  ports = {
    desk = {}, lab = {},
    -- Each place has a tunnel to each other one: nothing goes from tunnel to tunnel.
    ["vx-berlin"] = { isolated = true },
    ["vx-oslo"]   = { isolated = true },
  },
}

vxlan {
  ports   = { "wan" },
  tunnels = {
    ["tunnel-berlin"] = { vni = 100, source = "192.0.2.1", remote = "198.51.100.7" },
    ["tunnel-oslo"]   = { vni = 100, source = "2001:db8::1", remote = "2001:db8:5::7" },
  },
  routes  = { ["0.0.0.0/0"] = "192.0.2.254", ["::/0"] = "2001:db8::ff" },
}
