// SPDX-License-Identifier: Apache-2.0
// Limits the events of a component with the rules of client-go's EventCorrelator: more than ten
// messages for one reason of an object in ten minutes become one combined event, and an object has
// at most 25 events, plus one every five minutes.
#include "kube/kube_private.h"

#include "base/hmap.h"
#include "base/mem.h"

#include <string.h>

#define KNOWN_MAX      4096 // objects, and reasons of objects
#define MESSAGES_MAX   10
#define COMBINE_FOR_MS INT64_C(600000)
#define BURST          25
#define REFILL_MS      INT64_C(300000)

struct similar {
    int64_t last_ms; // time of the newest event; first, because values begin with it (see below)
    size_t n;
    uint64_t messages[MESSAGES_MAX]; // hashes
};

struct bucket {
    int64_t last_ms;
    double tokens;
};

struct kube_event_limit {
    struct gs_hmap *similar, *buckets;
};

struct kube_event_limit *kube_event_limit_new(void)
{
    struct kube_event_limit *l = gs_alloc(sizeof(*l));
    l->similar = gs_hmap_new(free);
    l->buckets = gs_hmap_new(free);
    return l;
}

void kube_event_limit_free(struct kube_event_limit *l)
{
    if (!l)
        return;
    gs_hmap_free(l->similar);
    gs_hmap_free(l->buckets);
    free(l);
}

// A map of values that begin with the time of their last use.
static void drop_oldest(struct gs_hmap *m)
{
    size_t pos = 0;
    struct gs_slice key, oldest = {0};
    void *value;
    int64_t oldest_ms = INT64_MAX;
    while (gs_hmap_next(m, &pos, &key, &value)) {
        int64_t last_ms = *(const int64_t *)value;
        if (last_ms <= oldest_ms) {
            oldest_ms = last_ms;
            oldest = key;
        }
    }
    free(gs_hmap_remove(m, oldest));
}

// *ret_fresh: the value is new and empty.
static void *find_event_group(struct gs_hmap *m, const char *key, size_t size, bool *ret_fresh)
{
    void *value = gs_hmap_get_str(m, key);
    *ret_fresh = !value;
    if (value)
        return value;
    if (gs_hmap_len(m) >= KNOWN_MAX)
        drop_oldest(m);
    value = gs_alloc(size);
    gs_hmap_put_str(m, key, value);
    return value;
}

static bool has_message(const struct similar *s, uint64_t hash)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->messages[i] == hash)
            return true;
    return false;
}

bool kube_event_limit_combine(struct kube_event_limit *l, const char *similar, const char *message,
                              int64_t now_ms)
{
    bool fresh;
    struct similar *s = find_event_group(l->similar, similar, sizeof(*s), &fresh);
    if (!fresh && now_ms - s->last_ms > COMBINE_FOR_MS)
        s->n = 0;
    s->last_ms = now_ms;
    uint64_t hash = gs_hash(message, strlen(message));
    if (!has_message(s, hash))
        s->messages[s->n++] = hash;
    if (s->n < MESSAGES_MAX)
        return false;
    s->n--; // the first nine events are not combined
    return true;
}

bool kube_event_limit_allow(struct kube_event_limit *l, const char *about, int64_t now_ms)
{
    bool fresh;
    struct bucket *b = find_event_group(l->buckets, about, sizeof(*b), &fresh);
    if (fresh)
        b->tokens = BURST;
    else
        b->tokens += (double)(now_ms - b->last_ms) / (double)REFILL_MS;
    if (b->tokens > BURST)
        b->tokens = BURST;
    b->last_ms = now_ms;
    if (b->tokens < 1)
        return false;
    b->tokens--;
    return true;
}
