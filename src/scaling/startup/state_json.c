// SPDX-License-Identifier: Apache-2.0
// The starts that were learned, as JSON, so that they survive a restart. Pods are not part of it:
// they are observed again. The file may have been edited: starts with times out of range are left
// out.
#include "base/slice.h"
#include "startup/startup_private.h"

#include <stdlib.h>
#include <string.h>

enum { SAVED_GROUPS = 500 };

// --- writing ---

static json_t *sample_json(const struct startup_sample *s)
{
    json_t *out = json_array();
    json_array_append_new(out, json_integer(s->path.node_to_come));
    json_array_append_new(out, json_integer(s->path.image));
    json_array_append_new(out, json_integer(s->failed));
    json_array_append_new(out, json_integer(s->total_ms));
    for (size_t p = 0; p < STARTUP_PHASES; p++)
        json_array_append_new(out, json_integer(s->ms[p]));
    return out;
}

static json_t *ring_json(const struct startup_ring *ring)
{
    json_t *out = json_array();
    size_t n = startup_ring_len(ring);
    for (uint64_t at = ring->count - n; at < ring->count; at++)
        json_array_append_new(out, sample_json(&ring->items[at % STARTUP_RING]));
    return out;
}

struct saved {
    const char *workload;
    size_t len;
    const struct startup_group *group;
};

static int by_last_use(const void *a, const void *b)
{
    uint64_t x = ((const struct saved *)a)->group->used, y = ((const struct saved *)b)->group->used;
    return (x < y) - (x > y);
}

// All groups, those that were used last first. The caller frees them.
static struct saved *sorted_groups(const struct startup_learner *l, size_t *ret_n)
{
    struct saved *all =
        gs_alloc_array(gs_hmap_len(l->workloads) * STARTUP_GROUPS + 1, sizeof(*all));
    size_t pos = 0, n = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(l->workloads, &pos, &key, &value)) {
        const struct startup_workload *w = value;
        for (size_t i = 0; i < w->n; i++)
            if (w->groups[i]->ring.count)
                all[n++] = (struct saved){key.data, key.len, w->groups[i]};
    }
    qsort(all, n, sizeof(*all), by_last_use);
    *ret_n = n;
    return all;
}

static json_t *group_json(const struct saved *s)
{
    const struct startup_group *g = s->group;
    json_t *out = json_object();
    json_object_set_new(out, "workload", json_stringn(s->workload, s->len));
    codec_json_set_str(out, "image", g->image);
    codec_json_set_str(out, "digest", g->digest);
    codec_json_set_str(out, "gpu", g->gpu);
    codec_json_set_bool(out, "engine", g->has_engine);
    json_object_set_new(out, "starts", ring_json(&g->ring));
    return out;
}

json_t *startup_learner_json(const struct startup_learner *l, int64_t now_ms)
{
    json_t *out = json_object(), *groups = json_array();
    size_t n;
    GS_AUTO_FREE struct saved *all = sorted_groups(l, &n);
    for (size_t i = 0; i < n && i < SAVED_GROUPS; i++)
        json_array_append_new(groups, group_json(&all[i]));
    codec_json_set_int(out, "savedMs", now_ms);
    json_object_set_new(out, "groups", groups);
    json_object_set_new(out, "others", ring_json(&l->others));
    return out;
}

// --- reading ---

static bool is_time(int64_t ms, int64_t least)
{
    return ms >= least && ms <= STARTUP_MAX_MS;
}

static bool read_sample(const json_t *in, struct startup_sample *ret)
{
    int64_t v[4 + STARTUP_PHASES] = {0};
    for (size_t i = 0; i < GS_ARRAY_LEN(v); i++) {
        const json_t *one = json_array_get(in, i);
        if (!json_is_integer(one))
            return false;
        v[i] = json_integer_value(one);
        if (i >= 4 && !is_time(v[i], STARTUP_UNKNOWN))
            return false;
    }
    bool has_image = v[1] >= STARTUP_IMAGE_UNKNOWN && v[1] <= STARTUP_IMAGE_PULLED;
    if (!has_image || !is_time(v[3], 0))
        return false;
    *ret = (struct startup_sample){
        .path = {v[0] != 0, (enum startup_image)v[1]}, .failed = v[2] != 0, .total_ms = v[3]};
    memcpy(ret->ms, v + 4, sizeof(ret->ms));
    return true;
}

static void read_ring(const json_t *in, struct startup_ring *ring)
{
    for (size_t i = 0; i < json_array_size(in) && i < STARTUP_RING; i++) {
        struct startup_sample s;
        if (read_sample(json_array_get(in, i), &s))
            startup_append(ring, &s);
    }
}

// NULL: absent, or too long.
static const char *name_of(const json_t *in, const char *key)
{
    const char *text = codec_json_str(in, key, NULL);
    return text && strlen(text) < STARTUP_NAME ? text : NULL;
}

static void read_group(struct startup_learner *l, const json_t *in)
{
    struct startup_record r = {.workload = (char *)codec_json_str(in, "workload", NULL),
                               .image = (char *)name_of(in, "image"),
                               .digest = (char *)name_of(in, "digest"),
                               .gpu = (char *)name_of(in, "gpu")};
    if (!r.workload || strlen(r.workload) > 2 * (size_t)STARTUP_NAME || !r.image || !r.digest ||
        !r.gpu)
        return;
    struct startup_group *g = startup_group_make(l, &r);
    struct startup_ring ring = {0};
    if (!g)
        return;
    g->has_engine |= codec_json_bool(in, false, "engine", NULL);
    read_ring(json_object_get(in, "starts"), &ring);
    if (startup_ring_len(&ring) > startup_ring_len(&g->ring))
        startup_replace_ring(l, g, &ring);
}

struct gs_error *startup_learner_restore(struct startup_learner *l, const json_t *in,
                                         int64_t now_ms)
{
    const json_t *groups = json_object_get(in, "groups");
    int64_t saved_ms = codec_json_int(in, 0, "savedMs", NULL);
    if (!json_is_array(groups) || saved_ms <= 0 || saved_ms > now_ms)
        return gs_error_new(GS_EINVAL,
                            "starts that were learned: no list \"groups\", or not of the past");
    // The last used one comes first, so it is read last.
    for (size_t i = json_array_size(groups); i > 0; i--)
        if (i <= SAVED_GROUPS)
            read_group(l, json_array_get(groups, i - 1));
    struct startup_ring others = {0};
    read_ring(json_object_get(in, "others"), &others);
    if (startup_ring_len(&others) > startup_ring_len(&l->others))
        l->others = others;
    l->restored_ms = saved_ms;
    return NULL;
}
