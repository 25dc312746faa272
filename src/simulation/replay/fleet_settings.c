// SPDX-License-Identifier: Apache-2.0
// The pools and prices of a scenario with pools, and the settings that can be changed by name.
#include "nodes/prices.h"
#include "replay/fleet_private.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/num.h"

#include <string.h>

// --- pools ---

static void read_outage(struct codec_reader *r, const json_t *v, void *out)
{
    static const struct codec_field fields[] = {
        {"from", CODEC_FIELD_DURATION, offsetof(struct replay_outage, from_ms), NULL},
        {"until", CODEC_FIELD_DURATION, offsetof(struct replay_outage, until_ms), NULL},
        {0},
    };
    struct replay_outage *o = out;
    codec_read_mapping(r, v, fields, "time without capacity", o);
    if (!r->err && o->until_ms <= o->from_ms)
        codec_reader_fail(r, v, "want a time without capacity: {from: 1h, until: 2h}");
}

static void read_outages(struct codec_reader *r, const json_t *v, void *out)
{
    struct replay_pool_extra *x = out;
    codec_read_list(r, v, sizeof(*x->outages), read_outage, &x->outages, &x->n_outages);
}

static const struct codec_field extra_fields[] = {
    {"noCapacity", CODEC_FIELD_CUSTOM, 0, read_outages},
    {"preemption", CODEC_FIELD_DURATION, offsetof(struct replay_pool_extra, preemption_ms), NULL},
    {0},
};

static const struct nodes_pools_extra extra = {.fields = extra_fields,
                                               .size = sizeof(struct replay_pool_extra)};

static void refuse_wrong_pools(struct codec_reader *r, const struct replay_fleet *f)
{
    struct nodes_findings found = {0};
    nodes_pools_check(&f->pools, false, &found);
    for (size_t i = 0; i < found.len && !r->err; i++)
        if (found.items[i].severity == NODES_ERROR)
            r->err = gs_error_new(GS_EINVAL, "%s", found.items[i].text);
    nodes_findings_finish(&found);
}

static void check_pools(struct codec_reader *r, const json_t *at, const struct replay_fleet *f)
{
    size_t all = 0;
    for (size_t i = 0; i < f->pools.len && !r->err; i++) {
        const struct replay_pool_extra *x = f->pools.items[i].extra;
        all += f->pools.items[i].max;
        if (x && x->preemption_ms && !f->pools.items[i].spot)
            codec_reader_fail(r, at, "pool %s: preemption needs spot: true",
                              f->pools.items[i].name);
        else if (x && x->preemption_ms && x->preemption_ms < 1000)
            codec_reader_fail(r, at, "pool %s: want a preemption of at least 1s",
                              f->pools.items[i].name);
        else if (f->pools.items[i].max > REPLAY_MAX_NODES || all > REPLAY_MAX_NODES)
            codec_reader_fail(r, at, "the pools have more than %zu nodes", REPLAY_MAX_NODES);
    }
    if (!r->err && (!f->pools.len || f->pools.len > REPLAY_MAX_POOLS))
        codec_reader_fail(r, at, "pools: want 1 to %zu", REPLAY_MAX_POOLS);
}

void replay_fleet_read_pools(struct codec_reader *r, const json_t *list, struct replay_fleet *f)
{
    if (json_is_string(list)) {
        const char *path = codec_reader_path(r, codec_read_text(r, list));
        r->err = nodes_pools_load(&f->pools, path, &extra);
    } else {
        nodes_pools_read(r, list, &f->pools, &extra);
    }
    if (!r->err)
        check_pools(r, list, f);
    if (!r->err)
        replay_fleet_apply_prices(f);
    if (!r->err)
        refuse_wrong_pools(r, f);
}

static struct nodes_pool *find_pool(struct replay_fleet *f, const char *name)
{
    for (size_t i = 0; i < f->pools.len; i++)
        if (gs_streq(f->pools.items[i].name, name))
            return &f->pools.items[i];
    return NULL;
}

// --- prices ---

// By machine type, or by the name of the pool. A row for the GPU model is the price of one GPU.
void replay_fleet_apply_prices(struct replay_fleet *f)
{
    const json_t *instances = json_object_get(f->prices, "instances");
    const json_t *gpus = json_object_get(f->prices, "gpus");
    const char *currency = codec_json_str(f->prices, "currency", NULL);
    for (size_t i = 0; i < f->pools.len; i++) {
        struct nodes_pool *p = &f->pools.items[i];
        const json_t *row = json_object_get(instances, p->name);
        const json_t *gpu = p->gpu_model ? json_object_get(gpus, p->gpu_model) : NULL;
        if (!row && p->machine_type)
            row = json_object_get(instances, p->machine_type);
        if (!row && !gpu)
            continue;
        p->has_price = true;
        p->price = row ? json_number_value(json_object_get(row, "price"))
                       : (double)p->gpus * json_number_value(gpu);
        if (currency)
            p->currency = currency;
    }
}

struct gs_error *replay_fleet_prices(struct replay_fleet *f, const char *path)
{
    struct gs_error *err = nodes_prices_load(path, &f->prices);
    if (!err)
        replay_fleet_apply_prices(f);
    return err;
}

// --- learned start-up times ---

#define MAX_NODES_FILE ((size_t)64 << 20)
#define MAX_START_S    86400

// False: the entry has no times.
static bool learn_times(struct nodes_pool *p, const json_t *entry)
{
    int64_t p50 = codec_json_int(entry, -1, "startup", "p50Seconds", NULL);
    int64_t p90 = codec_json_int(entry, -1, "startup", "p90Seconds", NULL);
    if (p50 < 0 || p50 > MAX_START_S || p90 < p50 || p90 > MAX_START_S)
        return false;
    p->startup_ms = p50 * 1000;
    p->startup_p90_ms = p90 * 1000;
    return true;
}

struct gs_error *replay_fleet_start_times(struct replay_fleet *f, const char *path)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    CODEC_AUTO_JSON json_t *doc = NULL;
    size_t i, learned = 0;
    json_t *entry;
    struct gs_error *err = gs_file_read(path, MAX_NODES_FILE, &text);
    if (!err)
        err = codec_json_parse(gs_buf_slice(&text), false, &doc);
    if (err)
        return gs_error_wrap(err, "%s", path);
    json_array_foreach (json_object_get(doc, "pools"), i, entry) {
        const char *name = codec_json_str(entry, "name", NULL);
        struct nodes_pool *p = name ? find_pool(f, name) : NULL;
        learned += p && learn_times(p, entry);
    }
    return learned ? NULL
                   : gs_error_new(GS_EINVAL,
                                  "%s: no start-up times of the scenario's pools; want the output "
                                  "of gpuscale nodes -o json",
                                  path);
}

const char *replay_fleet_name(const struct replay_fleet *f)
{
    return f->name;
}

// --- settings ---

static struct gs_error *set_of_pool(struct replay_fleet *f, const char *field, const char *pool,
                                    double v)
{
    struct nodes_pool *p = find_pool(f, pool);
    if (!p)
        return gs_error_new(GS_EINVAL, "no pool has the name \"%s\"", pool);
    if (gs_streq(field, "price") && v >= 0 && v < 1e9) {
        p->price = v;
        p->has_price = true;
        return NULL;
    }
    if (gs_streq(field, "max") && v >= (double)p->min && v <= (double)REPLAY_MAX_NODES) {
        p->max = (size_t)v;
        return NULL;
    }
    return gs_error_new(GS_EINVAL, "%s cannot be %g here", field, v);
}

static struct gs_error *set_preemption(struct replay_fleet *f, const char *pool, const char *value)
{
    int64_t ns = 0;
    struct nodes_pool *p = find_pool(f, pool);
    struct gs_error *err = gs_parse_duration(gs_slice_of(value), &ns);
    if (err)
        return gs_error_wrap(err, "preemption.%s", pool);
    if (!p)
        return gs_error_new(GS_EINVAL, "no pool has the name \"%s\"", pool);
    if (!p->spot || !p->extra)
        return gs_error_new(GS_EINVAL, "pool %s: preemption needs spot: true", pool);
    if (ns && ns < GS_NS_PER_SEC)
        return gs_error_new(GS_EINVAL, "preemption.%s: want at least 1s, or 0s for never", pool);
    ((struct replay_pool_extra *)p->extra)->preemption_ms = ns / GS_NS_PER_MS;
    return NULL;
}

static struct gs_error *set_of_workload(struct replay_fleet *f, struct gs_slice workload,
                                        const char *name, const char *value)
{
    for (size_t i = 0; i < f->n_workloads; i++)
        if (gs_slice_eq_str(workload, f->workloads[i].s->name)) {
            struct replay_scenario *s = f->workloads[i].s;
            if (gs_streq(name, "gpu") || gs_streq(name, "instance") || gs_streq(name, "nodes") ||
                gs_streq(name, "duration") || !s->object)
                return gs_error_new(GS_EINVAL, "%s cannot be set for this workload", name);
            return replay_scenario_set(s, name, value);
        }
    return gs_error_new(GS_EINVAL, "no workload has the name \"%.*s\"", (int)workload.len,
                        workload.data);
}

static struct gs_error *set_time(struct replay_fleet *f, const char *name, const char *value)
{
    const struct {
        const char *name;
        int64_t *ms;
    } times[] = {
        {"duration", &f->duration_ms},
        {"scan-interval", &f->times.scan_ms},
        {"scale-down-unneeded-time", &f->plan.unneeded_ms},
        {"scale-down-delay-after-add", &f->plan.delay_after_add_ms},
        {"max-node-provision-time", &f->plan.max_provision_ms},
        {"initial-node-group-backoff-duration", &f->times.backoff.initial_ms},
        {"max-node-group-backoff-duration", &f->times.backoff.max_ms},
        {"node-group-backoff-reset-timeout", &f->times.backoff.reset_ms},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(times); i++) {
        int64_t ns = 0;
        if (!gs_streq(name, times[i].name))
            continue;
        struct gs_error *err = gs_parse_duration(gs_slice_of(value), &ns);
        if (!err && ns < 0)
            err = gs_error_new(GS_EINVAL, "want a duration from 0s on");
        if (err)
            return gs_error_wrap(err, "%s", name);
        *times[i].ms = ns / GS_NS_PER_MS;
        for (size_t k = 0; k < f->n_workloads; k++)
            f->workloads[k].s->duration_ms = f->duration_ms;
        return replay_fleet_check(f);
    }
    return gs_error_new(GS_EINVAL,
                        "\"%s\" cannot be set in a scenario with pools; policy, seed, duration, "
                        "scan-interval, scale-down-unneeded-time, scale-down-delay-after-add, "
                        "max-node-provision-time, early-cordon, consolidation, max.POOL, "
                        "price.POOL, preemption.POOL and WORKLOAD.NAME can",
                        name);
}

static struct gs_error *set_flag(bool *flag, const char *name, const char *value)
{
    if (!gs_streq(value, "true") && !gs_streq(value, "false"))
        return gs_error_new(GS_EINVAL, "%s: want true or false", name);
    *flag = gs_streq(value, "true");
    return NULL;
}

struct gs_error *replay_fleet_set(struct replay_fleet *f, const char *name, const char *value)
{
    const char *dot = strchr(name, '.');
    struct gs_slice before = gs_slice_make(name, dot ? (size_t)(dot - name) : 0);
    if (gs_streq(name, "policy"))
        return nodes_policy_parse(value, &f->plan.policy);
    if (gs_streq(name, "early-cordon") || gs_streq(name, "consolidation"))
        return set_flag(name[0] == 'e' ? &f->plan.early_cordon : &f->plan.consolidation, name,
                        value);
    if (gs_streq(name, "seed")) {
        struct gs_error *err = gs_parse_u64(gs_slice_of(value), UINT32_MAX, &f->seed);
        return err ? gs_error_wrap(err, "seed") : NULL;
    }
    if (dot && (gs_slice_eq_str(before, "max") || gs_slice_eq_str(before, "price"))) {
        double v = 0;
        struct gs_error *err = gs_parse_double(gs_slice_of(value), &v);
        return err ? gs_error_wrap(err, "%s", name)
                   : set_of_pool(f, before.data[0] == 'm' ? "max" : "price", dot + 1, v);
    }
    if (dot && gs_slice_eq_str(before, "preemption"))
        return set_preemption(f, dot + 1, value);
    return dot ? set_of_workload(f, before, dot + 1, value) : set_time(f, name, value);
}
