/* DPDK's inline functions and macros as functions that Rust can call. The data path calls each once
 * per burst, never once per packet. */
#define _GNU_SOURCE
#include "weir_dpdk.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

uint16_t weir_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	return rte_eth_rx_burst(port, queue, bufs, n);
}

uint16_t weir_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, bufs, n);
}

int weir_pktmbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **bufs, unsigned int n)
{
	return rte_pktmbuf_alloc_bulk(pool, bufs, n);
}

void weir_mempool_put_bulk(struct rte_mempool *pool, struct rte_mbuf *const *bufs, unsigned int n)
{
	rte_mempool_put_bulk(pool, (void *const *)bufs, n);
}

void weir_pktmbuf_free(struct rte_mbuf *buf)
{
	rte_pktmbuf_free(buf);
}

int weir_pktmbuf_linearize(struct rte_mbuf *buf)
{
	return rte_pktmbuf_linearize(buf);
}

int weir_errno(void)
{
	return rte_errno;
}

unsigned int weir_lcore_id(void)
{
	return rte_lcore_id();
}

int weir_attach(const char *bus, const char *name, const char *arguments)
{
	/* From 24.11 on hot-plugging refuses more than 127 characters, which is what fits a message to secondary
	 * processes. There are none here, and a path is easily longer. */
	if (strcmp(bus, "vdev") != 0)
		return rte_eal_hotplug_add(bus, name, arguments);

	/* Fails, and says so, where no driver wants the name. */
	struct rte_devargs devargs = {0};
	int rc = rte_devargs_parsef(&devargs, "%s:%s", bus, name);

	if (rc != 0)
		return rc;
	/* What rte_devargs_reset does, which 22.11 calls experimental. */
	free(devargs.data);
	return rte_vdev_init(name, arguments);
}

int weir_link_up(uint16_t port)
{
	struct rte_eth_link link = {0};
	int rc = rte_eth_link_get_nowait(port, &link);

	return rc < 0 ? rc : link.link_status == RTE_ETH_LINK_UP;
}

struct ranges {
	uintptr_t (*found)[2];
	unsigned int room;
	unsigned int n;
};

static void add_range(struct rte_mempool *pool, void *opaque, struct rte_mempool_memhdr *chunk, unsigned int index)
{
	struct ranges *ranges = opaque;

	(void)pool;
	(void)index;
	if (ranges->n < ranges->room) {
		ranges->found[ranges->n][0] = (uintptr_t)chunk->addr;
		ranges->found[ranges->n][1] = (uintptr_t)chunk->addr + chunk->len;
	}
	ranges->n++;
}

unsigned int weir_mempool_ranges(struct rte_mempool *pool, uintptr_t (*ranges)[2], unsigned int n)
{
	struct ranges all = {.found = ranges, .room = n};

	rte_mempool_mem_iter(pool, add_range, &all);
	return all.n;
}

uint32_t weir_mempool_header_size(const struct rte_mempool *pool)
{
	return pool->header_size;
}

void weir_mempool_flush(struct rte_mempool *pool)
{
	struct rte_mempool_cache *cache = rte_mempool_default_cache(pool, rte_lcore_id());

	if (cache != NULL)
		rte_mempool_cache_flush(cache, pool);
}

/* libbpf and libxdp have one printer per process. The file outlives it: EAL's log is never closed. */
static FILE *bpf_log;

static int bpf_print(int level, const char *format, va_list args)
{
	enum { BPF_WARN, BPF_INFO, BPF_DEBUG }; /* of enum libbpf_print_level */

	return level < BPF_DEBUG ? vfprintf(bpf_log, format, args) : 0;
}

void weir_quiet_bpf(FILE *to)
{
	static const char *const libraries[][2] = {
		{"libbpf.so.1", "libbpf_set_print"},
		{"libbpf.so.0", "libbpf_set_print"},
		{"libxdp.so.1", "libxdp_set_print"},
	};
	typedef int (*print_fn)(int, const char *, va_list);
	typedef print_fn (*set_print_fn)(print_fn);

	bpf_log = to;
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		/* Present only when a plugin of DPDK's brought it in. */
		void *library = dlopen(libraries[i][0], RTLD_NOW | RTLD_NOLOAD);
		if (library == NULL)
			continue;
		set_print_fn set = (set_print_fn)dlsym(library, libraries[i][1]);
		if (set != NULL)
			set(bpf_print);
		dlclose(library);
	}
}
