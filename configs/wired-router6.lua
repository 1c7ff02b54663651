-- A router of IPv4 and IPv6 wired by hand that answers: wired-router-answers.lua with the steps of both families. What comes in on a side is parted by
-- family, and goes through steps of its own; what is no business of theirs (ARP and neighbour discovery, options, what is at the end of its hops, too
-- long, without a route, or for the router itself) goes to a `router` by the side's joint.
--
-- The router's end of a joint has the Ethernet address of the interface: give the interface that one
-- (`ip link set dev veth-wan address 02:00:00:00:00:01`).

local sides = {
  wan = { mac = "02:00:00:00:00:01", addresses = { "192.0.2.1/24", "2001:db8:ff::1/64" } },
  lan = { mac = "02:00:00:00:00:02", addresses = { "10.0.0.1/24", "2001:db8:1::1/64" } },
}

-- Of each family: the hosts that the fast path sends to, as neighbours of the router, where routes lead, and which ways out of its check are the
-- router's. All other hosts on the links are the router's, too: `router_itself` is a name for what it gets.
local families = {
  ipv4 = {
    next_hops = {
      { address = "192.0.2.254", side = "wan" },
      { address = "10.0.0.2",    side = "lan" },
    },
    router_itself = "0.0.0.0",
    routes = {
      ["0.0.0.0/0"]    = "192.0.2.254",
      ["10.0.0.2/32"]  = "10.0.0.2",
      ["192.0.2.0/24"] = "0.0.0.0",
      ["10.0.0.0/24"]  = "0.0.0.0",
    },
    to_the_router = { "arp", "options" },
  },
  ipv6 = {
    next_hops = {
      { address = "2001:db8:ff::254", side = "wan" },
      { address = "2001:db8:1::2",    side = "lan" },
    },
    router_itself = "::",
    routes = {
      ["::/0"]              = "2001:db8:ff::254",
      ["2001:db8:1::2/128"] = "2001:db8:1::2",
      ["2001:db8:ff::/64"]  = "::",
      ["2001:db8:1::/64"]   = "::",
    },
    to_the_router = { "nd", "link", "options" },
  },
}

local stages, receive = {}, {}

-- The steps of a family for what comes in on a side.
local function steps(kind, family, name)
  local up, chain = "port up-" .. name, kind .. "-" .. name
  local check = { kind = kind .. "-check", ways = { out = chain .. "-route" } }
  for _, way in ipairs(family.to_the_router) do check.ways[way] = up end
  local route = { kind = kind .. "-route", next_hops = { family.router_itself }, routes = family.routes,
                  ways = { ["way[0]"] = up, ["no-route"] = up } }
  for n, hop in ipairs(family.next_hops) do
    local to = chain .. "-to-" .. n
    route.next_hops[n + 1] = hop.address
    route.ways["way[" .. n .. "]"] = to
    stages[to] = { kind = kind .. "-rewrite", from = hop.side, to = hop.address .. "%r-" .. hop.side,
                   ways = { out = "port " .. hop.side, expired = up, ["too-big"] = up, unresolved = up } }
  end
  stages[chain .. "-check"], stages[chain .. "-route"] = check, route
  return chain .. "-check"
end

for name, side in pairs(sides) do
  port { name = name, device = "af_packet:veth-" .. name }
  port { name = "up-" .. name, device = "joint:" .. name }
  port { name = "r-" .. name, device = "joint:" .. name .. ",mac=" .. side.mac, address = side.addresses }

  local first = {}
  for kind, family in pairs(families) do first[kind] = steps(kind, family, name) end
  stages["family-" .. name] = { kind = "match", filter = "ip6", ways = { out = first.ipv6, other = first.ipv4 } }
  stages["from-" .. name] = { kind = "pass", ways = { out = "port " .. name } } -- what the router sends
  receive[name], receive["up-" .. name] = "family-" .. name, "from-" .. name
end

wiring { receive = receive, stages = stages, workers = { 0 } }
router {
  ports   = { "r-wan", "r-lan" },
  routes  = { ["0.0.0.0/0"] = "192.0.2.254", ["::/0"] = "2001:db8:ff::254" },
  workers = { 0 },
}
