// SPDX-License-Identifier: Apache-2.0
// Families of the counters file: one field each, or computed by dcgm-exporter.
#include "exporter/exporter_private.h"

#include <inttypes.h>

// --- families of DCGM ---

static struct gpu_value field_of(const struct exporter_entity *e, enum gpu_field f)
{
    bool answers = !e->device->lost && !e->device->hung;
    const struct gpu_value *own =
        e->instance && answers ? gpu_instance_value(e->instance, f) : NULL;
    return own ? *own : e->device->fields[f];
}

// Rebuilt when the XID changes.
static const struct gs_buf *xid_labels(const struct exporter_renderer *r, struct exporter_entity *e,
                                       struct exporter_variant *variant, int64_t xid)
{
    struct exporter_xid_labels *l = variant ? &variant->xid : &e->xid;
    if (l->made && l->xid == xid)
        return &l->text;
    char code[24];
    snprintf(code, sizeof(code), "%" PRId64, xid);
    struct exporter_attributes a = {.holder = variant ? variant->holder : e->lone,
                                    .xid_code = code,
                                    .xid_text = exporter_render_xid_text(xid),
                                    .vgpu = variant ? variant->vgpu : NULL,
                                    .job = variant ? variant->job : NULL};
    gs_buf_clear(&l->text);
    gs_buf_add_slice(&l->text, gs_buf_slice(&e->labels));
    exporter_render_add_attributes(r->names, &a, &l->text);
    l->made = true;
    l->xid = xid;
    return &l->text;
}

static void write_plain(const struct exporter_renderer *r, const struct exporter_counter *c,
                        struct exporter_entity *e, struct exporter_variant *variant,
                        struct gpu_value v, struct gs_buf *out)
{
    const struct gs_buf *labels = c->field == GPU_F_XID_ERRORS ? xid_labels(r, e, variant, v.i)
                                  : variant                    ? &variant->labels
                                                               : &e->all_labels;
    exporter_render_write_line(r, c->name, labels, v, out);
}

static struct gpu_value ratio_of(uint64_t percent)
{
    return (struct gpu_value){
        .validity = GPU_VALID, .is_double = true, .d = (double)percent / 100.0};
}

static struct gpu_value integer_of(uint64_t v)
{
    return (struct gpu_value){.validity = GPU_VALID, .i = (int64_t)v};
}

// The value of a field for a pod's processes; 0 if it certainly has none. False: the field has no
// value per pod.
static bool own_value(const struct exporter_variant *p, enum gpu_field f, struct gpu_value *ret,
                      bool *ret_has)
{
    const struct {
        enum gpu_field field;
        bool has;
        struct gpu_value value;
    } rows[] = {
        {GPU_F_GPU_UTIL, p->has_util, integer_of(p->util)},
        {GPU_F_GPU_UTIL_RATIO, p->has_util, ratio_of(p->util)},
        {GPU_F_MEM_COPY_UTIL, p->has_util, integer_of(p->mem_util)},
        {GPU_F_MEM_COPY_UTIL_RATIO, p->has_util, ratio_of(p->mem_util)},
        {GPU_F_ENC_UTIL, p->has_util, integer_of(p->enc_util)},
        {GPU_F_ENC_UTIL_RATIO, p->has_util, ratio_of(p->enc_util)},
        {GPU_F_DEC_UTIL, p->has_util, integer_of(p->dec_util)},
        {GPU_F_DEC_UTIL_RATIO, p->has_util, ratio_of(p->dec_util)},
        {GPU_F_FB_USED, p->has_memory, integer_of(p->memory_mib)},
        {GPU_F_FB_USED_BYTES, p->has_memory, integer_of(p->memory_mib << 20)},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (rows[i].field != f)
            continue;
        *ret = rows[i].value;
        *ret_has = p->idle || rows[i].has;
        return true;
    }
    return false;
}

// With --kubernetes-virtual-gpus, utilization and memory are written for the device, then for each
// pod.
static void write_shared(const struct exporter_renderer *r, const struct exporter_counter *c,
                         struct exporter_entity *e, struct gpu_value v, struct gs_buf *out)
{
    bool whole_written = false;
    for (size_t i = 0; i < e->n_variants; i++) {
        struct exporter_variant *p = &e->variants[i];
        struct gpu_value own = {0};
        bool has = false;
        if (!p->per_pod || !own_value(p, c->field, &own, &has)) {
            write_plain(r, c, e, p, v, out);
            continue;
        }
        if (!whole_written)
            exporter_render_write_line(r, c->name, &e->labels, v, out);
        whole_written = true;
        if (has)
            exporter_render_write_line(r, c->name, &p->labels, own, out);
    }
}

static void write_header(struct exporter_renderer *r, size_t row, struct gs_buf *out)
{
    const struct exporter_counter *c = &r->counters->rows[row];
    exporter_render_write_header(&r->headers[row], c->name, c->type, c->help, out);
}

void exporter_render_write_family(struct exporter_renderer *r, size_t row, struct gs_buf *out)
{
    const struct exporter_counter *c = &r->counters->rows[row];
    bool header = false;
    for (size_t i = 0; i < r->entities.len; i++) {
        struct exporter_entity *e = &r->entities.items[i];
        struct gpu_value v = field_of(e, c->field);
        if (v.validity != GPU_VALID)
            continue;
        if (!header)
            write_header(r, row, out);
        header = true;
        if (e->n_variants)
            write_shared(r, c, e, v, out);
        else
            write_plain(r, c, e, NULL, v, out);
    }
}

// --- families that dcgm-exporter computes ---

static void write_window(const struct exporter_renderer *r, const struct exporter_counter *c,
                         const struct exporter_entity *e, const char *const (*labels)[2], size_t n,
                         uint64_t value, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf all = {0};
    gs_buf_add_slice(&all, gs_buf_slice(&e->labels));
    for (size_t i = 0; i < n; i++)
        exporter_render_add_label_if(&all, labels[i][0], labels[i][1]);
    struct exporter_attributes a = {.holder = e->lone};
    exporter_render_add_attributes(r->names, &a, &all);
    exporter_render_write_line(r, c->name, &all,
                               (struct gpu_value){.validity = GPU_VALID, .i = (int64_t)value}, out);
}

static void write_xid_counts(const struct exporter_renderer *r, const struct exporter_entity *e,
                             const struct exporter_counter *c, struct gs_buf *out)
{
    char window[24], xid[16];
    snprintf(window, sizeof(window), "%" PRIu64, r->names->xid_window_ms);
    for (size_t i = 0; i < e->device->n_xids; i++) {
        snprintf(xid, sizeof(xid), "%u", e->device->xids[i].xid);
        const char *const labels[][2] = {{"window_size_in_ms", window}, {"xid", xid}};
        write_window(r, c, e, labels, 2, e->device->xids[i].count, out);
    }
    const char *const none[][2] = {{"window_size_in_ms", window}};
    if (!e->device->n_xids)
        write_window(r, c, e, none, 1, 0, out);
}

static void write_xid_totals(const struct exporter_renderer *r, const struct exporter_entity *e,
                             const struct exporter_counter *c, struct gs_buf *out)
{
    for (size_t i = 0; i < e->device->n_xid_totals; i++) {
        char xid[16];
        snprintf(xid, sizeof(xid), "%u", e->device->xid_totals[i].xid);
        const char *const labels[][2] = {{"xid", xid}};
        write_window(r, c, e, labels, 1, e->device->xid_totals[i].count, out);
    }
}

static const char *const clock_event_names[GPU_CLOCK_EVENTS] = {
    "gpu_idle",   "clocks_setting", "power_cap",      "hw_slowdown",    "sync_boost",
    "sw_thermal", "hw_thermal",     "hw_power_brake", "display_clocks",
};

// Written from 0 on, so that increase() includes the first event.
static void write_clock_totals(const struct exporter_renderer *r, const struct exporter_entity *e,
                               const struct exporter_counter *c, struct gs_buf *out)
{
    for (size_t i = 0; i < GPU_CLOCK_EVENTS; i++) {
        const char *const labels[][2] = {{"clock_event", clock_event_names[i]}};
        write_window(r, c, e, labels, 1, e->device->clock_totals[i], out);
    }
}

static void write_clock_counts(const struct exporter_renderer *r, const struct exporter_entity *e,
                               const struct exporter_counter *c, struct gs_buf *out)
{
    char window[24];
    snprintf(window, sizeof(window), "%" PRIu64, r->names->clock_window_ms);
    for (size_t i = 0; i < GPU_CLOCK_EVENTS; i++) {
        const char *const labels[][2] = {{"clock_event", clock_event_names[i]},
                                         {"window_size_in_ms", window}};
        write_window(r, c, e, labels, 2, e->device->clock_events[i], out);
    }
}

static void write_health(const struct exporter_renderer *r, const struct exporter_entity *e,
                         const struct exporter_counter *c, struct gs_buf *out)
{
    const struct exporter_health_result *results =
        exporter_health_of(r->in.health, e->device->uuid);
    for (enum exporter_health_watch w = 0; results && w < EXPORTER_HEALTH_WATCHES; w++) {
        const char *const labels[][2] = {{"health_error_code", results[w].code},
                                         {"health_watch", exporter_health_watch_name(w)}};
        write_window(r, c, e, labels, 2, (uint64_t)results[w].level, out);
    }
}

static void write_p2p(const struct exporter_renderer *r, const struct exporter_entity *e,
                      const struct exporter_counter *c, struct gs_buf *out)
{
    static const char *const names[] = {
        "OK",
        "ChipsetNotSupported",
        "GPUNotSupported",
        "TopologyNotSupported",
        "DisabledByRegKey",
        "NotSupported",
        "Unknown",
    };
    for (uint32_t i = 0; i < GPU_MAX_DEVICES; i++) {
        char peer[16];
        uint8_t status = e->device->p2p[i];
        if (status >= GS_ARRAY_LEN(names))
            continue;
        snprintf(peer, sizeof(peer), "%u", i);
        const char *const labels[][2] = {{"link_status", names[status]}, {"peer_gpu", peer}};
        write_window(r, c, e, labels, 2, status, out);
    }
}

// Both exist only for whole GPUs. A lost GPU also has a health state: failed.
static bool has_computed(const struct exporter_renderer *r, const struct exporter_entity *e,
                         const struct exporter_counter *c)
{
    if (c->kind == EXPORTER_COUNTER_EXP_HEALTH)
        return !e->instance && exporter_health_of(r->in.health, e->device->uuid);
    if (c->kind == EXPORTER_COUNTER_EXP_XIDS_TOTAL && !e->device->n_xid_totals)
        return false;
    if (c->kind == EXPORTER_COUNTER_EXP_CLOCK_EVENTS_TOTAL)
        return e->device->has_clock_events;
    if (c->kind == EXPORTER_COUNTER_EXP_CLOCK_EVENTS)
        return e->device->has_clock_events && !e->device->hung;
    return e->device->fields[c->field].validity == GPU_VALID &&
           !(c->kind == EXPORTER_COUNTER_EXP_P2P && e->instance);
}

void exporter_render_write_computed(struct exporter_renderer *r, size_t row, struct gs_buf *out)
{
    const struct exporter_counter *c = &r->counters->rows[row];
    bool header = false;
    for (size_t i = 0; i < r->entities.len; i++) {
        const struct exporter_entity *e = &r->entities.items[i];
        if (!has_computed(r, e, c))
            continue;
        if (!header)
            write_header(r, row, out);
        header = true;
        if (c->kind == EXPORTER_COUNTER_EXP_XIDS)
            write_xid_counts(r, e, c, out);
        else if (c->kind == EXPORTER_COUNTER_EXP_CLOCK_EVENTS)
            write_clock_counts(r, e, c, out);
        else if (c->kind == EXPORTER_COUNTER_EXP_XIDS_TOTAL)
            write_xid_totals(r, e, c, out);
        else if (c->kind == EXPORTER_COUNTER_EXP_CLOCK_EVENTS_TOTAL)
            write_clock_totals(r, e, c, out);
        else if (c->kind == EXPORTER_COUNTER_EXP_HEALTH)
            write_health(r, e, c, out);
        else
            write_p2p(r, e, c, out);
    }
}
