// SPDX-License-Identifier: Apache-2.0
#include "engine/discovery/discovery.h"

#include "base/clock.h"
#include "metrics/write.h"

void discovery_stats_refreshed(struct discovery_refreshes *r, int64_t begun_ns, bool failed)
{
    if (!r)
        return;
    r->count++;
    r->failures += failed;
    r->seconds += (double)(gs_mono_ns() - begun_ns) / 1e9;
}

static void write_refresh_counter(struct gs_buf *out, const char *name, const char *help,
                                  double value)
{
    metrics_write_family(out, name, METRICS_COUNTER, help);
    metrics_write_sample(out, name, NULL, 0, value);
}

static void by_mechanism(struct gs_buf *out, const char *name, const char *mechanism, double value)
{
    struct metrics_label l = {GS_SLICE("mechanism"), gs_slice_of(mechanism)};
    metrics_write_sample(out, name, &l, 1, value);
}

void discovery_stats_write(const struct discovery_stats *s, struct gs_buf *out)
{
    static const char failures[] = "prometheus_sd_refresh_failures_total";
    static const char duration[] = "prometheus_sd_refresh_duration_seconds";
    const struct {
        const char *name;
        const struct discovery_refreshes *r;
    } mechanisms[] = {{"dns", &s->dns}, {"http", &s->http}};
    write_refresh_counter(out, "prometheus_sd_http_failures_total",
                          "Number of HTTP service discovery refresh failures.",
                          (double)s->http.failures);
    write_refresh_counter(out, "prometheus_sd_dns_lookups_total", "The number of DNS-SD lookups.",
                          (double)s->dns_lookups);
    write_refresh_counter(out, "prometheus_sd_dns_lookup_failures_total",
                          "The number of DNS-SD lookup failures.", (double)s->dns_lookup_failures);
    metrics_write_family(out, failures, METRICS_COUNTER,
                         "Number of refresh failures for the given SD mechanism.");
    for (size_t i = 0; i < GS_ARRAY_LEN(mechanisms); i++)
        by_mechanism(out, failures, mechanisms[i].name, (double)mechanisms[i].r->failures);
    metrics_write_family(out, duration, METRICS_SUMMARY,
                         "The duration of a refresh in seconds for the given SD mechanism.");
    for (size_t i = 0; i < GS_ARRAY_LEN(mechanisms); i++) {
        const struct discovery_refreshes *r = mechanisms[i].r;
        by_mechanism(out, "prometheus_sd_refresh_duration_seconds_sum", mechanisms[i].name,
                     r->seconds);
        by_mechanism(out, "prometheus_sd_refresh_duration_seconds_count", mechanisms[i].name,
                     (double)r->count);
    }
}
