// SPDX-License-Identifier: Apache-2.0
// Explains one request of custom.metrics.k8s.io or external.metrics.k8s.io: a request with the
// parameter explain=true gets the steps of the running adapter as JSON, in place of the values. It
// needs the same permission as the values.
#include "adapter/api/api_private.h"

#include "base/clock.h"
#include "kube/status.h"

enum { MAX_VALUES = 1000 };

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

void adapter_api_reply_explanation(struct adapter_api_call *c, const struct provider_answer *a)
{
    const struct adapter_api_delegate *previous = adapter_api_delegate(c->a, c->path.group);
    CODEC_AUTO_JSON json_t *body =
        json_pack("{s:s, s:s, s:o, s:o, s:s}", "kind", ADAPTER_API_EXPLANATION, "apiVersion",
                  "gpuscale.dev/v1", "steps", steps_json(a->trace), "values", values_json(a),
                  "outcome", provider_outcome_text(a->outcome));
    if (*a->cause)
        codec_json_set_str(body, "cause", a->cause);
    if (a->unserved && previous)
        codec_json_set_str(body, "passedOnTo", adapter_api_delegate_name(previous));
    kube_reply_json(c->x, 200, body);
}
