// SPDX-License-Identifier: Apache-2.0
// Stores the state of Kubernetes objects as a scrape of a target would: the same ingestion, with
// staleness markers for series that end.
#include "engine/state_metrics/state_metrics.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "engine/scrape/scrape.h"
#include "metrics/write.h"

enum { DEFAULT_INTERVAL_MS = 1000 };

struct state_metrics_feed {
    struct state_metrics *state;
    struct engine_config_scrape_config cfg;
    struct tsdb *db;
    struct scrape_ingest *ingest; // NULL: hidden
    struct gs_timer *timer;
    bool failing; // the last state was not stored
};

static void on_feed_timer(void *arg)
{
    struct state_metrics_feed *f = arg;
    if (!f->ingest || !state_metrics_ready(f->state))
        return;
    int64_t begun = gs_mono_ns(), t_ms = scrape_ingest_time(f->ingest, gs_unix_ms());
    struct gs_slice text = state_metrics_text(f->state);
    double seconds = (double)(gs_mono_ns() - begun) / 1e9;
    struct gs_error *err = scrape_ingest_text(f->ingest, text, NULL, t_ms, seconds);
    if (err && !f->failing)
        gs_warn("kube-state", "the series of Kubernetes objects are not stored: %s",
                gs_error_message(err));
    else if (!err && f->failing)
        gs_info("kube-state", "the series of Kubernetes objects are stored again");
    f->failing = err != NULL;
    gs_error_free(err);
}

static struct scrape_ingest *new_ingest(struct state_metrics_feed *f)
{
    static const struct metrics_label labels[] = {
        {GS_SLICE("instance"), GS_SLICE(STATE_METRICS_INSTANCE)},
        {GS_SLICE("job"), GS_SLICE("kube-state-metrics")},
    };
    return scrape_ingest_new(f->db, &f->cfg, labels, GS_ARRAY_LEN(labels));
}

void state_metrics_feed_hide(struct state_metrics_feed *f, bool hidden)
{
    if (hidden && f->ingest) {
        scrape_ingest_end(f->ingest, scrape_ingest_time(f->ingest, gs_unix_ms()));
        scrape_ingest_free(GS_TAKE(f->ingest));
    } else if (!hidden && !f->ingest) {
        f->ingest = new_ingest(f);
    }
}

struct gs_error *state_metrics_feed_new(uv_loop_t *loop, struct tsdb *db,
                                        struct kube_client *client,
                                        const struct state_metrics_feed_config *cfg,
                                        struct state_metrics_feed **ret)
{
    struct state_metrics *state;
    struct gs_error *err = state_metrics_new(loop, client, &cfg->state, &state);
    if (err)
        return err;
    uint64_t interval = (uint64_t)(cfg->interval_ms ? cfg->interval_ms : DEFAULT_INTERVAL_MS);
    struct state_metrics_feed *f = gs_alloc(sizeof(*f));
    f->state = state;
    f->cfg = (struct engine_config_scrape_config){.job_name = "kube-state-metrics",
                                                  .honor_labels = true};
    f->db = db;
    f->ingest = new_ingest(f);
    f->timer = gs_timer_new(loop, f);
    gs_timer_repeat(f->timer, on_feed_timer, interval, interval);
    *ret = f;
    return NULL;
}

void state_metrics_feed_write_metrics(const struct state_metrics_feed *f, struct gs_buf *out)
{
    static const char name[] = "gpuscale_kube_state_incomplete_objects";
    metrics_write_family(out, name, METRICS_GAUGE,
                         "Kubernetes objects whose series are shortened to the limits of one "
                         "object.");
    metrics_write_sample(out, name, NULL, 0, (double)state_metrics_incomplete_objects(f->state));
}

struct gs_slice state_metrics_feed_text(struct state_metrics_feed *f)
{
    return state_metrics_ready(f->state) ? state_metrics_text(f->state) : gs_slice_make("", 0);
}

void state_metrics_feed_free(struct state_metrics_feed *f)
{
    if (!f)
        return;
    gs_timer_free(f->timer);
    scrape_ingest_free(f->ingest);
    state_metrics_free(f->state);
    free(f);
}
