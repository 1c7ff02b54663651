/* DPDK's inline functions and macros as functions that Rust can call. The data path calls each once
 * per burst, never once per packet. */
#define _GNU_SOURCE
/* Handles of interrupts: drivers make them so in every version since 21.11. */
#define ALLOW_EXPERIMENTAL_API
/* Their events: exported for drivers, and the same in every version since 21.11. */
#define ALLOW_INTERNAL_API
#include "weir_dpdk.h"

#include <rte_fbarray.h>
#include <rte_memory.h>
#include <rte_memzone.h>

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* Where the device that this thread attaches has the events of its receive queues. */
static __thread int *events;
static __thread unsigned int room_for_events;

/* Stands in front of DPDK's function of this name, for drivers as well. net_virtio_user tells the events of its queues when it comes, but
 * whoever asks for them has to have its receive interrupts configured, which does nothing for that driver but to have them told. */
int rte_intr_efds_index_set(struct rte_intr_handle *handle, int index, int fd)
{
	static int (*_Atomic dpdk)(struct rte_intr_handle *, int, int);

	if (index >= 0 && (unsigned int)index < room_for_events)
		events[index] = fd;
	if (dpdk == NULL)
		dpdk = dlsym(RTLD_NEXT, "rte_intr_efds_index_set");
	return dpdk == NULL ? -ENOTSUP : dpdk(handle, index, fd);
}

static int attach(const char *bus, const char *name, const char *arguments)
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

int weir_attach(const char *bus, const char *name, const char *arguments, int *its_events, unsigned int room)
{
	events = its_events;
	room_for_events = room;
	int rc = attach(bus, name, arguments);

	room_for_events = 0;
	return rc;
}

int weir_link_up(uint16_t port)
{
	struct rte_eth_link link = {0};
	int rc = rte_eth_link_get_nowait(port, &link);

	return rc < 0 ? rc : link.link_status == RTE_ETH_LINK_UP;
}

int weir_link_speed(uint16_t port, uint32_t *speed, uint32_t *bits)
{
	struct rte_eth_link link = {0};
	int rc = rte_eth_link_get_nowait(port, &link);

	if (rc < 0)
		return rc;
	*speed = link.link_status == RTE_ETH_LINK_UP && link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN ? link.link_speed : 0;
	*bits = (link.link_duplex == RTE_ETH_LINK_HALF_DUPLEX ? WEIR_LINK_HALF_DUPLEX : 0) |
		(link.link_autoneg == RTE_ETH_LINK_AUTONEG ? WEIR_LINK_NEGOTIATED : 0);
	return 0;
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

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* linux/mman.h since 6.1 */
#endif

/* The smallest huge pages, and those that the kernel makes of pages without being asked to reserve any. */
#define HUGE_PAGE ((size_t)2 << 20)

/* What a thread has taken out of pools since weir_note. */
struct notes {
	void **taken;
	unsigned int room;
	unsigned int n;
	int noting;
};

static __thread struct notes notes;

static void note_taken(void *const *objects, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		if (notes.n < notes.room)
			notes.taken[notes.n] = objects[i];
		if (notes.n < UINT_MAX)
			notes.n++;
	}
}

static void note_back(void *const *objects, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		for (unsigned int at = 0; at < notes.n && at < notes.room; at++)
			if (notes.taken[at] == objects[i]) {
				notes.taken[at] = notes.taken[--notes.n];
				break;
			}
}

/* DPDK's own rings, by their name: those of rte_mempool_ring.c. */
static const struct rte_mempool_ops *rings(void)
{
	static const struct rte_mempool_ops *found;

	for (unsigned int i = 0; found == NULL && i < rte_mempool_ops_table.num_ops; i++)
		if (strcmp(rte_mempool_ops_table.ops[i].name, "ring_mp_mc") == 0)
			found = &rte_mempool_ops_table.ops[i];
	return found;
}

static int pool_alloc(struct rte_mempool *pool)
{
	return rings() == NULL ? -ENOTSUP : rings()->alloc(pool);
}

static void pool_free(struct rte_mempool *pool)
{
	rings()->free(pool);
}

static int pool_put(struct rte_mempool *pool, void *const *objects, unsigned int n)
{
	if (unlikely(notes.noting))
		note_back(objects, n);
	return rings()->enqueue(pool, objects, n);
}

static int pool_get(struct rte_mempool *pool, void **objects, unsigned int n)
{
	int rc = rings()->dequeue(pool, objects, n);

	if (unlikely(notes.noting) && rc == 0)
		note_taken(objects, n);
	return rc;
}

static unsigned int pool_count(const struct rte_mempool *pool)
{
	return rings()->get_count(pool);
}

/* A pool with a configuration has its objects in one zone of huge pages that nobody had to reserve, none of them across two pages. */
static int pool_populate(struct rte_mempool *pool, unsigned int most, void *start, rte_iova_t iova, size_t length,
			 rte_mempool_populate_obj_cb_t *added, void *opaque)
{
	if (pool->pool_config == NULL)
		return rte_mempool_op_populate_default(pool, most, start, iova, length, added, opaque);

	size_t total = pool->header_size + pool->elt_size + pool->trailer_size;
	size_t in_a_page = HUGE_PAGE / total;
	unsigned int n;

	for (n = 0; n < most; n++) {
		size_t at = n / in_a_page * HUGE_PAGE + n % in_a_page * total;
		if (at + total > length)
			break;
		at += pool->header_size;
		void *object = RTE_PTR_ADD(start, at);
		added(pool, opaque, object, iova == RTE_BAD_IOVA ? RTE_BAD_IOVA : iova + at);
		rte_mempool_ops_enqueue_bulk(pool, &object, 1);
	}
	return (int)n;
}

static const struct rte_mempool_ops noting_rings = {
	.name = "weir_ring",
	.alloc = pool_alloc,
	.free = pool_free,
	.enqueue = pool_put,
	.dequeue = pool_get,
	.get_count = pool_count,
	.populate = pool_populate,
};

RTE_MEMPOOL_REGISTER_OPS(noting_rings);

/* DPDK puts no object across two pages. What it leaves free at the end of each is not in the length that net_af_xdp of 22.11 tells the
 * kernel (objects times their size), which then swallows every buffer behind that. */

/* In small pages, where as much as 2 of 5 bytes are free: bytes that an object grows by so that nearly nothing is. */
static uint32_t padding(uint32_t size)
{
	uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
	uint32_t total = rte_mempool_calc_obj_size(size, RTE_MEMPOOL_F_NO_SPREAD, NULL);

	if (total > page)
		return 0;
	return RTE_ALIGN_FLOOR(page / (page / total), RTE_CACHE_LINE_SIZE) - total;
}

/* Objects that could lie behind that length: less than one for each page. */
static unsigned int behind(unsigned int n, uint32_t total, int huge)
{
	uint64_t page = huge ? HUGE_PAGE : (uint64_t)sysconf(_SC_PAGESIZE);

	if (total > page)
		return 0;
	return (unsigned int)((uint64_t)n * total / page * (page % total) / total) + 2;
}

/* Takes the last objects of a new pool out of it for good: it hands out its objects in the order of their addresses. */
static int hold_back(struct rte_mempool *pool, unsigned int n, unsigned int surplus)
{
	void **all = malloc((n + surplus) * sizeof(*all));
	int rc = all == NULL ? -ENOMEM : rte_mempool_ops_dequeue_bulk(pool, all, n + surplus);

	if (rc == 0)
		rc = rte_mempool_ops_enqueue_bulk(pool, all, n);
	free(all);
	return rc;
}

/* Has the kernel put memory into huge pages, whatever it does by itself (Linux 6.1): whether all of it is in them now. */
static int collapse(const struct rte_memzone *zone)
{
	/* It does nothing for a page in which nothing is yet. */
	for (size_t at = 0; at < zone->len; at += HUGE_PAGE)
		*(volatile char *)RTE_PTR_ADD(zone->addr, at) = 0;
	return madvise(zone->addr, zone->len, MADV_COLLAPSE) == 0;
}

/* Ordinary memory in huge pages for so many objects; NULL where there is none. */
static const struct rte_memzone *collapsed_zone(const char *pool, unsigned int n, uint32_t total, int socket)
{
	char name[RTE_MEMZONE_NAMESIZE];
	size_t in_a_page = HUGE_PAGE / total;

	if (in_a_page == 0 || snprintf(name, sizeof(name), "%s_buffers", pool) >= (int)sizeof(name))
		return NULL;
	const struct rte_memzone *zone =
		rte_memzone_reserve_aligned(name, (n + in_a_page - 1) / in_a_page * HUGE_PAGE, socket, 0, HUGE_PAGE);
	if (zone == NULL || collapse(zone))
		return zone;
	rte_memzone_free(zone);
	return NULL;
}

static int fill_pool(struct rte_mempool *pool, const struct rte_memzone *zone, uint16_t priv_size, uint16_t room, unsigned int n,
		     unsigned int surplus)
{
	struct rte_pktmbuf_pool_private private = {.mbuf_data_room_size = room, .mbuf_priv_size = priv_size};
	int rc = rte_mempool_set_ops_byname(pool, noting_rings.name, (void *)(uintptr_t)zone);

	if (rc != 0)
		return rc;
	rte_pktmbuf_pool_init(pool, &private);
	if (zone == NULL)
		rc = rte_mempool_populate_default(pool);
	else
		rc = rte_mempool_populate_iova(pool, zone->addr, zone->iova, zone->len, NULL, NULL);
	if (rc >= 0 && (unsigned int)rc < n + surplus)
		rc = -ENOMEM;
	if (rc < 0)
		return rc;
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return hold_back(pool, n, surplus);
}

struct rte_mempool *weir_pktmbuf_pool_create(const char *name, unsigned int n, unsigned int cache, uint16_t priv_size,
					     uint16_t room, int socket)
{
	uint32_t size = sizeof(struct rte_mbuf) + priv_size + room;
	uint32_t total = rte_mempool_calc_obj_size(size, 0, NULL);
	const struct rte_memzone *zone =
		rte_eal_has_hugepages() ? NULL : collapsed_zone(name, n + behind(n, total, 1), total, socket);
	int huge = rte_eal_has_hugepages() || zone != NULL;
	unsigned int flags = huge ? 0 : RTE_MEMPOOL_F_NO_SPREAD;

	if (!huge)
		size += padding(size);
	unsigned int surplus = behind(n, rte_mempool_calc_obj_size(size, flags, NULL), huge);
	struct rte_mempool *pool = rte_mempool_create_empty(name, n + surplus, size, cache,
							    sizeof(struct rte_pktmbuf_pool_private), socket, flags);
	int rc = pool == NULL ? -rte_errno : fill_pool(pool, zone, priv_size, room, n, surplus);

	if (rc >= 0)
		return pool;
	rte_mempool_free(pool);
	rte_memzone_free(zone);
	rte_errno = -rc;
	return NULL;
}

void weir_note(void **taken, unsigned int room)
{
	notes = (struct notes){.taken = taken, .room = room, .noting = 1};
}

unsigned int weir_noted(void)
{
	unsigned int n = notes.n > notes.room ? UINT_MAX : notes.n;

	notes = (struct notes){0};
	return n;
}

int weir_close(uint16_t port, int spoilt)
{
	/* Of a queue that could not be set up, net_af_xdp keeps a pointer to its `struct xsk_umem_info`, which it has freed
	 * already, and counts down in it when it closes: in whatever lies there by then. So something that nobody needs
	 * lies there, of the same size class, in what is the same place as long as nobody else allocates. */
	void *decoy = spoilt ? rte_zmalloc("weir", RTE_CACHE_LINE_SIZE, 0) : NULL;
	int rc = rte_eth_dev_close(port);

	rte_free(decoy);
	return rc;
}

/* What DPDK's interrupt thread is to do for another one, which waits. */
struct task {
	void (*run)(uint16_t port);
	uint16_t port;
	sem_t done;
};

static struct task *_Atomic next_task;
/* An eventfd of that thread's: a task is there. */
static int task_event = -1;

static void run_task(void *argument)
{
	uint64_t count;
	struct task *task;

	(void)argument;
	if (read(task_event, &count, sizeof count) != sizeof count)
		return;
	task = atomic_exchange(&next_task, NULL);
	if (task == NULL)
		return;
	task->run(task->port);
	sem_post(&task->done);
}

/* Once and for all: the thread and the handle are there until the process ends. */
static int listen_for_tasks(void)
{
	struct rte_intr_handle *handle;

	if (task_event >= 0)
		return 0;
	handle = rte_intr_instance_alloc(0);
	task_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (handle == NULL || task_event < 0 || rte_intr_fd_set(handle, task_event) != 0 ||
	    rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) != 0 || rte_intr_callback_register(handle, run_task, NULL) != 0) {
		if (task_event >= 0)
			close(task_event);
		rte_intr_instance_free(handle);
		task_event = -1;
		return -ENOTSUP;
	}
	return 0;
}

static void run_on_interrupt_thread(void (*run)(uint16_t port), uint16_t port)
{
	struct task task = {.run = run, .port = port};

	sem_init(&task.done, 0, 0);
	next_task = &task;
	eventfd_write(task_event, 1);
	while (sem_wait(&task.done) != 0)
		;
	sem_destroy(&task.done);
}

static void stop_and_close(uint16_t port)
{
	rte_eth_dev_stop(port);
	rte_eth_dev_close(port);
}

static void do_nothing(uint16_t port)
{
	(void)port;
}

int weir_close_on_interrupt_thread(uint16_t port)
{
	int rc = listen_for_tasks();

	if (rc != 0)
		return rc;
	/* What net_virtio_user has put off for a microsecond, while the thread was woken, comes before the next task. */
	run_on_interrupt_thread(do_nothing, port);
	run_on_interrupt_thread(stop_and_close, port);
	/* Among the events that the thread was woken for together with the task may be some of descriptors that are closed now. It comes to a
	 * second task when it is through with them: until then nothing that is opened may get their numbers, or it would wait there for a
	 * message that does not come. */
	run_on_interrupt_thread(do_nothing, port);
	return 0;
}

static void (*_Atomic before_unplug)(void);

void weir_before_unplug(void (*wait)(void))
{
	before_unplug = wait;
}

/* Stands in front of DPDK's function of this name, for drivers as well: the program comes first where symbols are looked up. No version
 * of net_memif waits for bursts before it unmaps their memory (22.11 to 25.11), and this is the one call that it makes in between. */
int rte_intr_callback_unregister_pending(const struct rte_intr_handle *handle, rte_intr_callback_fn callback, void *argument,
					 rte_intr_unregister_callback_fn freed)
{
	static int (*_Atomic dpdk)(const struct rte_intr_handle *, rte_intr_callback_fn, void *, rte_intr_unregister_callback_fn);
	void (*wait)(void) = before_unplug;

	if (wait != NULL)
		wait();
	if (dpdk == NULL)
		dpdk = dlsym(RTLD_NEXT, "rte_intr_callback_unregister_pending");
	return dpdk == NULL ? -ENOTSUP : dpdk(handle, callback, argument, freed);
}

/* Stands in front of DPDK's function of this name, for drivers as well. The events of a virtual device are its driver's, which closes them
 * itself: net_virtio_user would close each twice, and the second time it may be a descriptor that another thread has just opened. */
void rte_intr_efd_disable(struct rte_intr_handle *handle)
{
	static void (*_Atomic dpdk)(struct rte_intr_handle *);

	if (rte_intr_type_get(handle) == RTE_INTR_HANDLE_VDEV)
		rte_intr_nb_efd_set(handle, 0);
	if (dpdk == NULL)
		dpdk = dlsym(RTLD_NEXT, "rte_intr_efd_disable");
	if (dpdk != NULL)
		dpdk(handle);
}

/* Lists that nobody uses, but for their place. */
static struct rte_fbarray fillers[2];

/* What EAL maps next begins at a multiple of the size of huge pages: it maps one area behind the other. */
static void fill_huge_page(int (*init)(struct rte_fbarray *, const char *, unsigned int, unsigned int))
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	/* The first takes a page, and tells where they are by now. */
	if (init(&fillers[0], "weir_filler_0", 1, 1) != 0)
		return;
	uintptr_t next = (uintptr_t)fillers[0].data + page;
	size_t missing = RTE_ALIGN_CEIL(next, HUGE_PAGE) - next;
	/* Beside its one element, the second has room for the mask that says whether it is used. */
	if (missing != 0)
		init(&fillers[1], "weir_filler_1", 1, (unsigned int)missing - 64);
}

/* Stands in front of DPDK's function of this name, for EAL as well. Without huge pages EAL makes a list of the pages that it is to have, and
 * maps the file that is its memory behind it: there the kernel can make huge pages of them, if they begin where those would. */
int rte_fbarray_init(struct rte_fbarray *list, const char *name, unsigned int n, unsigned int each)
{
	static int (*_Atomic dpdk)(struct rte_fbarray *, const char *, unsigned int, unsigned int);
	static atomic_flag filled = ATOMIC_FLAG_INIT;

	if (dpdk == NULL)
		dpdk = dlsym(RTLD_NEXT, "rte_fbarray_init");
	if (dpdk == NULL) {
		rte_errno = ENOTSUP;
		return -1;
	}
	int rc = dpdk(list, name, n, each);
	if (rc == 0 && !rte_eal_has_hugepages() && each == sizeof(struct rte_memseg) && !atomic_flag_test_and_set(&filled))
		fill_huge_page(dpdk);
	return rc;
}

int weir_is_in_front(void)
{
	return dlsym(RTLD_DEFAULT, "rte_intr_callback_unregister_pending") == (void *)rte_intr_callback_unregister_pending &&
	       dlsym(RTLD_DEFAULT, "rte_intr_efds_index_set") == (void *)rte_intr_efds_index_set &&
	       dlsym(RTLD_DEFAULT, "rte_intr_efd_disable") == (void *)rte_intr_efd_disable &&
	       dlsym(RTLD_DEFAULT, "rte_fbarray_init") == (void *)rte_fbarray_init;
}

/* The link of a device came or went. net_vhost tells it between forgetting its peer and freeing what it had of it. */
static int link_changed(uint16_t port, enum rte_eth_event_type event, void *argument, void *answer)
{
	void (*wait)(void) = before_unplug;

	(void)port;
	(void)event;
	(void)answer;
	if (wait != NULL)
		wait();
	eventfd_write((int)(intptr_t)argument, 1);
	return 0;
}

int weir_watch_link(uint16_t port, int event)
{
	return rte_eth_dev_callback_register(port, RTE_ETH_EVENT_INTR_LSC, link_changed, (void *)(intptr_t)event);
}

void weir_unwatch_link(uint16_t port, int event)
{
	while (rte_eth_dev_callback_unregister(port, RTE_ETH_EVENT_INTR_LSC, link_changed, (void *)(intptr_t)event) == -EAGAIN)
		rte_pause();
}

int weir_mempool_is_collapsed(const struct rte_mempool *pool)
{
	return pool->pool_config != NULL;
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
