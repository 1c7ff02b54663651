-- The packets of a capture file, over and over, are routed to one next hop behind a device that swallows them.
port { name = "in", device = "vdev:net_pcap0,rx_pcap=" .. capture .. ",infinite_rx=1", address = "10.0.0.254/24" }
port { name = "out", device = "null:no-rx=1", address = "192.0.2.1/24" }

local routes = {}
for _, prefix in ipairs(prefixes) do
  routes[prefix] = "192.0.2.2"
end

router {
  ports     = { "in", "out" },
  workers   = { core },
  routes    = routes,
  neighbors = { ["192.0.2.2"] = "02:00:00:00:00:02" },
}
