// SPDX-License-Identifier: Apache-2.0
// Labels of a device and of whose it is, in dcgm-exporter's order.
#include "exporter/render_impl.h"

#include "metrics/write.h"

void render_add_label(struct gs_buf *b, const char *name, const char *value)
{
    if (b->len)
        gs_buf_add_char(b, ',');
    gs_buf_add_str(b, name);
    gs_buf_add(b, "=\"", 2);
    metrics_write_label_value(b, gs_slice_of(value));
    gs_buf_add_char(b, '"');
}

void render_add_label_u64(struct gs_buf *b, const char *name, const char *prefix, uint64_t value)
{
    render_add_label(b, name, prefix);
    b->len--; // the closing quote
    gs_buf_add_u64(b, value);
    gs_buf_add_char(b, '"');
}

void render_add_label_if(struct gs_buf *b, const char *name, const char *value)
{
    if (value && value[0])
        render_add_label(b, name, value);
}

static void add_model(const struct render_names *names, const char *model, struct gs_buf *out)
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
    render_add_label(out, "modelName", names->replace_blanks ? text.data : model);
}

const char *render_label_field(const struct gpu_snapshot *g, const struct gpu_device *d,
                               const struct counter *c, char number[static 32])
{
    const struct gpu_value *v = &d->fields[c->field];
    if (gpu_field_info(c->field)->kind == GPU_TEXT || v->validity != GPU_VALID)
        return gpu_field_text(g, d, c->field);
    snprintf(number, 32, v->is_double ? "%f" : "%.0f", v->is_double ? v->d : (double)v->i);
    return number;
}

bool render_is_on(const struct gpu_process *p, const struct gpu_instance *i)
{
    return !i || (p->gpu_instance == i->gpu_instance_id &&
                  (!i->divided || p->compute_instance == i->compute_instance_id));
}

// dcgm-exporter has one line for each GPU instance. Several would be the same series without it.
void render_add_compute_instance(struct gs_buf *b, const struct gpu_instance *i)
{
    if (i->divided)
        render_add_label_u64(b, "GPU_CI_ID", "", i->compute_instance_id);
}

void render_add_entity_labels(const struct renderer *r, struct entity *e)
{
    const struct render_names *names = r->names;
    const struct gpu_device *d = e->device;
    render_add_label_u64(&e->labels, "gpu", "", d->index);
    render_add_label(&e->labels, names->old_namespace ? "uuid" : "UUID", d->uuid);
    render_add_label(&e->labels, "pci_bus_id", d->pci_bus_id);
    render_add_label_u64(&e->labels, "device", "nvidia", d->index);
    add_model(names, d->name, &e->labels);
    if (e->instance) {
        render_add_label(&e->labels, "GPU_I_PROFILE", e->instance->profile);
        render_add_label_u64(&e->labels, "GPU_I_ID", "", e->instance->gpu_instance_id);
        render_add_compute_instance(&e->labels, e->instance);
    }
    if (names->hostname_label)
        render_add_label_if(&e->labels, names->hostname_label, names->hostname);
    for (size_t i = r->counters->n_families; i < r->counters->len; i++) {
        char number[32];
        render_add_label_if(
            &e->labels, r->counters->rows[i].name,
            render_label_field(r->in.sample->gpus, d, &r->counters->rows[i], number));
    }
}

static void add_claim(const struct device_claim *c, struct gs_buf *out)
{
    render_add_label(out, "dra_claim_name", c->name);
    render_add_label(out, "dra_claim_namespace", c->namespace_name);
    render_add_label(out, "dra_device_name", c->device);
    render_add_label(out, "dra_driver_name", c->driver);
    render_add_label_if(out, "dra_mig_device_uuid", c->mig_uuid);
    render_add_label_if(out, "dra_mig_profile", c->mig_profile);
    render_add_label(out, "dra_pool_name", c->pool);
}

void render_add_attributes(const struct render_names *names, const struct attributes *a,
                           struct gs_buf *out)
{
    const struct device_holder *h = a->holder;
    bool old = names->old_namespace;
    struct render_pod pod = {0};
    bool known = h && names->pod && names->pod(names->pod_arg, h->namespace_name, h->pod, &pod);
    if (known && pod.labels)
        gs_buf_add_str(out, pod.labels);
    if (h)
        render_add_label_if(out, old ? "container_name" : "container", h->container);
    if (h && h->claim && names->dra)
        add_claim(h->claim, out);
    if (a->xid_code) {
        render_add_label(out, "err_code", a->xid_code);
        render_add_label(out, "err_msg", a->xid_text);
    }
    render_add_label_if(out, "hpc_job", a->job);
    if (h && old) {
        render_add_label(out, "pod_name", h->pod);
        render_add_label(out, "pod_namespace", h->namespace_name);
    } else if (h) {
        render_add_label(out, "namespace", h->namespace_name);
        render_add_label(out, "pod", h->pod);
    }
    if (known)
        render_add_label_if(out, "pod_uid", pod.uid);
    render_add_label_if(out, "vgpu", a->vgpu);
}
