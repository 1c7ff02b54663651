-- A router whose routes come from FRR or BIRD in the network namespace `dataplane`: docs/linux.md
--   ip netns add dataplane
--   weir run configs/linux.lua
--   ip netns exec dataplane bird -c bird.conf

port { name = "lan", device = "af_packet:veth-lan", address = { "10.0.0.1/24", "2001:db8:a::1/64" } }
port { name = "wan", device = "af_packet:veth-wan", address = "10.0.9.1/24" }

interface { name = "lan.7", on = "lan", vlan = 7, address = "10.7.0.1/24" }

router {
  ports   = { "lan", "wan" },
  workers = { 1 },
  linux   = { netns = "dataplane" },
}
