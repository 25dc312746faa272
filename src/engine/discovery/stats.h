// SPDX-License-Identifier: Apache-2.0
// What discovery that asks again and again counts, for /metrics. One for all providers of a
// process.
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct sd_refreshes {
    uint64_t count, failures;
    double seconds;
};

struct sd_stats {
    struct sd_refreshes http, dns;
    uint64_t dns_lookups, dns_lookup_failures;
};

// NULL: nobody counts.
void sd_stats_refreshed(struct sd_refreshes *r, int64_t begun_ns, bool failed);
void sd_stats_write(const struct sd_stats *s, struct gs_buf *out);
