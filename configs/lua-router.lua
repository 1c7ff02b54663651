-- A router in Lua that answers: a script checks packets, looks them up, and sends them a hop on; what it leaves alone goes to a `router`, whose slow
-- path answers ARP and pings and sends ICMP errors. Its routes are changed while packets flow: `weir table add from-lan.routes 10.1.0.0/16 value 2`.
--
-- It is code of your own in the data path: start it with `weir run configs/lua-router.lua --allow-lua-stages`. Give the interfaces the Ethernet
-- addresses below (`ip link set dev veth-wan address 02:00:00:00:00:01`).

local sides = {
  wan = { mac = "02:00:00:00:00:01", address = "192.0.2.1/24" },
  lan = { mac = "02:00:00:00:00:02", address = "10.0.0.1/24" },
}

-- Values of routes: 0 is the router itself; 1 the gateway on `wan`, 2 the host on `lan`, which `lua/router.lua` has the Ethernet headers for.
local routes = { ["0.0.0.0/0"] = 1, ["10.0.0.2/32"] = 2, ["192.0.2.0/24"] = 0, ["10.0.0.0/24"] = 0 }

local stages, receive = {}, {}
for name, side in pairs(sides) do
  port { name = name, device = "af_packet:veth-" .. name }
  port { name = "up-" .. name, device = "joint:" .. name }
  port { name = "r-" .. name, device = "joint:" .. name .. ",mac=" .. side.mac, address = side.address }
  stages["from-" .. name] = {
    kind = "lua", file = "lua/router.lua", indexed = 3, tables = { routes = { prefixes = routes } },
    ways = { out = "drop", ["way[0]"] = "port up-" .. name, ["way[1]"] = "port wan", ["way[2]"] = "port lan" },
  }
  stages["answers-" .. name] = { kind = "pass", ways = { out = "port " .. name } } -- what the router sends
  receive[name], receive["up-" .. name] = "from-" .. name, "answers-" .. name
end

wiring { receive = receive, stages = stages, workers = { 0 } }
router { ports = { "r-wan", "r-lan" }, routes = { ["0.0.0.0/0"] = "192.0.2.254" }, workers = { 0 } }
