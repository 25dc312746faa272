// SPDX-License-Identifier: Apache-2.0
// The starts of a workload by image and GPU model: which group a pod belongs to, and its sample,
// which can be corrected as long as it is among the last ones.
#include "startup/startup_private.h"

#include "base/assert.h"

#include <string.h>

size_t startup_ring_len(const struct startup_ring *r)
{
    return r->count < STARTUP_RING ? (size_t)r->count : STARTUP_RING;
}

// --- groups ---

static void free_group(struct startup_group *g)
{
    free(g->image);
    free(g->digest);
    free(g->gpu);
    free(g);
}

void startup_workload_free(void *arg)
{
    struct startup_workload *w = arg;
    for (size_t i = 0; i < w->n; i++)
        free_group(w->groups[i]);
    free(w);
}

char *startup_workload_key(const char *ns, const char *workload)
{
    return gs_format("%s %s", ns ? ns : "", workload);
}

struct startup_workload *startup_workload_of(const struct startup_learner *l, const char *workload)
{
    return workload ? gs_hmap_get_str(l->workloads, workload) : NULL;
}

static bool is_any(const char *wanted, const char *have)
{
    return !*wanted || !*have || strcmp(wanted, have) == 0;
}

struct startup_group *startup_group_find(const struct startup_learner *l, const char *workload,
                                         const char *image, const char *digest, const char *gpu)
{
    const struct startup_workload *w = startup_workload_of(l, workload);
    struct startup_group *found = NULL;
    for (size_t i = 0; w && i < w->n; i++) {
        struct startup_group *g = w->groups[i];
        if ((!image || strcmp(g->image, image) == 0) && is_any(digest, g->digest) &&
            is_any(gpu, g->gpu) && (!found || g->used > found->used))
            found = g;
    }
    return found;
}

static struct startup_group *new_group(struct startup_workload *w, const struct startup_record *r)
{
    struct startup_group *g = gs_alloc(sizeof(*g));
    size_t oldest = 0;
    g->image = gs_strdup(r->image);
    g->digest = gs_strdup(r->digest);
    g->gpu = gs_strdup(r->gpu);
    if (w->n < STARTUP_GROUPS)
        return w->groups[w->n++] = g;
    for (size_t i = 1; i < w->n; i++)
        if (w->groups[i]->used < w->groups[oldest]->used)
            oldest = i;
    free_group(w->groups[oldest]);
    return w->groups[oldest] = g;
}

void startup_replace(char **text, const char *with)
{
    if (*text && strcmp(*text, with) == 0)
        return;
    free(*text);
    *text = gs_strdup(with);
}

static void mark_workloads(const struct startup_learner *l)
{
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(l->workloads, &pos, &key, &value))
        ((struct startup_workload *)value)->has_pods = false;
    pos = 0;
    while (gs_hmap_next(l->pods, &pos, &key, &value)) {
        const struct startup_record *r = value;
        struct startup_workload *w = startup_workload_of(l, r->workload);
        if (w)
            w->has_pods = true;
    }
}

static uint64_t last_use(const struct startup_workload *w)
{
    uint64_t last = 0;
    for (size_t i = 0; i < w->n; i++)
        last = w->groups[i]->used > last ? w->groups[i]->used : last;
    return last;
}

// Each Job is a workload of its own that is never seen again. False: all workloads have pods.
static bool forget_workload(struct startup_learner *l)
{
    struct startup_workload *oldest = NULL;
    struct gs_slice key, oldest_key = {0};
    size_t pos = 0;
    void *value;
    mark_workloads(l);
    while (gs_hmap_next(l->workloads, &pos, &key, &value)) {
        struct startup_workload *w = value;
        if (w->has_pods || (oldest && last_use(w) >= last_use(oldest)))
            continue;
        oldest = w;
        oldest_key = key;
    }
    if (!oldest)
        return false;
    gs_hmap_remove(l->workloads, oldest_key);
    startup_workload_free(oldest);
    return true;
}

struct startup_group *startup_group_make(struct startup_learner *l, const struct startup_record *r)
{
    struct startup_workload *w = startup_workload_of(l, r->workload);
    if (!w && gs_hmap_len(l->workloads) >= STARTUP_WORKLOADS && !forget_workload(l))
        return NULL;
    if (!w) {
        w = gs_alloc(sizeof(*w));
        gs_hmap_put_str(l->workloads, r->workload, w);
    }
    struct startup_group *g = startup_group_find(l, r->workload, r->image, r->digest, r->gpu);
    if (!g)
        g = new_group(w, r);
    if (!*g->digest)
        startup_replace(&g->digest, r->digest);
    if (!*g->gpu)
        startup_replace(&g->gpu, r->gpu);
    g->used = ++l->uses;
    return g;
}

static struct startup_group *known_group(const struct startup_learner *l,
                                         const struct startup_record *r)
{
    return r->workload ? startup_group_find(l, r->workload, r->image, r->digest, r->gpu) : NULL;
}

// --- samples ---

struct startup_path startup_path_of(const struct startup_record *r)
{
    return (struct startup_path){r->ordered || (r->node_is_newer && r->scheduled), r->image_from};
}

int64_t startup_serving(const struct startup_learner *l, const struct startup_record *r)
{
    const struct startup_group *g = known_group(l, r);
    if (!r->ready || (g && g->has_engine && !r->engine && !r->was_ready))
        return 0;
    return r->engine > r->ready && !r->was_ready ? r->engine : r->ready;
}

// Where the wait for the scheduler ends and that for a node begins.
static int64_t pending_end(const struct startup_record *r, bool node_to_come)
{
    int64_t at = r->ordered ? r->ordered : r->unschedulable ? r->unschedulable : r->created;
    if (!node_to_come || at > r->scheduled)
        return r->scheduled;
    return at < r->created ? r->created : at;
}

static int64_t pull_time(const struct startup_record *r)
{
    int64_t most = r->started - r->scheduled;
    if (r->image_from == STARTUP_IMAGE_PRESENT)
        return 0;
    if (r->image_from == STARTUP_IMAGE_UNKNOWN || !r->pull_ms)
        return STARTUP_UNKNOWN;
    return r->pull_ms < most ? r->pull_ms : most;
}

bool startup_sample_of(const struct startup_record *r, int64_t serving, struct startup_sample *ret)
{
    struct startup_path path = startup_path_of(r);
    int64_t pull = pull_time(r), node = pending_end(r, path.node_to_come);
    if (!r->created || !r->started || r->created > r->scheduled || r->scheduled > r->started ||
        r->started > serving || serving - r->created > STARTUP_MAX_MS)
        return false;
    *ret = (struct startup_sample){.path = path, .total_ms = serving - r->created};
    ret->ms[STARTUP_PENDING] = node - r->created;
    ret->ms[STARTUP_NODE] = r->scheduled - node;
    ret->ms[STARTUP_PULL] = pull;
    ret->ms[STARTUP_CONTAINER] = r->started - r->scheduled - (pull > 0 ? pull : 0);
    ret->ms[STARTUP_LOAD] = serving - r->started;
    return true;
}

void startup_append(struct startup_ring *ring, const struct startup_sample *s)
{
    ring->items[ring->count % STARTUP_RING] = *s;
    ring->count++;
}

void startup_store(struct startup_learner *l, struct startup_record *r,
                   const struct startup_sample *s)
{
    struct startup_group *g = startup_group_make(l, r);
    r->ended = true;
    if (!g)
        return;
    r->sequence = g->ring.count;
    r->stored = true;
    startup_append(&g->ring, s);
    startup_append(&l->others, s);
}

void startup_replace_ring(struct startup_learner *l, struct startup_group *g,
                          const struct startup_ring *ring)
{
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    gs_assert(g);
    while (gs_hmap_next(l->pods, &pos, &key, &value)) {
        struct startup_record *r = value;
        r->stored = r->stored && known_group(l, r) != g;
    }
    g->ring = *ring;
}

void startup_correct(struct startup_learner *l, struct startup_record *r)
{
    struct startup_group *g = known_group(l, r);
    struct startup_sample s;
    if (r->stored && !r->failed && g && r->sequence < g->ring.count &&
        g->ring.count - r->sequence <= STARTUP_RING &&
        startup_sample_of(r, startup_serving(l, r), &s))
        g->ring.items[r->sequence % STARTUP_RING] = s;
}

void startup_fail(struct startup_learner *l, struct startup_record *r)
{
    const struct startup_sample s = {.path = startup_path_of(r), .failed = true};
    if (r->ended || r->failed)
        return;
    r->failed = true;
    startup_store(l, r, &s);
}
