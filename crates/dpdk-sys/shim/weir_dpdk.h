/* What bindgen reads: DPDK's public headers, the shim's functions, and the macros that bindgen
 * cannot evaluate, as constants. Only names that 22.11 to 25.11 share are used. */
#ifndef WEIR_DPDK_H
#define WEIR_DPDK_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rte_bus_vdev.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_log.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_thread.h>
#include <rte_version.h>

/* --- constants ------------------------------------------------------------------------------- */


static const uint64_t WEIR_RSS_IP = RTE_ETH_RSS_IP;
static const uint64_t WEIR_RSS_TCP = RTE_ETH_RSS_TCP;
static const uint64_t WEIR_RSS_UDP = RTE_ETH_RSS_UDP;
static const uint32_t WEIR_MQ_RX_NONE = RTE_ETH_MQ_RX_NONE;
static const uint32_t WEIR_MQ_RX_RSS = RTE_ETH_MQ_RX_RSS;

static const uint64_t WEIR_MBUF_F_FOREIGN = RTE_MBUF_F_EXTERNAL | RTE_MBUF_F_INDIRECT;

static const uint32_t WEIR_DEV_INTR_LSC = RTE_ETH_DEV_INTR_LSC;
static const uint32_t WEIR_MAX_PORTS = RTE_MAX_ETHPORTS;
static const uint32_t WEIR_HEADROOM = RTE_PKTMBUF_HEADROOM;

/* Where rte_mbuf keeps what weir-packet reads and writes: its own declaration is checked against
 * these. */
static const size_t WEIR_MBUF_SIZE = sizeof(struct rte_mbuf);
static const size_t WEIR_MBUF_BUF_ADDR = offsetof(struct rte_mbuf, buf_addr);
static const size_t WEIR_MBUF_DATA_OFF = offsetof(struct rte_mbuf, data_off);
static const size_t WEIR_MBUF_REFCNT = offsetof(struct rte_mbuf, refcnt);
static const size_t WEIR_MBUF_NB_SEGS = offsetof(struct rte_mbuf, nb_segs);
static const size_t WEIR_MBUF_PORT = offsetof(struct rte_mbuf, port);
static const size_t WEIR_MBUF_OL_FLAGS = offsetof(struct rte_mbuf, ol_flags);
static const size_t WEIR_MBUF_PACKET_TYPE = offsetof(struct rte_mbuf, packet_type);
static const size_t WEIR_MBUF_PKT_LEN = offsetof(struct rte_mbuf, pkt_len);
static const size_t WEIR_MBUF_DATA_LEN = offsetof(struct rte_mbuf, data_len);
static const size_t WEIR_MBUF_VLAN_TCI = offsetof(struct rte_mbuf, vlan_tci);
static const size_t WEIR_MBUF_HASH = offsetof(struct rte_mbuf, hash);
static const size_t WEIR_MBUF_BUF_LEN = offsetof(struct rte_mbuf, buf_len);
static const size_t WEIR_MBUF_POOL = offsetof(struct rte_mbuf, pool);
static const size_t WEIR_MBUF_NEXT = offsetof(struct rte_mbuf, next);
static const size_t WEIR_MBUF_TX_OFFLOAD = offsetof(struct rte_mbuf, tx_offload);
static const size_t WEIR_MBUF_PRIV_SIZE = offsetof(struct rte_mbuf, priv_size);

/* --- once per burst -------------------------------------------------------------------------- */

uint16_t weir_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs, uint16_t n);
uint16_t weir_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs, uint16_t n);

/* All n buffers, reset as rte_pktmbuf_alloc leaves them, or none: 0, or -ENOENT. */
int weir_pktmbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **bufs, unsigned int n);
/* Buffers whose next is NULL, nb_segs and refcnt are 1 and that are direct: straight to the pool. */
void weir_mempool_put_bulk(struct rte_mempool *pool, struct rte_mbuf *const *bufs, unsigned int n);

/* --- once per odd buffer --------------------------------------------------------------------- */

/* A chain of any kind. */
void weir_pktmbuf_free(struct rte_mbuf *buf);
/* 0 when the chain is one segment now; -1 when its first segment is too small. */
int weir_pktmbuf_linearize(struct rte_mbuf *buf);

/* --- control --------------------------------------------------------------------------------- */

/* The error number that DPDK left for this thread. */
int weir_errno(void);
/* DPDK's id of this thread; UINT32_MAX when it has none. */
unsigned int weir_lcore_id(void);
/* Attaches a device to a bus: 0, or -errno. Where its driver tells the event of a receive queue meanwhile, which it owns, that is in `events`
 * at the queue's number; nothing is written elsewhere. */
int weir_attach(const char *bus, const char *name, const char *arguments, int *events, unsigned int room);
/* Link state without waiting: 1 up, 0 down, or -errno. */
int weir_link_up(uint16_t port);
/* Its speed in Mbit/s, 0 when it is not known or the link is down, and WEIR_LINK_ bits: 0, or -errno. */
#define WEIR_LINK_HALF_DUPLEX 1
#define WEIR_LINK_NEGOTIATED 2
int weir_link_speed(uint16_t port, uint32_t *speed, uint32_t *bits);
/* The memory that a pool's buffers are in: up to n pieces, each from first to end. Returns how many
 * there are, which may be more than n. */
unsigned int weir_mempool_ranges(struct rte_mempool *pool, uintptr_t (*ranges)[2], unsigned int n);
/* Whether the pool's buffers are in huge pages that the kernel made of ordinary memory. */
int weir_mempool_is_collapsed(const struct rte_mempool *pool);
/* Bytes in front of each buffer of a pool. */
uint32_t weir_mempool_header_size(const struct rte_mempool *pool);
/* A pool of n buffers as rte_pktmbuf_pool_create makes it, but that net_af_xdp can hand any of them to the kernel, that they can be noted as
 * below, and that in ordinary memory they are in huge pages if the kernel makes some. */
struct rte_mempool *weir_pktmbuf_pool_create(const char *name, unsigned int n, unsigned int cache, uint16_t priv_size,
					     uint16_t room, int socket);
/* From now on it is noted which buffers of such a pool this thread takes out of its ring and does not put back, past
 * the pool's caches: up to `room`. */
void weir_note(void **taken, unsigned int room);
/* Ends that. Returns how many were noted; UINT_MAX when there were more than fit. */
unsigned int weir_noted(void);
/* Closes a device; one of AF_XDP, of which a queue could not be set up, so that nothing is spoilt. */
int weir_close(uint16_t port, int spoilt);
/* Stops and closes a device on DPDK's interrupt thread, which handles the control channels of memifs: it handles none meanwhile. -errno when
 * that thread cannot be asked; nothing was done then. For one thread at a time. */
int weir_close_on_interrupt_thread(uint16_t port);
/* Has the function called whenever DPDK takes a callback out from inside itself, which is what net_memif does between marking a device
 * as not connected and unmapping the peer's memory; and whenever the link of a device that is watched comes or goes. NULL: nothing is
 * called. */
void weir_before_unplug(void (*wait)(void));
/* Whether drivers find the shim's own functions, and not DPDK's. */
int weir_is_in_front(void);
/* Rings an eventfd from now on whenever the link of a device comes or goes, as long as its driver tells: 0, or -errno. */
int weir_watch_link(uint16_t port, int event);
/* No longer; whoever rings it is through. */
void weir_unwatch_link(uint16_t port, int event);
/* Empties what the pool keeps at hand for this thread. */
void weir_mempool_flush(struct rte_mempool *pool);
/* What libbpf and libxdp would print on stderr goes to the file instead. */
void weir_quiet_bpf(FILE *to);

#endif
