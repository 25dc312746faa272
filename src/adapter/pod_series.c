// SPDX-License-Identifier: Apache-2.0
// Serves each series with the labels namespace and pod that no rule serves, and says which of them
// a rule hides, and how many are over the limit.
#include "adapter/adapter_private.h"

#include "adapter/provider/provider.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

enum { MAX_LOGGED = 3 };

static void on_round(void *arg)
{
    adapter_check_pod_series(arg);
}

struct gs_error *adapter_make_pod_series(struct adapter *a)
{
    if (!a->o.pod_series)
        return NULL;
    int64_t window_ms = a->o.pod_series_window_ns / GS_NS_PER_MS, limit = a->o.pod_series_limit;
    GS_AUTO_FREE char *text =
        provider_pod_series_rules(window_ms ? window_ms : PROVIDER_POD_SERIES_WINDOW_MS);
    struct gs_error *err =
        adapter_config_parse(gs_slice_of(text), "(pod series)", &a->pod_series_config);
    if (err)
        return err;
    const struct provider_registry_options o = {.config = a->pod_series_config,
                                                .source = a->source,
                                                .mapper = a->mapper,
                                                .relist_ms = adapter_builtin_relist_ms(a),
                                                .max_age_ms = ADAPTER_ENGINE_MAX_AGE_MS,
                                                .on_round = on_round,
                                                .arg = a,
                                                .names_only = true,
                                                .max_names = limit ? (size_t)limit
                                                                   : PROVIDER_POD_SERIES_NAMES};
    a->pod_series = provider_registry_new(a->loop, &o);
    return NULL;
}

// --- what is not served ---

// Counts metrics of pods for which a rule serves another series. text: receives the first ones.
static size_t count_shadows(const struct adapter *a, struct gs_buf *text)
{
    const struct provider_registry_metric *m;
    size_t n = 0;
    for (size_t i = 0; (m = provider_registry_nth(a->now.registry, false, i)); i++) {
        struct gs_slice series = provider_registry_shadowed(a->pod_series, m);
        if (!series.len || !gs_streq(m->resource, "pods"))
            continue;
        if (n++ < MAX_LOGGED)
            gs_buf_addf(text, "%s" GS_SLICE_FMT " (rule at %s: series " GS_SLICE_FMT ")",
                        text->len ? ", " : "", GS_SLICE_ARG(m->name), m->rule->place,
                        GS_SLICE_ARG(m->series));
    }
    return n;
}

static void log_shadows(struct adapter *a)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    size_t n = count_shadows(a, &text);
    if (!n)
        return;
    a->shadows_logged = true;
    if (n > MAX_LOGGED)
        gs_buf_addf(&text, " and %zu more", n - MAX_LOGGED);
    gs_info("adapter", "series of pods that are not served because a rule serves their name: %s",
            text.data);
}

void adapter_check_pod_series(struct adapter *a)
{
    if (!a->pod_series)
        return;
    size_t left_out = provider_registry_left_out(a->pod_series);
    if (left_out && !a->pod_series_left_out)
        gs_warn("adapter",
                "%zu names of series of pods are over --pod-series-limit and are not served "
                "without a rule",
                left_out);
    a->pod_series_left_out = left_out;
    if (!a->shadows_logged && a->now.registry)
        log_shadows(a);
}

void adapter_write_pod_series_metrics(const struct adapter *a, struct gs_buf *out)
{
    if (!a->pod_series)
        return;
    gs_buf_addf(out,
                "# HELP gpuscale_adapter_pod_series_left_out Names of series of pods over the "
                "limit, which are not served.\n"
                "# TYPE gpuscale_adapter_pod_series_left_out gauge\n"
                "gpuscale_adapter_pod_series_left_out %zu\n",
                provider_registry_left_out(a->pod_series));
}
