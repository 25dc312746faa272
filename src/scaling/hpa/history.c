// SPDX-License-Identifier: Apache-2.0
// The history of one HPA: recommendations for the stabilization windows, scale events for the rate
// limits. Expired slots are reused; of several, the last one in the list, as in Kubernetes. The
// lists are not sorted.
#include "hpa/hpa_private.h"

#include "base/assert.h"

#include <string.h>

struct record {
    int32_t count; // recommendation, or size of the change
    int64_t at_ms;
};

struct records {
    struct record *items;
    size_t len, cap;
};

struct hpa_history {
    struct records recommendations, ups, downs;
    bool seeded, has_seen;
    int32_t seen;                 // replicas, of hpa_history_observe_replicas()
    struct startup_trend *trends; // of the metrics, for credit
    size_t n_trends;
    struct hpa_failure *failures; // of the metrics, for their fallbacks
    size_t n_failures;
    bool has_read;
};

struct hpa_history *hpa_history_new(void)
{
    return gs_alloc(sizeof(struct hpa_history));
}

void hpa_history_free(struct hpa_history *h)
{
    if (!h)
        return;
    free(h->recommendations.items);
    free(h->ups.items);
    free(h->downs.items);
    free(h->trends);
    free(h->failures);
    free(h);
}

void hpa_history_shift(struct hpa_history *h, int64_t ms)
{
    struct records *lists[] = {&h->recommendations, &h->ups, &h->downs};
    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
        for (size_t i = 0; i < lists[l]->len; i++)
            lists[l]->items[i].at_ms += ms;
    for (size_t i = 0; i < h->n_trends; i++)
        startup_trend_shift(&h->trends[i], ms);
    for (size_t i = 0; i < h->n_failures; i++)
        if (h->failures[i].since_ms)
            h->failures[i].since_ms += ms;
}

static void set_trends(struct hpa_history *h, const struct startup_trend *from, size_t n)
{
    struct startup_trend *copy = n ? gs_alloc_array(n, sizeof(*copy)) : NULL;
    if (n && from)
        memcpy(copy, from, n * sizeof(*copy));
    free(h->trends);
    h->trends = copy;
    h->n_trends = n;
}

struct startup_trend *hpa_history_trend(struct hpa_history *h, size_t n_metrics, size_t metric)
{
    if (h->n_trends != n_metrics)
        set_trends(h, NULL, n_metrics);
    return &h->trends[metric];
}

static void set_failures(struct hpa_history *h, const struct hpa_failure *from, size_t n)
{
    struct hpa_failure *copy = n ? gs_alloc_array(n, sizeof(*copy)) : NULL;
    if (n && from)
        memcpy(copy, from, n * sizeof(*copy));
    free(h->failures);
    h->failures = copy;
    h->n_failures = n;
}

struct hpa_failure *hpa_history_failure(struct hpa_history *h, size_t n_metrics, size_t metric,
                                        uint64_t key)
{
    if (h->n_failures != n_metrics)
        set_failures(h, NULL, n_metrics);
    gs_assert(h->failures && metric < h->n_failures);
    if (h->failures[metric].key != key)
        h->failures[metric] = (struct hpa_failure){.key = key};
    return &h->failures[metric];
}

bool hpa_history_has_read(const struct hpa_history *h)
{
    return h->has_read;
}

void hpa_history_set_read(struct hpa_history *h)
{
    h->has_read = true;
}

static void copy_records(const struct records *from, struct records *ret)
{
    ret->items = gs_realloc_array(NULL, from->len + 1, sizeof(*ret->items));
    ret->len = from->len;
    ret->cap = from->len + 1;
    if (from->len)
        memcpy(ret->items, from->items, from->len * sizeof(*ret->items));
}

struct hpa_history *hpa_history_copy(const struct hpa_history *h)
{
    struct hpa_history *copy = hpa_history_new();
    *copy = *h;
    copy_records(&h->recommendations, &copy->recommendations);
    copy_records(&h->ups, &copy->ups);
    copy_records(&h->downs, &copy->downs);
    copy->trends = NULL;
    set_trends(copy, h->trends, h->n_trends);
    copy->failures = NULL;
    set_failures(copy, h->failures, h->n_failures);
    return copy;
}

#define NO_SLOT SIZE_MAX

static void store(struct records *r, size_t slot, int32_t count, int64_t at_ms)
{
    if (slot == NO_SLOT) {
        gs_grow(&r->items, &r->cap, r->len, sizeof(*r->items));
        slot = r->len++;
    }
    r->items[slot] = (struct record){count, at_ms};
}

void hpa_history_seed(struct hpa_history *h, int32_t current, int64_t now_ms)
{
    if (h->seeded)
        return;
    h->seeded = true;
    store(&h->recommendations, NO_SLOT, current, now_ms);
}

int32_t hpa_history_stabilize(struct hpa_history *h, int32_t proposal, int64_t window_ms,
                              int64_t now_ms)
{
    struct records *r = &h->recommendations;
    // Without a window, even the count at the start of this evaluation is too old.
    int64_t cutoff = window_ms > 0 ? now_ms - window_ms : now_ms + 1;
    int32_t highest = proposal;
    size_t slot = NO_SLOT;
    for (size_t i = 0; i < r->len; i++) {
        if (r->items[i].at_ms < cutoff)
            slot = i;
        else if (r->items[i].count > highest)
            highest = r->items[i].count;
    }
    store(r, slot, proposal, now_ms);
    return highest;
}

void hpa_history_bounds(struct hpa_history *h, int32_t proposal, int64_t up_window_ms,
                        int64_t down_window_ms, int64_t now_ms, int32_t *ret_lowest,
                        int32_t *ret_highest)
{
    struct records *r = &h->recommendations;
    int64_t up_cutoff = now_ms - up_window_ms, down_cutoff = now_ms - down_window_ms;
    int32_t lowest = proposal, highest = proposal;
    size_t slot = NO_SLOT;
    for (size_t i = 0; i < r->len; i++) {
        const struct record *rec = &r->items[i];
        if (rec->at_ms > up_cutoff && rec->count < lowest)
            lowest = rec->count;
        if (rec->at_ms > down_cutoff && rec->count > highest)
            highest = rec->count;
        if (rec->at_ms < up_cutoff && rec->at_ms < down_cutoff)
            slot = i;
    }
    store(r, slot, proposal, now_ms);
    *ret_lowest = lowest;
    *ret_highest = highest;
}

static int64_t changes_within(const struct records *r, int32_t period_seconds, int64_t now_ms)
{
    int64_t cutoff = now_ms - (int64_t)period_seconds * 1000, sum = 0;
    for (size_t i = 0; i < r->len; i++)
        if (r->items[i].at_ms > cutoff)
            sum += r->items[i].count;
    return sum;
}

struct hpa_rates hpa_history_rates(const struct hpa_history *h, int32_t period_seconds,
                                   int64_t now_ms)
{
    return (struct hpa_rates){changes_within(&h->ups, period_seconds, now_ms),
                              changes_within(&h->downs, period_seconds, now_ms)};
}

static int32_t longest_period(const struct hpa_rules *rules)
{
    int32_t longest = 0;
    for (size_t i = 0; i < rules->n_policies; i++)
        if (rules->policies[i].period_seconds > longest)
            longest = rules->policies[i].period_seconds;
    return longest;
}

void hpa_history_scaled(struct hpa_history *h, const struct hpa_spec *spec, int32_t from,
                        int32_t to, int64_t now_ms)
{
    if (!spec->has_behavior || from == to)
        return;
    bool up = to > from;
    struct records *r = up ? &h->ups : &h->downs;
    int64_t cutoff = now_ms - (int64_t)longest_period(up ? &spec->up : &spec->down) * 1000;
    size_t slot = NO_SLOT;
    for (size_t i = 0; i < r->len; i++)
        if (r->items[i].at_ms < cutoff)
            slot = i;
    store(r, slot, hpa_sat32(up ? (int64_t)to - from : (int64_t)from - to), now_ms);
}

void hpa_history_observe_replicas(struct hpa_history *h, const struct hpa_spec *spec,
                                  int32_t replicas, int64_t now_ms)
{
    if (h->has_seen)
        hpa_history_scaled(h, spec, h->seen, replicas, now_ms);
    h->has_seen = true;
    h->seen = replicas;
}

// --- JSON ---
#define MAX_RECORDS ((size_t)100000) // of a list that is read
#define MAX_TRENDS  ((size_t)1000)   // also of failures

static json_t *records_json(const struct records *r, const char *count, int64_t now_ms)
{
    json_t *out = json_array();
    for (size_t i = 0; i < r->len; i++)
        json_array_append_new(out, json_pack("{s:i, s:I}", count, (int)r->items[i].count, "ageMs",
                                             (json_int_t)(now_ms - r->items[i].at_ms)));
    return out;
}

static json_t *trends_json(const struct hpa_history *h, int64_t now_ms)
{
    json_t *out = json_array();
    for (size_t i = 0; i < h->n_trends; i++)
        json_array_append_new(out, startup_trend_json(&h->trends[i], now_ms));
    return out;
}

static void read_trends(const json_t *list, int64_t now_ms, struct hpa_history *h)
{
    size_t n = json_array_size(list);
    if (n > MAX_TRENDS)
        return;
    set_trends(h, NULL, n);
    for (size_t i = 0; i < n; i++)
        h->trends[i] = startup_trend_from_json(json_array_get(list, i), now_ms);
}

static json_t *failures_json(const struct hpa_history *h, int64_t now_ms)
{
    json_t *out = json_array();
    for (size_t i = 0; i < h->n_failures; i++) {
        const struct hpa_failure *f = &h->failures[i];
        json_array_append_new(out,
                              json_pack("{s:I, s:I, s:b}", "metric", (json_int_t)f->key, "ageMs",
                                        (json_int_t)(f->since_ms ? now_ms - f->since_ms : -1),
                                        "active", f->active));
    }
    return out;
}

static void read_failures(const json_t *list, int64_t now_ms, struct hpa_history *h)
{
    size_t n = json_array_size(list);
    if (n > MAX_TRENDS)
        return;
    set_failures(h, NULL, n);
    for (size_t i = 0; i < n; i++) {
        const json_t *f = json_array_get(list, i);
        int64_t age_ms = codec_json_int(f, -1, "ageMs", NULL);
        h->failures[i].key = (uint64_t)codec_json_int(f, 0, "metric", NULL);
        if (age_ms >= 0 && age_ms < now_ms)
            h->failures[i].since_ms = now_ms - age_ms;
        h->failures[i].active = codec_json_bool(f, false, "active", NULL);
    }
}

json_t *hpa_history_json(const struct hpa_history *h, int64_t now_ms)
{
    json_t *out = json_pack("{s:o, s:o, s:o}", "recommendations",
                            records_json(&h->recommendations, "replicas", now_ms), "scaleUps",
                            records_json(&h->ups, "by", now_ms), "scaleDowns",
                            records_json(&h->downs, "by", now_ms));
    if (h->n_trends)
        json_object_set_new(out, "trends", trends_json(h, now_ms));
    if (h->n_failures)
        json_object_set_new(out, "failures", failures_json(h, now_ms));
    return out;
}

static struct gs_error *read_records(const json_t *list, const char *name, const char *count,
                                     int64_t now_ms, struct records *ret)
{
    if (!json_is_array(list) || json_array_size(list) > MAX_RECORDS)
        return gs_error_new(GS_EPROTO, "%s: want a list of at most %zu", name, MAX_RECORDS);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        int64_t n = codec_json_int(entry, -1, count, NULL);
        int64_t age_ms = codec_json_int(entry, INT64_MIN, "ageMs", NULL);
        if (n < 0 || n > INT32_MAX || age_ms < -now_ms || age_ms > now_ms)
            return gs_error_new(GS_EPROTO, "%s: an entry without %s and ageMs", name, count);
        store(ret, NO_SLOT, (int32_t)n, now_ms - age_ms);
    }
    return NULL;
}

struct gs_error *hpa_history_from_json(const json_t *in, int64_t now_ms, struct hpa_history **ret)
{
    struct hpa_history *h = hpa_history_new();
    struct gs_error *err = read_records(json_object_get(in, "recommendations"), "recommendations",
                                        "replicas", now_ms, &h->recommendations);
    if (!err)
        err = read_records(json_object_get(in, "scaleUps"), "scaleUps", "by", now_ms, &h->ups);
    if (!err)
        err =
            read_records(json_object_get(in, "scaleDowns"), "scaleDowns", "by", now_ms, &h->downs);
    if (err) {
        hpa_history_free(h);
        return err;
    }
    read_trends(json_object_get(in, "trends"), now_ms, h);
    read_failures(json_object_get(in, "failures"), now_ms, h);
    h->seeded = h->has_read = h->recommendations.len > 0;
    *ret = h;
    return NULL;
}
