-- A router on a stick: one port to a switch, whose VLANs it routes between.
--
--   hosts of VLAN 10, 20, ... 29 --- switch --- trunk --- router --- uplink

port { name = "uplink", device = "af_packet:veth-uplink", address = "192.0.2.1/24" }
port { name = "trunk", device = "af_packet:veth-trunk" }

for vlan = 10, 29 do
  interface { name = "trunk." .. vlan, on = "trunk", vlan = vlan, address = "10.0." .. vlan .. ".1/24" }
end

-- A customer's own VLAN 7 within the service VLAN 100 (IEEE 802.1ad).
interface { name = "trunk.100.7", on = "trunk", vlan = 100, inner_vlan = 7, address = "10.100.7.1/30", mtu = 1400 }

-- An address of the router that is up whatever becomes of its ports.
interface { name = "lo0", address = "203.0.113.1/32" }

router {
  ports  = { "uplink", "trunk" },
  routes = { ["0.0.0.0/0"] = "192.0.2.254" },
}
