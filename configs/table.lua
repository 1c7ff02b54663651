-- A router with many routes: they come from a CSV file with the columns prefix and via, and a loop adds customers' networks.

port { name = "core", device = "af_xdp:veth-core", address = "192.0.2.1/24" }
port { name = "edge", device = "af_xdp:veth-edge", address = "10.0.0.1/16" }

local routes = { ["0.0.0.0/0"] = { "192.0.2.253", "192.0.2.254" } }
for customer = 1, 200 do
  routes[string.format("100.64.%d.0/24", customer)] = string.format("10.0.1.%d", customer)
end

router {
  ports      = { "core", "edge" },
  workers    = { 1 },
  routes     = routes,
  routes_csv = "table.csv",
  icmp_rate  = "100 pps",
  limits     = { routes = 1000000 },
  neighbor_timers = { reachable = "60 s", stale = "20 min" },
}
