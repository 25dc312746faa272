// SPDX-License-Identifier: Apache-2.0
// Writes /metrics in the text format as dcgm-exporter does. Label texts are cached, as they change
// rarely; the key of the cache holds everything that they depend on.
#include "exporter/exporter_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "metrics/write.h"

#include <math.h>

enum {
    NUMBER_SIZE = 48, // an integer, a timestamp and separators
};

// --- lines ---

void exporter_render_write_header(struct gs_buf *cache, const char *name, const char *type,
                                  const char *help, struct gs_buf *out)
{
    if (!cache->len) {
        metrics_write_family(cache, name, METRICS_GAUGE, help);
        // Help and type as in the file; the type may be unknown to gpuscale.
        cache->len -= strlen("gauge\n");
        gs_buf_add_str(cache, type);
        gs_buf_add_char(cache, '\n');
    }
    gs_buf_add_slice(out, gs_buf_slice(cache));
}

static char *append_bytes(char *at, const void *data, size_t len)
{
    memcpy(at, data, len);
    return at + len;
}

static char *put_integer(char *at, int64_t v)
{
    if (v < 0)
        *at++ = '-';
    return gs_put_u64(at, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

// Formats like dcgm-exporter, except for values that would become 0, such as low bit error rates.
static char *put_double(char *at, double v)
{
    return v != 0 && fabs(v) < 1e-6 ? gs_put_double(at, v, -4) : gs_put_fixed6(at, v);
}

void exporter_render_write_line(const struct exporter_renderer *r, const char *name,
                                const struct gs_buf *labels, struct gpu_value v, struct gs_buf *out)
{
    size_t name_len = strlen(name);
    char *start = gs_buf_room(out, name_len + labels->len + GS_FIXED6_SIZE + NUMBER_SIZE);
    if (!start)
        return;
    char *at = append_bytes(start, name, name_len);
    *at++ = '{';
    if (labels->len)
        at = append_bytes(at, labels->data, labels->len);
    at = append_bytes(at, "} ", 2);
    at = v.is_double ? put_double(at, v.d) : put_integer(at, v.i);
    if (r->names->timestamps) {
        *at++ = ' ';
        at = gs_put_u64(at, (uint64_t)r->in.sample->gpus->unix_ms);
    }
    *at++ = '\n';
    *at = '\0';
    out->len += (size_t)(at - start);
}

// --- cache ---

static void add_text(struct gs_buf *key, const char *text)
{
    gs_buf_add(key, text, strlen(text) + 1);
}

static void add_number(struct gs_buf *key, uint64_t n)
{
    gs_buf_add(key, &n, sizeof(n));
}

static bool has_lone_holder(const struct exporter_renderer *r, size_t device_at,
                            const struct gpu_instance *instance)
{
    const struct gpu_device *d = &r->in.sample->gpus->devices[device_at];
    return exporter_render_sole_holder(r->in.sample, device_at, instance,
                                       exporter_device_map_find(r->in.map, d, instance)) != NULL;
}

static void add_device(const struct exporter_renderer *r, size_t device_at, struct gs_buf *key)
{
    const struct gpu_device *d = &r->in.sample->gpus->devices[device_at];
    add_number(key, has_lone_holder(r, device_at, NULL));
    add_number(key, d->index);
    add_text(key, d->uuid);
    add_text(key, d->name);
    add_text(key, d->pci_bus_id);
    add_number(key, d->has_minor ? d->minor : UINT64_MAX);
    add_number(key, d->n_instances);
    for (size_t i = 0; i < d->n_instances; i++) {
        add_number(key, d->instances[i].gpu_instance_id);
        add_number(key, d->instances[i].compute_instance_id);
        add_number(key, d->instances[i].divided);
        add_number(key, has_lone_holder(r, device_at, &d->instances[i]));
        add_text(key, d->instances[i].uuid);
        add_text(key, d->instances[i].profile);
    }
    for (size_t i = r->counters->n_families; i < r->counters->len; i++) {
        char number[32];
        const char *text =
            exporter_render_label_field(r->in.sample->gpus, d, &r->counters->rows[i], number);
        add_text(key, text ? text : "");
    }
}

// Everything that device labels depend on, except for constants.
static void make_key(const struct exporter_renderer *r, struct gs_buf *key)
{
    const struct exporter_render_names *names = r->names;
    const struct gpu_snapshot *g = r->in.sample->gpus;
    gs_buf_clear(key);
    add_number(key, (uintptr_t)r->in.map);
    add_number(key, r->in.map_version);
    add_number(key, names->pod_version ? names->pod_version(names->pod_arg) : 0);
    add_text(key, g->driver_version);
    for (size_t i = 0; i < g->n_devices; i++)
        add_device(r, i, key);
}

static bool same(const struct gs_buf *a, const struct gs_buf *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

static void clear_cached_lines(struct exporter_renderer *r)
{
    exporter_render_entities_finish(&r->entities);
    r->entities_version++;
    for (size_t i = 0; i < r->processes.len; i++)
        r->processes.items[i].hash = 0;
}

static void bind_sample(struct exporter_renderer *r)
{
    const struct gpu_snapshot *g = r->in.sample->gpus;
    for (size_t i = 0; i < r->entities.len; i++) {
        struct exporter_entity *e = &r->entities.items[i];
        e->device = &g->devices[e->device_at];
        e->instance = e->instance_at == EXPORTER_NO_INSTANCE_AT
                          ? NULL
                          : &e->device->instances[e->instance_at];
    }
}

// Job files may change at any time, and so may pods without a version.
static void prepare(struct exporter_renderer *r)
{
    make_key(r, &r->next_key);
    if (r->names->hpc_dir || (r->names->pod && !r->names->pod_version) ||
        !same(&r->key, &r->next_key)) {
        clear_cached_lines(r);
        exporter_render_list_entities(r, &r->entities);
        struct gs_buf key = r->key;
        r->key = r->next_key;
        r->next_key = key;
    } else {
        bind_sample(r);
    }
    exporter_render_sum_pods(r->in.sample, &r->entities);
}

// --- pages ---

struct exporter_renderer *exporter_renderer_new(const struct exporter_render_names *names)
{
    struct exporter_renderer *r = gs_alloc(sizeof(*r));
    r->names = names;
    r->counters = names->counters;
    if (!r->counters) {
        exporter_counters_default(&r->defaults);
        r->counters = &r->defaults;
    }
    r->headers = gs_alloc_array(r->counters->n_families + 1, sizeof(*r->headers));
    return r;
}

void exporter_renderer_free(struct exporter_renderer *r)
{
    if (!r)
        return;
    exporter_render_entities_finish(&r->entities);
    free(r->entities.items);
    exporter_render_custom_finish(r);
    for (size_t i = 0; i < r->counters->n_families; i++)
        gs_buf_finish(&r->headers[i]);
    free(r->headers);
    exporter_counters_finish(&r->defaults);
    gs_buf_finish(&r->key);
    gs_buf_finish(&r->next_key);
    free(r);
}

void exporter_renderer_page(struct exporter_renderer *r, const struct exporter_render_input *in,
                            struct gs_buf *out)
{
    r->in = *in;
    prepare(r);
    for (size_t i = 0; i < r->counters->n_families; i++) {
        if (r->counters->rows[i].kind == EXPORTER_COUNTER_FIELD)
            exporter_render_write_family(r, i, out);
        else if (r->counters->rows[i].kind != EXPORTER_COUNTER_DCGM)
            exporter_render_write_computed(r, i, out);
    }
    exporter_render_write_custom(r, out);
}

void exporter_render_gpus(const struct exporter_render_names *names,
                          const struct exporter_sample *sample,
                          const struct exporter_device_map *map,
                          const struct exporter_device_replicas *replicas, struct gs_buf *out)
{
    GS_CLEANUP(exporter_renderer_freep) struct exporter_renderer *r = exporter_renderer_new(names);
    const struct exporter_render_input in = {.sample = sample, .map = map, .replicas = replicas};
    exporter_renderer_page(r, &in, out);
}
