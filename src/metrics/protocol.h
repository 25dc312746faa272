// SPDX-License-Identifier: Apache-2.0
// What a scraper asks targets for: Prometheus' scrape_protocols as an Accept header.
#pragma once

#include "metrics/write.h"

enum metrics_protocol {
    METRICS_OPENMETRICS_1_0_0,
    METRICS_OPENMETRICS_0_0_1,
    METRICS_TEXT_1_0_0,
    METRICS_TEXT_0_0_4,
    METRICS_PROTOBUF, // known by name; not read here, so never asked for
};
#define METRICS_N_PROTOCOLS 5

bool metrics_protocol_of(const char *name, enum metrics_protocol *ret); // "PrometheusText0.0.4"
// Prometheus' header for protocols in the order of preference, at most METRICS_N_PROTOCOLS.
// escaping goes to those that have names of any UTF-8.
void metrics_accept(const enum metrics_protocol *wanted, size_t n, enum metrics_escaping escaping,
                    struct gs_buf *out);
