// SPDX-License-Identifier: Apache-2.0
// Runs a scenario with pools: from one time at which something happens to the next.
#include "replay/fleet_run.h"

#include "base/mem.h"

static void set_earlier(int64_t *t_ms, int64_t other_ms)
{
    if (other_ms < *t_ms)
        *t_ms = other_ms;
}

// --- replicas ---

static size_t add_replica(void *ctx, struct replay_cluster *cluster)
{
    struct replay_fleet_run *run = ctx;
    struct replay_workload_run *w = GS_CONTAINER_OF(cluster, struct replay_workload_run, cluster);
    return replay_fleet_add_pod(run, (size_t)(w - run->workloads), cluster->s->gpus_per_replica,
                                NULL);
}

static void remove_replica(void *ctx, size_t ticket)
{
    replay_fleet_remove_pod(ctx, ticket);
}

static void schedule_replicas(void *ctx)
{
    replay_fleet_schedule(ctx);
}

// --- jobs ---

static int64_t start_jobs(struct replay_fleet_run *run)
{
    int64_t next_ms = INT64_MAX;
    for (size_t i = 0; i < run->f->n_workloads; i++) {
        struct replay_fleet_job_list *l = &run->jobs[i];
        for (; l->next < l->n && l->jobs[l->next].at_ms <= run->t_ms; l->next++)
            replay_fleet_add_pod(run, i, l->jobs[l->next].gpus, &l->jobs[l->next]);
        if (l->next < l->n)
            set_earlier(&next_ms, l->jobs[l->next].at_ms);
    }
    return next_ms;
}

static void end_jobs(struct replay_fleet_run *run)
{
    for (size_t i = run->running_jobs.len; i-- > 0;) {
        size_t ticket = run->running_jobs.items[i];
        if (run->pods[ticket].end_ms <= run->t_ms)
            replay_fleet_remove_pod(run, ticket);
    }
}

// --- time ---

// All that happens now. Returns the next time at which something may happen.
static int64_t act(struct replay_fleet_run *run)
{
    int64_t next_ms = INT64_MAX;
    end_jobs(run);
    replay_fleet_advance_nodes(run);
    for (size_t i = 0; i < run->f->n_workloads; i++)
        set_earlier(&next_ms, replay_workload_act(&run->workloads[i]));
    set_earlier(&next_ms, start_jobs(run));
    replay_fleet_schedule(run);
    set_earlier(&next_ms, replay_fleet_scan(run));
    // What the steps above have changed.
    set_earlier(&next_ms, replay_fleet_advance_nodes(run));
    for (size_t i = 0; i < run->running_jobs.len; i++)
        set_earlier(&next_ms, run->pods[run->running_jobs.items[i]].end_ms);
    for (size_t i = 0; i < run->f->n_workloads; i++)
        set_earlier(&next_ms, replay_cluster_count(&run->workloads[i].cluster)->until_ms);
    return next_ms;
}

static void advance(struct replay_fleet_run *run, int64_t next_ms)
{
    // Whole seconds, as the clock of the workloads.
    next_ms = next_ms > run->f->duration_ms ? run->f->duration_ms : (next_ms + 999) / 1000 * 1000;
    if (next_ms <= run->t_ms)
        next_ms = run->t_ms + 1000;
    replay_fleet_account(run, next_ms);
    run->t_ms = next_ms;
    for (size_t i = 0; i < run->f->n_workloads; i++)
        replay_cluster_run(&run->workloads[i].cluster, next_ms);
}

static void start_pools(struct replay_fleet_run *run)
{
    size_t n = run->f->pools.len;
    run->pools = gs_alloc_array(n + 1, sizeof(*run->pools));
    for (size_t i = 0; i < n; i++) {
        struct replay_fleet_pool *p = &run->pools[i];
        p->pool = &run->f->pools.items[i];
        p->template[0] = nodes_pool_template(p->pool, p->pool->name);
        p->template[1] = json_deep_copy(p->template[0]);
        codec_json_set(p->template[1], json_true(), "spec", "unschedulable", NULL);
        codec_json_set(p->template[1], json_string("true"), "metadata", "annotations",
                       NODES_ANN_EARLY_CORDON, NULL);
        for (size_t k = 0; k < p->pool->min; k++)
            replay_fleet_add_node(run, i, true);
    }
}

static struct gs_error *start_run(struct replay_fleet_run *run)
{
    size_t n = run->f->n_workloads;
    run->placer = (struct replay_placer){run, add_replica, remove_replica, schedule_replicas};
    replay_fleet_start_nodes(run);
    start_pools(run);
    run->workloads = gs_alloc_array(n, sizeof(*run->workloads));
    run->jobs = gs_alloc_array(n, sizeof(*run->jobs));
    for (size_t i = 0; i < n; i++) {
        struct gs_error *err = replay_fleet_jobs(run->f, i, &run->jobs[i].jobs, &run->jobs[i].n);
        if (err)
            return err;
    }
    replay_fleet_find_typical(run);
    for (size_t i = 0; i < n; i++)
        replay_workload_start(&run->workloads[i], run->f->workloads[i].s, &run->placer, false);
    return NULL;
}

void replay_fleet_end(struct replay_fleet_run *run)
{
    for (size_t i = 0; i < run->f->n_workloads; i++)
        free(run->jobs[i].jobs);
    for (size_t i = 0; i < run->n_shapes; i++) {
        free(run->shapes[i].spare.items);
        json_decref(run->shapes[i].pod);
    }
    for (size_t i = 0; i < run->f->pools.len; i++) {
        for (size_t k = 0; k < GS_ARRAY_LEN(run->pools[i].spare); k++) {
            free(run->pools[i].spare[k].items);
            json_decref(run->pools[i].template[k]);
        }
    }
    for (size_t i = 0; i < run->f->n_workloads; i++)
        free(run->waits[i].items);
    nodes_snapshot_free(run->snapshot);
    free(run->waits);
    free(run->larger);
    free(run->spare_tickets.items);
    free(run->running_jobs.items);
    free(run->waiting.items);
    free(run->workloads);
    free(run->shapes);
    free(run->pools);
    free(run->nodes);
    free(run->jobs);
    free(run->pods);
}

struct gs_error *replay_fleet_begin(struct replay_fleet_run *run, const struct replay_fleet *f,
                                    struct replay_fleet_result *result)
{
    *run = (struct replay_fleet_run){.f = f, .result = result};
    replay_fleet_start_result(run);
    return start_run(run);
}

void replay_fleet_step(struct replay_fleet_run *run)
{
    advance(run, act(run));
}

struct gs_error *replay_fleet_run(const struct replay_fleet *f, struct replay_fleet_result *ret)
{
    struct replay_fleet_run run;
    struct gs_error *err = replay_fleet_begin(&run, f, ret);
    while (!err && run.t_ms < f->duration_ms)
        replay_fleet_step(&run);
    if (!err)
        replay_fleet_finish_result(&run);
    else
        replay_fleet_result_finish(ret);
    replay_fleet_end(&run);
    return err;
}
