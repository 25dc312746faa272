// SPDX-License-Identifier: Apache-2.0
// Counters of refreshes, by configuration and by mechanism, with the names of Prometheus. A
// counter lives as long as a discovery of its configuration.
#include "engine/discovery/discovery.h"

#include "base/clock.h"
#include "base/mem.h"
#include "metrics/write.h"

static const double bounds[DISCOVERY_N_BOUNDS] = {0.01, 0.1, 1, 10};

struct discovery_counter {
    struct discovery_counter *next;
    struct discovery_stats *stats;
    const char *mechanism;
    char *config;
    unsigned users;
    struct discovery_refreshes refreshes;
};

struct discovery_counter *discovery_stats_open(struct discovery_stats *stats, const char *mechanism,
                                               const char *config)
{
    struct discovery_counter *c = stats ? stats->counters : NULL;
    if (!stats)
        return NULL;
    while (c && !(gs_streq(c->mechanism, mechanism) && gs_streq(c->config, config ? config : "")))
        c = c->next;
    if (!c) {
        c = gs_alloc(sizeof(*c));
        *c = (struct discovery_counter){.next = stats->counters,
                                        .stats = stats,
                                        .mechanism = mechanism,
                                        .config = gs_strdup(config ? config : "")};
        stats->counters = c;
    }
    c->users++;
    return c;
}

void discovery_stats_close(struct discovery_counter *c)
{
    if (!c || --c->users)
        return;
    struct discovery_counter **at = &c->stats->counters;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    free(c->config);
    free(c);
}

static void count_refresh(struct discovery_refreshes *r, double seconds, bool failed)
{
    r->count++;
    r->failures += failed;
    r->seconds += seconds;
    for (size_t i = 0; i < DISCOVERY_N_BOUNDS; i++)
        r->within[i] += seconds <= bounds[i];
}

void discovery_stats_refreshed(struct discovery_counter *c, int64_t begun_ns, bool failed)
{
    if (!c)
        return;
    double seconds = (double)(gs_mono_ns() - begun_ns) / 1e9;
    bool http = gs_streq(c->mechanism, "http");
    count_refresh(&c->refreshes, seconds, failed);
    count_refresh(http ? &c->stats->http : &c->stats->dns, seconds, failed);
}

static void write_refresh_counter(struct gs_buf *out, const char *name, const char *help,
                                  double value)
{
    metrics_write_family(out, name, METRICS_COUNTER, help);
    metrics_write_sample(out, name, NULL, 0, value);
}

static void by_config(struct gs_buf *out, const char *name, const struct discovery_counter *c,
                      double value)
{
    const struct metrics_label l[] = {{GS_SLICE("config"), gs_slice_of(c->config)},
                                      {GS_SLICE("mechanism"), gs_slice_of(c->mechanism)}};
    metrics_write_sample(out, name, l, GS_ARRAY_LEN(l), value);
}

static void write_histogram(struct gs_buf *out, const char *mechanism,
                            const struct discovery_refreshes *r)
{
    static const char *const texts[] = {"0.01", "0.1", "1", "10", "+Inf"};
    struct metrics_label l[] = {{GS_SLICE("mechanism"), gs_slice_of(mechanism)},
                                {GS_SLICE("le"), {0}}};
    if (!r->count)
        return;
    for (size_t i = 0; i <= DISCOVERY_N_BOUNDS; i++) {
        l[1].value = gs_slice_of(texts[i]);
        metrics_write_sample(out, "prometheus_sd_refresh_duration_histogram_seconds_bucket", l, 2,
                             (double)(i < DISCOVERY_N_BOUNDS ? r->within[i] : r->count));
    }
    metrics_write_sample(out, "prometheus_sd_refresh_duration_histogram_seconds_sum", l, 1,
                         r->seconds);
    metrics_write_sample(out, "prometheus_sd_refresh_duration_histogram_seconds_count", l, 1,
                         (double)r->count);
}

// The families by mechanism have no sample until there is a discovery of that kind.
void discovery_stats_write(const struct discovery_stats *s, struct gs_buf *out)
{
    write_refresh_counter(out, "prometheus_sd_http_failures_total",
                          "Number of HTTP service discovery refresh failures.",
                          (double)s->http.failures);
    write_refresh_counter(out, "prometheus_sd_dns_lookups_total", "The number of DNS-SD lookups.",
                          (double)s->dns_lookups);
    write_refresh_counter(out, "prometheus_sd_dns_lookup_failures_total",
                          "The number of DNS-SD lookup failures.", (double)s->dns_lookup_failures);
    metrics_write_family(out, "prometheus_sd_refresh_failures_total", METRICS_COUNTER,
                         "Number of refresh failures for the given SD mechanism.");
    for (const struct discovery_counter *c = s->counters; c; c = c->next)
        by_config(out, "prometheus_sd_refresh_failures_total", c, (double)c->refreshes.failures);
    metrics_write_family(out, "prometheus_sd_refresh_duration_seconds", METRICS_SUMMARY,
                         "The duration of a refresh in seconds for the given SD mechanism.");
    for (const struct discovery_counter *c = s->counters; c; c = c->next) {
        by_config(out, "prometheus_sd_refresh_duration_seconds_sum", c, c->refreshes.seconds);
        by_config(out, "prometheus_sd_refresh_duration_seconds_count", c,
                  (double)c->refreshes.count);
    }
    metrics_write_family(out, "prometheus_sd_refresh_duration_histogram_seconds", METRICS_HISTOGRAM,
                         "The duration of a refresh for the given SD mechanism.");
    write_histogram(out, "dns", &s->dns);
    write_histogram(out, "http", &s->http);
}
