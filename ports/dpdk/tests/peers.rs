//! Links between two processes: memif, and virtio by vhost-user. Without root, without huge pages.
#![cfg(feature = "dpdk")]

mod common;

use common::peers::link;

#[test]
fn memif() {
    link("memif", "memif:5,role=server,socket=SOCK", "memif:5,role=client,socket=SOCK");
}

#[test]
fn virtio_user_connects_to_vhost() {
    link("virtio_user_connects_to_vhost", "vhost:SOCK", "virtio_user:SOCK");
}

#[test]
fn vhost_connects_to_virtio_user() {
    link("vhost_connects_to_virtio_user", "virtio_user:SOCK,server=1", "vhost:SOCK,client=1");
}

#[test]
fn packed_rings() {
    link("packed_rings", "vhost:SOCK", "virtio_user:SOCK,packed_vq=1");
}
