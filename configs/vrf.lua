-- Two customers with the same addresses, each in a VRF of its own, and a service that both may reach.
--
--   red  --- trunk.10 ---+
--                        router --- service (10.9.9.0/24)
--   blue --- trunk.20 ---+

port { name = "trunk", device = "af_packet:veth-trunk" }
port { name = "service", device = "af_packet:veth-service", address = "10.9.9.1/24" }

interface { name = "trunk.10", on = "trunk", vlan = 10, vrf = "red", address = "10.0.0.1/24" }
interface { name = "trunk.20", on = "trunk", vlan = 20, vrf = "blue", address = "10.0.0.1/24" }

router {
  ports = { "trunk", "service" },
  vrfs  = {
    -- A next hop on an interface of another VRF leads there: only what is written here leaves a VRF.
    red  = { routes = { ["10.9.9.0/24"] = "%service", ["10.1.0.0/16"] = "10.0.0.9" } },
    blue = { routes = { ["10.9.9.0/24"] = "%service", ["10.1.0.0/16"] = "10.0.0.8" } },
  },
  -- The way back to what customers are asked for by: one address of each.
  routes = { ["203.0.113.10/32"] = "10.0.0.9%trunk.10", ["203.0.113.20/32"] = "10.0.0.8%trunk.20" },
}
