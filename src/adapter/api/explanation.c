// SPDX-License-Identifier: Apache-2.0
// Explains one request of custom.metrics.k8s.io or external.metrics.k8s.io: a request with the
// parameter explain=true gets the steps of the running adapter as JSON, in place of the values. It
// needs the same permission as the values.
#include "adapter/api/api_private.h"

#include "base/clock.h"
#include "kube/status.h"

enum { MAX_VALUES = 1000, MAX_NAMES = 5000 };

bool adapter_api_wants_explanation(const struct adapter_api_call *c)
{
    return gs_streq(http_query(c->x, "explain"), "true");
}

static json_t *steps_json(const char *trace)
{
    json_t *out = json_array();
    struct gs_slice rest = gs_slice_of(trace);
    while (rest.data) {
        struct gs_slice line = gs_slice_cut(&rest, '\n');
        if (line.len)
            json_array_append_new(out, json_stringn_nocheck(line.data, line.len));
    }
    return out;
}

static void add_value(json_t *out, const char *name, double value, int64_t t_ms)
{
    char when[GS_RFC3339_SIZE];
    json_t *item = json_object();
    codec_json_set_str(item, "object", name);
    codec_json_set_str(item, "timestamp", gs_format_rfc3339(t_ms, when));
    json_object_set_new(item, "value", json_real(value)); // NULL: not finite
    json_array_append_new(out, item);
}

static json_t *values_json(const struct provider_answer *a)
{
    json_t *out = json_array();
    for (size_t i = 0; i < a->n && i < MAX_VALUES; i++)
        add_value(out, a->values[i].name, a->values[i].value, a->values[i].t_ms);
    for (size_t i = 0; i < a->n_samples && i < MAX_VALUES; i++)
        add_value(out, NULL, a->samples[i].value, a->samples[i].t_ms);
    return out;
}

// --- what is stored of the pods ---

static json_t *facts_json(const struct provider_pod_facts *f)
{
    json_t *samples = json_array();
    for (size_t i = 0; i < f->n && i < MAX_NAMES; i++) {
        struct gs_slice name = source_sample_label(&f->samples[i], GS_SLICE("__name__"));
        struct gs_slice pod = source_sample_label(&f->samples[i], GS_SLICE("pod"));
        json_t *item = json_object();
        json_object_set_new(item, "name", json_stringn_nocheck(name.data, name.len));
        if (pod.len)
            json_object_set_new(item, "pod", json_stringn_nocheck(pod.data, pod.len));
        json_object_set_new(item, "value", json_real(f->samples[i].value));
        json_array_append_new(samples, item);
    }
    return json_pack("{s:I, s:o}", "pods", (json_int_t)f->pods, "samples", samples);
}

static void end_explanation(struct adapter_api_call *c)
{
    kube_reply_json(c->x, 200, c->explanation);
    adapter_api_call_end(c);
}

static void on_pod_facts(void *arg, const struct provider_pod_facts *f)
{
    struct adapter_api_call *c = arg;
    c->pod_facts = NULL;
    if (f)
        json_object_set_new(c->explanation, "podSeries", facts_json(f));
    end_explanation(c);
}

// Whether the request was for pods, and they have no value.
static bool lacks_values(const struct adapter_api_call *c, const struct provider_answer *a)
{
    const char *resource = c->path.object_resource;
    return c->path.object_ns && (gs_streq(resource, "pods") || gs_streq(resource, "pod")) &&
           gs_streq(c->path.object_name, "*") && !a->n;
}

void adapter_api_reply_explanation(struct adapter_api_call *c, const struct provider_answer *a)
{
    const struct adapter_api_delegate *previous = adapter_api_delegate(c->a, c->path.group);
    json_t *body =
        json_pack("{s:s, s:s, s:o, s:o, s:s}", "kind", ADAPTER_API_EXPLANATION, "apiVersion",
                  "gpuscale.dev/v1", "steps", steps_json(a->trace), "values", values_json(a),
                  "outcome", provider_outcome_text(a->outcome));
    if (*a->cause)
        codec_json_set_str(body, "cause", a->cause);
    if (a->unserved && previous)
        codec_json_set_str(body, "passedOnTo", adapter_api_delegate_name(previous));
    c->explanation = body;
    if (!lacks_values(c, a)) {
        end_explanation(c);
        return;
    }
    // The callback may end the call.
    struct provider_pod_facts_op *op =
        provider_pod_facts_find(c->a->generation.provider, c->path.object_ns,
                                http_query(c->x, "labelSelector"), on_pod_facts, c);
    if (op)
        c->pod_facts = op;
}
