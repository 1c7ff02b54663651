-- A router wired by hand, for experiments: the steps of its fast path as stages, so that others can be put between them. Here the first
-- worker checks, and the second looks up and rewrites; DNS to the second next hop is copied to a third port.
--
-- There is no slow path: no ARP, no ICMP. Next hops are written down with their MAC addresses, and what a router would answer is dropped;
-- wired-router-answers.lua leaves it to a router.

port { name = "wan",   device = "af_packet:veth-wan" }
port { name = "lan",   device = "af_packet:veth-lan" }
port { name = "watch", device = "tap:weir-watch" }

local next_hops = {
  { address = "192.0.2.254", port = "wan", mac = "02:00:00:00:01:01" },
  { address = "10.0.0.2",    port = "lan", mac = "02:00:00:00:01:02" },
  { address = "10.0.0.3",    port = "lan", mac = "02:00:00:00:01:03" },
}

local stages = {
  check = { kind = "ipv4-check", ways = { out = "route", options = "drop", arp = "drop" } },
  route = {
    kind      = "ipv4-route",
    section   = 1,
    next_hops = {},
    routes    = {
      ["0.0.0.0/0"]   = "192.0.2.254",
      ["10.0.0.0/24"] = "10.0.0.2",
      ["10.1.0.0/16"] = { "10.0.0.2", "10.0.0.3" }, -- share the traffic, flow by flow
    },
    ways      = { ["no-route"] = "drop" },
  },
}

-- Each next hop has a stage that rewrites packets for it, and its way there: way[0] leads to the first.
for n, hop in ipairs(next_hops) do
  local name = "to-" .. n
  stages.route.next_hops[n] = hop.address
  stages.route.ways["way[" .. n - 1 .. "]"] = name
  stages[name] = { kind = "ipv4-rewrite", section = 1, from = hop.port, to = hop.mac,
                   ways = { out = "port " .. hop.port, expired = "drop", ["too-big"] = "drop" } }
end

-- Any stage may stand between: what goes to 10.0.0.2 is looked at on its way out.
stages["to-2"].ways.out = "dns"
stages.dns  = { kind = "match", section = 1, filter = "udp port 53", ways = { out = "copy", other = "port lan" } }
stages.copy = { kind = "copy", section = 1, ways = { out = "port lan", copy = "port watch" } }

wiring {
  receive = { wan = "check", lan = "check" },
  stages  = stages,
  workers = { 0, 1 },
  layout  = "pipeline",
}
