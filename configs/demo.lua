-- Routes a capture file, without root, huge pages or a NIC: `make demo` runs it.
--
-- Under the virtual clock time passes as the stamps in the file say, however long the work takes: the same file gives the
-- same output every time.

engine { clock = "virtual" }

-- What comes in by `lan` was captured; what the router sends is written to target/demo/.
port {
  name    = "lan",
  device  = "pcap:../scenarios/demo/demo.pcap,../target/demo/lan.pcap,timing=clock,mac=02:00:00:00:00:01",
  address = "10.0.0.1/24",
}
port {
  name    = "wan",
  device  = "pcap:,../target/demo/wan.pcap,mac=02:00:00:00:00:02",
  address = "192.0.2.1/24",
  mtu     = 1400,
}

router {
  ports  = { "lan", "wan" },
  routes = {
    ["198.51.100.0/24"] = "192.0.2.254",
    -- Two ways that share the traffic, flow by flow.
    ["203.0.113.0/24"] = { "192.0.2.253", "192.0.2.254" },
  },
  -- A file answers no ARP requests.
  neighbors = {
    ["192.0.2.253"] = "02:00:00:00:02:fd",
    ["192.0.2.254"] = "02:00:00:00:02:fe",
    ["10.0.0.2"]    = "02:00:00:00:01:02",
  },
}
