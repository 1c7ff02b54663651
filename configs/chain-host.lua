-- A switch that hands two network cards to a guest, port by port, over vhost. chain-guest.lua is the guest.

port { name = "internet", device = "af_xdp:veth-inet" }
port { name = "access",   device = "af_xdp:veth-access" }
port { name = "guest-internet", device = "vhost:/run/weir-internet.sock" }
port { name = "guest-access",   device = "vhost:/run/weir-access.sock" }

forward {
  pairs   = { { "internet", "guest-internet" }, { "access", "guest-access" } },
  workers = { 1 },
}
