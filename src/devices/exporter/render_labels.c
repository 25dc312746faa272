// SPDX-License-Identifier: Apache-2.0
// Labels of a device and its holder, in dcgm-exporter's order.
#include "exporter/exporter_private.h"

#include "metrics/write.h"

void exporter_render_add_label(struct gs_buf *b, const char *name, const char *value)
{
    if (b->len)
        gs_buf_add_char(b, ',');
    gs_buf_add_str(b, name);
    gs_buf_add(b, "=\"", 2);
    metrics_write_label_value(b, gs_slice_of(value));
    gs_buf_add_char(b, '"');
}

void exporter_render_add_label_u64(struct gs_buf *b, const char *name, const char *prefix,
                                   uint64_t value)
{
    exporter_render_add_label(b, name, prefix);
    b->len--; // the closing quote
    gs_buf_add_u64(b, value);
    gs_buf_add_char(b, '"');
}

void exporter_render_add_label_if(struct gs_buf *b, const char *name, const char *value)
{
    if (value && value[0])
        exporter_render_add_label(b, name, value);
}

static void add_model(const struct exporter_render_names *names, const char *model,
                      struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_add(&text, "", 0);
    for (const char *p = model; names->replace_blanks && *p; p++) {
        bool blank = *p == ' ' || *p == '\t';
        if (!blank)
            gs_buf_add_char(&text, *p);
        else if (p[1] != ' ' && p[1] != '\t')
            gs_buf_add_char(&text, '-');
    }
    exporter_render_add_label(out, "modelName", names->replace_blanks ? text.data : model);
}

const char *exporter_render_label_field(const struct gpu_snapshot *g, const struct gpu_device *d,
                                        const struct exporter_counter *c, char number[static 32])
{
    const struct gpu_value *v = &d->fields[c->field];
    if (gpu_field_info(c->field)->kind == GPU_TEXT || v->validity != GPU_VALID)
        return gpu_field_text(g, d, c->field);
    snprintf(number, 32, v->is_double ? "%f" : "%.0f", v->is_double ? v->d : (double)v->i);
    return number;
}

bool exporter_render_is_on(const struct gpu_process *p, const struct gpu_instance *i)
{
    return !i || (p->gpu_instance == i->gpu_instance_id &&
                  (!i->divided || p->compute_instance == i->compute_instance_id));
}

// dcgm-exporter has one line per GPU instance. Without this label, several would be the same
// series.
void exporter_render_add_compute_instance(struct gs_buf *b, const struct gpu_instance *i)
{
    if (i->divided)
        exporter_render_add_label_u64(b, "GPU_CI_ID", "", i->compute_instance_id);
}

void exporter_render_add_entity_labels(const struct exporter_renderer *r, struct exporter_entity *e)
{
    const struct exporter_render_names *names = r->names;
    const struct gpu_device *d = e->device;
    exporter_render_add_label_u64(&e->labels, "gpu", "", d->index);
    exporter_render_add_label(&e->labels, names->old_namespace ? "uuid" : "UUID", d->uuid);
    exporter_render_add_label(&e->labels, "pci_bus_id", d->pci_bus_id);
    exporter_render_add_label_u64(&e->labels, "device", "nvidia", d->index);
    add_model(names, d->name, &e->labels);
    if (e->instance) {
        exporter_render_add_label(&e->labels, "GPU_I_PROFILE", e->instance->profile);
        exporter_render_add_label_u64(&e->labels, "GPU_I_ID", "", e->instance->gpu_instance_id);
        exporter_render_add_compute_instance(&e->labels, e->instance);
    }
    if (names->hostname_label)
        exporter_render_add_label_if(&e->labels, names->hostname_label, names->hostname);
    for (size_t i = r->counters->n_families; i < r->counters->len; i++) {
        char number[32];
        exporter_render_add_label_if(
            &e->labels, r->counters->rows[i].name,
            exporter_render_label_field(r->in.sample->gpus, d, &r->counters->rows[i], number));
    }
}

static void add_claim(const struct exporter_device_claim *c, struct gs_buf *out)
{
    exporter_render_add_label(out, "dra_claim_name", c->name);
    exporter_render_add_label(out, "dra_claim_namespace", c->namespace_name);
    exporter_render_add_label(out, "dra_device_name", c->device);
    exporter_render_add_label(out, "dra_driver_name", c->driver);
    exporter_render_add_label_if(out, "dra_mig_device_uuid", c->mig_uuid);
    exporter_render_add_label_if(out, "dra_mig_profile", c->mig_profile);
    exporter_render_add_label(out, "dra_pool_name", c->pool);
}

void exporter_render_add_attributes(const struct exporter_render_names *names,
                                    const struct exporter_attributes *a, struct gs_buf *out)
{
    const struct exporter_device_holder *h = a->holder;
    bool old = names->old_namespace;
    struct exporter_render_pod pod = {0};
    bool known = h && names->pod && names->pod(names->pod_arg, h->namespace_name, h->pod, &pod);
    if (known && pod.labels)
        gs_buf_add_str(out, pod.labels);
    if (h)
        exporter_render_add_label_if(out, old ? "container_name" : "container", h->container);
    if (h && h->claim && names->dra)
        add_claim(h->claim, out);
    if (a->xid_code) {
        exporter_render_add_label(out, "err_code", a->xid_code);
        exporter_render_add_label(out, "err_msg", a->xid_text);
    }
    exporter_render_add_label_if(out, "hpc_job", a->job);
    if (h && old) {
        exporter_render_add_label(out, "pod_name", h->pod);
        exporter_render_add_label(out, "pod_namespace", h->namespace_name);
    } else if (h) {
        exporter_render_add_label(out, "namespace", h->namespace_name);
        exporter_render_add_label(out, "pod", h->pod);
    }
    if (known)
        exporter_render_add_label_if(out, "pod_uid", pod.uid);
    exporter_render_add_label_if(out, "vgpu", a->vgpu);
}
