// SPDX-License-Identifier: Apache-2.0
#include "adapter/collect.h"

#include "base/hmap.h"
#include "base/mem.h"

#include <math.h>

struct provider_owner {
    struct gs_slice pod, ns, container;
};

// A series of the store.
struct series {
    const struct tsdb *db;
    tsdb_ref ref;
};

static struct gs_slice label_of(struct series s, const char *name)
{
    return tsdb_series_label(s.db, s.ref, name);
}

static bool find_owner(struct series s, struct provider_owner *ret)
{
    static const char *const names[][3] = {
        {"PodName", "NamespaceName", "ContainerName"},
        {"exported_pod", "exported_namespace", "exported_container"},
        {"pod", "namespace", "container"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        struct provider_owner o = {label_of(s, names[i][0]), label_of(s, names[i][1]),
                                   label_of(s, names[i][2])};
        if (o.pod.len && o.ns.len) {
            *ret = o;
            return true;
        }
    }
    return false;
}

static struct gs_slice node_of(struct series s)
{
    return label_of(s, "NodeName");
}

static bool is_percent(const char *metric)
{
    return gs_ends(metric, "_UTIL");
}

static bool has_any(const char *metric, const char *const *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(metric, parts[i]))
            return true;
    return false;
}

// Events that are counted, a line for each kind.
static bool is_event(const char *metric)
{
    static const char *const parts[] = {"DCGM_EXP_XID_ERRORS_", "DCGM_EXP_CLOCK_EVENTS_"};
    return has_any(metric, parts, GS_ARRAY_LEN(parts));
}

// What MIG devices repeat, each for itself: the whole GPU's.
static bool is_amount_of_gpu(const char *metric)
{
    static const char *const parts[] = {"POWER_USAGE", "ENERGY", "_COUNT", "ERRORS"};
    return has_any(metric, parts, GS_ARRAY_LEN(parts)) || is_event(metric) ||
           gs_ends(metric, "_total") || gs_ends(metric, "_bytes");
}

// Amounts add up over devices and pods; everything else is a rate or a level and is averaged.
static bool is_amount(const char *metric)
{
    static const char *const ratios[] = {"RATIO", "PERCENT"};
    static const char *const parts[] = {"MEM_USED", "MEM_ALLOCATED", "FB_USED",
                                        "FB_FREE",  "FB_TOTAL",      "FB_RESERVED"};
    return !has_any(metric, ratios, GS_ARRAY_LEN(ratios)) &&
           (has_any(metric, parts, GS_ARRAY_LEN(parts)) || is_amount_of_gpu(metric));
}

// What processes, or the containers on a shared device, have of it.
static bool is_part(const char *metric)
{
    static const char *const parts[] = {"DCGM_CUSTOM_PROCESS_", "DCGM_CUSTOM_ILLEGAL_PROCESS_",
                                        "DCGM_CUSTOM_CONTAINER_"};
    return has_any(metric, parts, GS_ARRAY_LEN(parts)) || is_percent(metric) ||
           gs_ends(metric, "_FB_USED");
}

static bool requirement_holds(const struct kube_requirement *r, struct gs_slice value)
{
    bool in = false;
    for (size_t i = 0; i < r->n_values; i++)
        in |= gs_slice_eq_str(value, r->values[i]);
    switch (r->op) {
    case KUBE_SEL_EQ:
    case KUBE_SEL_IN:
        return in;
    case KUBE_SEL_NEQ:
    case KUBE_SEL_NOTIN:
        return !in;
    case KUBE_SEL_EXISTS:
        return value.len > 0;
    case KUBE_SEL_NOT_EXISTS:
        return value.len == 0;
    case KUBE_SEL_GT:
    case KUBE_SEL_LT:
        break; // refused with the request
    }
    return false;
}

static bool selected(const struct kube_selector *selector, struct series s)
{
    for (size_t i = 0; selector && i < selector->len; i++)
        if (!requirement_holds(&selector->items[i], label_of(s, selector->items[i].key)))
            return false;
    return true;
}

// --- adding up ---

// A line about a device. Several jobs or exporters may give the same one, which then counts once.
struct line {
    struct gs_slice gpu, instance;     // into the series' labels
    struct gs_slice process, owner[3]; // whose part it is; empty where it is the device's
    struct gs_slice event;             // of which kind; likewise
    double value;
};

struct sums {
    struct line *lines;
    size_t len, cap;
    int64_t oldest_ms;
};

static void sums_free(void *p)
{
    struct sums *s = p;
    free(s->lines);
    free(s);
}

static bool same_device(const struct line *a, const struct line *b)
{
    return gs_slice_eq(a->gpu, b->gpu) && gs_slice_eq(a->instance, b->instance);
}

static bool same_line(const struct line *a, const struct line *b)
{
    bool same =
        same_device(a, b) && gs_slice_eq(a->process, b->process) && gs_slice_eq(a->event, b->event);
    for (size_t i = 0; same && i < GS_ARRAY_LEN(a->owner); i++)
        same = gs_slice_eq(a->owner[i], b->owner[i]);
    return same;
}

static struct line line_of(struct series s, const char *metric, double value)
{
    struct line l = {.gpu = label_of(s, "UUID"), .value = value};
    struct provider_owner o;
    if (!l.gpu.len)
        l.gpu = label_of(s, "gpu");
    if (!is_amount_of_gpu(metric))
        l.instance = label_of(s, "GPU_I_ID");
    if (is_event(metric))
        l.event = label_of(s, strstr(metric, "XID") ? "xid" : "clock_event");
    if (!is_part(metric))
        return l;
    l.process = label_of(s, "ProcessId");
    if (!l.process.len && find_owner(s, &o)) {
        l.owner[0] = o.pod;
        l.owner[1] = o.ns;
        l.owner[2] = o.container;
    }
    return l;
}

static void sums_add(struct sums *sums, struct series s, const char *metric, struct tsdb_point p)
{
    struct line l = line_of(s, metric, p.value);
    if (!sums->len || p.t_ms < sums->oldest_ms)
        sums->oldest_ms = p.t_ms;
    for (size_t i = 0; i < sums->len; i++) {
        if (same_line(&sums->lines[i], &l)) {
            sums->lines[i].value = fmax(sums->lines[i].value, p.value);
            return;
        }
    }
    gs_grow(&sums->lines, &sums->cap, sums->len, sizeof(*sums->lines));
    sums->lines[sums->len++] = l;
}

static struct adapter_value sums_value(struct sums *s, const char *metric)
{
    double total = 0;
    size_t devices = 0;
    for (size_t i = 0; i < s->len; i++) {
        struct line *l = &s->lines[i];
        size_t k = 0;
        while (k < devices && !same_device(&s->lines[k], l))
            k++;
        if (k < devices)
            s->lines[k].value += l->value;
        else
            s->lines[devices++] = *l;
    }
    for (size_t i = 0; i < devices; i++)
        total += is_percent(metric) ? fmin(s->lines[i].value, 100) : s->lines[i].value;
    return (struct adapter_value){is_amount(metric) ? total : total / (double)devices,
                                  s->oldest_ms};
}

// --- selecting ---

struct pass {
    const struct tsdb *db;
    const struct adapter_request *rq;
    const char *node;       // by node; else by pod
    struct gs_hmap *by_pod; // pod name -> struct sums
    struct sums node_sums;
};

static bool on_series(void *arg, tsdb_ref ref, struct tsdb_point p)
{
    struct pass *pass = arg;
    struct series s = {pass->db, ref};
    struct provider_owner o;
    if (!selected(pass->rq->selector, s))
        return true;
    if (pass->node) {
        if (gs_slice_eq_str(node_of(s), pass->node))
            sums_add(&pass->node_sums, s, pass->rq->metric, p);
        return true;
    }
    if (!find_owner(s, &o) || !gs_slice_eq_str(o.ns, pass->rq->ns))
        return true;
    struct sums *sums = gs_hmap_get(pass->by_pod, o.pod);
    if (!sums) {
        sums = gs_alloc(sizeof(*sums));
        gs_hmap_put(pass->by_pod, o.pod, sums);
    }
    sums_add(sums, s, pass->rq->metric, p);
    return true;
}

static void select_metric(struct pass *pass)
{
    const struct tsdb_matcher m = {GS_SLICE("__name__"), gs_slice_of(pass->rq->metric), TSDB_EQ,
                                   NULL};
    int64_t now = pass->rq->now_ms;
    tsdb_each_latest(pass->db, &m, 1, now, now - ADAPTER_LOOKBACK_MS, on_series, pass);
}

struct gs_hmap *adapter_collect_pods(const struct tsdb *db, const struct adapter_request *rq)
{
    struct pass pass = {.db = db, .rq = rq, .by_pod = gs_hmap_new(sums_free)};
    select_metric(&pass);
    struct gs_hmap *values = gs_hmap_new(free);
    size_t pos = 0;
    struct gs_slice pod;
    void *sums;
    while (gs_hmap_next(pass.by_pod, &pos, &pod, &sums)) {
        struct adapter_value *v = gs_alloc(sizeof(*v));
        *v = sums_value(sums, rq->metric);
        gs_hmap_put(values, pod, v);
    }
    gs_hmap_free(pass.by_pod);
    return values;
}

bool adapter_collect_namespace(const struct tsdb *db, const struct adapter_request *rq,
                               struct adapter_value *ret)
{
    struct gs_hmap *pods = adapter_collect_pods(db, rq);
    size_t n = gs_hmap_len(pods), pos = 0;
    double total = 0;
    int64_t oldest = INT64_MAX;
    void *item;
    while (gs_hmap_next(pods, &pos, NULL, &item)) {
        const struct adapter_value *v = item;
        total += v->value;
        if (v->t_ms < oldest)
            oldest = v->t_ms;
    }
    gs_hmap_free(pods);
    if (!n)
        return false;
    *ret = (struct adapter_value){is_amount(rq->metric) ? total : total / (double)n, oldest};
    return true;
}

bool adapter_collect_node(const struct tsdb *db, const struct adapter_request *rq, const char *node,
                          struct adapter_value *ret)
{
    struct pass pass = {.db = db, .rq = rq, .node = node};
    select_metric(&pass);
    bool any = pass.node_sums.len > 0;
    if (any)
        *ret = sums_value(&pass.node_sums, rq->metric);
    free(pass.node_sums.lines);
    return any;
}

// --- discovery ---

struct listing {
    const struct tsdb *db;
    struct gs_hmap *pods, *nodes; // metric name -> itself, as sets
};

static bool on_listed(void *arg, tsdb_ref ref, struct tsdb_point p)
{
    (void)p;
    struct listing *l = arg;
    struct series s = {l->db, ref};
    struct gs_slice name = label_of(s, "__name__");
    struct provider_owner o;
    if (find_owner(s, &o))
        gs_hmap_put(l->pods, name, l);
    if (node_of(s).len)
        gs_hmap_put(l->nodes, name, l);
    return true;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void take_names(struct gs_hmap *set, struct adapter_names *ret)
{
    struct adapter_names names = {0};
    size_t pos = 0;
    struct gs_slice name;
    while (gs_hmap_next(set, &pos, &name, NULL)) {
        gs_grow(&names.items, &names.cap, names.len, sizeof(*names.items));
        names.items[names.len++] = gs_slice_dup(name);
    }
    if (names.len)
        qsort(names.items, names.len, sizeof(*names.items), compare_names);
    gs_hmap_free(set);
    *ret = names;
}

void adapter_list_metrics(const struct tsdb *db, int64_t now_ms, struct adapter_names *ret_pods,
                          struct adapter_names *ret_nodes)
{
    struct listing l = {db, gs_hmap_new(NULL), gs_hmap_new(NULL)};
    tsdb_each_latest(db, NULL, 0, now_ms, now_ms - ADAPTER_LOOKBACK_MS, on_listed, &l);
    take_names(l.pods, ret_pods);
    take_names(l.nodes, ret_nodes);
}

void adapter_names_finish(struct adapter_names *n)
{
    for (size_t i = 0; i < n->len; i++)
        free(n->items[i]);
    free(n->items);
    *n = (struct adapter_names){0};
}
