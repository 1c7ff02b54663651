/* SPDX-License-Identifier: Apache-2.0
 *
 * DPDK's rte_fib6 (its trie) alone, to be measured beside Weir's table:
 *
 *   cc -O3 rte-fib6.c $(pkg-config --cflags --libs libdpdk) -o rte-fib6
 *   rte-fib6 EAL-OPTIONS -- PREFIXES NEXT-HOPS ADDRESSES
 *
 * PREFIXES has a line ADDRESS/LENGTH for each prefix; the n-th, from 0, leads to the next hop 1 + n % NEXT-HOPS. ADDRESSES holds
 * the addresses to look up, 16 bytes each as they are sent. Says "ready PREFIXES ADDRESSES SUM", where SUM is that of all
 * next hops found; then, for each number N that it is given on a line, looks all of them up N times, 64 addresses at a time, and
 * says "cycles TSC-CYCLES".
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_fib6.h>
#include <rte_memory.h>

#define BATCH 64

static void
fail(const char *what, const char *why)
{
	fprintf(stderr, "rte-fib6: %s: %s\n", what, why);
	exit(1);
}

static FILE *
open_file(const char *path)
{
	FILE *file = fopen(path, "rb");

	if (file == NULL)
		fail(path, "cannot be opened");
	return file;
}

static uint32_t
add_prefixes(struct rte_fib6 *fib, const char *path, uint32_t next_hops)
{
	char text[INET6_ADDRSTRLEN];
	uint8_t address[RTE_FIB6_IPV6_ADDR_SIZE];
	unsigned int length;
	uint32_t count = 0;
	FILE *file = open_file(path);

	while (fscanf(file, "%45[0-9a-f:.]/%u\n", text, &length) == 2) {
		if (inet_pton(AF_INET6, text, address) != 1)
			fail(text, "is no address");
		int wrong = rte_fib6_add(fib, address, length, 1 + count % next_hops);

		if (wrong != 0)
			fail("rte_fib6_add", rte_strerror(-wrong));
		count++;
	}
	fclose(file);
	return count;
}

static uint32_t
count_lines(const char *path)
{
	uint32_t lines = 0;
	FILE *file = open_file(path);

	for (int c = getc(file); c != EOF; c = getc(file))
		lines += c == '\n';
	fclose(file);
	return lines;
}

static uint8_t (*
read_addresses(const char *path, uint32_t *count))[RTE_FIB6_IPV6_ADDR_SIZE]
{
	FILE *file = open_file(path);

	if (fseek(file, 0, SEEK_END) != 0)
		fail(path, "has no end");
	*count = ftell(file) / RTE_FIB6_IPV6_ADDR_SIZE / BATCH * BATCH;
	rewind(file);
	uint8_t (*addresses)[RTE_FIB6_IPV6_ADDR_SIZE] = calloc(*count + BATCH, sizeof(*addresses));
	if (addresses == NULL || fread(addresses, sizeof(*addresses), *count, file) != *count)
		fail(path, "cannot be read");
	fclose(file);
	return addresses;
}

int
main(int argc, char **argv)
{
	int used = rte_eal_init(argc, argv);

	if (used < 0 || argc - used != 4)
		fail("usage", "rte-fib6 EAL-OPTIONS -- PREFIXES NEXT-HOPS ADDRESSES");
	argv += used;
	uint32_t next_hops = strtoul(argv[2], NULL, 10), count = 0;
	if (next_hops == 0)
		fail(argv[2], "must be a number of next hops");
	struct rte_fib6_conf conf = {
		.type = RTE_FIB6_TRIE,
		.default_nh = 0,
		.max_routes = count_lines(argv[1]) + 1,
		.trie = { .nh_sz = RTE_FIB6_TRIE_4B, /* It keeps room for each prefix as if it shared none. */ .num_tbl8 = 1 << 20 },
	};
	struct rte_fib6 *fib = rte_fib6_create("peer", SOCKET_ID_ANY, &conf);
	if (fib == NULL)
		fail("rte_fib6_create", rte_strerror(rte_errno));
	uint32_t prefixes = add_prefixes(fib, argv[1], next_hops);
	uint8_t (*addresses)[RTE_FIB6_IPV6_ADDR_SIZE] = read_addresses(argv[3], &count);
	uint64_t found[BATCH], sum = 0;

	for (uint32_t at = 0; at < count; at += BATCH) {
		rte_fib6_lookup_bulk(fib, addresses + at, found, BATCH);
		for (int i = 0; i < BATCH; i++)
			sum += found[i];
	}
	printf("ready %" PRIu32 " %" PRIu32 " %" PRIu64 "\n", prefixes, count, sum);
	fflush(stdout);
	for (char line[32]; fgets(line, sizeof(line), stdin) != NULL; ) {
		unsigned long passes = strtoul(line, NULL, 10);
		uint64_t began = rte_rdtsc();

		for (; passes > 0; passes--) {
			for (uint32_t at = 0; at < count; at += BATCH) {
				rte_fib6_lookup_bulk(fib, addresses + at, found, BATCH);
				/* What is found must be there, and nothing more. */
				__asm__ volatile("" : : "r"(found) : "memory");
			}
		}
		printf("cycles %" PRIu64 "\n", rte_rdtsc() - began);
		fflush(stdout);
	}
	return 0;
}
