//! weir-packet's declaration of the buffer header against DPDK's own.

use std::mem::offset_of;

use weir_dpdk_sys as sys;
use weir_packet::header::Header;

const _: () = {
    assert!(size_of::<Header>() == sys::WEIR_MBUF_SIZE);
    assert!(offset_of!(Header, buf_addr) == sys::WEIR_MBUF_BUF_ADDR);
    assert!(offset_of!(Header, data_off) == sys::WEIR_MBUF_DATA_OFF);
    assert!(offset_of!(Header, refcnt) == sys::WEIR_MBUF_REFCNT);
    assert!(offset_of!(Header, nb_segs) == sys::WEIR_MBUF_NB_SEGS);
    assert!(offset_of!(Header, port) == sys::WEIR_MBUF_PORT);
    assert!(offset_of!(Header, ol_flags) == sys::WEIR_MBUF_OL_FLAGS);
    assert!(offset_of!(Header, packet_type) == sys::WEIR_MBUF_PACKET_TYPE);
    assert!(offset_of!(Header, pkt_len) == sys::WEIR_MBUF_PKT_LEN);
    assert!(offset_of!(Header, data_len) == sys::WEIR_MBUF_DATA_LEN);
    assert!(offset_of!(Header, vlan_tci) == sys::WEIR_MBUF_VLAN_TCI);
    assert!(offset_of!(Header, hash) == sys::WEIR_MBUF_HASH);
    assert!(offset_of!(Header, buf_len) == sys::WEIR_MBUF_BUF_LEN);
    assert!(offset_of!(Header, pool) == sys::WEIR_MBUF_POOL);
    assert!(offset_of!(Header, next) == sys::WEIR_MBUF_NEXT);
    assert!(offset_of!(Header, tx_offload) == sys::WEIR_MBUF_TX_OFFLOAD);
    assert!(offset_of!(Header, priv_size) == sys::WEIR_MBUF_PRIV_SIZE);
    assert!(weir_packet::HEADROOM == sys::WEIR_HEADROOM as usize);
};
