-- A broadband network gateway: customers by SVLAN and CVLAN on one side, GRE below MPLS labels on the other.

port { name = "access", device = "af_xdp:veth-access" }
port { name = "core",   device = "af_xdp:veth-core", address = "198.51.100.1/24" }

-- One gateway for all that is not nearer, and one for each of the data centres, who want a label of their own.
local gateways = {
  default = { port = "core", address = "198.51.100.2", mac = "02:00:00:00:01:02", labels = { 73744 } },
}
local routes = { ["0.0.0.0/0"] = "default" }
for n = 1, 4 do
  local name = "dc" .. n
  gateways[name] = {
    port    = "core",
    address = "198.51.100." .. 10 + n,
    mac     = string.format("02:00:00:00:02:%02x", n),
    labels  = { { label = 1000 + n, tc = 5, ttl = 64 } },
  }
  routes[string.format("203.0.113.%d/28", 16 * n)] = name
end

bng {
  access        = { "access" },
  core          = { "core" },
  workers       = { 1 },
  local_address = "21.22.23.24",
  tunnel        = { ttl = 64, dscp = "copy", df = true },
  tpid          = "0x88a8",
  addresses     = "10.0.0.1/16",
  subscribers   = "subscribers.csv",
  learn         = { networks = "10.0.0.0/16", ageing = "25 min" },
  gateways      = gateways,
  routes        = routes,
  pcp           = { [46] = 5, [34] = 4 }, -- voice, video
  limits        = { subscribers = 65536, addresses = 4 },
}
