-- Three streams out of one port that receives what it sends: what `weir gen configs/gen.lua` measures, without root.
engine { clock = "virtual" }
port { name = "wire", device = "mem:loop" }

gen {
  seed = 7,
  link_speed = "10 Gbit/s",
  streams = {
    -- A mix of sizes at a tenth of the link, to hosts of a network in turn.
    { name = "mix", port = "wire", size = "imix", rate = "10 %", duration = "20 ms", signature = true,
      layers = {
        { ethernet = {} },
        { ipv4 = { source = "198.18.0.1", destination = "198.19.0.0/16" } },
        { udp = { source = "49152-65535 random" } },
      } },
    -- Small packets at random times, as many independent senders make them.
    { name = "small", port = "wire", rate = "100 kpps", gaps = "poisson", count = 2000, signature = true },
    -- IPv6 behind two tags, in bursts.
    { name = "tagged", port = "wire", size = "128", rate = "50 kpps", gaps = "burst", burst = 16, count = 960, signature = true,
      layers = {
        { ethernet = {} },
        { vlan = { id = 100 } },
        { vlan = { id = "200-299" } },
        { ipv6 = { destination = "2001:db8::/64 random" } },
        { udp = {} },
      } },
  },
}
