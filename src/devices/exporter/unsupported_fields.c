// SPDX-License-Identifier: Apache-2.0
// One line in the log for each reason why fields have no values on this machine, instead of a line
// for each field and sample.
#include "exporter/render.h"

#include "base/buf.h"
#include "base/log.h"

enum { MAX_NAMES = 12 }; // per line

static enum gpu_validity of_instance(const struct gpu_device *d, const struct gpu_instance *i,
                                     enum gpu_field f)
{
    const struct gpu_value *own = gpu_instance_value(i, f);
    return own ? own->validity : d->fields[f].validity;
}

// The reason of the first GPU. GPU_VALID: at least one provides the field, or may provide it later.
struct reason {
    enum gpu_validity first;
    bool any, has;
};

static void count_reason(struct reason *r, enum gpu_validity v)
{
    r->has |= v == GPU_VALID || v == GPU_UNKNOWN;
    r->first = r->any ? r->first : v;
    r->any = true;
}

// For the GPUs and MIG devices that have lines.
static enum gpu_validity why(const struct exporter_unsupported_fields *c, enum gpu_field f)
{
    struct reason r = {0};
    for (size_t i = 0; i < c->gpus->n_devices; i++) {
        const struct gpu_device *d = &c->gpus->devices[i];
        if (exporter_render_selects(c->devices, d, NULL))
            count_reason(&r, d->fields[f].validity);
        for (size_t k = 0; k < d->n_instances; k++)
            if (exporter_render_selects(c->devices, d, &d->instances[k]))
                count_reason(&r, of_instance(d, &d->instances[k], f));
    }
    return r.any && !r.has ? r.first : GPU_VALID;
}

// A computed metric may be available although most of its fields are not. What only DCGM has is not
// in the snapshot.
static enum gpu_validity why_row(const struct exporter_unsupported_fields *c,
                                 const struct exporter_counter *row)
{
    bool own = row->kind != EXPORTER_COUNTER_EXP_HEALTH && row->kind != EXPORTER_COUNTER_DCGM;
    return own ? why(c, row->field) : GPU_VALID;
}

static enum gpu_validity why_no_processes(const struct gpu_snapshot *s)
{
    for (size_t i = 0; i < s->n_devices; i++)
        if (s->devices[i].process_util == GPU_VALID || s->devices[i].process_util == GPU_UNKNOWN)
            return GPU_VALID;
    return s->n_devices ? s->devices[0].process_util : GPU_VALID;
}

static void add_field_name(struct gs_buf *names, size_t *n, const char *name)
{
    if (*n < MAX_NAMES)
        gs_buf_addf(names, "%s%s", *n ? ", " : "", name);
    else if (*n == MAX_NAMES)
        gs_buf_add_str(names, " …");
    ++*n;
}

static void log_reason(const struct exporter_unsupported_fields *c, enum gpu_validity reason)
{
    GS_AUTO_BUF struct gs_buf names = {0};
    size_t n = 0;
    for (size_t i = 0; i < c->counters->len; i++)
        if (why_row(c, &c->counters->rows[i]) == reason)
            add_field_name(&names, &n, c->counters->rows[i].name);
    if (why_no_processes(c->gpus) == reason)
        add_field_name(&names, &n, "DCGM_CUSTOM_PROCESS_SM_UTIL");
    if (!n)
        return;
    if (reason == GPU_NOT_SUPPORTED)
        gs_info("exporter",
                "no GPU supports %zu of the metrics (%s): %s; the page / lists them for each GPU",
                n, gpu_validity_text(reason), names.data);
    else
        gs_warn("exporter",
                "no GPU provides %zu of the metrics (%s): %s; the page / lists them for each GPU",
                n, gpu_validity_text(reason), names.data);
}

void exporter_log_unsupported_fields(const struct exporter_unsupported_fields *cfg)
{
    struct exporter_counters defaults = {0};
    struct exporter_unsupported_fields c = *cfg;
    if (!c.counters) {
        exporter_counters_default(&defaults);
        c.counters = &defaults;
    }
    for (enum gpu_validity v = GPU_NOT_SUPPORTED; v <= GPU_FAILED; v++)
        log_reason(&c, v);
    exporter_counters_finish(&defaults);
}
