// SPDX-License-Identifier: Apache-2.0
// From observations to hours: the state of each GPU in each interval.
#include "ledger/ledger_private.h"

#include <math.h>

#define BUSY_FROM (LEDGER_BUSY_PERCENT / 100.0)

enum text { ID, UUID, GPU, NODE, POOL, MACHINE, MODEL, NS, POD, WORKLOAD, OWNER, N_TEXTS };

struct known {
    struct ledger_gpu g;
    char *texts;         // of g, one after the other: there are tens of thousands of GPUs
    bool seen;           // in this observation
    bool restored;       // from the file, and not observed since
    int64_t gap_seen_ms; // when it was seen before the gap; 0: it was not expected in it
    bool outside;        // its node is not one of the cluster
    bool twin;           // another node has a GPU with the same UUID
};

struct ledger_meter {
    struct gs_hmap *gpus;           // id -> struct known
    int64_t gap_from_ms, gap_to_ms; // nothing is known about it; counted with the next observation
    bool ends_with_process;
    struct gs_hmap *places; // namespace and workload -> struct place
};

// Of the last GPU of a workload.
struct place {
    char *owner, *pool, *machine, *model;
};

static void free_known(void *arg)
{
    struct known *k = arg;
    free(k->texts);
    free(k);
}

static void free_place(void *arg)
{
    struct place *p = arg;
    free(p->owner);
    free(p->pool);
    free(p->machine);
    free(p->model);
    free(p);
}

struct ledger_meter *ledger_meter_new(void)
{
    struct ledger_meter *m = gs_alloc(sizeof(*m));
    m->places = gs_hmap_new(free_place);
    m->gpus = gs_hmap_new(free_known);
    return m;
}

void ledger_meter_free(struct ledger_meter *m)
{
    if (!m)
        return;
    gs_hmap_free(m->gpus);
    gs_hmap_free(m->places);
    free(m);
}

const struct ledger_gpu *ledger_meter_next(const struct ledger_meter *m, size_t *pos)
{
    void *value;
    return gs_hmap_next(m->gpus, pos, NULL, &value) ? &((struct known *)value)->g : NULL;
}

// --- GPUs that are expected ---

// NULL: unknown. The texts may be those that the GPU has.
static void set_texts(struct known *k, const char *const texts[N_TEXTS])
{
    const char **const fields[N_TEXTS] = {&k->g.id,   &k->g.uuid,     &k->g.gpu,   &k->g.node,
                                          &k->g.pool, &k->g.machine,  &k->g.model, &k->g.ns,
                                          &k->g.pod,  &k->g.workload, &k->g.owner};
    const char *all[N_TEXTS];
    char *before = k->texts;
    size_t bytes = 0;
    bool same = before != NULL;
    for (enum text i = 0; i < N_TEXTS; i++) {
        all[i] = texts[i] ? texts[i] : "";
        bytes += strlen(all[i]) + 1;
        same = same && gs_streq(*fields[i], all[i]);
    }
    if (same) // as in most rounds
        return;
    char *at = k->texts = gs_alloc(bytes);
    for (enum text i = 0; i < N_TEXTS; i++) {
        *fields[i] = at;
        at = stpcpy(at, all[i]) + 1;
    }
    free(before);
}

static struct known *known_of(struct ledger_meter *m, const char *id)
{
    struct known *k = gs_hmap_get_str(m->gpus, id);
    if (k || gs_hmap_len(m->gpus) >= (size_t)2 * LEDGER_MAX_DEVICES)
        return k;
    k = gs_alloc(sizeof(*k));
    set_texts(k, (const char *const[N_TEXTS]){[ID] = id});
    gs_hmap_put_str(m->gpus, id, k);
    return k;
}

void ledger_meter_restore(struct ledger_meter *m, const struct ledger_gpu *g)
{
    struct known *k = known_of(m, g->id);
    const char *const texts[N_TEXTS] = {g->id,    g->uuid, g->gpu, g->node,     g->pool, g->machine,
                                        g->model, g->ns,   g->pod, g->workload, g->owner};
    if (!k)
        return;
    set_texts(k, texts);
    k->g.share = g->share;
    k->g.seen_ms = g->seen_ms;
    k->g.idle_since_ms = g->idle_since_ms;
    k->g.idle_ms = g->idle_ms;
    k->restored = true;
}

void ledger_meter_end_with_process(struct ledger_meter *m)
{
    m->ends_with_process = true;
}

// Removes the GPUs for which drop() is true.
static void forget_gpus(struct ledger_meter *m,
                        bool (*drop)(const void *arg, const struct known *k), const void *arg)
{
    struct gs_slice id;
    void *value;
    struct gs_arena mem = {0};
    size_t n = 0;
    const char **ids = gs_arena_alloc(&mem, (gs_hmap_len(m->gpus) + 1) * sizeof(*ids));
    for (size_t pos = 0; gs_hmap_next(m->gpus, &pos, &id, &value);)
        if (drop(arg, value))
            ids[n++] = gs_arena_strndup(&mem, id.data, id.len);
    for (size_t i = 0; i < n; i++)
        free_known(gs_hmap_remove_str(m->gpus, ids[i]));
    gs_arena_finish(&mem);
}

static bool is_old(const void *arg, const struct known *k)
{
    return k->g.seen_ms + LEDGER_FORGET_MS <= *(const int64_t *)arg;
}

static struct ledger_key key_of_gpu(const struct ledger_gpu *g)
{
    return (struct ledger_key){.text = {[LEDGER_NAMESPACE] = "",
                                        [LEDGER_WORKLOAD] = "",
                                        [LEDGER_OWNER] = "",
                                        [LEDGER_NODE] = g->node,
                                        [LEDGER_POOL] = g->pool,
                                        [LEDGER_MACHINE] = g->machine,
                                        [LEDGER_MODEL] = g->model,
                                        [LEDGER_CONFIDENCE] = ""}};
}

static void add_missing(const struct known *k, int64_t seen_ms, int64_t from_ms, int64_t to_ms,
                        struct ledger_table *t)
{
    const struct ledger_key key = key_of_gpu(&k->g);
    int64_t end = seen_ms + LEDGER_FORGET_MS;
    end = end < to_ms ? end : to_ms;
    if (end > from_ms)
        ledger_table_add(t, from_ms, end, &key, LEDGER_MISSING, k->g.share, 0);
}

// A GPU of an earlier process is expected only once it has been observed again.
static bool is_expected(const struct ledger_meter *m, const struct known *k)
{
    return !(k->restored && m->ends_with_process);
}

void ledger_meter_gap(struct ledger_meter *m, int64_t from_ms, int64_t to_ms)
{
    void *value;
    for (size_t pos = 0; gs_hmap_next(m->gpus, &pos, NULL, &value);) {
        struct known *k = value;
        k->gap_seen_ms = is_expected(m, k) ? k->g.seen_ms : 0;
    }
    m->gap_from_ms = from_ms;
    m->gap_to_ms = to_ms;
}

// Which GPUs existed during the gap is known only after it: those of deleted nodes are forgotten.
static void count_gap(struct ledger_meter *m, struct ledger_table *t)
{
    void *value;
    if (!m->gap_to_ms)
        return;
    for (size_t pos = 0; gs_hmap_next(m->gpus, &pos, NULL, &value);) {
        struct known *k = value;
        if (k->gap_seen_ms)
            add_missing(k, k->gap_seen_ms, m->gap_from_ms, m->gap_to_ms, t);
        k->gap_seen_ms = 0;
    }
    m->gap_from_ms = m->gap_to_ms = 0;
}

// --- one observation ---

struct interval {
    struct ledger_meter *meter;
    struct ledger_observation *o;
    int64_t from_ms, to_ms;
    struct ledger_table *table;
    struct gs_hmap *unallocated; // node -> double: its free GPUs
    struct gs_hmap *partitions;  // node, UUID and number of a GPU -> struct partition
    struct gs_hmap *uuids;       // of the observed GPUs -> their node, or several_nodes
};

static char several_nodes[] = "";

// The MIG devices of a GPU.
struct partition {
    const struct known *any;
    double share;
};

static double *amount_of(struct gs_hmap *map, const char *key)
{
    double *v = gs_hmap_get_str(map, key);
    if (!v) {
        v = gs_alloc(sizeof(*v));
        gs_hmap_put_str(map, key, v);
    }
    return v;
}

static bool is_unallocated(const struct ledger_device *d)
{
    return d->n_holders == 0 && !isnan(d->util) && d->util < BUSY_FROM;
}

static const char *of_node(const struct gs_hmap *map, const char *node)
{
    const char *text = gs_hmap_get_str(map, node);
    return text ? text : "";
}

static const struct ledger_holder *first_holder(const struct ledger_device *d)
{
    const struct ledger_holder *best = NULL;
    for (size_t i = 0; i < d->n_holders; i++) {
        const struct ledger_holder *h = &d->holders[i];
        int order = best ? strcmp(h->ns, best->ns) : -1;
        if (order < 0 || (order == 0 && strcmp(h->pod, best->pod) < 0))
            best = h;
    }
    return best;
}

// Remembers what is displayed about the GPU, and for how long it has been idle.
static struct known *update_known(struct interval *v, const struct ledger_device *d)
{
    struct known *k = known_of(v->meter, d->id);
    const struct ledger_holder *h = first_holder(d);
    if (!k)
        return NULL;
    bool same = h && gs_streq(h->ns, k->g.ns) && gs_streq(h->pod, k->g.pod);
    // An object's labels can be missing for a moment, for example after a restart.
    const char *pool = of_node(v->o->node_pools, d->node);
    const char *machine = of_node(v->o->node_machines, d->node);
    const char *workload = k->g.workload, *owner = k->g.owner;
    if (!same || gs_hmap_len(v->o->pods)) {
        workload = h ? ledger_workload(v->o, h->ns, h->pod) : "";
        owner = h ? ledger_owner(v->o, h->ns, h->pod) : "";
    }
    set_texts(k, (const char *const[N_TEXTS]){[ID] = d->id,
                                              [UUID] = d->uuid,
                                              [GPU] = d->gpu,
                                              [NODE] = d->node,
                                              [POOL] = *pool ? pool : k->g.pool,
                                              [MACHINE] = *machine ? machine : k->g.machine,
                                              [MODEL] = d->model,
                                              [NS] = h ? h->ns : "",
                                              [POD] = h ? h->pod : "",
                                              [WORKLOAD] = workload,
                                              [OWNER] = owner});
    k->outside = !gs_hmap_get_str(v->o->nodes, d->node);
    k->g.share = d->share;
    k->g.seen_ms = v->to_ms;
    k->seen = true;
    k->restored = false;
    if (!h || d->util >= BUSY_FROM || !same)
        k->g.idle_since_ms = k->g.idle_ms = 0;
    if (h && d->util < BUSY_FROM) { // false if it is not known
        if (!k->g.idle_since_ms)
            k->g.idle_since_ms = v->from_ms;
        k->g.idle_ms += v->to_ms - v->from_ms;
    }
    return k;
}

// --- workloads at zero replicas ---

static char *place_key(const char *ns, const char *workload)
{
    return gs_format("%s" LEDGER_SEP "%s", ns, workload);
}

static void set_place_text(char **text, const char *with)
{
    if (*text && gs_streq(*text, with))
        return;
    free(*text);
    *text = gs_strdup(with);
}

void ledger_meter_remember(struct ledger_meter *m, const struct ledger_key *key)
{
    const char *workload = key->text[LEDGER_WORKLOAD];
    if (!gs_starts(workload, "deployment/") && !gs_starts(workload, "statefulset/"))
        return; // no other kind is known to be at zero, and Jobs are many
    GS_AUTO_FREE char *id = place_key(key->text[LEDGER_NAMESPACE], workload);
    struct place *p = gs_hmap_get_str(m->places, id);
    if (!p && gs_hmap_len(m->places) >= LEDGER_MAX_PLACES)
        return;
    if (!p) {
        p = gs_alloc(sizeof(*p));
        gs_hmap_put_str(m->places, id, p);
    }
    set_place_text(&p->owner, key->text[LEDGER_OWNER]);
    set_place_text(&p->pool, key->text[LEDGER_POOL]);
    set_place_text(&p->machine, key->text[LEDGER_MACHINE]);
    set_place_text(&p->model, key->text[LEDGER_MODEL]);
}

static void add_device(struct interval *v, const struct known *k, const struct ledger_holder *h,
                       const char *confidence, enum ledger_state state, double share, double used)
{
    struct ledger_key key = key_of_gpu(&k->g);
    if (h) {
        key.text[LEDGER_NAMESPACE] = h->ns;
        bool first = gs_streq(h->ns, k->g.ns) && gs_streq(h->pod, k->g.pod);
        key.text[LEDGER_WORKLOAD] = first ? k->g.workload : ledger_workload(v->o, h->ns, h->pod);
        key.text[LEDGER_OWNER] = first ? k->g.owner : ledger_owner(v->o, h->ns, h->pod);
        key.text[LEDGER_CONFIDENCE] = confidence;
    }
    if (h && state != LEDGER_MISSING)
        ledger_meter_remember(v->meter, &key);
    if (share > 0)
        ledger_table_add(v->table, v->from_ms, v->to_ms, &key, state, share, used);
}

// Several pods: by the usage of their processes; in equal parts if none has any.
static void add_shared(struct interval *v, const struct known *k, const struct ledger_device *d)
{
    double sum = 0;
    bool measured = false;
    enum ledger_state state = isnan(d->util)         ? LEDGER_MISSING
                              : d->util >= BUSY_FROM ? LEDGER_BUSY
                                                     : LEDGER_IDLE;
    for (size_t i = 0; i < d->n_holders; i++)
        if (!isnan(d->holders[i].processes)) {
            measured = true;
            sum += d->holders[i].processes;
        }
    bool by_usage = state == LEDGER_BUSY && sum > 0;
    for (size_t i = 0; i < d->n_holders; i++) {
        const struct ledger_holder *h = &d->holders[i];
        double part =
            by_usage ? (isnan(h->processes) ? 0 : h->processes / sum) : 1.0 / (double)d->n_holders;
        const char *confidence = measured && (by_usage || state == LEDGER_IDLE)
                                     ? (h->origin && *h->origin ? h->origin : "attributed")
                                     : "estimate";
        add_device(v, k, h, confidence, state, k->g.share * part, isnan(d->util) ? 0 : d->util);
    }
}

static void add_zeros(struct interval *v)
{
    void *value;
    for (size_t pos = 0; gs_hmap_next(v->o->zeros, &pos, NULL, &value);) {
        const struct ledger_zero *z = value;
        GS_AUTO_FREE char *id = place_key(z->ns, z->workload);
        const struct place *p = gs_hmap_get_str(v->meter->places, id);
        const char *owner = of_node(v->o->ns_labels, z->ns);
        const struct ledger_key key = {{[LEDGER_NAMESPACE] = z->ns,
                                        [LEDGER_WORKLOAD] = z->workload,
                                        [LEDGER_OWNER] = p && *p->owner ? p->owner : owner,
                                        [LEDGER_NODE] = "",
                                        [LEDGER_POOL] = p ? p->pool : "",
                                        [LEDGER_MACHINE] = p ? p->machine : "",
                                        [LEDGER_MODEL] = p ? p->model : "",
                                        [LEDGER_CONFIDENCE] = ""}};
        ledger_table_add_saved(v->table, v->from_ms, v->to_ms, &key, z->gpus);
    }
}

static void add_unallocated(struct interval *v, const struct known *k)
{
    const double *stranded = gs_hmap_get_str(v->o->stranded, k->g.node);
    double all = *amount_of(v->unallocated, k->g.node);
    double part = stranded && all > 0 ? *stranded / all : 0;
    if (part > 1)
        part = 1;
    add_device(v, k, NULL, "", LEDGER_STRANDED, k->g.share * part, 0);
    add_device(v, k, NULL, "", LEDGER_FREE, k->g.share * (1 - part), 0);
}

static void account(struct interval *v, const struct ledger_device *d)
{
    struct known *k = update_known(v, d);
    if (!k)
        return;
    const struct ledger_holder *h = d->n_holders == 1 ? d->holders : NULL;
    if (is_unallocated(d)) {
        add_unallocated(v, k);
    } else if (d->n_holders > 1) {
        add_shared(v, k, d);
    } else if (isnan(d->util)) {
        add_device(v, k, h, "exclusive", LEDGER_MISSING, k->g.share, 0);
    } else {
        const char *confidence = h && h->origin && *h->origin ? h->origin : "exclusive";
        add_device(v, k, h, confidence, d->util >= BUSY_FROM ? LEDGER_BUSY : LEDGER_IDLE,
                   k->g.share, d->util);
    }
    if (!*d->instance)
        return;
    GS_AUTO_FREE char *gpu =
        gs_format("%s" LEDGER_SEP "%s" LEDGER_SEP "%s", d->node, d->uuid, d->gpu);
    struct partition *p = gs_hmap_get_str(v->partitions, gpu);
    if (!p) {
        p = gs_alloc(sizeof(*p));
        gs_hmap_put_str(v->partitions, gpu, p);
    }
    p->any = k;
    p->share += k->g.share;
}

// The part of a partitioned GPU without a MIG device: no pod can get it.
static void add_rests(struct interval *v)
{
    void *value;
    for (size_t pos = 0; gs_hmap_next(v->partitions, &pos, NULL, &value);) {
        const struct partition *p = value;
        if (p->share < 0.999)
            add_device(v, p->any, NULL, "", LEDGER_STRANDED, 1 - p->share, 0);
    }
}

// Whether a GPU without data is no longer expected: its node was deleted, or it is now observed
// with another name of its node, number or partition.
static bool is_gone(const void *arg, const struct known *k)
{
    const struct interval *v = arg;
    if (k->seen)
        return false;
    if (*k->g.uuid && !k->twin && gs_hmap_get_str(v->uuids, k->g.uuid))
        return true;
    return gs_hmap_len(v->o->nodes) && !k->outside && !gs_hmap_get_str(v->o->nodes, k->g.node);
}

void ledger_meter_observe(struct ledger_meter *m, struct ledger_observation *o, int64_t from_ms,
                          int64_t to_ms, struct ledger_table *t)
{
    struct interval v = {.meter = m,
                         .o = o,
                         .from_ms = from_ms,
                         .to_ms = to_ms,
                         .table = t,
                         .unallocated = gs_hmap_new(free),
                         .partitions = gs_hmap_new(free),
                         .uuids = gs_hmap_new(NULL)};
    void *value;
    ledger_observation_finish(o);
    for (size_t pos = 0; gs_hmap_next(m->gpus, &pos, NULL, &value);)
        ((struct known *)value)->seen = false;
    for (size_t pos = 0; gs_hmap_next(o->devices, &pos, NULL, &value);) {
        const struct ledger_device *d = value;
        if (!d->partitioned && is_unallocated(d))
            *amount_of(v.unallocated, d->node) += d->share;
    }
    for (size_t pos = 0; gs_hmap_next(o->devices, &pos, NULL, &value);) {
        const struct ledger_device *d = value;
        const char *node = gs_hmap_get_str(v.uuids, d->uuid);
        gs_hmap_put_str(v.uuids, d->uuid,
                        node && !gs_streq(node, d->node) ? several_nodes : (char *)d->node);
        if (!d->partitioned)
            account(&v, d);
    }
    for (size_t pos = 0; gs_hmap_next(m->gpus, &pos, NULL, &value);) {
        struct known *k = value;
        if (k->seen)
            k->twin = gs_hmap_get_str(v.uuids, k->g.uuid) == several_nodes;
    }
    add_rests(&v);
    add_zeros(&v);
    forget_gpus(m, is_gone, &v);
    count_gap(m, t);
    for (size_t pos = 0; gs_hmap_next(m->gpus, &pos, NULL, &value);) {
        const struct known *k = value;
        if (!k->seen && is_expected(m, k))
            add_missing(k, k->g.seen_ms, from_ms, to_ms, t);
    }
    forget_gpus(m, is_old, &to_ms);
    gs_hmap_free(v.unallocated);
    gs_hmap_free(v.partitions);
    gs_hmap_free(v.uuids);
}
