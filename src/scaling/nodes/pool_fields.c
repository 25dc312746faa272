// SPDX-License-Identifier: Apache-2.0
// The fields of a pool: values, limits and defaults, for the file and the option.
#include "base/mem.h"
#include "base/num.h"
#include "kube/names.h"
#include "kube/quantity.h"
#include "nodes/nodes_private.h"
#include "nodes/simulation.h"

#include <math.h>

#define MAX_STARTUP_MS (INT64_C(24) * 3600 * 1000)
#define MAX_PRICE      1e6
#define MAX_CPU_MILLI  (INT64_C(10000) * 1000)
#define MAX_MEMORY     (INT64_C(1) << 50)

void nodes_pool_init(struct codec_reader *r, struct nodes_pool *p)
{
    *p = (struct nodes_pool){.gpu_resource = NODES_GPU,
                             .currency = "USD",
                             .simulation = codec_reader_alloc(r, sizeof(*p->simulation))};
}

// --- scalars ---

void nodes_read_milli(struct codec_reader *r, const json_t *value, void *out)
{
    const char *text = codec_read_text(r, value);
    int64_t milli = 0;
    GS_AUTO_ERROR struct gs_error *err = kube_quantity_parse_milli(gs_slice_of(text), &milli);
    if (err || milli < 0)
        codec_reader_fail(r, value, "\"%s\" is not a quantity such as 4 or 500m", text);
    else
        *(int64_t *)out = milli;
}

void nodes_read_bytes(struct codec_reader *r, const json_t *value, void *out)
{
    const char *text = codec_read_text(r, value);
    int64_t bytes = 0;
    GS_AUTO_ERROR struct gs_error *err = kube_quantity_parse_value(gs_slice_of(text), &bytes);
    if (err || bytes < 0)
        codec_reader_fail(r, value, "\"%s\" is not a quantity such as 64Gi", text);
    else
        *(int64_t *)out = bytes;
}

void nodes_read_price(struct codec_reader *r, const json_t *value, void *pool)
{
    struct nodes_pool *p = pool;
    const char *text = codec_read_text(r, value);
    double price = 0;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_double(gs_slice_of(text), &price);
    if (err || !isfinite(price) || price < 0 || price > MAX_PRICE) {
        codec_reader_fail(r, value, "\"%s\" is not a price per hour such as 2.48", text);
        return;
    }
    p->price = price;
    p->has_price = true;
}

// --- lists ---

// Room for one more item in a list of the arena.
static void *append(struct codec_reader *r, const json_t *value, const char *what, void *items,
                    size_t *n, size_t size)
{
    if (*n == NODES_MAX_POOL_ITEMS) {
        codec_reader_fail(r, value, "more than %d %s", NODES_MAX_POOL_ITEMS, what);
        return NULL;
    }
    char *more = codec_reader_alloc(r, (*n + 1) * size), *old;
    memcpy(&old, items, sizeof(old));
    if (*n)
        memcpy(more, old, *n * size);
    memcpy(items, &more, sizeof(more));
    return more + (*n)++ * size;
}

void nodes_pool_add_label(struct codec_reader *r, const json_t *value, struct nodes_pool *p,
                          const char *key, const char *text)
{
    GS_AUTO_BUF struct gs_buf why = {0};
    if (!kube_check_label_key(gs_slice_of(key), &why) ||
        !kube_check_label_value(gs_slice_of(text), &why)) {
        codec_reader_fail(r, value, "label %s=%s: %s", key, text, why.data);
        return;
    }
    struct nodes_label *l = append(r, value, "labels", &p->labels, &p->n_labels, sizeof(*l));
    if (l)
        *l = (struct nodes_label){gs_arena_strdup(r->arena, key), gs_arena_strdup(r->arena, text)};
}

static bool is_effect(const char *s)
{
    return gs_streq(s, "NoSchedule") || gs_streq(s, "PreferNoSchedule") || gs_streq(s, "NoExecute");
}

void nodes_pool_add_taint(struct codec_reader *r, const json_t *value, struct nodes_pool *p,
                          const char *text)
{
    GS_AUTO_BUF struct gs_buf why = {0};
    const char *colon = strrchr(text, ':');
    if (!colon || !is_effect(colon + 1)) {
        codec_reader_fail(r, value,
                          "taint \"%s\": want KEY=VALUE:EFFECT with the effect NoSchedule, "
                          "PreferNoSchedule or NoExecute",
                          text);
        return;
    }
    struct gs_slice rest = gs_slice_make(text, (size_t)(colon - text));
    struct gs_slice key = gs_slice_cut(&rest, '=');
    if (!kube_check_label_key(key, &why) || !kube_check_label_value(rest, &why)) {
        codec_reader_fail(r, value, "taint \"%s\": %s", text, why.data);
        return;
    }
    struct nodes_taint *t = append(r, value, "taints", &p->taints, &p->n_taints, sizeof(*t));
    if (t)
        *t = (struct nodes_taint){gs_arena_strndup(r->arena, key.data, key.len),
                                  gs_arena_strndup(r->arena, rest.len ? rest.data : "", rest.len),
                                  gs_arena_strdup(r->arena, colon + 1)};
}

void nodes_pool_add_resource(struct codec_reader *r, const json_t *value, struct nodes_pool *p,
                             const char *name, const char *text)
{
    int64_t milli = 0;
    GS_AUTO_ERROR struct gs_error *err = kube_quantity_parse_milli(gs_slice_of(text), &milli);
    GS_AUTO_BUF struct gs_buf why = {0};
    if (err || milli < 0)
        codec_reader_fail(r, value, "resource %s: \"%s\" is not a quantity", name, text);
    else if (!kube_check_label_key(gs_slice_of(name), &why))
        codec_reader_fail(r, value, "resource %s: %s", name, why.data);
    else if (gs_streq(name, "cpu") || gs_streq(name, "memory") || gs_streq(name, "pods") ||
             gs_streq(name, p->gpu_resource))
        codec_reader_fail(r, value, "resource %s has its own field", name);
    if (r->err)
        return;
    struct nodes_resource *at =
        append(r, value, "resources", &p->resources, &p->n_resources, sizeof(*at));
    if (at)
        *at = (struct nodes_resource){gs_arena_strdup(r->arena, name), milli};
}

void nodes_pool_set_failure(struct codec_reader *r, const json_t *value, struct nodes_pool *p,
                            const char *text)
{
    static const char *const names[] = {"none", "capacity", "never-registers", "never-ready"};
    struct gs_slice rest = gs_slice_of(text), name = gs_slice_cut(&rest, ':');
    size_t kind = 0;
    while (kind < GS_ARRAY_LEN(names) && !gs_slice_eq_str(name, names[kind]))
        kind++;
    if (kind == GS_ARRAY_LEN(names)) {
        codec_reader_fail(r, value,
                          "fail: \"%s\": want capacity, never-registers or never-ready, and "
                          "\":COUNT\" or \":PERCENT%%\" after it for some machines only",
                          text);
        return;
    }
    p->simulation->failure = (enum nodes_failure)kind;
    if (!rest.data)
        return;
    bool percent = gs_slice_ends(rest, "%");
    uint64_t n = 0;
    rest.len -= percent;
    GS_AUTO_ERROR struct gs_error *err =
        gs_parse_u64(rest, percent ? 100 : NODES_MAX_POOL_SIZE, &n);
    if (err || n == 0)
        codec_reader_fail(r, value, "fail: \"%s\": want a number of machines or a percentage",
                          text);
    else if (percent)
        p->simulation->fail_share = (double)n / 100;
    else
        p->simulation->fail_count = n;
}

// --- completion ---

static void complete_startup(struct codec_reader *r, const json_t *value, struct nodes_pool *p)
{
    struct nodes_simulation *sim = p->simulation;
    int64_t phases = sim->boot_ms + sim->driver_ms + sim->gpu_ms;
    if (p->startup_ms > MAX_STARTUP_MS || p->startup_p90_ms > MAX_STARTUP_MS ||
        sim->boot_ms > MAX_STARTUP_MS || sim->driver_ms > MAX_STARTUP_MS ||
        sim->gpu_ms > MAX_STARTUP_MS)
        codec_reader_fail(r, value, "pool %s: a start-up time is more than a day", p->name);
    if (!p->startup_ms)
        p->startup_ms = phases;
    else if (phases > p->startup_ms)
        codec_reader_fail(
            r, value, "pool %s: the phases of the start-up take longer than all of it", p->name);
    // What the phases leave is the time until the machine registers; a GPU node also installs the
    // driver.
    if (p->startup_ms > phases && !sim->boot_ms) {
        int64_t left = p->startup_ms - phases;
        if (p->gpus && !sim->driver_ms && !sim->gpu_ms) {
            sim->driver_ms = left / 4;
            sim->gpu_ms = left / 20;
        }
        sim->boot_ms = p->startup_ms - sim->driver_ms - sim->gpu_ms;
    } else if (p->startup_ms > phases) {
        sim->boot_ms += p->startup_ms - phases;
    }
    if (p->startup_p90_ms && p->startup_p90_ms < p->startup_ms)
        codec_reader_fail(r, value, "pool %s: the p90 of the start-up is below its median",
                          p->name);
    if (!p->startup_p90_ms)
        p->startup_p90_ms = p->startup_ms;
}

void nodes_pool_complete(struct codec_reader *r, const json_t *value, struct nodes_pool *p)
{
    GS_AUTO_BUF struct gs_buf why = {0};
    if (r->err)
        return;
    if (!p->name || !*p->name)
        codec_reader_fail(r, value, "a pool needs a name");
    else if (!kube_check_dns_label(gs_slice_of(p->name), &why))
        codec_reader_fail(r, value, "pool name \"%s\": %s", p->name, why.data);
    if (r->err)
        return;
    if (!p->cpu_milli)
        p->cpu_milli = p->gpus ? (int64_t)p->gpus * 8000 : 4000;
    if (!p->memory_bytes)
        p->memory_bytes = (int64_t)(p->gpus ? p->gpus * 32 : 16) << 30;
    if (!p->max_pods)
        p->max_pods = 110;
    if (p->min > p->max)
        codec_reader_fail(r, value, "pool %s: min %zu is above max %zu", p->name, p->min, p->max);
    else if (p->max > NODES_MAX_POOL_SIZE)
        codec_reader_fail(r, value, "pool %s: max is above %d", p->name, NODES_MAX_POOL_SIZE);
    else if (p->gpus > NODES_MAX_POOL_GPUS)
        codec_reader_fail(r, value, "pool %s: more than %d GPUs per machine", p->name,
                          NODES_MAX_POOL_GPUS);
    else if (p->cpu_milli > MAX_CPU_MILLI || p->memory_bytes > MAX_MEMORY || p->max_pods > 10000)
        codec_reader_fail(r, value, "pool %s: no machine has so much CPU, memory or room for pods",
                          p->name);
    else
        complete_startup(r, value, p);
}

void nodes_pools_append(struct codec_reader *r, const json_t *value, struct nodes_pools *pools,
                        const struct nodes_pool *p)
{
    if (r->err)
        return;
    const struct nodes_pool *other = nodes_pools_find(pools, p->name);
    if (other)
        codec_reader_fail(r, value, "pool %s exists already: %s", p->name, other->where);
    else if (pools->len == NODES_MAX_POOLS)
        codec_reader_fail(r, value, "more than %d pools", NODES_MAX_POOLS);
    if (r->err)
        return;
    gs_grow(&pools->items, &pools->cap, pools->len, sizeof(*pools->items));
    pools->items[pools->len++] = *p;
}
