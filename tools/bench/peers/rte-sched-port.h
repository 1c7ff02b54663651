/* SPDX-License-Identifier: Apache-2.0
 *
 * The port of rte_sched that Weir's scheduler is compared with: 40 Gbit/s, one subport, and pipes that are all alike, with four traffic
 * classes of the thirteen: three of strict priority, and the lowest with four queues. Overhead 24.
 *
 * Comes first in every program about rte_sched.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_sched.h>

#define BATCH 64
#define PORT_RATE (40ull * 1000 * 1000 * 1000 / 8)

static void
fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
	exit(1);
}

/* A port with so many pipes (a power of two). What a pipe may send is also the cap of each of its classes. */
static struct rte_sched_port *
make_port(uint32_t pipes, uint64_t tb_rate, uint64_t tb_size, uint64_t tc_period, uint16_t queue_size)
{
	struct rte_sched_pipe_params pipe = {
		.tb_rate = tb_rate,
		.tb_size = tb_size,
		.tc_period = tc_period,
		.tc_ov_weight = 1,
		.wrr_weights = { 1, 1, 1, 1 },
	};
	struct rte_sched_subport_profile_params whole = { .tb_rate = PORT_RATE, .tb_size = 1000000, .tc_period = 10 };
	struct rte_sched_subport_params subport = {
		.n_pipes_per_subport_enabled = pipes,
		.pipe_profiles = &pipe,
		.n_pipe_profiles = 1,
		.n_max_pipe_profiles = 1,
	};
	/* Three classes of strict priority and the lowest; the other nine have no queues. */
	for (int class = 0; class < RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE; class++) {
		int used = class < 3 || class == RTE_SCHED_TRAFFIC_CLASS_BE;

		subport.qsize[class] = used ? queue_size : 0;
		pipe.tc_rate[class] = used ? pipe.tb_rate : 0;
		whole.tc_rate[class] = PORT_RATE;
	}
	struct rte_sched_port_params params = {
		.name = "port",
		.socket = 0,
		.rate = PORT_RATE,
		.mtu = 1522,
		.frame_overhead = RTE_SCHED_FRAME_OVERHEAD_DEFAULT,
		.n_subports_per_port = 1,
		.subport_profiles = &whole,
		.n_subport_profiles = 1,
		.n_max_subport_profiles = 1,
		.n_pipes_per_subport = pipes,
	};
	struct rte_sched_port *port = rte_sched_port_config(&params);

	if (port == NULL)
		fail("rte_sched_port_config", "refused");
	int wrong = rte_sched_subport_config(port, 0, &subport, 0);
	if (wrong != 0)
		fail("rte_sched_subport_config", rte_strerror(-wrong));
	for (uint32_t n = 0; n < pipes; n++) {
		wrong = rte_sched_pipe_config(port, 0, n, 0);
		if (wrong != 0)
			fail("rte_sched_pipe_config", rte_strerror(-wrong));
	}
	return port;
}
