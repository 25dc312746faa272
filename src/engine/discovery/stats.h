// SPDX-License-Identifier: Apache-2.0
// What discovery that asks again and again counts, for /metrics. One for all providers of a
// process.
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct discovery_refreshes {
    uint64_t count, failures;
    double seconds;
};

struct discovery_stats {
    struct discovery_refreshes http, dns;
    uint64_t dns_lookups, dns_lookup_failures;
};

// NULL: nobody counts.
void discovery_stats_refreshed(struct discovery_refreshes *r, int64_t begun_ns, bool failed);
void discovery_stats_write(const struct discovery_stats *s, struct gs_buf *out);
