-- An OpenFlow 1.3 switch with three ports: it connects to a controller, and tools like `ovs-ofctl` connect to it.
--
--   ovs-ofctl -O OpenFlow13 show tcp:127.0.0.1:6654
--   ovs-ofctl -O OpenFlow13 add-flow tcp:127.0.0.1:6654 in_port=1,actions=output:2
--   weir show flows
port { name = "one",   device = "mem:null" }
port { name = "two",   device = "mem:null" }
port { name = "three", device = "mem:null" }

switch {
  ports       = { "one", "two", "three" },    -- 1, 2 and 3 to controllers
  datapath_id = "0000020000000001",
  controllers = { "tcp:192.0.2.9:6653" },
  listen      = "tcp:127.0.0.1:6654",         -- or "tls:...", or "unix:/run/weir/br0.mgmt"; a list for several
  fail        = "standalone",                 -- a learning bridge until a controller is there
  tables      = 8,
  limits      = { flows = 10000 },
}
