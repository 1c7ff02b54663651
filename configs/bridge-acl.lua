-- A switch for guests: what may come in by their ports, and what may leave by them, is judged by addresses, VLANs and EtherTypes.
port { name = "guest1", device = "mem:null" }
port { name = "guest2", device = "mem:null" }
port { name = "camera", device = "mem:null" }
port { name = "uplink", device = "mem:null" }

bridge {
  tagging = "802.1q",
  acls    = {
    -- Guests speak IP, and do not answer for the gateway.
    guests = {
      default = "deny",
      rules   = {
        "deny from 02:00:00:00:00:fe",
        "permit ethertype ipv4,ipv6,arp",
      },
    },
    -- The camera is one of a vendor's, and is to hear of nobody but the uplink's side.
    camera = { default = "deny", rules = { "permit from 00:1b:c5:00:00:00/24 vlan 20" } },
    quiet  = { default = "permit", rules = { "deny to broadcast ethertype ipv4", "deny ethertype llc" } },
  },
  ports   = {
    guest1 = { vlan = 10, acl_in = "guests", acl_out = "quiet" },
    guest2 = { vlan = 10, acl_in = "guests", acl_out = "quiet" },
    camera = { vlan = 20, acl_in = "camera" },
    uplink = { tagged = "10,20" },
  },
}
