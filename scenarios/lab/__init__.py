"""What scenarios and whole-system tests are made of: namespaces, wires, a running Weir, guests, and packets to expect."""

# Seconds that anything may take that must happen at last: a machine may be slow, or busy with other things.
PATIENCE = 120.0


class Skipped(Exception):
    """A test cannot run here; the text says why."""
