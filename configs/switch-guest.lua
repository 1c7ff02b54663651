-- A switch with two guests beside two network cards: one with two ports (guest.lua), one with a single port (guest-loop.lua). In one command, with
-- flows that lead through them, `scenarios/guest.py` runs the three; by hand:
--
--   weir run configs/switch-guest.lua & weir run configs/guest.lua & weir run configs/guest-loop.lua &
--   switch="ovs-ofctl -O OpenFlow13 add-flow unix:/run/weir-guests.mgmt"
--   $switch in_port=1,actions=output:3; $switch in_port=4,actions=output:5; $switch in_port=5,actions=output:2
port { name = "left",   device = "af_packet:veth-left" }
port { name = "right",  device = "af_packet:veth-right" }
port { name = "two-a",  device = "vhost:/run/weir-two-a.sock" }
port { name = "two-b",  device = "vhost:/run/weir-two-b.sock" }
port { name = "single", device = "vhost:/run/weir-single.sock" }

switch {
  ports   = { "left", "right", "two-a", "two-b", "single" },   -- 1 to 5 to controllers
  listen  = "unix:/run/weir-guests.mgmt",
  workers = { 0 },
}
