// SPDX-License-Identifier: Apache-2.0
// The pools of `gpuscale up`: their options, and the exporters of their machines. The metrics
// engine finds the exporters in a file of targets.
#include "up/up_private.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "codec/json.h"

#include <string.h>

enum { WRITE_DELAY_MS = 100 }; // several machines change at the same time

// --- options ---

// Machines of a pool without GPUs of a known model cannot be simulated.
static struct gs_error *check_gpus(const struct nodes_pool *p)
{
    if (p->gpus > NVMLSIM_MAX_GPUS)
        return gs_error_new(GS_EINVAL, "%s: pool \"%s\": a simulated machine has at most %d GPUs",
                            p->where, p->name, NVMLSIM_MAX_GPUS);
    if (p->gpus && !gs_streq(p->gpu_resource, "nvidia.com/gpu"))
        return gs_error_new(GS_EINVAL,
                            "%s: pool \"%s\": the GPUs of simulated machines are nvidia.com/gpu, "
                            "not %s",
                            p->where, p->name, p->gpu_resource);
    struct nvmlsim_spec spec;
    GS_AUTO_FREE char *text = machines_gpu_spec(p);
    struct gs_error *err = p->gpus ? nvmlsim_spec_parse(text, &spec) : NULL;
    return err ? gs_error_wrap(err, "%s: pool \"%s\"", p->where, p->name) : NULL;
}

static struct gs_error *check_pools(const struct nodes_pools *pools, bool needs_price)
{
    struct nodes_findings findings = {0};
    struct gs_error *err = NULL;
    size_t min = 0;
    nodes_pools_check(pools, needs_price, &findings);
    for (size_t i = 0; i < findings.len; i++) {
        if (findings.items[i].severity == NODES_ERROR && !err)
            err = gs_error_new(GS_EINVAL, "%s", findings.items[i].text);
        else if (findings.items[i].severity != NODES_ERROR)
            gs_warn("up", "%s", findings.items[i].text);
    }
    nodes_findings_finish(&findings);
    for (size_t i = 0; !err && i < pools->len; i++) {
        min += pools->items[i].min;
        err = check_gpus(&pools->items[i]);
    }
    if (!err && min > MACHINES_MAX)
        err = gs_error_new(GS_EINVAL,
                           "the minimum sizes of the pools are %zu machines, gpuscale up runs at "
                           "most %d",
                           min, MACHINES_MAX);
    return err;
}

static bool compares_prices(const struct up_options *o)
{
    return gs_streq(o->autoscaler.expander, "cost") || gs_streq(o->autoscaler.expander, "price");
}

struct gs_error *up_pools_load(const struct up_options *o, struct nodes_pools *ret)
{
    struct nodes_pools pools = {0};
    struct gs_error *err = NULL;
    for (size_t i = 0; !err && i < o->pools.len; i++)
        err = nodes_pools_add_option(&pools, o->pools.items[i]);
    for (size_t i = 0; !err && i < o->pool_files.len; i++)
        err = nodes_pools_load(&pools, o->pool_files.items[i], NULL);
    if (!err)
        err = check_pools(&pools, compares_prices(o) && pools.len > 1);
    if (err) {
        nodes_pools_finish(&pools);
        return err;
    }
    *ret = pools;
    return NULL;
}

// --- exporters ---

struct machine_exporter {
    struct up_machines *owner;
    char *node, *address;
    struct up_child *child;
};

struct up_machines {
    struct up_machines_config cfg;
    struct machines *machines;
    struct machine_exporter **exporters;
    size_t n_exporters, exporters_cap;
    struct gs_timer *timer;
};

static void machine_exporter_free(struct machine_exporter *e)
{
    up_child_free(e->child);
    free(e->node);
    free(e->address);
    free(e);
}

static struct gs_error *write_targets(const struct up_machines *m)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    json_t *targets = json_array();
    for (size_t i = 0; i < m->n_exporters; i++)
        json_array_append_new(targets, json_string(m->exporters[i]->address));
    CODEC_AUTO_JSON json_t *doc = json_pack("[{s:o}]", "targets", targets);
    codec_json_dump(doc, &text);
    return gs_file_write_atomic(m->cfg.targets, 0600, gs_buf_slice(&text));
}

static void on_targets_changed(void *arg)
{
    GS_AUTO_ERROR struct gs_error *err = write_targets(arg);
    if (err)
        gs_err("up", "the targets of the machines: %s", gs_error_message(err));
}

static void on_exporter_line(void *arg, const char *line)
{
    const struct machine_exporter *e = arg;
    GS_AUTO_FREE char *text = gs_format("%s: %s", e->node, line);
    e->owner->cfg.on_line(e->owner->cfg.arg, text);
}

static void start_exporter(struct up_machines *m, const struct machines_info *info)
{
    struct machine_exporter *e = gs_alloc(sizeof(*e));
    e->owner = m;
    e->node = gs_strdup(info->node);
    e->address = gs_format("%s:%d", info->address, MACHINES_EXPORTER_PORT);
    const struct up_exporter_config cfg = {.self_exe = m->cfg.self_exe,
                                           .address = e->address,
                                           .podresources = info->podresources,
                                           .node = e->node,
                                           .gpus = info->gpus,
                                           .interval_ms = m->cfg.interval_ms,
                                           .collectors = m->cfg.collectors,
                                           .errors_only = true,
                                           .on_line = on_exporter_line,
                                           .arg = e};
    struct gs_error *err = up_exporter_start(m->cfg.loop, &cfg, &e->child);
    if (err) {
        gs_err("up", "the exporter of %s: %s", e->node, gs_error_message(err));
        gs_error_free(err);
        machine_exporter_free(e);
        return;
    }
    gs_grow(&m->exporters, &m->exporters_cap, m->n_exporters, sizeof(*m->exporters));
    m->exporters[m->n_exporters++] = e;
    gs_timer_start(m->timer, on_targets_changed, WRITE_DELAY_MS);
}

static void end_exporter(struct up_machines *m, const char *node)
{
    for (size_t i = 0; i < m->n_exporters; i++)
        if (gs_streq(m->exporters[i]->node, node)) {
            machine_exporter_free(m->exporters[i]);
            m->exporters[i] = m->exporters[--m->n_exporters];
            gs_timer_start(m->timer, on_targets_changed, WRITE_DELAY_MS);
            return;
        }
}

static void on_phase(void *arg, const struct machines_info *info)
{
    struct up_machines *m = arg;
    if (info->phase == MACHINES_ALLOCATABLE)
        start_exporter(m, info);
    else if (info->phase == MACHINES_DELETING || info->phase == MACHINES_FAILED)
        end_exporter(m, info->node);
}

struct gs_error *up_machines_start(const struct up_machines_config *cfg, struct up_machines **ret)
{
    struct up_machines *m = gs_alloc(sizeof(*m));
    m->cfg = *cfg;
    m->timer = gs_timer_new(cfg->loop, m);
    struct gs_error *err = write_targets(m);
    if (err) {
        up_machines_free(m);
        return err;
    }
    struct machines_config machines = cfg->machines;
    machines.on_phase = on_phase;
    machines.arg = m;
    m->machines = machines_new(&machines);
    *ret = m;
    return NULL;
}

struct machines *up_machines_of(const struct up_machines *m)
{
    return m->machines;
}

void up_machines_free(struct up_machines *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n_exporters; i++)
        machine_exporter_free(m->exporters[i]);
    machines_free(m->machines);
    gs_timer_free(m->timer);
    free(m->exporters);
    free(m);
}

// --- status ---

struct pool_count {
    const char *pool;
    size_t nodes, ready, gpus;
    struct gs_buf *out; // NULL: only count
};

static const char *const phase_texts[] = {
    [MACHINES_PROVISIONING] = "provisioning",
    [MACHINES_REGISTERED] = "registered, not ready",
    [MACHINES_DRIVER] = "driver installed, not ready",
    [MACHINES_ALLOCATABLE] = "GPUs allocatable",
    [MACHINES_READY] = "ready",
    [MACHINES_DELETING] = "is being deleted",
    [MACHINES_FAILED] = "failed",
};

static void count_machine(void *arg, const struct machines_info *m)
{
    struct pool_count *c = arg;
    size_t gpus = m->gpus && m->phase == MACHINES_READY ? m->gpus->n_gpus : 0;
    if (!gs_streq(m->pool, c->pool))
        return;
    c->nodes++;
    c->ready += m->phase == MACHINES_READY;
    c->gpus += gpus;
    if (c->out && gpus)
        gs_buf_addf(c->out, "    %s: ready, %zu GPU%s\n", m->node, gpus, gpus == 1 ? "" : "s");
    else if (c->out)
        gs_buf_addf(c->out, "    %s: %s\n", m->node, phase_texts[m->phase]);
}

void up_pools_print(const struct nodes_pools *pools, const struct up_machines *m,
                    struct gs_buf *out)
{
    for (size_t i = 0; m && i < pools->len; i++) {
        const struct nodes_pool *p = &pools->items[i];
        struct pool_count c = {.pool = p->name};
        machines_each(m->machines, count_machine, &c);
        gs_buf_addf(out, "  Pool %s: %zu of %zu..%zu nodes", p->name, c.nodes, p->min, p->max);
        if (c.ready < c.nodes)
            gs_buf_addf(out, " (%zu ready)", c.ready);
        if (p->gpus)
            gs_buf_addf(out, ", %zu GPU%s", c.gpus, c.gpus == 1 ? "" : "s");
        gs_buf_add_char(out, '\n');
        c.out = out;
        machines_each(m->machines, count_machine, &c);
    }
}
