-- The relay as a guest of chain-host.lua. In a container its ports are virtio_user, as here; in a virtual machine they are the cards of the
-- machine, `pci:0000:00:04.0` and the next.

port { name = "internet", device = "virtio_user:/run/weir-internet.sock,mac=02:00:00:00:00:01", address = "192.0.2.1/24" }
port { name = "access",   device = "virtio_user:/run/weir-access.sock,mac=02:00:00:00:00:02", address = "2001:db8:f::1/64" }

lwaftr {
  ports     = { "internet", "access" },
  workers   = { 1 },
  aftr      = { "2001:db8:a::1", "2001:db8:a::2" },
  softwires = "softwires.csv",
  port_sets = { ["203.0.113.0/24"] = { psid_length = 6, psid_offset = 4 }, ["203.0.113.9"] = {} },
  ipv4      = { interfaces = "internet" },
  ipv6      = { interfaces = "access" },
  routes    = { ["0.0.0.0/0"] = "192.0.2.254", ["2001:db8:c::/48"] = "2001:db8:f::2" },
}
