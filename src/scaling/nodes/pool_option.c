// SPDX-License-Identifier: Apache-2.0
// Pools as the text of an option.
#include "base/mem.h"
#include "base/num.h"
#include "base/option.h"
#include "nodes/nodes_private.h"
#include "nodes/simulation.h"

#define WANT "want NAME=MIN..MAXxGPUS, for example t4-1=0..8x1,startup=40s,price=0.35"

static void set_model(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    p->gpu_model = codec_read_text(r, v);
}

static void set_type(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    p->machine_type = codec_read_text(r, v);
}

static void set_zone(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    p->zone = codec_read_text(r, v);
}

static void set_currency(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    p->currency = codec_read_text(r, v);
}

static void set_price(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    nodes_read_price(r, v, p);
}

static void set_cpu(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    nodes_read_milli(r, v, &p->cpu_milli);
}

static void set_memory(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    nodes_read_bytes(r, v, &p->memory_bytes);
}

static void set_startup(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    p->startup_ms = codec_read_duration(r, v);
}

static void set_p90(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    p->startup_p90_ms = codec_read_duration(r, v);
}

static void set_boot(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    p->simulation->boot_ms = codec_read_duration(r, v);
}

static void set_driver(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    p->simulation->driver_ms = codec_read_duration(r, v);
}

static void set_gpu(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    p->simulation->gpu_ms = codec_read_duration(r, v);
}

static void set_number(struct codec_reader *r, const json_t *v, const char *key, int64_t min,
                       int64_t max, int64_t *ret)
{
    GS_AUTO_ERROR struct gs_error *err =
        gs_parse_i64(gs_slice_of(codec_read_text(r, v)), min, max, ret);
    if (err)
        codec_reader_fail(r, v, "%s: %s", key, gs_error_message(err));
}

static void set_pods(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    int64_t n = 0;
    set_number(r, v, "pods", 1, 10000, &n);
    p->max_pods = (size_t)n;
}

static void set_priority(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    set_number(r, v, "priority", INT32_MIN, INT32_MAX, &p->priority);
}

static void set_spot(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    const char *text = codec_read_text(r, v);
    p->spot = !*text || gs_streq(text, "true");
    if (!p->spot && !gs_streq(text, "false"))
        codec_reader_fail(r, v, "spot: \"%s\" is not true or false", text);
}

static void add_label(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    struct gs_slice rest = gs_slice_of(codec_read_text(r, v)), key = gs_slice_cut(&rest, '=');
    nodes_pool_add_label(r, v, p, gs_arena_strndup(r->arena, key.data, key.len),
                         rest.len ? rest.data : "");
}

static void add_taint(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    nodes_pool_add_taint(r, v, p, codec_read_text(r, v));
}

static void add_resource(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    struct gs_slice rest = gs_slice_of(codec_read_text(r, v)), key = gs_slice_cut(&rest, '=');
    nodes_pool_add_resource(r, v, p, gs_arena_strndup(r->arena, key.data, key.len),
                            rest.len ? rest.data : "");
}

static void set_fail(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    nodes_pool_set_failure(r, v, p, codec_read_text(r, v));
}

static const struct option_key {
    const char *name;
    void (*set)(struct codec_reader *r, const json_t *v, struct nodes_pool *p);
} keys[] = {
    {"boot", set_boot},         {"cpu", set_cpu},           {"currency", set_currency},
    {"driver", set_driver},     {"fail", set_fail},         {"gpu", set_gpu},
    {"label", add_label},       {"memory", set_memory},     {"model", set_model},
    {"p90", set_p90},           {"pods", set_pods},         {"price", set_price},
    {"priority", set_priority}, {"resource", add_resource}, {"spot", set_spot},
    {"startup", set_startup},   {"taint", add_taint},       {"type", set_type},
    {"zone", set_zone},
};

static bool is_number(struct gs_slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.data[i] < '0' || s.data[i] > '9')
            return false;
    return s.len > 0;
}

// Adds the key to the error of its value, and the unit that a duration lacks.
static void name_key(struct codec_reader *r, const char *key, struct gs_slice value)
{
    struct gs_error *err = r->err;
    if (!err)
        return;
    bool no_unit = strstr(gs_error_message(err), "duration string") && is_number(value);
    GS_AUTO_FREE char *unit =
        no_unit ? gs_format("; want a unit: " GS_SLICE_FMT "s", GS_SLICE_ARG(value))
                : gs_strdup("");
    r->err = gs_error_new(gs_error_code(err), "%s (key %s%s)", gs_error_message(err), key, unit);
    gs_error_free(err);
}

static void read_item(struct codec_reader *r, struct gs_slice item, struct nodes_pool *p)
{
    struct gs_slice rest = item, name = gs_slice_cut(&rest, '=');
    CODEC_AUTO_JSON json_t *value = json_stringn(rest.len ? rest.data : "", rest.len);
    const char *names[GS_ARRAY_LEN(keys)];
    if (!value) {
        codec_reader_fail(r, NULL, "a value is not UTF-8");
        return;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++) {
        names[i] = keys[i].name;
        if (!gs_slice_eq_str(name, keys[i].name))
            continue;
        if (!rest.len && keys[i].set != set_spot)
            codec_reader_fail(r, NULL, "%s needs a value", names[i]);
        else
            keys[i].set(r, value, p);
        name_key(r, names[i], rest);
        return;
    }
    GS_AUTO_FREE char *word = gs_slice_dup(name);
    const char *near = gs_suggest(word, names, GS_ARRAY_LEN(keys));
    if (near)
        codec_reader_fail(r, NULL, "unknown key \"%s\", did you mean \"%s\"?", word, near);
    else
        codec_reader_fail(r, NULL, "unknown key \"%s\"", word);
}

static struct gs_error *parse_size(struct gs_slice s, size_t *ret)
{
    uint64_t n = 0;
    struct gs_error *err = gs_parse_u64(s, NODES_MAX_POOL_SIZE, &n);
    if (!err)
        *ret = n;
    return err;
}

// "0..8x1", "3x0"
static bool read_shape(struct gs_slice s, struct nodes_pool *p)
{
    struct gs_slice gpus = s, sizes = gs_slice_cut(&gpus, 'x'), high = sizes;
    const char *dots = sizes.len ? memmem(sizes.data, sizes.len, "..", 2) : NULL;
    if (dots) {
        high = gs_slice_make(dots + 2, (size_t)(sizes.data + sizes.len - dots - 2));
        sizes.len = (size_t)(dots - sizes.data);
    }
    struct gs_error *err = parse_size(sizes, &p->min);
    if (!err)
        err = parse_size(high, &p->max);
    if (!err)
        err = parse_size(gpus, &p->gpus);
    bool ok = !err;
    gs_error_free(err);
    return ok;
}

struct gs_error *nodes_pools_add_option(struct nodes_pools *pools, const char *option)
{
    struct nodes_pool p;
    GS_AUTO_FREE char *title = gs_format("--pool %s", option);
    struct codec_reader r = {.name = title, .arena = &pools->arena};
    nodes_pool_init(&r, &p);
    struct gs_slice rest = gs_slice_of(option), name = gs_slice_cut(&rest, '=');
    struct gs_slice shape = gs_slice_cut(&rest, ',');
    p.name = gs_arena_strndup(r.arena, name.data, name.len);
    p.where = gs_arena_strdup(r.arena, title);
    if (!name.len || !read_shape(shape, &p))
        codec_reader_fail(&r, NULL, WANT);
    while (rest.len && !r.err) {
        struct gs_slice item = gs_slice_cut(&rest, ',');
        read_item(&r, item, &p);
    }
    nodes_pool_complete(&r, NULL, &p);
    nodes_pools_append(&r, NULL, pools, &p);
    return r.err;
}
