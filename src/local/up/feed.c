// SPDX-License-Identifier: Apache-2.0
// Stores metrics that parts of this process write, as the kubelet's usage of containers, like
// scrapes; and the rules of metrics.k8s.io for them.
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "engine/scrape/scrape.h"
#include "up/up_private.h"

#define LABELS                                                                                     \
    "    resources: {overrides: {node: {resource: node}, namespace: {resource: namespace}, "       \
    "pod: {resource: pod}}}\n"                                                                     \
    "    containerLabel: container\n"

// The window has several samples and is short enough for a load test of a few minutes. Monitors of
// charts scrape the same values from the kubelet; the operator gives those a metrics_path.
const char up_resource_rules[] =
    "resourceRules:\n"
    "  cpu:\n"
    "    containerQuery: sum by (<<.GroupBy>>) "
    "(rate(container_cpu_usage_seconds_total{metrics_path=\"\",<<.LabelMatchers>>}[15s]))\n"
    "    nodeQuery: sum by (<<.GroupBy>>) "
    "(rate(node_cpu_usage_seconds_total{metrics_path=\"\",<<.LabelMatchers>>}[15s]))\n" LABELS
    "  memory:\n"
    "    containerQuery: sum by (<<.GroupBy>>) "
    "(container_memory_working_set_bytes{metrics_path=\"\",<<.LabelMatchers>>})\n"
    "    nodeQuery: sum by (<<.GroupBy>>) "
    "(node_memory_working_set_bytes{metrics_path=\"\",<<.LabelMatchers>>})\n" LABELS
    "  window: 15s\n";

#define SOON_MS 10 // several changes become one sample

struct up_feed {
    struct up_feed_config cfg;
    struct engine *engine;
    struct engine_config_scrape_config job;
    struct scrape_ingest *ingest;
    struct gs_timer *timer;
};

static void ingest_metrics(void *arg)
{
    struct up_feed *f = arg;
    GS_AUTO_BUF struct gs_buf text = {0};
    int64_t begun = gs_mono_ns(), t_ms = scrape_ingest_time(f->ingest, gs_unix_ms());
    f->cfg.write(f->cfg.arg, &text);
    double seconds = (double)(gs_mono_ns() - begun) / 1e9;
    struct gs_error *err = scrape_ingest_text(f->ingest, gs_buf_slice(&text), NULL, t_ms, seconds);
    if (err)
        gs_warn("up", "the metrics of the %s: %s", f->cfg.job, gs_error_message(err));
    else
        scrape_manager_fed(engine_scrapes(f->engine));
    gs_error_free(err);
}

struct up_feed *up_feed_new(uv_loop_t *loop, struct engine *engine,
                            const struct up_feed_config *cfg)
{
    const struct metrics_label labels[] = {
        {GS_SLICE("instance"), gs_slice_of(cfg->instance)},
        {GS_SLICE("job"), gs_slice_of(cfg->job)},
        {GS_SLICE("node"), gs_slice_of(cfg->instance)},
    };
    struct up_feed *f = gs_alloc(sizeof(*f));
    f->cfg = *cfg;
    f->engine = engine;
    f->job =
        (struct engine_config_scrape_config){.job_name = (char *)cfg->job, .honor_labels = true};
    f->ingest = scrape_ingest_new(engine_tsdb(engine), &f->job, labels,
                                  GS_ARRAY_LEN(labels) - (cfg->of_node ? 0 : 1));
    f->timer = gs_timer_new(loop, f);
    gs_timer_repeat(f->timer, ingest_metrics, 0, (uint64_t)cfg->interval_ms);
    return f;
}

void up_feed_write(struct up_feed *f)
{
    if (gs_timer_due_in(f->timer) > SOON_MS)
        gs_timer_repeat(f->timer, ingest_metrics, SOON_MS, (uint64_t)f->cfg.interval_ms);
}

void up_feed_free(struct up_feed *f)
{
    if (!f)
        return;
    gs_timer_free(f->timer);
    scrape_ingest_free(f->ingest);
    free(f);
}
