// SPDX-License-Identifier: Apache-2.0
// Pools in YAML.
#include "base/file.h"
#include "base/mem.h"
#include "nodes/nodes_private.h"
#include "nodes/simulation.h"

struct pool_file {
    struct nodes_pools *pools;
    const struct nodes_pools_extra *extra;
    const char *currency; // of pools without their own
    const json_t *list;
};

// --- lists ---

static void read_labels(struct codec_reader *r, const json_t *v, void *out)
{
    const char *key;
    json_t *item;
    if (!codec_reader_is_mapping(r, v, "labels"))
        return;
    json_object_foreach ((json_t *)v, key, item)
        nodes_pool_add_label(r, item, out, key, codec_read_text(r, item));
}

struct taint_fields {
    const char *key, *value, *effect;
};

static void read_taint(struct codec_reader *r, const json_t *v, struct nodes_pool *p)
{
    static const struct codec_field fields[] = {
        {"key", CODEC_FIELD_TEXT, offsetof(struct taint_fields, key), NULL},
        {"value", CODEC_FIELD_TEXT, offsetof(struct taint_fields, value), NULL},
        {"effect", CODEC_FIELD_TEXT, offsetof(struct taint_fields, effect), NULL},
        {0},
    };
    if (!json_is_object(v)) {
        nodes_pool_add_taint(r, v, p, codec_read_text(r, v));
        return;
    }
    struct taint_fields t = {"", "", ""};
    codec_read_mapping(r, v, fields, "taint", &t);
    if (!r->err)
        nodes_pool_add_taint(r, v, p, codec_reader_format(r, "%s=%s:%s", t.key, t.value, t.effect));
}

static void read_taints(struct codec_reader *r, const json_t *v, void *out)
{
    size_t i;
    json_t *item;
    if (!json_is_array(v))
        codec_reader_fail(r, v, "taints: want a list: [nvidia.com/gpu=present:NoSchedule]");
    json_array_foreach ((json_t *)v, i, item)
        if (!r->err)
            read_taint(r, item, out);
}

static void read_resources(struct codec_reader *r, const json_t *v, void *out)
{
    const char *name;
    json_t *item;
    if (!codec_reader_is_mapping(r, v, "resources"))
        return;
    json_object_foreach ((json_t *)v, name, item)
        nodes_pool_add_resource(r, item, out, name, codec_read_text(r, item));
}

// --- parts of a pool ---

#define AT(field) offsetof(struct nodes_pool, field)

static void read_machine(struct codec_reader *r, const json_t *v, void *out)
{
    static const struct codec_field fields[] = {
        {"type", CODEC_FIELD_TEXT, AT(machine_type), NULL},
        {"cpu", CODEC_FIELD_CUSTOM, AT(cpu_milli), nodes_read_milli},
        {"memory", CODEC_FIELD_CUSTOM, AT(memory_bytes), nodes_read_bytes},
        {"pods", CODEC_FIELD_COUNT, AT(max_pods), NULL},
        {"gpus", CODEC_FIELD_COUNT, AT(gpus), NULL},
        {"model", CODEC_FIELD_TEXT, AT(gpu_model), NULL},
        {"gpuResource", CODEC_FIELD_TEXT, AT(gpu_resource), NULL},
        {"resources", CODEC_FIELD_CUSTOM, 0, read_resources},
        {0},
    };
    codec_read_mapping(r, v, fields, "machine", out);
}

// "40s" or {p50: 40s, p90: 90s, boot: 25s, driver: 12s, gpu: 3s}
static void read_startup(struct codec_reader *r, const json_t *v, void *out)
{
    static const struct codec_field fields[] = {
        {"p50", CODEC_FIELD_DURATION, AT(startup_ms), NULL},
        {"p90", CODEC_FIELD_DURATION, AT(startup_p90_ms), NULL},
        {0},
    };
#define PHASE(field) CODEC_FIELD_DURATION, offsetof(struct nodes_simulation, field), NULL
    static const struct codec_field phases[] = {
        {"boot", PHASE(boot_ms)}, {"driver", PHASE(driver_ms)}, {"gpu", PHASE(gpu_ms)}, {0}};
#undef PHASE
    struct nodes_pool *p = out;
    if (json_is_object(v))
        codec_read_mapping2(r, v, fields, p, phases, p->simulation, "startup");
    else
        p->startup_ms = codec_read_duration(r, v);
}

static void read_priority(struct codec_reader *r, const json_t *v, void *out)
{
    codec_check_integer(r, v, NULL);
    if (!r->err)
        *(int64_t *)out = strtoll(codec_read_text(r, v), NULL, 10);
}

static void read_fail(struct codec_reader *r, const json_t *v, void *out)
{
    nodes_pool_set_failure(r, v, out, codec_read_text(r, v));
}

static const struct codec_field pool_fields[] = {
    {"name", CODEC_FIELD_TEXT, AT(name), NULL},
    {"min", CODEC_FIELD_COUNT, AT(min), NULL},
    {"max", CODEC_FIELD_COUNT, AT(max), NULL},
    {"machine", CODEC_FIELD_CUSTOM, 0, read_machine},
    {"labels", CODEC_FIELD_CUSTOM, 0, read_labels},
    {"taints", CODEC_FIELD_CUSTOM, 0, read_taints},
    {"zone", CODEC_FIELD_TEXT, AT(zone), NULL},
    {"price", CODEC_FIELD_CUSTOM, 0, nodes_read_price},
    {"currency", CODEC_FIELD_TEXT, AT(currency), NULL},
    {"spot", CODEC_FIELD_BOOL, AT(spot), NULL},
    {"startup", CODEC_FIELD_CUSTOM, 0, read_startup},
    {"priority", CODEC_FIELD_CUSTOM, AT(priority), read_priority},
    {"fail", CODEC_FIELD_CUSTOM, 0, read_fail},
    {0},
};
#undef AT

static void read_pool(struct codec_reader *r, const struct pool_file *f, const json_t *v)
{
    // Keys of `gpuscale node-provider`, so that all commands can read the same file.
    static const struct codec_field provider[] = {
        {"commands", CODEC_FIELD_UNUSED, 0, NULL},
        {"hosts", CODEC_FIELD_UNUSED, 0, NULL},
        {"options", CODEC_FIELD_UNUSED, 0, NULL},
        {"providerID", CODEC_FIELD_UNUSED, 0, NULL},
        {"unknownMachines", CODEC_FIELD_UNUSED, 0, NULL},
        {0},
    };
    struct nodes_pool p;
    nodes_pool_init(r, &p);
    if (f->currency)
        p.currency = f->currency;
    const struct codec_field *more = provider;
    if (f->extra && f->extra->fields) {
        more = f->extra->fields;
        p.extra = codec_reader_alloc(r, f->extra->size);
    }
    if (!json_is_object(v)) {
        codec_reader_fail(r, v, "a pool must be a mapping");
        return;
    }
    codec_read_mapping2(r, v, pool_fields, &p, more, p.extra, "pool");
    const struct codec_yaml_mark m = codec_yaml_mark_of(r->marks, v);
    p.where = codec_reader_format(r, "%s:%d:%d", r->name, r->first_line + m.line, m.column);
    nodes_pool_complete(r, v, &p);
    nodes_pools_append(r, v, f->pools, &p);
}

static void read_list(struct codec_reader *r, const json_t *v, void *out)
{
    if (!json_is_array(v))
        codec_reader_fail(r, v, "pools: want a list of pools");
    else
        ((struct pool_file *)out)->list = v;
}

static void read_items(struct codec_reader *r, const json_t *list, const struct pool_file *f)
{
    for (size_t i = 0; i < json_array_size(list) && !r->err; i++)
        read_pool(r, f, json_array_get(list, i));
}

static void read_document(struct codec_reader *r, const json_t *v, struct pool_file *f)
{
    static const struct codec_field provider[] = {
        {"commands", CODEC_FIELD_UNUSED, 0, NULL}, {"gpuLabel", CODEC_FIELD_UNUSED, 0, NULL}, {0}};
    static const struct codec_field fields[] = {
        {"currency", CODEC_FIELD_TEXT, offsetof(struct pool_file, currency), NULL},
        {"pools", CODEC_FIELD_CUSTOM, 0, read_list},
        {0},
    };
    bool more = f->extra && f->extra->top_fields;
    if (!json_is_object(v)) {
        codec_reader_fail(r, v, "want a mapping with pools");
        return;
    }
    codec_read_mapping2(r, v, fields, f, more ? f->extra->top_fields : provider,
                        more ? f->extra->top : NULL, "pools file");
    if (!r->err && !f->list)
        codec_reader_fail(r, v, "pools are missing");
    read_items(r, f->list, f);
}

void nodes_pools_read(struct codec_reader *r, const json_t *list, struct nodes_pools *p,
                      const struct nodes_pools_extra *extra)
{
    struct pool_file f = {.pools = p, .extra = extra};
    read_list(r, list, &f);
    read_items(r, f.list, &f);
}

struct gs_error *nodes_pools_parse(struct nodes_pools *p, struct gs_slice yaml, const char *name,
                                   const struct nodes_pools_extra *extra)
{
    struct codec_yaml_docs docs = {0};
    struct codec_yaml_marks *marks = NULL;
    struct gs_error *err = codec_yaml_parse_texts(yaml, name, &docs, &marks);
    if (!err && docs.len != 1)
        err = gs_error_new(GS_EINVAL, "%s: want one YAML document with pools, found %zu", name,
                           docs.len);
    struct codec_reader r = {.name = name, .marks = marks, .arena = &p->arena};
    size_t before = p->len;
    if (!err) {
        struct pool_file f = {.pools = p, .extra = extra};
        read_document(&r, docs.items[0].value, &f);
        err = r.err;
    }
    if (err)
        p->len = before;
    codec_yaml_marks_free(marks);
    codec_yaml_docs_finish(&docs);
    return err;
}

struct gs_error *nodes_pools_load(struct nodes_pools *p, const char *path,
                                  const struct nodes_pools_extra *extra)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, NODES_MAX_POOL_FILE, &text);
    return err ? err : nodes_pools_parse(p, gs_buf_slice(&text), path, extra);
}
