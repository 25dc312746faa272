// SPDX-License-Identifier: Apache-2.0
// Expectations and what is coming, as JSON and as short texts.
#include "base/clock.h"
#include "startup/startup_private.h"

#include <stdlib.h>
#include <string.h>

static const char *const bases[] = {
    [STARTUP_BASIS_SAME] = "same path",        [STARTUP_BASIS_PATHS] = "other paths",
    [STARTUP_BASIS_WORKLOAD] = "other images", [STARTUP_BASIS_OTHERS] = "other workloads",
    [STARTUP_BASIS_DEFAULT] = "default",
};

void startup_path_text(struct startup_path path, struct gs_buf *out)
{
    gs_buf_add_str(out, path.node_to_come ? "node to come" : "node free");
    if (path.image == STARTUP_IMAGE_PRESENT)
        gs_buf_add_str(out, ", image present");
    else if (path.image == STARTUP_IMAGE_PULLED)
        gs_buf_add_str(out, ", image pulled");
}

// --- JSON ---

static json_t *seconds(int64_t ms)
{
    return ms % 1000 ? json_real((double)ms / 1000) : json_integer(ms / 1000);
}

static void set_quantiles(json_t *out, const struct startup_quantiles *q)
{
    codec_json_set_int(out, "n", (int64_t)q->n);
    json_object_set_new(out, "p50Seconds", seconds(q->p50_ms));
    json_object_set_new(out, "p90Seconds", seconds(q->p90_ms));
    json_object_set_new(out, "p99Seconds", seconds(q->p99_ms));
}

static json_t *path_json(struct startup_path path)
{
    struct gs_buf text = {0};
    startup_path_text(path, &text);
    json_t *out = json_string(text.data);
    gs_buf_finish(&text);
    return out;
}

static void set_expected(json_t *out, const struct startup_expected *e)
{
    json_t *phases = json_object();
    codec_json_set_str(out, "basis", bases[e->basis]);
    set_quantiles(out, &e->total);
    codec_json_set_int(out, "failed", (int64_t)e->failed);
    for (size_t p = 0; p < STARTUP_PHASES; p++) {
        if (!e->phases[p].n)
            continue;
        json_t *phase = json_object();
        set_quantiles(phase, &e->phases[p]);
        json_object_set_new(phases, startup_phase_name((enum startup_phase)p), phase);
    }
    json_object_set_new(out, "phases", phases);
}

json_t *startup_expected_json(const struct startup_expected *e)
{
    json_t *out = json_object();
    json_object_set_new(out, "path", e->any_path ? json_string("any path") : path_json(e->path));
    set_expected(out, e);
    return out;
}

static bool has_start_on(const struct startup_group *g, struct startup_path path)
{
    for (size_t i = 0; i < startup_ring_len(&g->ring); i++) {
        const struct startup_sample *s = &g->ring.items[i];
        if (!s->failed && s->path.node_to_come == path.node_to_come && s->path.image == path.image)
            return true;
    }
    return false;
}

static void append_paths(const struct startup_learner *l, const struct startup_workload *w,
                         const struct startup_group *g, json_t *out)
{
    for (unsigned i = 0; i < 6; i++) {
        const struct startup_path path = {i >= 3, (enum startup_image)(i % 3)};
        struct startup_expected e;
        if (!has_start_on(g, path))
            continue;
        startup_expected_of_path(l, w, g, path, &e);
        json_t *item = startup_expected_json(&e);
        codec_json_set_str(item, "image", g->image);
        codec_json_set_str(item, "digest", *g->digest ? g->digest : NULL);
        codec_json_set_str(item, "gpu", *g->gpu ? g->gpu : NULL);
        json_array_append_new(out, item);
    }
}

json_t *startup_workload_json(const struct startup_learner *l, const char *ns, const char *workload)
{
    GS_AUTO_FREE char *key = startup_workload_key(ns, workload);
    const struct startup_workload *w = startup_workload_of(l, key);
    json_t *out = json_array();
    for (size_t i = 0; w && i < w->n; i++)
        append_paths(l, w, w->groups[i], out);
    return out;
}

json_t *startup_coming_json(const struct startup_coming *c, int64_t now_ms)
{
    json_t *out = json_object();
    codec_json_set_int(out, "ready", c->ready);
    codec_json_set_int(out, "starting", c->starting);
    codec_json_set_int(out, "settling", c->settling);
    codec_json_set_int(out, "late", c->late);
    codec_json_set_int(out, "unschedulable", c->unschedulable);
    codec_json_set_int(out, "failed", c->failed);
    if (c->start_ms)
        json_object_set_new(out, "startSeconds", seconds(c->start_ms));
    if (c->starting) {
        json_object_set_new(out, "firstSeconds", seconds(c->first_ms - now_ms));
        json_object_set_new(out, "lastSeconds", seconds(c->last_ms - now_ms));
    }
    return out;
}

static int32_t count_in(const json_t *in, const char *name)
{
    int64_t n = codec_json_int(in, 0, name, NULL);
    return n < 0 || n > INT32_MAX ? 0 : (int32_t)n;
}

// 0: absent or out of range.
static int64_t ms_in(const json_t *in, const char *name)
{
    double s = json_number_value(json_object_get(in, name));
    return s > -1e9 && s < 1e9 ? (int64_t)(s * 1000) : 0;
}

bool startup_coming_from_json(const json_t *in, int64_t now_ms, struct startup_coming *ret)
{
    if (!json_is_object(in))
        return false;
    *ret = (struct startup_coming){
        .ready = count_in(in, "ready"),
        .starting = count_in(in, "starting"),
        .late = count_in(in, "late"),
        .unschedulable = count_in(in, "unschedulable"),
        .failed = count_in(in, "failed"),
        .settling = count_in(in, "settling"),
        .start_ms = ms_in(in, "startSeconds"),
    };
    if (ret->starting) {
        ret->first_ms = now_ms + ms_in(in, "firstSeconds");
        ret->last_ms = now_ms + ms_in(in, "lastSeconds");
    }
    return true;
}

// --- text ---

static void add_seconds(const json_t *in, const char *name, struct gs_buf *out)
{
    char text[GS_RFC3339_SIZE];
    int64_t ms = ms_in(in, name);
    gs_buf_add_str(out, gs_format_units((ms > 0 ? ms / 1000 : 0) * GS_NS_PER_SEC, text));
}

static void add_phases(const json_t *phases, struct gs_buf *out)
{
    const char *before = " (";
    for (int p = 0; p < STARTUP_PHASES; p++) {
        const char *name = startup_phase_name((enum startup_phase)p);
        const json_t *phase = json_object_get(phases, name);
        if (ms_in(phase, "p90Seconds") < 500)
            continue;
        gs_buf_addf(out, "%s%s ", before, name);
        add_seconds(phase, "p90Seconds", out);
        before = ", ";
    }
    if (*before == ',')
        gs_buf_add_char(out, ')');
}

static const char *text_in(const json_t *in, const char *name)
{
    const char *text = codec_json_str(in, name, NULL);
    return text ? text : "";
}

void startup_expected_text(const json_t *e, struct gs_buf *out)
{
    int32_t n = count_in(e, "n"), failed = count_in(e, "failed");
    const char *basis = text_in(e, "basis");
    gs_buf_add_str(out, "p90 ");
    add_seconds(e, "p90Seconds", out);
    add_phases(json_object_get(e, "phases"), out);
    gs_buf_addf(out, ", %s", text_in(e, "path"));
    if (n == 0)
        gs_buf_add_str(out, ", a default: no start was observed yet");
    else
        gs_buf_addf(out, ", from %d start%s", n, n == 1 ? "" : "s");
    if (n && strcmp(basis, bases[STARTUP_BASIS_SAME]) != 0)
        gs_buf_addf(out, " (%s)", basis);
    if (failed)
        gs_buf_addf(out, ", %d failed", failed);
}

void startup_coming_text(const json_t *coming, struct gs_buf *out)
{
    static const char *const states[] = {"starting", "late", "unschedulable", "failed"};
    gs_buf_addf(out, "%d ready", count_in(coming, "ready"));
    for (size_t i = 0; i < GS_ARRAY_LEN(states); i++) {
        int32_t n = count_in(coming, states[i]);
        if (n)
            gs_buf_addf(out, ", %d %s", n, states[i]);
        if (n && i == 0) {
            gs_buf_add_str(out, " (the last one serves in ");
            add_seconds(coming, "lastSeconds", out);
            gs_buf_add_char(out, ')');
        }
    }
}
