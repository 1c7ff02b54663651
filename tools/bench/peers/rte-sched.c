/* SPDX-License-Identifier: Apache-2.0
 *
 * DPDK's rte_sched alone, to be measured beside Weir's scheduler:
 *
 *   cc -O3 -include rte-sched-port.h rte-sched.c $(pkg-config --cflags --libs libdpdk) -o rte-sched
 *   rte-sched EAL-OPTIONS -- PIPES QUEUE-SIZE BUFFERS
 *
 * The pipes share 82 % of the port evenly, and use one queue of the lowest class; 60-byte frames (64 with FCS) of random users.
 *
 * Says "ready PIPES BUFFERS". For each line "LOOPS RATE" it goes round LOOPS times: 64 frames in, at most 64 out. A RATE of 0 is as
 * fast as it can go, which is when time is what was sent; else frames come at RATE per second. Then it says "did ELAPSED ENQUEUE
 * DEQUEUE PACKETS DROPPED HELD": TSC cycles of all of it and of both calls, packets that came out, packets that found no queue or no
 * buffer, and how many were held at the end of a loop, on average.
 */
#define FRAME 60
#define ROOM (RTE_PKTMBUF_HEADROOM + 128)

static struct rte_mempool *
make_pool(uint32_t buffers)
{
	/* A ring without caches: the buffer that was used least recently comes first. */
	struct rte_mempool *pool = rte_pktmbuf_pool_create_by_ops("peer", buffers, 0, 0, ROOM, SOCKET_ID_ANY, "ring_sp_sc");

	if (pool == NULL)
		fail("rte_pktmbuf_pool_create", rte_strerror(rte_errno));
	return pool;
}

static uint64_t random_state = 1;

static uint32_t
random_below(uint32_t bound)
{
	/* SplitMix64 */
	uint64_t mixed = random_state += 0x9e3779b97f4a7c15;

	mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
	return (uint32_t)((mixed ^ (mixed >> 31)) >> 32) % bound;
}

/* Up to a batch of frames, as many as there are buffers. */
static uint32_t
take(struct rte_sched_port *port, struct rte_mempool *pool, uint32_t pipes, struct rte_mbuf **in)
{
	uint32_t count = RTE_MIN(rte_mempool_avail_count(pool), (unsigned int)BATCH);

	if (count > 0 && rte_pktmbuf_alloc_bulk(pool, in, count) != 0)
		fail("rte_pktmbuf_alloc_bulk", "no buffers, though there are some");
	for (uint32_t i = 0; i < count; i++) {
		memset(rte_pktmbuf_mtod(in[i], char *), 0, FRAME);
		in[i]->data_len = in[i]->pkt_len = FRAME;
		rte_sched_port_pkt_write(port, in[i], 0, random_below(pipes), RTE_SCHED_TRAFFIC_CLASS_BE, 0, RTE_COLOR_GREEN);
	}
	return count;
}

int
main(int argc, char **argv)
{
	int used = rte_eal_init(argc, argv);

	if (used < 0 || argc - used != 4)
		fail("usage", "rte-sched EAL-OPTIONS -- PIPES QUEUE-SIZE BUFFERS");
	argv += used;
	uint32_t pipes = strtoul(argv[1], NULL, 10), buffers = strtoul(argv[3], NULL, 10);
	struct rte_sched_port *port = make_port(pipes, PORT_RATE * 82 / 100 / pipes, 2048, 40, strtoul(argv[2], NULL, 10));
	struct rte_mempool *pool = make_pool(buffers);
	uint64_t held = 0;

	printf("ready %" PRIu32 " %" PRIu32 "\n", pipes, buffers);
	fflush(stdout);
	for (char line[64]; fgets(line, sizeof(line), stdin) != NULL; ) {
		char *rest;
		uint64_t loops = strtoull(line, &rest, 10), rate = strtoull(rest, NULL, 10);
		uint64_t gap = rate == 0 ? 0 : rte_get_tsc_hz() * BATCH / rate;
		uint64_t enqueue = 0, dequeue = 0, packets = 0, dropped = 0, holding = 0;
		uint64_t began = rte_rdtsc(), due = began;
		struct rte_mbuf *in[BATCH], *out[BATCH];

		/* Whatever was left of other loops goes first. */
		for (uint64_t patience = 1000000; gap != 0 && held > 0 && patience > 0; patience--) {
			int came = rte_sched_port_dequeue(port, out, BATCH);

			held -= came;
			if (came > 0)
				rte_pktmbuf_free_bulk(out, came);
		}
		for (uint64_t loop = 0; loop < loops; loop++) {
			uint64_t now = rte_rdtsc();

			if (gap != 0) {
				/* Whoever is late starts anew: nobody can offer what was due long ago. */
				if (now > due + 16 * gap)
					due = now;
				while ((now = rte_rdtsc()) < due)
					;
				due += gap;
			}
			/* What there are no buffers for does not come. */
			uint32_t count = take(port, pool, pipes, in);
			if (gap != 0)
				dropped += BATCH - count;
			/* As fast as it can go means that all buffers are in there. */
			for (; gap == 0 && rte_mempool_avail_count(pool) >= BATCH; count = take(port, pool, pipes, in))
				held += rte_sched_port_enqueue(port, in, count);
			uint64_t first = rte_rdtsc();
			int went = count > 0 ? rte_sched_port_enqueue(port, in, count) : 0;
			uint64_t second = rte_rdtsc();
			int came = rte_sched_port_dequeue(port, out, BATCH);
			uint64_t third = rte_rdtsc();

			enqueue += second - first;
			dequeue += third - second;
			packets += came;
			dropped += count - went;
			held += went - came;
			holding += held;
			if (came > 0)
				rte_pktmbuf_free_bulk(out, came);
		}
		printf("did %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", rte_rdtsc() - began, enqueue,
			dequeue, packets, dropped, loops == 0 ? 0 : holding / loops);
		fflush(stdout);
	}
	return 0;
}
