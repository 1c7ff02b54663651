-- A guest of switch-guest.lua with two ports: what comes in by the one goes back by the other. In a container its ports are virtio_user, as here; in a
-- virtual machine they are the cards of the machine, `pci:0000:00:04.0` and the next.
port { name = "a", device = "virtio_user:/run/weir-two-a.sock" }
port { name = "b", device = "virtio_user:/run/weir-two-b.sock" }

forward { pairs = { { "a", "b" } }, workers = { 1 } }
