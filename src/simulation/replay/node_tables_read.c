// SPDX-License-Identifier: Apache-2.0
// Reads a case of nodes_plan(): settings, pools, nodes and pods become the input of a plan.
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "replay/node_tables_private.h"

#include <string.h>

#define DEFAULT_NOW "2026-01-01T12:00:00Z"
#define DEFAULT_AGE (INT64_C(600) * 1000)

// A case while it is read.
struct draft {
    struct replay_node_case *c;
    const json_t *settings, *cluster, *pools, *nodes, *pods, *budgets;
};

// --- scalars ---

static void read_share(struct codec_reader *r, const json_t *v, void *out)
{
    struct gs_error *err = gs_parse_double(gs_slice_of(codec_read_text(r, v)), out);
    double share = err ? 0 : *(double *)out;
    if (err || !(share >= 0 && share <= 1))
        codec_reader_fail(r, v, "want a share from 0 to 1");
    gs_error_free(err);
}

static void read_integer(struct codec_reader *r, const json_t *v, void *out)
{
    struct gs_error *err =
        gs_parse_i64(gs_slice_of(codec_read_text(r, v)), INT32_MIN, INT32_MAX, out);
    if (err)
        codec_reader_fail(r, v, "%s", gs_error_message(err));
    gs_error_free(err);
}

static void read_policy(struct codec_reader *r, const json_t *v, void *out)
{
    struct gs_error *err = nodes_policy_parse(codec_read_text(r, v), out);
    if (err)
        codec_reader_fail(r, v, "%s", gs_error_message(err));
    gs_error_free(err);
}

static void read_time(struct codec_reader *r, const json_t *v, void *out)
{
    struct gs_error *err = gs_parse_rfc3339(gs_slice_of(codec_read_text(r, v)), out);
    if (err)
        codec_reader_fail(r, v, "%s", gs_error_message(err));
    gs_error_free(err);
}

// --- settings and the cluster ---

#define AT(field) offsetof(struct nodes_plan_settings, field)
static const struct codec_field settings_fields[] = {
    {"expander", CODEC_FIELD_CUSTOM, AT(policy), read_policy},
    {"max-nodes-total", CODEC_FIELD_COUNT, AT(max_nodes_total), NULL},
    {"max-nodes-per-scaleup", CODEC_FIELD_COUNT, AT(max_nodes_per_choice), NULL},
    {"expendable-pods-priority-cutoff", CODEC_FIELD_CUSTOM, AT(expendable_priority), read_integer},
    {"new-pod-scale-up-delay", CODEC_FIELD_DURATION, AT(new_pod_delay_ms), NULL},
    {"balance-similar-node-groups", CODEC_FIELD_BOOL, AT(balance_similar), NULL},
    {"enforce-node-group-min-size", CODEC_FIELD_BOOL, AT(enforce_min_size), NULL},
    {"scale-down-enabled", CODEC_FIELD_BOOL, AT(scale_down), NULL},
    {"scale-down-unneeded-time", CODEC_FIELD_DURATION, AT(unneeded_ms), NULL},
    {"scale-down-unready-time", CODEC_FIELD_DURATION, AT(unready_ms), NULL},
    {"scale-down-delay-after-add", CODEC_FIELD_DURATION, AT(delay_after_add_ms), NULL},
    {"scale-down-delay-after-delete", CODEC_FIELD_DURATION, AT(delay_after_delete_ms), NULL},
    {"scale-down-delay-after-failure", CODEC_FIELD_DURATION, AT(delay_after_failure_ms), NULL},
    {"scale-down-utilization-threshold", CODEC_FIELD_CUSTOM, AT(threshold), read_share},
    {"scale-down-gpu-utilization-threshold", CODEC_FIELD_CUSTOM, AT(gpu_threshold), read_share},
    {"max-scale-down-parallelism", CODEC_FIELD_COUNT, AT(max_parallelism), NULL},
    {"max-drain-parallelism", CODEC_FIELD_COUNT, AT(max_drain_parallelism), NULL},
    {"ignore-daemonsets-utilization", CODEC_FIELD_BOOL, AT(ignore_daemonset_utilization), NULL},
    {"skip-nodes-with-local-storage", CODEC_FIELD_BOOL, AT(skip_local_storage), NULL},
    {"skip-nodes-with-system-pods", CODEC_FIELD_BOOL, AT(skip_system_pods), NULL},
    {"bsp-disruption-timeout", CODEC_FIELD_DURATION, AT(system_pod_timeout_ms), NULL},
    {"early-cordon", CODEC_FIELD_BOOL, AT(early_cordon), NULL},
    {"consolidation", CODEC_FIELD_BOOL, AT(consolidation), NULL},
    {"max-node-provision-time", CODEC_FIELD_DURATION, AT(max_provision_ms), NULL},
    {0},
};
#undef AT

struct cluster_fields {
    int64_t add_ms, delete_ms, failure_ms; // ago; -1: never
    size_t draining, removing, nodes;      // nodes: SIZE_MAX: those that are listed
    bool unknown_budgets;
};

static int64_t ago(const struct nodes_plan_input *in, int64_t ms)
{
    return ms < 0 ? 0 : in->now_ms - ms;
}

static void read_cluster(struct codec_reader *r, const json_t *v, struct nodes_plan_input *in)
{
#define AT(field) offsetof(struct cluster_fields, field)
    static const struct codec_field fields[] = {
        {"lastAdd", CODEC_FIELD_DURATION, AT(add_ms), NULL},
        {"lastDelete", CODEC_FIELD_DURATION, AT(delete_ms), NULL},
        {"lastFailure", CODEC_FIELD_DURATION, AT(failure_ms), NULL},
        {"draining", CODEC_FIELD_COUNT, AT(draining), NULL},
        {"removing", CODEC_FIELD_COUNT, AT(removing), NULL},
        {"nodes", CODEC_FIELD_COUNT, AT(nodes), NULL},
        {"budgetsUnknown", CODEC_FIELD_BOOL, AT(unknown_budgets), NULL},
        {0},
    };
#undef AT
    struct cluster_fields c = {-1, -1, -1, 0, 0, SIZE_MAX, false};
    if (v)
        codec_read_mapping(r, v, fields, "the cluster", &c);
    in->last_add_ms = ago(in, c.add_ms);
    in->last_delete_ms = ago(in, c.delete_ms);
    in->last_failure_ms = ago(in, c.failure_ms);
    in->n_draining = c.draining;
    in->n_removing = c.removing > c.draining ? c.removing : c.draining;
    in->n_total = c.nodes == SIZE_MAX ? in->n_nodes : c.nodes;
    in->budgets = nodes_budgets_new();
    if (c.unknown_budgets)
        nodes_budgets_set_unknown(in->budgets);
}

// --- pools ---

#define AT(field) offsetof(struct replay_pool_case, field)
static void read_size(struct codec_reader *r, const json_t *v, void *out)
{
    int64_t n = 0;
    read_integer(r, v, &n);
    if (!r->err && n < 0)
        codec_reader_fail(r, v, "size: want 0 or more");
    *(size_t *)out = (size_t)n + 1; // 0: not given
}

static const struct codec_field extra_fields[] = {
    {"size", CODEC_FIELD_CUSTOM, AT(size), read_size},
    {"leaving", CODEC_FIELD_COUNT, AT(leaving), NULL},
    {"backoff", CODEC_FIELD_DURATION, AT(backoff_ms), NULL},
    {"growing", CODEC_FIELD_BOOL, AT(growing), NULL},
    {"blocked", CODEC_FIELD_TEXT, AT(blocked), NULL},
    {0},
};
#undef AT

static const struct nodes_pools_extra pool_extra = {.fields = extra_fields,
                                                    .size = sizeof(struct replay_pool_case)};

static size_t listed_size(const struct replay_node_case *c, size_t group)
{
    size_t n = 0;
    for (size_t i = 0; i < c->in.n_nodes; i++)
        n += c->nodes[i].group == group;
    return n;
}

static void make_groups(struct replay_node_case *c)
{
    size_t n = c->pools.len;
    c->groups = gs_alloc_array(n + 1, sizeof(*c->groups));
    c->leaving = gs_alloc_array(n + 1, sizeof(*c->leaving));
    c->growing = gs_alloc_array(n + 1, sizeof(*c->growing));
    for (size_t i = 0; i < n; i++) {
        const struct nodes_pool *pool = &c->pools.items[i];
        const struct replay_pool_case *x = pool->extra;
        c->groups[i] = (struct nodes_group){.name = pool->name,
                                            .pool = pool,
                                            .size = x->size ? x->size - 1 : listed_size(c, i),
                                            .max = pool->max,
                                            .blocked = x->blocked};
        c->leaving[i] = x->leaving;
        c->growing[i] = x->growing;
        if (x->backoff_ms)
            c->groups[i].backoff = (struct nodes_backoff){.until_ms = c->in.now_ms + x->backoff_ms,
                                                          .last_failure_ms = c->in.now_ms,
                                                          .failures = 1};
    }
}

static size_t group_of(const struct replay_node_case *c, const char *name)
{
    for (size_t i = 0; i < c->pools.len; i++)
        if (gs_streq(c->pools.items[i].name, name))
            return i;
    return NODES_NONE;
}

// --- nodes ---

struct node_fields {
    const char *name, *pool, *condition, *cordon;
    int64_t unneeded_ms, replaceable_ms, replaced_ms; // ago, the last one: from now; -1: never
    const json_t *object;
};

static void keep(struct codec_reader *r, const json_t *v, void *out)
{
    (void)r;
    *(const json_t **)out = v;
}

static enum nodes_condition condition_of(struct codec_reader *r, const json_t *v, const char *name)
{
    static const char *const names[] = {
        [NODES_ABSENT] = "absent",     [NODES_READY] = "ready",     [NODES_UNREADY] = "unready",
        [NODES_UPCOMING] = "upcoming", [NODES_LEAVING] = "leaving",
    };
    for (size_t i = 0; name && i < GS_ARRAY_LEN(names); i++)
        if (gs_streq(names[i], name))
            return (enum nodes_condition)i;
    if (name)
        codec_reader_fail(
            r, v, "condition: want ready, unready, upcoming, leaving or absent, not \"%s\"", name);
    return NODES_READY;
}

static json_t *node_object(const struct replay_node_case *c, const struct node_fields *f,
                           size_t group, enum nodes_condition condition, const json_t *typed)
{
    json_t *node =
        group == NODES_NONE
            ? json_pack("{s:{s:s}, s:{s:{s:s, s:s, s:s}, s:[{s:s, s:s}]}}", "metadata", "name",
                        f->name, "status", "allocatable", "cpu", "4", "memory", "16Gi", "pods",
                        "110", "conditions", "type", "Ready", "status", "True")
            : nodes_pool_template(&c->pools.items[group], f->name);
    if (condition == NODES_UNREADY)
        codec_json_set(node, json_pack("[{s:s, s:s}]", "type", "Ready", "status", "Unknown"),
                       "status", "conditions", NULL);
    if (f->cordon)
        codec_json_set(node, json_true(), "spec", "unschedulable", NULL);
    if (gs_streq(f->cordon, "early"))
        codec_json_set(node, json_string("idle"), "metadata", "annotations", NODES_ANN_EARLY_CORDON,
                       NULL);
    json_t *overlay = f->object ? json_object_get(typed, "object") : NULL;
    if (overlay)
        json_object_update_recursive(node, overlay);
    return node;
}

static void read_node(struct codec_reader *r, const json_t *v, const json_t *typed,
                      struct replay_node_case *c)
{
#define AT(field) offsetof(struct node_fields, field)
    static const struct codec_field fields[] = {
        {"name", CODEC_FIELD_TEXT, AT(name), NULL},
        {"pool", CODEC_FIELD_TEXT, AT(pool), NULL},
        {"condition", CODEC_FIELD_TEXT, AT(condition), NULL},
        {"cordon", CODEC_FIELD_TEXT, AT(cordon), NULL},
        {"unneeded", CODEC_FIELD_DURATION, AT(unneeded_ms), NULL},
        {"replaceable", CODEC_FIELD_DURATION, AT(replaceable_ms), NULL},
        {"replaced", CODEC_FIELD_DURATION, AT(replaced_ms), NULL},
        {"object", CODEC_FIELD_CUSTOM, AT(object), keep},
        {0},
    };
#undef AT
    struct node_fields f = {.unneeded_ms = -1, .replaceable_ms = -1, .replaced_ms = -1};
    codec_read_mapping(r, v, fields, "a node", &f);
    enum nodes_condition condition = condition_of(r, v, f.condition);
    size_t group = group_of(c, f.pool);
    if (!r->err && (!f.name || nodes_find(c->in.snapshot, f.name) != NODES_NONE))
        codec_reader_fail(r, v, "a node needs a name of its own");
    if (!r->err && f.pool && group == NODES_NONE)
        codec_reader_fail(r, v, "no pool has the name \"%s\"", f.pool);
    if (r->err)
        return;
    CODEC_AUTO_JSON json_t *node = node_object(c, &f, group, condition, typed);
    if (condition == NODES_UPCOMING)
        nodes_snapshot_add_template(c->in.snapshot, node, f.name);
    else
        nodes_snapshot_add_node(c->in.snapshot, node);
    c->nodes[c->in.n_nodes++] = (struct nodes_plan_node){
        .condition = condition,
        .group = group,
        .unneeded_since_ms = ago(&c->in, f.unneeded_ms),
        .replaceable_since_ms = ago(&c->in, f.replaceable_ms),
        .replaced_until_ms = f.replaced_ms < 0 ? 0 : c->in.now_ms + f.replaced_ms};
}

// --- pods ---

struct pod_fields {
    const char *name, *ns, *node, *owner, *cpu, *memory, *gpus, *phase;
    int64_t age_ms, deleted_ms; // deleted: ago; -1: it is not
    int64_t priority;
    bool unschedulable;
    const json_t *annotations, *labels, *object;
};

static void set_time(const struct replay_node_case *c, json_t *pod, const char *key, int64_t ms)
{
    char text[GS_RFC3339_SIZE];
    codec_json_set(pod, json_string(gs_format_rfc3339(c->in.now_ms - ms, text)), "metadata", key,
                   NULL);
}

static void set_request(json_t *pod, const char *resource, const char *amount)
{
    json_t *container = json_array_get(codec_json_get(pod, "spec", "containers", NULL), 0);
    if (amount)
        codec_json_set(container, json_string(amount), "resources", "requests", resource, NULL);
}

static json_t *pod_object(const struct replay_node_case *c, const struct pod_fields *f,
                          const json_t *typed)
{
    json_t *pod = json_pack("{s:{s:s, s:s, s:s}, s:{s:[{s:s, s:{s:{}}}], s:I}, s:{s:s}}",
                            "metadata", "name", f->name, "namespace", f->ns, "uid", f->name, "spec",
                            "containers", "name", "c", "resources", "requests", "priority",
                            (json_int_t)f->priority, "status", "phase", f->phase);
    set_request(pod, "cpu", f->cpu);
    set_request(pod, "memory", f->memory);
    set_request(pod, NODES_GPU, f->gpus);
    set_time(c, pod, "creationTimestamp", f->age_ms);
    if (f->deleted_ms >= 0)
        set_time(c, pod, "deletionTimestamp", f->deleted_ms);
    if (f->node)
        codec_json_set(pod, json_string(f->node), "spec", "nodeName", NULL);
    else if (f->unschedulable)
        codec_json_set(pod,
                       json_pack("[{s:s, s:s, s:s}]", "type", "PodScheduled", "status", "False",
                                 "reason", "Unschedulable"),
                       "status", "conditions", NULL);
    if (!gs_streq(f->owner, "none"))
        codec_json_set(
            pod, json_pack("[{s:s, s:s, s:b}]", "kind", f->owner, "name", "owner", "controller", 1),
            "metadata", "ownerReferences", NULL);
    if (f->annotations)
        codec_json_set(pod, json_deep_copy(f->annotations), "metadata", "annotations", NULL);
    if (f->labels)
        codec_json_set(pod, json_deep_copy(f->labels), "metadata", "labels", NULL);
    if (f->object)
        json_object_update_recursive(pod, json_object_get(typed, "object"));
    return pod;
}

static void read_quantity(struct codec_reader *r, const json_t *v, void *out)
{
    int64_t milli = 0;
    const char *text = codec_read_text(r, v);
    struct gs_error *err = kube_quantity_parse_milli(gs_slice_of(text), &milli);
    if (err)
        codec_reader_fail(r, v, "%s", gs_error_message(err));
    gs_error_free(err);
    *(const char **)out = text;
}

static void note_ignored(struct replay_node_case *c, const char *name)
{
    gs_grow(&c->ignored, &c->ignored_cap, c->n_ignored, sizeof(*c->ignored));
    c->ignored[c->n_ignored++] = name;
}

static void read_pod(struct codec_reader *r, const json_t *v, const json_t *typed,
                     struct replay_node_case *c)
{
#define AT(field) offsetof(struct pod_fields, field)
    static const struct codec_field fields[] = {
        {"name", CODEC_FIELD_TEXT, AT(name), NULL},
        {"namespace", CODEC_FIELD_TEXT, AT(ns), NULL},
        {"node", CODEC_FIELD_TEXT, AT(node), NULL},
        {"owner", CODEC_FIELD_TEXT, AT(owner), NULL},
        {"cpu", CODEC_FIELD_CUSTOM, AT(cpu), read_quantity},
        {"memory", CODEC_FIELD_CUSTOM, AT(memory), read_quantity},
        {"gpus", CODEC_FIELD_CUSTOM, AT(gpus), read_quantity},
        {"phase", CODEC_FIELD_TEXT, AT(phase), NULL},
        {"age", CODEC_FIELD_DURATION, AT(age_ms), NULL},
        {"deleted", CODEC_FIELD_DURATION, AT(deleted_ms), NULL},
        {"priority", CODEC_FIELD_CUSTOM, AT(priority), read_integer},
        {"unschedulable", CODEC_FIELD_BOOL, AT(unschedulable), NULL},
        {"annotations", CODEC_FIELD_CUSTOM, AT(annotations), keep},
        {"labels", CODEC_FIELD_CUSTOM, AT(labels), keep},
        {"object", CODEC_FIELD_CUSTOM, AT(object), keep},
        {0},
    };
#undef AT
    struct pod_fields f = {.ns = "default",
                           .owner = "ReplicaSet",
                           .phase = "Running",
                           .age_ms = DEFAULT_AGE,
                           .deleted_ms = -1,
                           .unschedulable = true};
    codec_read_mapping(r, v, fields, "a pod", &f);
    if (!r->err && !f.name)
        codec_reader_fail(r, v, "a pod needs a name");
    if (!r->err && f.node && nodes_find(c->in.snapshot, f.node) == NODES_NONE)
        codec_reader_fail(r, v, "no node has the name \"%s\"", f.node);
    if (r->err)
        return;
    CODEC_AUTO_JSON json_t *pod = pod_object(c, &f, typed);
    if (f.node || nodes_pod_waits(pod, &c->in.settings, c->in.now_ms))
        nodes_snapshot_add_pod(c->in.snapshot, pod);
    else
        note_ignored(c, f.name);
}

// --- budgets ---

struct budget_fields {
    const char *ns;
    const json_t *labels;
    size_t allowed;
};

static void read_budget(struct codec_reader *r, const json_t *v, struct replay_node_case *c)
{
#define AT(field) offsetof(struct budget_fields, field)
    static const struct codec_field fields[] = {
        {"namespace", CODEC_FIELD_TEXT, AT(ns), NULL},
        {"labels", CODEC_FIELD_CUSTOM, AT(labels), keep},
        {"allowed", CODEC_FIELD_COUNT, AT(allowed), NULL},
        {0},
    };
#undef AT
    struct budget_fields f = {.ns = "default"};
    codec_read_mapping(r, v, fields, "a budget", &f);
    if (!r->err && !f.labels)
        codec_reader_fail(r, v, "a budget needs labels");
    if (r->err)
        return;
    json_t *b = json_pack("{s:{s:s, s:s}, s:{s:{s:O}}, s:{s:I}}", "metadata", "name", "b",
                          "namespace", f.ns, "spec", "selector", "matchLabels", f.labels, "status",
                          "disruptionsAllowed", (json_int_t)f.allowed);
    json_array_append_new(c->budgets, b);
    nodes_budgets_add(c->in.budgets, b);
}

// --- the document ---

static size_t list_of(struct codec_reader *r, const json_t *list, const char *what)
{
    if (list && !json_is_array(list))
        codec_reader_fail(r, list, "%s: want a list", what);
    return json_array_size(list);
}

static void read_cluster_objects(struct codec_reader *r, const struct draft *d, const json_t *typed)
{
    struct replay_node_case *c = d->c;
    size_t n = list_of(r, d->nodes, "nodes");
    c->nodes = gs_alloc_array(n + 1, sizeof(*c->nodes));
    for (size_t i = 0; i < n && !r->err; i++)
        read_node(r, json_array_get(d->nodes, i),
                  json_array_get(json_object_get(typed, "nodes"), i), c);
    make_groups(c);
    read_cluster(r, d->cluster, &c->in);
    n = list_of(r, d->pods, "pods");
    for (size_t i = 0; i < n && !r->err; i++)
        read_pod(r, json_array_get(d->pods, i), json_array_get(json_object_get(typed, "pods"), i),
                 c);
    n = list_of(r, d->budgets, "budgets");
    for (size_t i = 0; i < n && !r->err; i++)
        read_budget(r, json_array_get(d->budgets, i), c);
}

void replay_node_case_read(struct codec_reader *r, const json_t *doc, const json_t *typed,
                           struct replay_node_case *ret)
{
    struct top {
        struct draft d;
        int64_t now_ms;
        const char *name;
        const json_t *expect;
    } top = {.d = {.c = ret}};
#define AT(field) offsetof(struct top, field)
    const struct codec_field fields[] = {
        {"name", CODEC_FIELD_TEXT, AT(name), NULL},
        {"now", CODEC_FIELD_CUSTOM, AT(now_ms), read_time},
        {"settings", CODEC_FIELD_CUSTOM, AT(d.settings), keep},
        {"cluster", CODEC_FIELD_CUSTOM, AT(d.cluster), keep},
        {"pools", CODEC_FIELD_CUSTOM, AT(d.pools), keep},
        {"nodes", CODEC_FIELD_CUSTOM, AT(d.nodes), keep},
        {"pods", CODEC_FIELD_CUSTOM, AT(d.pods), keep},
        {"budgets", CODEC_FIELD_CUSTOM, AT(d.budgets), keep},
        {"expect", CODEC_FIELD_CUSTOM, AT(expect), keep},
        {0},
    };
#undef AT
    gs_error_free(gs_parse_rfc3339(gs_slice_of(DEFAULT_NOW), &top.now_ms));
    *ret = (struct replay_node_case){.budgets = json_array()};
    ret->in.snapshot = nodes_snapshot_new();
    nodes_plan_settings_init(&ret->in.settings);
    codec_read_mapping(r, doc, fields, "a case", &top);
    ret->in.now_ms = top.now_ms;
    ret->expect = top.expect;
    if (!r->err && top.d.settings)
        codec_read_mapping(r, top.d.settings, settings_fields, "the settings", &ret->in.settings);
    if (!r->err && top.d.pools)
        nodes_pools_read(r, top.d.pools, &ret->pools, &pool_extra);
    if (!r->err)
        read_cluster_objects(r, &top.d, typed);
    ret->in.nodes = ret->nodes;
    ret->in.groups = ret->groups;
    ret->in.n_groups = ret->pools.len;
    ret->in.leaving = ret->leaving;
    ret->in.growing = ret->growing;
}

void replay_node_case_finish(struct replay_node_case *c)
{
    nodes_snapshot_free(c->in.snapshot);
    nodes_budgets_free(c->in.budgets);
    json_decref(c->budgets);
    nodes_pools_finish(&c->pools);
    free(c->groups);
    free(c->leaving);
    free(c->growing);
    free(c->nodes);
    free(c->ignored);
}
