// SPDX-License-Identifier: Apache-2.0
// CPU time and memory of running processes, measured and printed as rows of a table.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { USAGE_PIDS = 64 };

// The sum of the usage of some processes.
struct usage {
    double rss_mb, pss_mb, private_mb, cpu_percent;
};

struct usage_group {
    pid_t pids[USAGE_PIDS];
    size_t n;
    int64_t cpu_ns; // at the start of the measurement
};

// Measures the groups for the time and requests /metrics once a second meanwhile (port 0: never).
void usage_measure(struct usage_group *groups, size_t n, int64_t seconds, uint16_t port,
                   struct usage *ret);
void usage_print_header(void);
void usage_print(const char *what, struct usage u, const char *verdict);

// For other measurements: the usage since group.cpu_ns was set.
int64_t usage_cpu_ns(const struct usage_group *g);
struct usage usage_of(const struct usage_group *g, double seconds);
