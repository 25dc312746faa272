// SPDX-License-Identifier: Apache-2.0
// The metrics of the activator. A Service has all of them as soon as it is activated: an autoscaler
// at zero replicas reads 0 and not an absent value.
#include "activator/activator_private.h"

#include "base/hmap.h"
#include "kube/object.h"
#include "metrics/write.h"

enum {
    WAITING,
    OLDEST,
    SILENT,
    OPEN,
    ACTIVE,
    ARRIVALS,
    RELEASED,
    WAITED,
    CONNECT_FAILURES,
    N_FAMILIES,
};

static const struct {
    const char *name, *help;
    enum metrics_type type;
} families[N_FAMILIES] = {
    [WAITING] = {"gpuscale_activator_waiting",
                 "Connections with a request that wait for a ready pod.", METRICS_GAUGE},
    [OLDEST] = {"gpuscale_activator_oldest_wait_seconds", "How long the first of them waits.",
                METRICS_GAUGE},
    [SILENT] = {"gpuscale_activator_silent", "Connections that have sent no request yet.",
                METRICS_GAUGE},
    [OPEN] = {"gpuscale_activator_open", "Connections that were held and now have a pod.",
              METRICS_GAUGE},
    [ACTIVE] = {"gpuscale_activator_active",
                "1 while new connections come to the activator, because no pod is ready.",
                METRICS_GAUGE},
    [ARRIVALS] = {"gpuscale_activator_arrivals_total", "Connections with a request.",
                  METRICS_COUNTER},
    [RELEASED] = {"gpuscale_activator_released_total", "Connections that were passed on to a pod.",
                  METRICS_COUNTER},
    [WAITED] = {"gpuscale_activator_waited_seconds_total", "How long these waited, as a sum.",
                METRICS_COUNTER},
    [CONNECT_FAILURES] = {"gpuscale_activator_connect_failures_total",
                          "Failed connections to ready pods, which were tried again.",
                          METRICS_COUNTER},
};

static double value_of(const struct activator_service *s, const struct activator_gate_stats *g,
                       size_t family)
{
    switch (family) {
    case WAITING:
        return (double)g->waiting;
    case OLDEST:
        return (double)g->oldest_ms / 1e3;
    case SILENT:
        return (double)g->silent;
    case OPEN:
        return (double)g->open;
    case ACTIVE:
        return activator_service_ready(s) ? 0 : 1;
    case ARRIVALS:
        return (double)g->arrivals;
    case RELEASED:
        return (double)g->released;
    case WAITED:
        return g->waited_seconds;
    default:
        return (double)g->connect_failures;
    }
}

static void write_sample(const struct activator_service *s, const char *name, const char *reason,
                         double value, struct gs_buf *out)
{
    const json_t *object = activator_service_object(s);
    const struct metrics_label labels[] = {
        {GS_SLICE("namespace"), gs_slice_of(kube_namespace(object))},
        {GS_SLICE("service"), gs_slice_of(kube_name(object))},
        {GS_SLICE("reason"), gs_slice_of(reason)},
    };
    metrics_write_sample(out, name, labels, GS_ARRAY_LEN(labels) - (reason ? 0 : 1), value);
}

static void write_family(const struct activator *a, size_t family, struct gs_buf *out)
{
    const char *name = families[family].name;
    size_t pos = 0;
    void *s;
    metrics_write_family(out, name, families[family].type, families[family].help);
    while (gs_hmap_next(a->items, &pos, NULL, &s)) {
        struct activator_gate_stats g;
        activator_service_stats(s, &g);
        write_sample(s, name, NULL, value_of(s, &g, family), out);
    }
}

static void write_rejected(const struct activator *a, struct gs_buf *out)
{
    const char *name = "gpuscale_activator_rejected_total";
    size_t pos = 0;
    void *s;
    metrics_write_family(out, name, METRICS_COUNTER,
                         "Connections that ended without a pod, by reason.");
    while (gs_hmap_next(a->items, &pos, NULL, &s)) {
        struct activator_gate_stats g;
        activator_service_stats(s, &g);
        for (enum activator_reason r = 0; r < ACTIVATOR_N_REASONS; r++)
            write_sample(s, name, activator_reason_name(r), (double)g.rejected[r], out);
    }
}

void activator_write_metrics(const struct activator *a, struct gs_buf *out)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        write_family(a, i, out);
    write_rejected(a, out);
    metrics_write_single(out, "gpuscale_activator_held_bytes", METRICS_GAUGE,
                         "Bytes that are held for all Services.",
                         (double)(a->env.cfg.max_total_bytes - a->env.budget.left));
}
