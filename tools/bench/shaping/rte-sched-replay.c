/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture through DPDK's rte_sched, to be compared with the same capture through Weir's scheduler:
 *
 *   cc -O3 rte-sched-replay.c $(pkg-config --cflags --libs libdpdk) -o rte-sched-replay
 *   rte-sched-replay EAL-OPTIONS -- SENT.pcap RECEIVED.pcap PIPES TC-PERIOD BUFFERS
 *
 * A pipe has 1 Mbit/s and a bucket of 1,000,000 bytes; the lowest class is used, which has a cap of 1 Mbit/s over TC-PERIOD
 * milliseconds and queues of 64 packets. A packet is of the pipe that the lowest bits of its IPv4 destination say, and comes when the
 * capture says. At most BUFFERS packets are held; what finds no buffer is lost.
 *
 * Time is simulated: a turn, in which what has come is put in and up to 64 packets are taken out, takes a microsecond, and nothing else
 * takes any time. rte_sched reads the time stamp counter by itself, so that the instruction is made to trap (PR_SET_TSC), and is answered
 * with the simulated time.
 *
 * SENT.pcap has stamps in nanoseconds, and this machine's byte order; RECEIVED.pcap has the same form. At the end it says
 * "replayed PACKETS SENT HELD": packets that came, that left, and the most that were held.
 */
#include "../peers/rte-sched-port.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <ucontext.h>

#define USER_RATE (1000 * 1000 / 8)
#define MAGIC_NANOSECONDS 0xa1b23c4du
#define HEADER 24
#define LEFT_AT_END 2000000000ull

struct record {
	uint32_t seconds, nanos, kept, length;
};

/* What there is to know of a packet of the capture. */
struct packet {
	uint64_t at;
	const struct record *record;
	uint64_t left; /* 0: it has not */
};

/* The capture, and its packets. */
static struct packet *
read_capture(const char *path, uint64_t *count)
{
	struct stat about;
	int file = open(path, O_RDONLY);

	if (file < 0 || fstat(file, &about) != 0 || about.st_size < HEADER)
		fail(path, "cannot be read");
	const char *bytes = mmap(NULL, about.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
	if (bytes == MAP_FAILED || *(const uint32_t *)bytes != MAGIC_NANOSECONDS)
		fail(path, "is no pcap with nanoseconds in this machine's byte order");
	struct packet *packets = malloc((about.st_size / sizeof(struct record) + 1) * sizeof(*packets));
	if (packets == NULL)
		fail(path, "is too large");
	uint64_t n = 0;
	for (off_t at = HEADER; at + (off_t)sizeof(struct record) <= about.st_size; n++) {
		const struct record *record = (const struct record *)(bytes + at);

		at += sizeof(*record) + record->kept;
		if (at > about.st_size || record->kept < 34)
			fail(path, "has a record that is cut off");
		packets[n] = (struct packet){ .at = record->seconds * 1000000000ull + record->nanos, .record = record };
	}
	*count = n;
	return packets;
}

static int
by_time_left(const void *a, const void *b)
{
	const struct packet *one = *(const struct packet *const *)a, *other = *(const struct packet *const *)b;

	if (one->left != other->left)
		return one->left < other->left ? -1 : 1;
	return one < other ? -1 : one > other;
}

/* What left, in order. */
static void
write_capture(const char *path, struct packet *packets, uint64_t count)
{
	const uint32_t header[] = { MAGIC_NANOSECONDS, 2 | 4 << 16, 0, 0, 262144, 1 };
	struct packet **order = malloc((count + 1) * sizeof(*order));
	FILE *file = fopen(path, "wb");
	uint64_t left = 0;

	if (order == NULL || file == NULL || fwrite(header, sizeof(header), 1, file) != 1)
		fail(path, "cannot be written");
	for (uint64_t n = 0; n < count; n++)
		if (packets[n].left != 0)
			order[left++] = &packets[n];
	qsort(order, left, sizeof(*order), by_time_left);
	for (uint64_t n = 0; n < left; n++) {
		struct record record = *order[n]->record;

		record.seconds = order[n]->left / 1000000000;
		record.nanos = order[n]->left % 1000000000;
		if (fwrite(&record, sizeof(record), 1, file) != 1 || fwrite(order[n]->record + 1, record.kept, 1, file) != 1)
			fail(path, "cannot be written");
	}
	if (fclose(file) != 0)
		fail(path, "cannot be written");
	free(order);
}

static volatile uint64_t simulated_tsc;

/* Answers rdtsc and rdtscp with the simulated time. */
static void
answer(int signal, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	const unsigned char *code = (const unsigned char *)registers[REG_RIP];
	int length = code[0] == 0x0f && code[1] == 0x31 ? 2 : code[0] == 0x0f && code[1] == 0x01 && code[2] == 0xf9 ? 3 : 0;

	(void)signal;
	(void)info;
	if (length == 0)
		_exit(139);
	registers[REG_RAX] = (uint32_t)simulated_tsc;
	registers[REG_RDX] = simulated_tsc >> 32;
	if (length == 3)
		registers[REG_RCX] = 0;
	registers[REG_RIP] += length;
}

static void
trap_tsc(int trapped)
{
	struct sigaction action = { .sa_sigaction = answer, .sa_flags = SA_SIGINFO };

	if (trapped && sigaction(SIGSEGV, &action, NULL) != 0)
		fail("sigaction", "refused");
	if (prctl(PR_SET_TSC, trapped ? PR_TSC_SIGSEGV : PR_TSC_ENABLE) != 0)
		fail("prctl", "the time stamp counter cannot be trapped here");
}

int
main(int argc, char **argv)
{
	int used = rte_eal_init(argc, argv);

	if (used < 0 || argc - used != 6)
		fail("usage", "rte-sched-replay EAL-OPTIONS -- SENT.pcap RECEIVED.pcap PIPES TC-PERIOD BUFFERS");
	argv += used;
	uint32_t pipes = strtoul(argv[3], NULL, 10), buffers = strtoul(argv[5], NULL, 10);
	uint64_t count, hz = rte_get_tsc_hz(), epoch = rte_rdtsc();
	struct packet *packets = read_capture(argv[1], &count);
	struct rte_mempool *pool = rte_pktmbuf_pool_create_by_ops("replay", buffers, 0, sizeof(uint64_t), RTE_PKTMBUF_HEADROOM,
		SOCKET_ID_ANY, "ring_sp_sc");

	if (pool == NULL)
		fail("rte_pktmbuf_pool_create", rte_strerror(rte_errno));
	simulated_tsc = epoch;
	trap_tsc(1);
	struct rte_sched_port *port = make_port(pipes, USER_RATE, 1000000, strtoul(argv[4], NULL, 10), 64);
	struct rte_mbuf *in[BATCH], *out[BATCH];
	uint64_t next = 0, held = 0, most_held = 0, sent = 0, now = 0, last = count > 0 ? packets[count - 1].at : 0;

	while ((next < count || held > 0) && now < last + LEFT_AT_END) {
		/* Where nothing waits, nothing happens until the next packet comes. */
		now = held == 0 && next < count && packets[next].at > now + 1000 ? packets[next].at : now + 1000;
		simulated_tsc = epoch + (uint64_t)((unsigned __int128)now * hz / 1000000000);
		uint32_t came = 0;

		while (came < BATCH && next < count && packets[next].at <= now) {
			struct rte_mbuf *buffer = rte_pktmbuf_alloc(pool);
			struct packet *packet = &packets[next++];

			if (buffer == NULL)
				continue;
			const unsigned char *frame = (const unsigned char *)(packet->record + 1);
			uint32_t user = ((uint32_t)frame[31] << 16 | (uint32_t)frame[32] << 8 | frame[33]) & (pipes - 1);

			*(uint64_t *)rte_mbuf_to_priv(buffer) = next - 1;
			buffer->data_len = buffer->pkt_len = packet->record->length;
			rte_sched_port_pkt_write(port, buffer, 0, user, RTE_SCHED_TRAFFIC_CLASS_BE, 0, RTE_COLOR_GREEN);
			in[came++] = buffer;
		}
		if (came > 0)
			held += rte_sched_port_enqueue(port, in, came);
		most_held = RTE_MAX(most_held, held);
		int went = rte_sched_port_dequeue(port, out, BATCH);

		for (int n = 0; n < went; n++)
			packets[*(uint64_t *)rte_mbuf_to_priv(out[n])].left = RTE_MAX(now, 1ull);
		held -= went;
		sent += went;
		if (went > 0)
			rte_pktmbuf_free_bulk(out, went);
	}
	trap_tsc(0);
	write_capture(argv[2], packets, count);
	printf("replayed %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", count, sent, most_held);
	return 0;
}
