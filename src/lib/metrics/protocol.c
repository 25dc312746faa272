// SPDX-License-Identifier: Apache-2.0
// The exposition formats, and the Accept header that requests them in the order of Prometheus.
#include "metrics/write.h"

#include "base/mem.h"

static const struct {
    const char *name, *type;
    bool any_name; // the version that can have names of any UTF-8
} protocols[METRICS_N_PROTOCOLS] = {
    [METRICS_OPENMETRICS_2_0_0] = {"OpenMetricsText2.0.0", NULL, false},
    [METRICS_OPENMETRICS_1_0_0] = {"OpenMetricsText1.0.0",
                                   "application/openmetrics-text;version=1.0.0", true},
    [METRICS_OPENMETRICS_0_0_1] = {"OpenMetricsText0.0.1",
                                   "application/openmetrics-text;version=0.0.1", false},
    [METRICS_TEXT_1_0_0] = {"PrometheusText1.0.0", "text/plain;version=1.0.0", true},
    [METRICS_TEXT_0_0_4] = {"PrometheusText0.0.4", "text/plain;version=0.0.4", false},
    [METRICS_PROTOBUF] = {"PrometheusProto", NULL, false},
};

bool metrics_protocol_of(const char *name, enum metrics_protocol *ret)
{
    for (size_t i = 0; i < METRICS_N_PROTOCOLS; i++) {
        if (gs_streq(name, protocols[i].name)) {
            *ret = (enum metrics_protocol)i;
            return true;
        }
    }
    return false;
}

// q counts down from 0.7, also for a protocol that is left out: the others have the same values as
// in Prometheus.
void metrics_accept(const enum metrics_protocol *wanted, size_t n, enum metrics_escaping escaping,
                    struct gs_buf *out)
{
    int q = METRICS_N_PROTOCOLS + 1;
    for (size_t i = 0; i < n; i++, q--) {
        if (!protocols[wanted[i]].type)
            continue;
        gs_buf_add_str(out, protocols[wanted[i]].type);
        if (protocols[wanted[i]].any_name)
            gs_buf_addf(out, ";escaping=%s", metrics_escaping_name(escaping));
        gs_buf_addf(out, ";q=0.%d,", q);
    }
    gs_buf_addf(out, "*/*;q=0.%d", q);
}
