-- A router wired by hand that answers: its fast path is wired of steps, and what is no business of theirs (ARP, options, a TTL that ends here, what
-- is too long, has no route, or is for the router itself) goes to a `router`, whose slow path does with it what a router has to do: it answers, asks
-- for neighbours, sends ICMP errors and fragments. Where next hops are the fast path knows from the router, which finds them by ARP.
--
-- Each side has a joint to the router. Its end there has the Ethernet address of the interface: give the interface that one
-- (`ip link set dev veth-wan address 02:00:00:00:00:01`).

local sides = {
  wan = { mac = "02:00:00:00:00:01", address = "192.0.2.1/24" },
  lan = { mac = "02:00:00:00:00:02", address = "10.0.0.1/24" },
}

-- Hosts that the fast path sends to, as neighbours of the router: `192.0.2.254%r-wan`. All others on the links are the router's.
local next_hops = {
  { address = "192.0.2.254", side = "wan" },
  { address = "10.0.0.2",    side = "lan" },
}
local router_itself = "0.0.0.0" -- a name for what the router gets

local routes = {
  ["0.0.0.0/0"]    = "192.0.2.254",
  ["10.0.0.2/32"]  = "10.0.0.2",
  ["192.0.2.0/24"] = router_itself,
  ["10.0.0.0/24"]  = router_itself,
}

local stages, receive = {}, {}
for name, side in pairs(sides) do
  port { name = name, device = "af_packet:veth-" .. name }
  port { name = "up-" .. name, device = "joint:" .. name }
  port { name = "r-" .. name, device = "joint:" .. name .. ",mac=" .. side.mac, address = side.address }

  local up = "port up-" .. name -- what came in on this side and the fast path leaves to the router
  local route = { kind = "ipv4-route", next_hops = { router_itself }, routes = routes,
                  ways = { ["way[0]"] = up, ["no-route"] = up } }
  for n, hop in ipairs(next_hops) do
    local to = name .. "-to-" .. n
    route.next_hops[n + 1] = hop.address
    route.ways["way[" .. n .. "]"] = to
    stages[to] = { kind = "ipv4-rewrite", from = hop.side, to = hop.address .. "%r-" .. hop.side,
                   ways = { out = "port " .. hop.side, expired = up, ["too-big"] = up, unresolved = up } }
  end
  stages["check-" .. name] = { kind = "ipv4-check", ways = { out = "route-" .. name, options = up, arp = up } }
  stages["route-" .. name] = route
  stages["from-" .. name] = { kind = "pass", ways = { out = "port " .. name } } -- what the router sends
  receive[name], receive["up-" .. name] = "check-" .. name, "from-" .. name
end

wiring { receive = receive, stages = stages, workers = { 0 } }
router { ports = { "r-wan", "r-lan" }, routes = { ["0.0.0.0/0"] = "192.0.2.254" }, workers = { 0 } }
