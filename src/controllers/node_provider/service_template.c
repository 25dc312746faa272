// SPDX-License-Identifier: Apache-2.0
// The optional gRPC methods: template of a Node, options of a group, prices.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/quantity.h"
#include "node_provider/service_private.h"
#include "nodes/wire/wire.h"

#include <math.h>

// --- template ---

// Up to release 1.33 the Node is a message in field 1, and from 1.34 it is bytes in field 2. Both
// have the same encoding, and a request does not contain the form, so the answer has both. An
// answer without a Node would end the autoscaler.
void node_provider_handle_template(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    const struct node_provider_fleet *f = ctx;
    const struct node_provider_pool *p = node_provider_read_group(ctx, call, request);
    if (!p)
        return;
    CODEC_AUTO_JSON json_t *node = node_provider_template(p->spec->pool, f->config.file->gpu_label);
    GS_AUTO_BUF struct gs_buf bytes = {0};
    struct gs_error *err = wire_write_node(node, &bytes);
    if (!err && bytes.len == 0)
        err = gs_error_new(GS_EINTERNAL, "%s: the template is empty", p->spec->name);
    if (err) {
        grpc_call_finish(call, GRPC_INTERNAL, gs_error_message(err));
        gs_error_free(err);
        return;
    }
    Externalgrpc__TemplateResponse r = EXTERNALGRPC__TEMPLATE_RESPONSE__INIT;
    r.node_info.data = r.node_bytes.data = (uint8_t *)bytes.data;
    r.node_info.len = r.node_bytes.len = bytes.len;
    node_provider_answer(call, &r.base);
}

// --- options ---

// The time of a pool in the forms that the request has. Fields that the request does not have stay
// unset, because the reader of the other form does not know them.
struct duration_fields {
    Externalgrpc__OldDuration old_form;
    Externalgrpc__Duration form;
};

static void set_duration(int64_t ms, struct duration_fields *d,
                         Externalgrpc__OldDuration **old_form, Externalgrpc__Duration **form)
{
    if (ms < 0)
        return;
    externalgrpc__old_duration__init(&d->old_form);
    externalgrpc__duration__init(&d->form);
    d->old_form.nanoseconds = ms * GS_NS_PER_MS;
    d->form.seconds = ms / 1000;
    d->form.nanos = (int32_t)(ms % 1000 * GS_NS_PER_MS);
    if (*old_form)
        *old_form = &d->old_form;
    if (*form)
        *form = &d->form;
}

static bool has_options(const struct node_provider_options_spec *o)
{
    return o->utilization >= 0 || o->gpu_utilization >= 0 || o->unneeded_ms >= 0 ||
           o->unready_ms >= 0 || o->provision_ms >= 0;
}

// Without options of the pool the method is unimplemented. From release 1.35 on, an answer sets
// MaxNodeStartupTime, which the protocol does not contain, to 0.
void node_provider_handle_options(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    NODE_PROVIDER_AUTO_MESSAGE Externalgrpc__OptionsRequest *m =
        node_provider_read_request(call, &externalgrpc__options_request__descriptor, request);
    const struct node_provider_pool *p = m ? node_provider_find_group(ctx, call, m->id) : NULL;
    if (!p)
        return;
    const struct node_provider_options_spec *o = &p->spec->options;
    if (!has_options(o) || !m->defaults) {
        grpc_call_finish(call, GRPC_UNIMPLEMENTED, "the pool has no options");
        return;
    }
    Externalgrpc__Options answer = *m->defaults; // an unset duration would become 0
    struct duration_fields unneeded, unready, provision;
    set_duration(o->unneeded_ms, &unneeded, &answer.old_unneeded, &answer.unneeded);
    set_duration(o->unready_ms, &unready, &answer.old_unready, &answer.unready);
    set_duration(o->provision_ms, &provision, &answer.old_provision, &answer.provision);
    if (o->utilization >= 0)
        answer.scale_down_utilization_threshold = o->utilization;
    if (o->gpu_utilization >= 0)
        answer.scale_down_gpu_utilization_threshold = o->gpu_utilization;
    Externalgrpc__OptionsResponse r = EXTERNALGRPC__OPTIONS_RESPONSE__INIT;
    r.options = &answer;
    node_provider_answer(call, &r.base);
}

// --- prices ---

static double seconds(const Externalgrpc__Time *t)
{
    return t ? (double)t->seconds + (double)t->nanos / 1e9 : 0;
}

static double hours_between(const Externalgrpc__Time *from, const Externalgrpc__Time *until)
{
    const double h = (seconds(until) - seconds(from)) / 3600;
    return h > 0 && isfinite(h) ? h : 0;
}

static void answer_price(struct grpc_call *call, double price)
{
    Externalgrpc__PriceResponse r = EXTERNALGRPC__PRICE_RESPONSE__INIT;
    r.price = price;
    node_provider_answer(call, &r.base);
}

static const struct nodes_pool *pool_named(const struct node_provider_fleet *f, const char *name)
{
    const struct node_provider_pool *p = node_provider_find_pool(f, name);
    return p ? p->spec->pool : NULL;
}

// The autoscaler also queries the price of a template, whose provider ID belongs to no machine.
static const struct nodes_pool *pool_of_node(const struct node_provider_fleet *f,
                                             const Externalgrpc__Node *node)
{
    const struct node_provider_machine *m = node_provider_machine_of(f, node);
    if (m)
        return m->pool->spec->pool;
    for (size_t i = 0; node && i < node->n_labels; i++)
        if (gs_streq(node->labels[i]->key, NODES_POOL_LABEL))
            return pool_named(f, node->labels[i]->value);
    return NULL;
}

void node_provider_handle_node_price(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    NODE_PROVIDER_AUTO_MESSAGE Externalgrpc__PricingNodeRequest *m =
        node_provider_read_request(call, &externalgrpc__pricing_node_request__descriptor, request);
    if (!m)
        return;
    const struct nodes_pool *p = pool_of_node(ctx, m->node);
    if (!p || !p->has_price) {
        grpc_call_finish(call, GRPC_UNIMPLEMENTED, "the pool has no price");
        return;
    }
    const double hours =
        m->start ? hours_between(m->start, m->end) : hours_between(m->old_start, m->old_end);
    answer_price(call, p->price * hours);
}

// --- price of a pod ---

static int64_t request_of(const json_t *container, const char *resource)
{
    const char *text = codec_json_str(container, "resources", "requests", resource, NULL);
    if (!text)
        text = codec_json_str(container, "resources", "limits", resource, NULL);
    int64_t milli = 0;
    GS_AUTO_ERROR struct gs_error *err =
        text ? kube_quantity_parse_milli(gs_slice_of(text), &milli) : NULL;
    return !err && milli > 0 ? milli : 0;
}

static double pod_request(const json_t *pod, const char *resource)
{
    double sum = 0;
    size_t i;
    json_t *c;
    json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), i, c)
        sum += (double)request_of(c, resource);
    return sum;
}

// The largest share of a machine that the pod requests.
static double share_of(const struct nodes_pool *p, const json_t *pod)
{
    double share = 0;
    if (p->gpus > 0)
        share = pod_request(pod, p->gpu_resource) / (1000.0 * (double)p->gpus);
    if (p->cpu_milli > 0)
        share = fmax(share, pod_request(pod, "cpu") / (double)p->cpu_milli);
    if (p->memory_bytes > 0)
        share = fmax(share, pod_request(pod, "memory") / 1000.0 / (double)p->memory_bytes);
    return share;
}

// The price of a pod where it is cheapest: its share of the machine of a pool that has its GPUs.
static double price_of_pod(const struct node_provider_fleet *f, const json_t *pod)
{
    double best = INFINITY;
    for (size_t i = 0; i < f->n_pools; i++) {
        const struct nodes_pool *p = f->pools[i].spec->pool;
        const double share = share_of(p, pod);
        const bool lacks = p->gpus == 0 && pod_request(pod, "nvidia.com/gpu") > 0;
        if (p->has_price && share <= 1 && !lacks)
            best = fmin(best, share * p->price);
    }
    return best;
}

void node_provider_handle_pod_price(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    NODE_PROVIDER_AUTO_MESSAGE Externalgrpc__PricingPodRequest *m =
        node_provider_read_request(call, &externalgrpc__pricing_pod_request__descriptor, request);
    if (!m)
        return;
    const ProtobufCBinaryData *bytes = m->pod.len > 0 ? &m->pod : &m->old_pod;
    CODEC_AUTO_JSON json_t *pod = NULL;
    GS_AUTO_ERROR struct gs_error *err =
        wire_read_pod(gs_slice_make(bytes->data, bytes->len), &pod);
    if (err) {
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, gs_error_message(err));
        return;
    }
    const double price = price_of_pod(ctx, pod);
    if (!isfinite(price)) {
        grpc_call_finish(call, GRPC_UNIMPLEMENTED, "no pool with a price has space for the pod");
        return;
    }
    const double hours =
        m->start ? hours_between(m->start, m->end) : hours_between(m->old_start, m->old_end);
    answer_price(call, price * hours);
}
