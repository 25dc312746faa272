// SPDX-License-Identifier: Apache-2.0
// Watches and the samples that they cause. A thread takes the samples, each series at its own
// interval; a field that nobody watches has none. Series are sorted by entity and field.
#include "dcgmsim/dcgmsim_private.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define E                 (&dcgmsim_engine)
#define SECOND_US         INT64_C(1000000)
#define KEEP_MOST_S       1e6
#define INTERVAL_LEAST_US INT64_C(1000)
#define INTERVAL_MOST_US  (INT64_C(86400) * SECOND_US)

static uint64_t key_of(const struct dcgm_entity_pair *e, unsigned field)
{
    return (uint64_t)(e->group & 0xf) << 48 | (uint64_t)e->id << 16 | (field & 0xffff);
}

static int64_t now_us(void)
{
    return gs_mono_ns() / 1000;
}

static int compare_keys(const void *a, const void *b)
{
    const struct dcgmsim_series *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
}

static struct dcgmsim_series *find(struct dcgmsim_series *all, size_t n, uint64_t key)
{
    struct dcgmsim_series wanted = {.key = key};
    return n ? bsearch(&wanted, all, n, sizeof(*all), compare_keys) : NULL;
}

// Fields of the whole machine have one series, whatever entity they are watched for.
static struct dcgm_entity_pair entity_of(const struct dcgm_entity_pair *e,
                                         const struct dcgm_field *f)
{
    return f->level == DCGM_ENTITY_NONE ? DCGMSIM_PAIR(DCGM_ENTITY_NONE, 0) : *e;
}

const struct dcgmsim_series *dcgmsim_find_series(const struct dcgm_entity_pair *e, unsigned field)
{
    const struct dcgm_field *f = dcgmsim_field(field);
    if (!f)
        return NULL;
    struct dcgm_entity_pair of = entity_of(e, f);
    return find(E->series, E->n_series, key_of(&of, field));
}

// --- the list of series follows from the watches ---

static void add_series(struct dcgmsim_series *all, size_t *n, const struct dcgmsim_watch *w,
                       const struct dcgm_entity_pair *e, unsigned id)
{
    const struct dcgm_field *f = dcgmsim_field(id);
    struct dcgm_entity_pair of = entity_of(e, f);
    all[(*n)++] = (struct dcgmsim_series){.key = key_of(&of, id),
                                          .entity = of,
                                          .field = f,
                                          .interval_us = w->interval_us,
                                          .keep_us = w->keep_us,
                                          .keep_n = w->keep_n};
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// The shortest interval and the longest time of all watches count.
static size_t merge_equal(struct dcgmsim_series *all, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        struct dcgmsim_series *last = kept ? &all[kept - 1] : NULL;
        if (!last || last->key != all[i].key) {
            all[kept++] = all[i];
            continue;
        }
        if (all[i].interval_us < last->interval_us)
            last->interval_us = all[i].interval_us;
        last->keep_us = larger(last->keep_us, all[i].keep_us);
        last->keep_n = (unsigned)larger(last->keep_n, all[i].keep_n);
    }
    return kept;
}

// A series that exists keeps its samples; a new one is due at once.
static void take_over(struct dcgmsim_series *s, int64_t now)
{
    struct dcgmsim_series *old = find(E->series, E->n_series, s->key);
    s->due_us = now;
    if (!old)
        return;
    s->due_us = old->due_us < now + s->interval_us ? old->due_us : now + s->interval_us;
    s->prev = old->prev;
    s->samples = old->samples;
    s->n = old->n;
    s->cap = old->cap;
    old->samples = NULL;
}

static void renew_series(void)
{
    size_t n = 0, most = 0;
    for (unsigned i = 0; i < E->n_watches; i++)
        most += (size_t)E->watches[i]->n_entities * E->watches[i]->n_fields;
    struct dcgmsim_series *all = most ? gs_alloc_array(most, sizeof(*all)) : NULL;
    for (unsigned i = 0; i < E->n_watches; i++)
        for (unsigned e = 0; e < E->watches[i]->n_entities; e++)
            for (unsigned f = 0; f < E->watches[i]->n_fields; f++)
                add_series(all, &n, E->watches[i], &E->watches[i]->entities[e],
                           E->watches[i]->ids[f]);
    if (n)
        qsort(all, n, sizeof(*all), compare_keys);
    n = merge_equal(all, n);
    int64_t now = now_us();
    for (size_t i = 0; i < n; i++)
        take_over(&all[i], now);
    for (size_t i = 0; i < E->n_series; i++)
        free(E->series[i].samples);
    free(E->series);
    E->series = all;
    E->n_series = n;
    pthread_cond_broadcast(&E->wake);
}

// --- watches ---

static void free_watch(unsigned i)
{
    free(E->watches[i]->entities);
    free(E->watches[i]);
    E->watches[i] = E->watches[--E->n_watches];
    E->watches[E->n_watches] = NULL;
}

static bool watches_profiling(void)
{
    for (unsigned i = 0; i < E->n_watches; i++)
        for (unsigned f = 0; f < E->watches[i]->n_fields; f++)
            if (dcgmsim_is_profiling(E->watches[i]->ids[f]))
                return true;
    return false;
}

static void after_removal(void)
{
    renew_series();
    if (!watches_profiling())
        dcgmsim_profiling_stop();
}

static struct dcgmsim_watch *find_watch(unsigned client, uintptr_t group, uintptr_t fields,
                                        unsigned *ret_index)
{
    for (unsigned i = 0; i < E->n_watches; i++) {
        struct dcgmsim_watch *w = E->watches[i];
        if (w->client == client && w->group == group && w->fields == fields) {
            *ret_index = i;
            return w;
        }
    }
    return NULL;
}

// The profiling fields of a watch need the counters of all its GPUs; without them the whole watch
// fails.
static int start_profiling(unsigned client, const struct dcgmsim_group *g,
                           const struct dcgmsim_field_group *f)
{
    bool wanted = false;
    for (unsigned i = 0; i < f->n; i++)
        wanted = wanted || dcgmsim_is_profiling(f->ids[i]);
    for (unsigned i = 0; wanted && i < g->n; i++) {
        unsigned gpu = 0;
        if (!dcgmsim_gpu_of(&g->entities[i], &gpu))
            continue;
        int rc = dcgmsim_profiling_start(gpu, E->clients[client].embedded);
        if (rc)
            return rc;
    }
    return DCGM_OK;
}

static int64_t keep_us(double keep_s)
{
    return (int64_t)((keep_s > KEEP_MOST_S ? KEEP_MOST_S : keep_s) * (double)SECOND_US);
}

static int add_watch(struct dcgmsim_watch *w, const struct dcgmsim_group *g,
                     const struct dcgmsim_field_group *f)
{
    unsigned at = 0;
    if (g->n == 0)
        return DCGM_EMPTY_GROUP;
    int rc = start_profiling(w->client, g, f);
    if (rc)
        return rc;
    if (find_watch(w->client, w->group, w->fields, &at))
        free_watch(at);
    if (E->n_watches == DCGMSIM_WATCHES)
        return DCGM_LIMIT;
    w->n_entities = g->n;
    w->n_fields = f->n;
    memcpy(w->ids, f->ids, sizeof(w->ids));
    struct dcgmsim_watch *kept = gs_alloc(sizeof(*kept));
    *kept = *w;
    kept->entities = gs_alloc_array(g->n, sizeof(*g->entities));
    memcpy(kept->entities, g->entities, g->n * sizeof(*g->entities));
    E->watches[E->n_watches++] = kept;
    renew_series();
    return DCGM_OK;
}

int dcgmsim_watch_add(unsigned client, uintptr_t group, uintptr_t fields, int64_t interval_us,
                      double keep_s, int keep_n)
{
    struct dcgmsim_group scratch = {0};
    const struct dcgmsim_group *g = dcgmsim_find_group(client, group, &scratch);
    const struct dcgmsim_field_group *f = dcgmsim_find_fields(client, fields);
    struct dcgmsim_watch w = {.client = client,
                              .group = group,
                              .fields = fields,
                              .interval_us = interval_us,
                              .keep_us = keep_us(keep_s),
                              .keep_n = keep_n > 0 && keep_n < DCGMSIM_SAMPLES ? (unsigned)keep_n
                                                                               : DCGMSIM_SAMPLES};
    int rc = g && f ? DCGM_OK : DCGM_NOT_CONFIGURED;
    if (!rc && (interval_us < INTERVAL_LEAST_US || interval_us > INTERVAL_MOST_US || keep_n < 0 ||
                !(keep_s >= 0)))
        rc = DCGM_BAD_PARAMETER;
    if (!rc)
        rc = add_watch(&w, g, f);
    free(scratch.entities);
    return rc;
}

int dcgmsim_watch_remove(unsigned client, uintptr_t group, uintptr_t fields)
{
    unsigned at = 0;
    if (!find_watch(client, group, fields, &at))
        return DCGM_NOT_WATCHED;
    free_watch(at);
    after_removal();
    return DCGM_OK;
}

void dcgmsim_watch_drop_client(unsigned client)
{
    bool removed = false;
    for (unsigned i = E->n_watches; i-- > 0;) {
        if (E->watches[i]->client != client)
            continue;
        free_watch(i);
        removed = true;
    }
    if (removed)
        after_removal();
}

// --- sampling ---

static void drop_old(struct dcgmsim_series *s, int64_t now)
{
    size_t old = 0;
    while (old + 1 < s->n &&
           (s->n - old > s->keep_n || (s->keep_us && s->samples[old].ts < now - s->keep_us)))
        old++;
    if (!old)
        return;
    memmove(s->samples, s->samples + old, (s->n - old) * sizeof(*s->samples));
    s->n -= old;
}

static void take_sample(struct dcgmsim_series *s)
{
    struct dcgmsim_value v = {.ts = gs_unix_us()};
    dcgmsim_read(&s->entity, s->field, &s->prev, &v);
    gs_grow(&s->samples, &s->cap, s->n, sizeof(*s->samples));
    s->samples[s->n++] = v;
    drop_old(s, v.ts);
}

void dcgmsim_sample_due(void)
{
    int64_t now = now_us();
    for (size_t i = 0; i < E->n_series; i++) {
        struct dcgmsim_series *s = &E->series[i];
        if (s->due_us > now)
            continue;
        take_sample(s);
        s->due_us += s->interval_us;
        if (s->due_us <= now) // the process was stopped
            s->due_us = now + s->interval_us;
    }
}

static int64_t next_due(void)
{
    int64_t next = now_us() + SECOND_US;
    for (size_t i = 0; i < E->n_series; i++)
        if (E->series[i].due_us < next)
            next = E->series[i].due_us;
    return next;
}

static void *sampling(void *arg)
{
    pthread_mutex_lock(&E->lock);
    while (!E->stopping) {
        dcgmsim_sample_due();
        int64_t wait_us = next_due() - now_us();
        if (wait_us <= 0)
            continue;
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        int64_t ns = until.tv_nsec + wait_us * 1000;
        until.tv_sec += ns / GS_NS_PER_SEC;
        until.tv_nsec = ns % GS_NS_PER_SEC;
        pthread_cond_timedwait(&E->wake, &E->lock, &until);
    }
    pthread_mutex_unlock(&E->lock);
    return arg;
}

int dcgmsim_start_sampling(void)
{
    if (E->has_thread)
        return DCGM_OK;
    E->stopping = false;
    if (pthread_create(&E->thread, NULL, sampling, NULL) != 0)
        return DCGM_INSUFFICIENT_RESOURCES;
    E->has_thread = true;
    return DCGM_OK;
}

void dcgmsim_stop_sampling(void)
{
    pthread_mutex_lock(&E->lock);
    bool join = E->has_thread;
    E->has_thread = false;
    E->stopping = true;
    pthread_cond_broadcast(&E->wake);
    pthread_mutex_unlock(&E->lock);
    if (join)
        pthread_join(E->thread, NULL);
}

// --- calls ---

DCGM_API int dcgmWatchFields(dcgm_handle h, dcgm_group g, dcgm_field_group f, long long interval_us,
                             double keep_s, int keep_samples)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, true);
    return c.rc ? c.rc : dcgmsim_watch_add(c.client, g, f, interval_us, keep_s, keep_samples);
}

DCGM_API int dcgmUnwatchFields(dcgm_handle h, dcgm_group g, dcgm_field_group f)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, true);
    return c.rc ? c.rc : dcgmsim_watch_remove(c.client, g, f);
}

DCGM_API int dcgmUpdateAllFields(dcgm_handle h, int wait)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, true);
    if (!c.rc)
        dcgmsim_sample_due();
    return c.rc;
}
