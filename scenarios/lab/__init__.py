"""What scenarios and whole-system tests are made of: namespaces, wires, a running Weir, and packets to expect."""
