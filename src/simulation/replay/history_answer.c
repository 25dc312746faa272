// SPDX-License-Identifier: Apache-2.0
// The result of two runs on recorded history as JSON.
#include "base/clock.h"
#include "replay/history.h"
#include "replay/history_private.h"

#include <math.h>

#define HOUR_S 3600.0

static void add_hours(const struct replay_history *h, double replica_hours, json_t *out)
{
    json_object_set_new(out, "replicaHours", json_real(replica_hours));
    if (h->gpus)
        json_object_set_new(out, "gpuHours", json_real(replica_hours * (double)h->gpus));
}

static json_t *recorded_json(const struct replay_history *h)
{
    double seconds = 0, most = 0;
    for (size_t i = 1; i < h->replicas.n; i++) {
        const struct replay_curve_point *a = &h->replicas.points[i - 1], *b = a + 1;
        if (a->t_ms < 0 || b->t_ms > h->duration_ms)
            continue;
        seconds += (a->v + b->v) / 2 * (double)(b->t_ms - a->t_ms) / 1000;
        most = fmax(most, fmax(a->v, b->v));
    }
    json_t *out = json_object();
    add_hours(h, seconds / HOUR_S, out);
    json_object_set_new(out, "meanReplicas", json_real(seconds / ((double)h->duration_ms / 1000)));
    codec_json_set_int(out, "maxReplicas", llround(most));
    return out;
}

// The wanted replicas: [Unix seconds, count] of each change.
static json_t *changes_json(const struct replay_history *h, const struct replay_history_side *r)
{
    json_t *out = json_array();
    int32_t last = -1;
    for (size_t i = 0; i < r->result.n && json_array_size(out) < REPLAY_HISTORY_SAMPLES; i++) {
        const struct replay_row *row = &r->result.rows[i];
        if (row->desired == last)
            continue;
        last = row->desired;
        json_array_append_new(
            out, json_pack("[f, i]", (double)(h->start_ms + row->t_ms) / 1000, (int)row->desired));
    }
    return out;
}

static void add_latencies(const struct replay_history *h, const struct replay_summary *u,
                          json_t *out)
{
    if (*replay_history_engines_goal(h))
        json_object_set_new(out, "withinPercent", json_real(u->within_percent));
    json_object_set_new(out, "ttftP90Seconds", json_real(u->ttft_p90_s));
    json_object_set_new(out, "itlP90Seconds", json_real(u->itl_p90_s));
    codec_json_set_int(out, "requests", llround(u->requests));
}

static json_t *run_json(const struct replay_history *h, const struct replay_history_side *r)
{
    const struct replay_summary *u = &r->result.summary;
    json_t *out = json_object();
    add_hours(h, u->gpu_hours, out);
    json_object_set_new(out, "meanReplicas", json_real(u->mean_replicas));
    codec_json_set_int(out, "maxReplicas", u->max_replicas);
    codec_json_set_int(out, "scaleUps", (int64_t)u->ups);
    codec_json_set_int(out, "scaleDowns", (int64_t)u->downs);
    if (!h->engines)
        json_object_set_new(out, "aboveTargetSeconds", json_real(r->above_s));
    else
        add_latencies(h, u, out);
    if (h->queue || h->engines)
        json_object_set_new(out, "waitingSeconds", json_real(u->over_level_s));
    json_object_set_new(out, "replicas", changes_json(h, r));
    return out;
}

static json_t *assumptions_json(const struct replay_history *h)
{
    json_t *out = json_array();
    size_t full = 0;
    bool outside = false;
    for (size_t i = 0; i < h->spec.n_metrics; i++)
        outside = outside || (!replay_history_is_of_pods(&h->spec.metrics[i]) &&
                              !h->spec.metrics[i].has_average_value);
    if (h->engines)
        replay_history_engines_assume(h, out);
    else
        json_array_append_new(out, json_string("The load is the recorded average times the ready "
                                               "replicas, and would have been the same."));
    if (h->queue)
        json_array_append_new(out, json_string("A replica serves a utilization of 100 %; "
                                               "further work waits until replicas are free."));
    else if (!h->engines)
        json_array_append_new(out, json_string("The load divides evenly among the replicas; how "
                                               "much a replica can serve is not known."));
    if (outside)
        json_array_append_new(out, json_string("Values of Object and External metrics do not "
                                               "depend on the replicas."));
    json_array_append_new(out, codec_json_strf("A new replica is ready after %g s.",
                                               (double)h->present.s.startup_ms / 1000));
    for (size_t i = 0; h->queue && i < h->values[0].n; i++)
        full += h->values[0].points[i].v >= REPLAY_HISTORY_FULL - 1;
    if (full)
        json_array_append_new(
            out,
            codec_json_strf("The metric was at its maximum in %.0f %% of the samples: the real "
                            "load was higher then.",
                            fmax(1, 100 * (double)full / (double)h->values[0].n)));
    if (h->coverage < 0.99)
        json_array_append_new(out, codec_json_strf("Samples are missing in %.0f %% of the time; "
                                                   "values between are interpolated.",
                                                   100 * (1 - h->coverage)));
    return out;
}

json_t *replay_history_answer(const struct replay_history *h)
{
    char from[GS_RFC3339_SIZE], to[GS_RFC3339_SIZE];
    json_t *out = json_object();
    codec_json_set_str(out, "from", gs_format_rfc3339(h->start_ms, from));
    codec_json_set_str(out, "to", gs_format_rfc3339(h->start_ms + h->duration_ms, to));
    json_object_set_new(out, "seconds", json_real((double)h->duration_ms / 1000));
    json_object_set_new(out, "coverage", json_real(h->coverage));
    codec_json_set_str(out, "model",
                       h->engines ? "engines"
                       : h->queue ? "utilization"
                                  : "division");
    if (h->engines)
        codec_json_set_str(out, "target", replay_history_engines_goal(h));
    json_object_set(out, "settings", h->settings);
    json_object_set_new(out, "recorded", recorded_json(h));
    json_object_set_new(out, "present", run_json(h, &h->present));
    json_object_set_new(out, "changed", run_json(h, &h->changed));
    json_object_set_new(out, "assumptions", assumptions_json(h));
    replay_history_add_summary(out);
    return out;
}
