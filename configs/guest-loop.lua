-- A guest of switch-guest.lua with one port: what comes in goes back as it came.
port { name = "only", device = "virtio_user:/run/weir-single.sock" }

forward { paths = { "only -> only" }, workers = { 1 } }
