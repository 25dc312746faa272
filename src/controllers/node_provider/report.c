// SPDX-License-Identifier: Apache-2.0
// The state of the pools as metrics and as JSON.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "metrics/write.h"
#include "node_provider/node_provider_private.h"

#define PREFIX "gpuscale_node_provider_"

static void write_pool_value(struct gs_buf *out, const char *name, const char *pool, double value)
{
    const struct metrics_label labels[] = {{GS_SLICE("pool"), gs_slice_of(pool)}};
    metrics_write_sample(out, name, labels, 1, value);
}

static void write_labeled(struct gs_buf *out, const char *name, const char *pool, const char *label,
                          const char *text, double value)
{
    const struct metrics_label labels[] = {{GS_SLICE("pool"), gs_slice_of(pool)},
                                           {gs_slice_of(label), gs_slice_of(text)}};
    metrics_write_sample(out, name, labels, 2, value);
}

static double target_of(const struct node_provider_pool *p)
{
    return (double)node_provider_target(p);
}

static double min_of(const struct node_provider_pool *p)
{
    return (double)p->spec->min;
}

static double max_of(const struct node_provider_pool *p)
{
    return (double)p->spec->max;
}

static double list_works(const struct node_provider_pool *p)
{
    return p->listed && !p->list_error;
}

static void write_gauges(const struct node_provider_fleet *f, struct gs_buf *out)
{
    static const struct {
        const char *name, *help;
        double (*get)(const struct node_provider_pool *p);
    } gauges[] = {
        {PREFIX "target_size", "Machines that exist or will exist.", target_of},
        {PREFIX "min_size", "Minimum of the pool.", min_of},
        {PREFIX "max_size", "Maximum of the pool.", max_of},
        {PREFIX "list_up", "Whether the last list command succeeded.", list_works},
    };
    for (size_t g = 0; g < GS_ARRAY_LEN(gauges); g++) {
        metrics_write_family(out, gauges[g].name, METRICS_GAUGE, gauges[g].help);
        for (size_t i = 0; i < f->n_pools; i++)
            write_pool_value(out, gauges[g].name, f->pools[i].spec->name,
                             gauges[g].get(&f->pools[i]));
    }
}

static void write_machines(const struct node_provider_fleet *f, struct gs_buf *out)
{
    metrics_write_family(out, PREFIX "machines", METRICS_GAUGE, "Machines by state.");
    for (size_t i = 0; i < f->n_pools; i++)
        for (int step = NODE_PROVIDER_WANTED; step < NODE_PROVIDER_GONE; step++)
            write_labeled(out, PREFIX "machines", f->pools[i].spec->name, "state",
                          node_provider_step_name(step),
                          (double)node_provider_count(&f->pools[i], step));
    if (!f->watches_nodes)
        return;
    metrics_write_family(out, PREFIX "unregistered_machines", METRICS_GAUGE,
                         "Created machines without a Node.");
    for (size_t i = 0; i < f->n_pools; i++) {
        size_t n = 0;
        for (size_t k = 0; k < f->pools[i].len; k++)
            n += f->pools[i].machines[k]->step == NODE_PROVIDER_CREATED &&
                 !f->pools[i].machines[k]->has_node;
        write_pool_value(out, PREFIX "unregistered_machines", f->pools[i].spec->name, (double)n);
    }
}

static void write_commands(const struct node_provider_fleet *f, struct gs_buf *out)
{
    metrics_write_family(out, PREFIX "commands_total", METRICS_COUNTER, "Started commands.");
    for (size_t i = 0; i < f->n_pools; i++)
        for (size_t a = 0; a < NODE_PROVIDER_N_ACTIONS; a++)
            write_labeled(out, PREFIX "commands_total", f->pools[i].spec->name, "command",
                          node_provider_action_name(a), (double)f->pools[i].commands[a]);
    metrics_write_family(out, PREFIX "command_failures_total", METRICS_COUNTER,
                         "Commands that failed, timed out or printed unusable output.");
    for (size_t i = 0; i < f->n_pools; i++)
        for (size_t a = 0; a < NODE_PROVIDER_N_ACTIONS; a++)
            write_labeled(out, PREFIX "command_failures_total", f->pools[i].spec->name, "command",
                          node_provider_action_name(a), (double)f->pools[i].failures[a]);
}

void node_provider_write_metrics(const struct node_provider_fleet *f,
                                 const struct node_provider_nodes *nodes, struct gs_buf *out)
{
    write_gauges(f, out);
    write_machines(f, out);
    write_commands(f, out);
    metrics_write_family(out, PREFIX "removed_nodes_total", METRICS_COUNTER,
                         "Node objects that were removed because their machine is gone.");
    metrics_write_sample(out, PREFIX "removed_nodes_total", NULL, 0,
                         (double)node_provider_nodes_removed(nodes));
}

// --- JSON ---

static json_t *machine_json(const struct node_provider_machine *m)
{
    json_t *j = json_object();
    codec_json_set_str(j, "name", m->name);
    codec_json_set_str(j, "providerID", m->provider_id);
    codec_json_set_str(j, "state", node_provider_step_name(m->step));
    kube_set_time(j, "since", m->changed_ms);
    kube_set_time(j, "created", m->created_ms);
    if (m->command)
        codec_json_set_bool(j, "commandRuns", true);
    if (m->pool->fleet->watches_nodes)
        codec_json_set_bool(j, "registered", m->has_node);
    if (m->step == NODE_PROVIDER_FAILED && m->error_code) {
        codec_json_set(j, json_string(m->error_code), "error", "code", NULL);
        codec_json_set(j, json_string(m->error_message), "error", "message", NULL);
        codec_json_set(j, json_boolean(m->out_of_resources), "error", "outOfResources", NULL);
    }
    return j;
}

static json_t *pool_json(const struct node_provider_pool *p)
{
    json_t *j = json_object(), *machines = json_array();
    codec_json_set_str(j, "name", p->spec->name);
    codec_json_set_int(j, "min", (int64_t)p->spec->min);
    codec_json_set_int(j, "max", (int64_t)p->spec->max);
    codec_json_set_int(j, "target", (int64_t)node_provider_target(p));
    if (p->list_error)
        codec_json_set_str(j, "listError", p->list_error);
    if (p->listed_ms)
        kube_set_time(j, "listed", p->listed_ms);
    for (size_t i = 0; i < p->len; i++)
        if (p->machines[i]->step != NODE_PROVIDER_GONE || p->machines[i]->has_node)
            json_array_append_new(machines, machine_json(p->machines[i]));
    json_object_set_new(j, "machines", machines);
    return j;
}

json_t *node_provider_pools_json(const struct node_provider_fleet *f)
{
    json_t *j = json_object(), *pools = json_array();
    for (size_t i = 0; i < f->n_pools; i++)
        json_array_append_new(pools, pool_json(&f->pools[i]));
    json_object_set_new(j, "pools", pools);
    return j;
}
