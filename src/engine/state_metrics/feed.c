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

// In large clusters, the state is written in turns, so that scrapes are not late, and stored less
// often: writing and storing it takes at most one part of these of the time.
#define TURN_NS  (20 * GS_NS_PER_MS)
#define PAUSE_MS 1 // between two turns
#define SHARE    10

struct state_metrics_feed {
    struct state_metrics *state;
    struct engine_config_scrape_config cfg;
    struct tsdb *db;
    struct scrape_ingest *ingest; // NULL: hidden
    struct gs_timer *timer, *turn_timer;
    int64_t spent_ns; // for the next state
    int64_t next_ns;  // not before, monotonic
    bool failing;     // the last state was not stored
};

static void store(struct state_metrics_feed *f)
{
    int64_t t_ms = scrape_ingest_time(f->ingest, gs_unix_ms());
    struct gs_error *err = scrape_ingest_text(f->ingest, state_metrics_written(f->state), NULL,
                                              t_ms, (double)f->spent_ns / 1e9);
    if (err && !f->failing)
        gs_warn("kube-state", "the series of Kubernetes objects are not stored: %s",
                gs_error_message(err));
    else if (!err && f->failing)
        gs_info("kube-state", "the series of Kubernetes objects are stored again");
    f->failing = err != NULL;
    gs_error_free(err);
}

static void write_state(void *arg)
{
    struct state_metrics_feed *f = arg;
    int64_t begun = gs_mono_ns();
    if (!f->ingest || !state_metrics_ready(f->state))
        return;
    bool complete = state_metrics_write(f->state, TURN_NS);
    f->spent_ns += gs_mono_ns() - begun;
    if (!complete) {
        gs_timer_start(f->turn_timer, write_state, PAUSE_MS);
        return;
    }
    begun = gs_mono_ns();
    store(f);
    int64_t now = gs_mono_ns();
    f->next_ns = now + (f->spent_ns + now - begun) * (SHARE - 1);
    f->spent_ns = 0;
}

static void on_feed_timer(void *arg)
{
    struct state_metrics_feed *f = arg;
    if (!gs_timer_is_active(f->turn_timer) && gs_mono_ns() >= f->next_ns)
        write_state(f);
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
    f->turn_timer = gs_timer_new(loop, f);
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
    gs_timer_free(f->turn_timer);
    scrape_ingest_free(f->ingest);
    state_metrics_free(f->state);
    free(f);
}
