-- A switch that Faucet (https://faucet.nz) drives by configs/faucet.yaml:
--
--   FAUCET_CONFIG=configs/faucet.yaml faucet
--   weir run configs/faucet.lua
--
-- What the hosts are: docs/functions/switch.md#with-controllers

port { name = "one",   device = "af_packet:veth-one" }
port { name = "two",   device = "af_packet:veth-two" }
port { name = "three", device = "af_packet:veth-three" }
port { name = "four",  device = "af_packet:veth-four" }
port { name = "trunk", device = "af_packet:veth-trunk" }

switch {
  ports       = { "one", "two", "three", "four", "trunk" },   -- 1 to 5 in faucet.yaml
  datapath_id = "0000000000000001",                           -- its dp_id
  controllers = { "tcp:127.0.0.1:6653" },
  fail        = "secure",                                     -- without Faucet it goes on with the flows that there are
}
