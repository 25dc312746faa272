// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "engine/scrape/scrape.h"
#include "up/up_private.h"

enum { INTERVAL_MS = 2000 };

#define LABELS                                                                                     \
    "    resources: {overrides: {node: {resource: node}, namespace: {resource: namespace}, "       \
    "pod: {resource: pod}}}\n"                                                                     \
    "    containerLabel: container\n"

// The window has several samples and is short enough for a load test of a few minutes.
const char up_resource_rules[] =
    "resourceRules:\n"
    "  cpu:\n"
    "    containerQuery: sum by (<<.GroupBy>>) "
    "(rate(container_cpu_usage_seconds_total{<<.LabelMatchers>>}[15s]))\n"
    "    nodeQuery: sum by (<<.GroupBy>>) "
    "(rate(node_cpu_usage_seconds_total{<<.LabelMatchers>>}[15s]))\n" LABELS "  memory:\n"
    "    containerQuery: sum by (<<.GroupBy>>) "
    "(container_memory_working_set_bytes{<<.LabelMatchers>>})\n"
    "    nodeQuery: sum by (<<.GroupBy>>) "
    "(node_memory_working_set_bytes{<<.LabelMatchers>>})\n" LABELS "  window: 15s\n";

struct up_resource_feed {
    struct kubelet *kubelet;
    struct engine_config_scrape_config cfg;
    struct scrape_ingest *ingest;
    struct gs_timer *timer;
};

static void ingest_resource_metrics(void *arg)
{
    struct up_resource_feed *f = arg;
    GS_AUTO_BUF struct gs_buf text = {0};
    int64_t begun = gs_mono_ns(), t_ms = scrape_ingest_time(f->ingest, gs_unix_ms());
    kubelet_write_metrics(f->kubelet, &text);
    double seconds = (double)(gs_mono_ns() - begun) / 1e9;
    struct gs_error *err = scrape_ingest_text(f->ingest, gs_buf_slice(&text), NULL, t_ms, seconds);
    if (err)
        gs_warn("up", "CPU and memory of pods: %s", gs_error_message(err));
    gs_error_free(err);
}

struct up_resource_feed *up_resource_feed_new(uv_loop_t *loop, struct engine *engine,
                                              struct kubelet *kubelet, const char *node_name)
{
    const struct metrics_label labels[] = {
        {GS_SLICE("instance"), gs_slice_of(node_name)},
        {GS_SLICE("job"), GS_SLICE("kubelet")},
        {GS_SLICE("node"), gs_slice_of(node_name)},
    };
    struct up_resource_feed *f = gs_alloc(sizeof(*f));
    f->kubelet = kubelet;
    f->cfg = (struct engine_config_scrape_config){.job_name = "kubelet", .honor_labels = true};
    f->ingest = scrape_ingest_new(engine_tsdb(engine), &f->cfg, labels, GS_ARRAY_LEN(labels));
    f->timer = gs_timer_new(loop, f);
    gs_timer_repeat(f->timer, ingest_resource_metrics, 0, INTERVAL_MS);
    return f;
}

void up_resource_feed_free(struct up_resource_feed *f)
{
    if (!f)
        return;
    gs_timer_free(f->timer);
    scrape_ingest_free(f->ingest);
    free(f);
}
