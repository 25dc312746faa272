// SPDX-License-Identifier: Apache-2.0
// Joins the samples of one moment: GPUs, the pods on them, the owners of these pods, and nodes.
#include "base/assert.h"
#include "ledger/ledger_private.h"
#include "nodes/pool.h"

#include <math.h>

// The labels of samples about devices that are read.
enum kept {
    JOB,
    INSTANCE,
    UUID,
    GPU,
    GPU_INSTANCE,
    COMPUTE_INSTANCE,
    PROFILE,
    MODEL,
    NODE_NAME,
    NODE,
    RELABELED_NODE,
    HOST_NAME,
    OLD_HOST_NAME,
    POD,
    EXPORTED_POD,
    NAMESPACE,
    EXPORTED_NAMESPACE,
    POD_NAME,
    NAMESPACE_NAME,
    OLD_POD,
    OLD_NAMESPACE,
    ALLOCATE_MODE,
    ATTRIBUTION,
    N_KEPT
};

static const char *const kept_names[N_KEPT] = {
    [JOB] = "job",
    [INSTANCE] = "instance",
    [UUID] = "UUID",
    [GPU] = "gpu",
    [GPU_INSTANCE] = "GPU_I_ID",
    [COMPUTE_INSTANCE] = "GPU_CI_ID",
    [PROFILE] = "GPU_I_PROFILE",
    [MODEL] = "modelName",
    [NODE_NAME] = "NodeName",
    [NODE] = "node",
    [RELABELED_NODE] = "kubernetes_node",
    [HOST_NAME] = "hostname",
    [OLD_HOST_NAME] = "Hostname",
    [POD] = "pod",
    [EXPORTED_POD] = "exported_pod",
    [NAMESPACE] = "namespace",
    [EXPORTED_NAMESPACE] = "exported_namespace",
    [POD_NAME] = "PodName",
    [NAMESPACE_NAME] = "NamespaceName",
    [OLD_POD] = "pod_name",
    [OLD_NAMESPACE] = "pod_namespace",
    [ALLOCATE_MODE] = "AllocateMode",
    [ATTRIBUTION] = "attribution",
};

struct sample { // about a device
    double value;
    char text[N_KEPT][LEDGER_MAX_TEXT + 1]; // clean; "": absent
};

struct ledger_observation *ledger_observation_new(const char *owner)
{
    struct ledger_observation *o = gs_alloc(sizeof(*o));
    struct gs_hmap **const maps[] = {&o->devices,     &o->join,       &o->pods,
                                     &o->replicasets, &o->jobs,       &o->pod_labels,
                                     &o->ns_labels,   &o->node_pools, &o->node_machines,
                                     &o->nodes,       &o->stranded,   &o->zeros};
    o->targets = metrics_gpu_targets_new();
    for (size_t i = 0; i < GS_ARRAY_LEN(maps); i++)
        *maps[i] = gs_hmap_new(NULL);
    GS_AUTO_FREE char *label = ledger_owner_label(owner);
    o->owner_label = gs_arena_strdup(&o->mem, label);
    return o;
}

void ledger_observation_free(struct ledger_observation *o)
{
    if (!o)
        return;
    struct gs_hmap *const maps[] = {o->devices,       o->join,       o->pods,      o->replicasets,
                                    o->jobs,          o->pod_labels, o->ns_labels, o->node_pools,
                                    o->node_machines, o->nodes,      o->stranded,  o->zeros};
    metrics_gpu_targets_free(o->targets);
    for (size_t i = 0; i < GS_ARRAY_LEN(maps); i++)
        gs_hmap_free(maps[i]);
    gs_arena_finish(&o->mem);
    free(o);
}

// --- labels ---

static struct gs_slice find_label(const struct metrics_label *l, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (gs_slice_eq_str(l[i].name, name))
            return l[i].value;
    return GS_SLICE("");
}

struct label_list {
    const struct metrics_label *items;
    size_t n;
};

static struct gs_slice listed_label(const void *list, const char *name)
{
    const struct label_list *l = list;
    return find_label(l->items, l->n, name);
}

static const char *text_of(struct ledger_observation *o, const struct metrics_label *l, size_t n,
                           const char *name)
{
    return ledger_clean(&o->mem, find_label(l, n, name));
}

// The first of these labels with a value; "" if there is none. The list ends with NULL.
static const char *first_text(struct ledger_observation *o, const struct metrics_label *l, size_t n,
                              const char *const *names)
{
    for (; *names; names++)
        if (find_label(l, n, *names).len)
            return text_of(o, l, n, *names);
    return "";
}

static char *pair_key(const char *a, const char *b)
{
    return gs_format("%s" LEDGER_SEP "%s", a, b);
}

static void put_pair(struct gs_hmap *map, const char *a, const char *b, const char *value)
{
    GS_AUTO_FREE char *key = pair_key(a, b);
    gs_hmap_put_str(map, key, (void *)value);
}

static const char *get_pair(const struct gs_hmap *map, const char *a, const char *b)
{
    GS_AUTO_FREE char *key = pair_key(a, b);
    return gs_hmap_get_str(map, key);
}

// --- objects of Kubernetes ---

// "deployment/web" of the labels owner_kind and owner_name. NULL: there is no owner.
static const char *owner_text(struct ledger_observation *o, const struct metrics_label *l, size_t n)
{
    struct gs_slice kind = find_label(l, n, "owner_kind"), name = find_label(l, n, "owner_name");
    if (!kind.len || !name.len || gs_slice_eq_str(kind, "<none>") || gs_slice_eq_str(kind, "Node"))
        return NULL;
    GS_AUTO_FREE char *text =
        gs_format(GS_SLICE_FMT "/" GS_SLICE_FMT, GS_SLICE_ARG(kind), GS_SLICE_ARG(name));
    for (char *c = text; *c && *c != '/'; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c + ('a' - 'A'));
    return ledger_clean(&o->mem, gs_slice_of(text));
}

static void add_owner(struct ledger_observation *o, struct gs_hmap *map, const char *name_label,
                      const struct metrics_label *l, size_t n)
{
    static const char *const namespaces[] = {"exported_namespace", "namespace", NULL};
    GS_AUTO_FREE char *exported = gs_format("exported_%s", name_label);
    const char *const names[] = {exported, name_label, NULL};
    const char *text = owner_text(o, l, n);
    if (text)
        put_pair(map, first_text(o, l, n, namespaces), first_text(o, l, n, names), text);
}

static void add_zero(struct ledger_observation *o, const struct metrics_label *l, size_t n,
                     double gpus)
{
    static const char *const namespaces[] = {"exported_namespace", "namespace", NULL};
    const char *workload = owner_text(o, l, n);
    if (!workload || !(gpus > 0 && gpus <= LEDGER_MAX_REPLICA_GPUS))
        return;
    struct ledger_zero *z = gs_arena_alloc(&o->mem, sizeof(*z));
    *z = (struct ledger_zero){first_text(o, l, n, namespaces), workload, gpus};
    GS_AUTO_FREE char *key = pair_key(z->ns, workload);
    gs_hmap_put_str(o->zeros, key, z);
}

static void add_owner_label(struct ledger_observation *o, enum ledger_series s,
                            const struct metrics_label *l, size_t n)
{
    static const char *const namespaces[] = {"exported_namespace", "namespace", NULL};
    static const char *const pods[] = {"exported_pod", "pod", NULL};
    const char *ns = first_text(o, l, n, namespaces), *value = text_of(o, l, n, o->owner_label);
    if (!*value)
        return;
    if (s == LEDGER_NAMESPACE_LABEL)
        gs_hmap_put_str(o->ns_labels, ns, (void *)value);
    else
        put_pair(o->pod_labels, ns, first_text(o, l, n, pods), value);
}

static void add_node_labels(struct ledger_observation *o, const struct metrics_label *l, size_t n)
{
    static const char *const names[] = {"exported_node", "node", NULL};
    const char *node = first_text(o, l, n, names), *pool = "";
    for (size_t i = 0; nodes_pool_labels[i] && !*pool; i++) {
        GS_AUTO_FREE char *label = ledger_owner_label(nodes_pool_labels[i]);
        pool = text_of(o, l, n, label);
    }
    const char *machine = text_of(o, l, n, "label_node_kubernetes_io_instance_type");
    if (*pool)
        gs_hmap_put_str(o->node_pools, node, (void *)pool);
    if (*machine)
        gs_hmap_put_str(o->node_machines, node, (void *)machine);
}

static void add_stranded(struct ledger_observation *o, const struct metrics_label *l, size_t n,
                         double value)
{
    static const char *const names[] = {"exported_node", "node", NULL};
    double *v = gs_arena_alloc(&o->mem, sizeof(*v));
    *v = value > 0 ? value : 0;
    gs_hmap_put_str(o->stranded, first_text(o, l, n, names), v);
}

const char *ledger_workload(struct ledger_observation *o, const char *ns, const char *pod)
{
    const char *owner = get_pair(o->pods, ns, pod), *next = NULL;
    if (!owner) {
        GS_AUTO_FREE char *alone = gs_format("pod/%s", pod);
        return ledger_clean(&o->mem, gs_slice_of(alone));
    }
    if (gs_starts(owner, "replicaset/"))
        next = get_pair(o->replicasets, ns, strchr(owner, '/') + 1);
    else if (gs_starts(owner, "job/"))
        next = get_pair(o->jobs, ns, strchr(owner, '/') + 1);
    return next ? next : owner;
}

const char *ledger_owner(const struct ledger_observation *o, const char *ns, const char *pod)
{
    const char *value = get_pair(o->pod_labels, ns, pod);
    if (!value)
        value = gs_hmap_get_str(o->ns_labels, ns);
    return value ? value : "";
}

// --- samples ---

static void read_sample(struct sample *s, const struct metrics_label *labels, size_t n,
                        double value)
{
    s->value = value;
    for (size_t k = 0; k < N_KEPT; k++)
        s->text[k][0] = '\0';
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < N_KEPT; k++)
            if (gs_slice_eq_str(labels[i].name, kept_names[k]))
                ledger_put_clean(s->text[k], labels[i].value);
}

// --- devices ---

double ledger_mig_share(const char *profile, const char *model)
{
    const char *g = strstr(profile, "g.");
    int slices = 0;
    for (const char *c = profile; g && c < g && *c >= '0' && *c <= '9'; c++)
        slices = slices * 10 + (*c - '0');
    if (slices < 1 || slices > 7)
        return 1;
    // These have four slices; all others have seven.
    bool four = strstr(model, "A30") || strstr(model, "RTX PRO");
    double share = slices / (four ? 4.0 : 7.0);
    return share < 1 ? share : 1;
}

static char *join_key(const struct sample *s)
{
    struct gs_buf key = {0};
    for (enum kept k = JOB; k <= COMPUTE_INSTANCE; k++)
        gs_buf_addf(&key, "%s" LEDGER_SEP, s->text[k]);
    return gs_buf_take(&key);
}

static const char *kept_text(struct ledger_observation *o, const struct sample *s, enum kept k)
{
    return gs_arena_strdup(&o->mem, s->text[k]);
}

static struct ledger_device *new_device(struct ledger_observation *o, const struct sample *s,
                                        const char *node, const char *id)
{
    struct ledger_device *d = gs_arena_alloc(&o->mem, sizeof(*d));
    *d = (struct ledger_device){.id = gs_arena_strdup(&o->mem, id),
                                .uuid = kept_text(o, s, UUID),
                                .gpu = kept_text(o, s, GPU),
                                .instance = kept_text(o, s, GPU_INSTANCE),
                                .compute = kept_text(o, s, COMPUTE_INSTANCE),
                                .node = gs_arena_strdup(&o->mem, node),
                                .model = kept_text(o, s, MODEL),
                                .profile = kept_text(o, s, PROFILE),
                                .util = NAN,
                                .active = NAN,
                                .share = 1};
    if (*d->instance)
        d->share = ledger_mig_share(d->profile, d->model);
    gs_hmap_put_str(o->devices, d->id, d);
    return d;
}

static struct gs_slice kept_label(const void *sample, const char *name)
{
    const struct sample *s = sample;
    for (size_t k = 0; k < N_KEPT; k++)
        if (gs_streq(kept_names[k], name))
            return gs_slice_of(s->text[k]);
    return (struct gs_slice){0};
}

// create: the sample is about the device itself. NULL: it has not been observed.
static struct ledger_device *device_of(struct ledger_observation *o, const struct sample *s,
                                       bool create)
{
    GS_AUTO_FREE char *join = join_key(s);
    struct ledger_device *d = gs_hmap_get_str(o->join, join);
    if (d || !create || gs_hmap_len(o->devices) >= LEDGER_MAX_DEVICES)
        return d;
    const struct metrics_gpu_series series = {kept_label, s};
    GS_AUTO_FREE char *node =
        gs_slice_dup(metrics_gpu_node(&series, metrics_gpu_target_of(o->targets, &series)));
    GS_AUTO_FREE char *id =
        gs_format("%s" LEDGER_SEP "%s" LEDGER_SEP "%s" LEDGER_SEP "%s" LEDGER_SEP "%s", node,
                  s->text[UUID], s->text[GPU], s->text[GPU_INSTANCE], s->text[COMPUTE_INSTANCE]);
    d = gs_hmap_get_str(o->devices, id); // another target scrapes the same GPU
    if (!d)
        d = new_device(o, s, node, id);
    gs_hmap_put_str(o->join, join, d);
    return d;
}

static struct ledger_holder *holder_of(struct ledger_observation *o, struct ledger_device *d,
                                       const char *ns, const char *pod)
{
    for (size_t i = 0; i < d->n_holders; i++)
        if (gs_streq(d->holders[i].ns, ns) && gs_streq(d->holders[i].pod, pod))
            return &d->holders[i];
    size_t n = d->n_holders;
    if (n == LEDGER_MAX_HOLDERS)
        return NULL;
    if ((n & (n - 1)) == 0) { // full: it grows at powers of two
        struct ledger_holder *more = gs_arena_alloc(&o->mem, (n ? n * 2 : 1) * sizeof(*more));
        if (n)
            memcpy(more, d->holders, n * sizeof(*more));
        d->holders = more;
    }
    struct ledger_holder *h = &d->holders[d->n_holders++];
    *h = (struct ledger_holder){.ns = gs_arena_strdup(&o->mem, ns),
                                .pod = gs_arena_strdup(&o->mem, pod),
                                .util = NAN,
                                .processes = NAN};
    return h;
}

// The pod of a sample of a device. The texts are those of the sample.
static bool pod_of(const struct ledger_observation *o, const struct sample *s, const char **ret_ns,
                   const char **ret_pod)
{
    const struct metrics_gpu_series series = {kept_label, s};
    struct metrics_gpu_pod owner =
        metrics_gpu_owner(&series, metrics_gpu_target_of(o->targets, &series));
    if (!owner.pod.len)
        return false;
    *ret_ns = owner.ns.len ? owner.ns.data : "(unknown)";
    *ret_pod = owner.pod.data;
    return true;
}

static double larger(double a, double b)
{
    return isnan(a) || b > a ? b : a;
}

static double fraction(double v)
{
    return isnan(v) ? NAN : v < 0 ? 0 : v > 1 ? 1 : v;
}

static void read_device(struct ledger_observation *o, enum ledger_series series,
                        const struct sample *s)
{
    const char *ns, *pod;
    struct ledger_device *d = device_of(o, s, true);
    struct ledger_holder *h = d && pod_of(o, s, &ns, &pod) ? holder_of(o, d, ns, pod) : NULL;
    if (!d)
        return;
    if (series == LEDGER_ACTIVE)
        d->active = larger(d->active, fraction(s->value));
    if (series != LEDGER_UTIL)
        return;
    d->util = larger(d->util, fraction(s->value / 100));
    if (h)
        h->util = larger(h->util, fraction(s->value / 100));
}

static void read_process(struct ledger_observation *o, enum ledger_series series,
                         const struct sample *s)
{
    struct ledger_device *d = device_of(o, s, false);
    const char *pod = s->text[POD_NAME], *ns = s->text[NAMESPACE_NAME];
    if (!d || !*pod || gs_streq(s->text[ALLOCATE_MODE], "none"))
        return;
    struct ledger_holder *h = holder_of(o, d, *ns ? ns : "(unknown)", pod);
    if (!h || series != LEDGER_PROCESS)
        return;
    double v = fraction(s->value / 100);
    if (!isnan(v))
        h->processes = isnan(h->processes) ? v : h->processes + v;
}

static void read_origin(struct ledger_observation *o, const struct sample *s)
{
    const char *ns, *pod;
    struct ledger_device *d = device_of(o, s, false);
    if (!d || !pod_of(o, s, &ns, &pod))
        return;
    for (size_t i = 0; i < d->n_holders; i++)
        if (gs_streq(d->holders[i].ns, ns) && gs_streq(d->holders[i].pod, pod))
            d->holders[i].origin = kept_text(o, s, ATTRIBUTION);
}

void ledger_observation_add(struct ledger_observation *o, enum ledger_series s,
                            const struct metrics_label *labels, size_t n, double value)
{
    static const char *const nodes[] = {"exported_node", "node", NULL};
    struct sample sample;
    if (++o->n_samples > LEDGER_MAX_SAMPLES)
        return;
    const struct label_list list = {labels, n};
    const struct metrics_gpu_series series = {listed_label, &list};
    if (s > LEDGER_TARGET_POD && s <= LEDGER_ORIGIN)
        read_sample(&sample, labels, n, value);
    switch (s) {
    case LEDGER_TARGET:
        metrics_gpu_targets_add(o->targets, &series);
        break;
    case LEDGER_TARGET_POD:
        metrics_gpu_targets_add_pod(o->targets, &series);
        break;
    case LEDGER_UTIL:
    case LEDGER_ACTIVE:
    case LEDGER_PRESENT:
        read_device(o, s, &sample);
        break;
    case LEDGER_PROCESS:
    case LEDGER_HOLDER:
        read_process(o, s, &sample);
        break;
    case LEDGER_ORIGIN:
        read_origin(o, &sample);
        break;
    case LEDGER_POD_OWNER:
        add_owner(o, o->pods, "pod", labels, n);
        break;
    case LEDGER_REPLICASET_OWNER:
        add_owner(o, o->replicasets, "replicaset", labels, n);
        break;
    case LEDGER_JOB_OWNER:
        add_owner(o, o->jobs, "job_name", labels, n);
        break;
    case LEDGER_POD_LABEL:
    case LEDGER_NAMESPACE_LABEL:
        add_owner_label(o, s, labels, n);
        break;
    case LEDGER_NODE_LABEL:
        add_node_labels(o, labels, n);
        break;
    case LEDGER_NODE_EXISTS:
        gs_hmap_put_str(o->nodes, first_text(o, labels, n, nodes), o);
        break;
    case LEDGER_NODE_STRANDED:
        add_stranded(o, labels, n, value);
        break;
    case LEDGER_ZERO:
        add_zero(o, labels, n, value);
        break;
    default:
        break;
    }
}

// Without GPU_UTIL, the time with an active engine is the utilization. A GPU whose MIG devices have
// series is counted by them. Compute instances of one GPU instance share it equally.
static void settle_devices(struct ledger_observation *o)
{
    void *value;
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *instances = gs_hmap_new(free);
    for (size_t pos = 0; gs_hmap_next(o->devices, &pos, NULL, &value);) {
        struct ledger_device *d = value;
        if (isnan(d->util))
            d->util = d->active;
        if (!*d->instance)
            continue;
        GS_AUTO_FREE char *gpu = gs_format(
            "%s" LEDGER_SEP "%s" LEDGER_SEP "%s" LEDGER_SEP LEDGER_SEP, d->node, d->uuid, d->gpu);
        struct ledger_device *whole = gs_hmap_get_str(o->devices, gpu);
        if (whole)
            whole->partitioned = true;
        GS_AUTO_FREE char *instance = gs_format("%s%s", gpu, d->instance);
        size_t *n = gs_hmap_get_str(instances, instance);
        if (!n) {
            n = gs_alloc(sizeof(*n));
            gs_hmap_put_str(instances, instance, n);
        }
        ++*n;
    }
    for (size_t pos = 0; gs_hmap_next(o->devices, &pos, NULL, &value);) {
        struct ledger_device *d = value;
        if (!*d->instance)
            continue;
        GS_AUTO_FREE char *instance =
            gs_format("%s" LEDGER_SEP "%s" LEDGER_SEP "%s" LEDGER_SEP LEDGER_SEP "%s", d->node,
                      d->uuid, d->gpu, d->instance);
        const size_t *n = gs_hmap_get_str(instances, instance);
        d->share /= n ? (double)*n : 1;
    }
}

void ledger_observation_finish(struct ledger_observation *o)
{
    if (o->finished)
        return;
    o->finished = true;
    settle_devices(o);
}
