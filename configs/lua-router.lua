-- A router whose routes are a script's: it looks packets up that the router's step has checked, and its ways lead to the steps that send to next
-- hops. What they leave alone goes to a `router`, whose slow path answers ARP and pings and sends ICMP errors, and which knows where next hops are.
-- The script's routes are changed while packets flow: `weir table add from-lan.routes 10.1.0.0/16 value 2`.
--
-- It is code of your own in the data path: start it with `weir run configs/lua-router.lua --allow-lua-stages`. Give the interfaces the Ethernet
-- addresses below (`ip link set dev veth-wan address 02:00:00:00:00:01`).

local sides = {
  wan = { mac = "02:00:00:00:00:01", address = "192.0.2.1/24" },
  lan = { mac = "02:00:00:00:00:02", address = "10.0.0.1/24" },
}

-- Neighbours of the router that packets are sent to. Values of routes are their numbers here; 0 is the router itself.
local next_hops = { { address = "192.0.2.254", side = "wan" }, { address = "10.0.0.2", side = "lan" } }
local routes = { ["0.0.0.0/0"] = 1, ["10.0.0.2/32"] = 2, ["192.0.2.0/24"] = 0, ["10.0.0.0/24"] = 0 }

local stages, receive = {}, {}
for name, side in pairs(sides) do
  port { name = name, device = "af_packet:veth-" .. name }
  port { name = "up-" .. name, device = "joint:" .. name }
  port { name = "r-" .. name, device = "joint:" .. name .. ",mac=" .. side.mac, address = side.address }

  local up = "port up-" .. name -- what came in on this side and is left to the router
  local script = { kind = "lua", file = "lua/router.lua", indexed = 1 + #next_hops, tables = { routes = { prefixes = routes } },
                   ways = { out = "drop", ["way[0]"] = up } }
  for n, hop in ipairs(next_hops) do
    local to = name .. "-to-" .. n
    script.ways["way[" .. n .. "]"] = to
    stages[to] = { kind = "ipv4-rewrite", from = hop.side, to = hop.address .. "%r-" .. hop.side,
                   ways = { out = "port " .. hop.side, expired = up, ["too-big"] = up, unresolved = up } }
  end
  stages["check-" .. name] = { kind = "ipv4-check", ways = { out = "from-" .. name, options = up, arp = up } }
  stages["from-" .. name] = script
  stages["answers-" .. name] = { kind = "pass", ways = { out = "port " .. name } } -- what the router sends
  receive[name], receive["up-" .. name] = "check-" .. name, "answers-" .. name
end

wiring { receive = receive, stages = stages, workers = { 0 } }
router { ports = { "r-wan", "r-lan" }, routes = { ["0.0.0.0/0"] = "192.0.2.254" }, workers = { 0 } }
