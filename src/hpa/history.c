// SPDX-License-Identifier: Apache-2.0
// What one HPA remembers: recommendations for the stabilisation windows, scale events for the rate
// limits. Slots that are too old are overwritten, the last one found first, as Kubernetes does it;
// the lists are not sorted.
#include "hpa/decide_internal.h"

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
    int32_t seen; // replicas, of hpa_history_seen()
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
    free(h);
}

void hpa_history_shift(struct hpa_history *h, int64_t ms)
{
    struct records *lists[] = {&h->recommendations, &h->ups, &h->downs};
    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
        for (size_t i = 0; i < lists[l]->len; i++)
            lists[l]->items[i].at_ms += ms;
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
    // Without a window not even the count of this pass's beginning is recent.
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

void hpa_history_seen(struct hpa_history *h, const struct hpa_spec *spec, int32_t replicas,
                      int64_t now_ms)
{
    if (h->has_seen)
        hpa_history_scaled(h, spec, h->seen, replicas, now_ms);
    h->has_seen = true;
    h->seen = replicas;
}
