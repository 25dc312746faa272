// SPDX-License-Identifier: Apache-2.0
// The proposal of an annotation beside those of the metrics: the highest wins. A metric of the spec
// with its name has its value, so that one object works with each controller. Another controller
// reads that metric from the metrics API and applies its tolerance to it.
#include "hpa/explanation.h"
#include "hpa/hpa_private.h"

#include "base/slice.h"

bool hpa_is_desired_metric(const struct hpa_metric_spec *m)
{
    return (m->type == HPA_METRIC_EXTERNAL || m->type == HPA_METRIC_OBJECT) &&
           gs_streq(m->name, HPA_DESIRED_METRIC);
}

bool hpa_has_extra_value(const struct hpa_observation *obs, const struct hpa_metric_spec *m)
{
    return obs->extra && hpa_is_desired_metric(m);
}

struct gs_error *hpa_compute_extra(const struct hpa_evaluation *p, size_t metric,
                                   struct hpa_metric_result *res, struct hpa_calculation *calc)
{
    const struct hpa_extra *e = p->obs->extra;
    int32_t replicas = e->held ? p->obs->spec_replicas : e->replicas;
    if (replicas < 0)
        return gs_error_new(GS_EUNAVAIL, "unable to get metric %s of %s: %s", HPA_DESIRED_METRIC,
                            e->name, e->explanation);
    hpa_replicas_given(p, metric, replicas, res, calc);
    return NULL;
}

char *hpa_explain_extra(const struct hpa_evaluation *p, const struct hpa_metric_result *res)
{
    const struct hpa_extra *e = p->obs->extra;
    return gs_format("%s: %s: %d replica%s", HPA_DESIRED_METRIC, e->explanation, res->proposal,
                     res->proposal == 1 ? "" : "s");
}

bool hpa_extra_proposes(const struct hpa_observation *obs)
{
    const struct hpa_extra *e = obs->extra;
    return e && e->applied && !e->held && e->replicas >= 0;
}

void hpa_consider_extra(struct hpa_evaluation *p, int32_t *highest, const char **name)
{
    const struct hpa_extra *e = p->obs->extra;
    struct hpa_decision *d = p->out;
    if (hpa_extra_proposes(p->obs) && e->replicas >= *highest) {
        *highest = e->replicas;
        *name = e->name;
        d->keeps_existing = false;
        d->extra = gs_strdup(e->explanation);
    } else if (e && e->applied && e->held && *highest < p->obs->spec_replicas) {
        *highest = p->obs->spec_replicas;
        *name = e->name;
        d->keeps_existing = false;
        hpa_explain(p, "no scaling down: %s", e->explanation);
    }
}

bool hpa_extra_from_json(const json_t *latency, struct hpa_extra *ret)
{
    const char *error = codec_json_str(latency, "error", NULL);
    const char *text = error ? error : codec_json_str(latency, "explanation", NULL);
    bool applied = codec_json_bool(latency, false, "applied", NULL);
    int64_t replicas = codec_json_int(latency, -1, "proposal", NULL);
    if (!text)
        return false;
    *ret = (struct hpa_extra){
        .replicas = replicas < 0 ? -1 : hpa_sat32(replicas),
        .applied = applied,
        .held = (error && applied) || json_is_string(json_object_get(latency, "hold")),
        .name = HPA_LATENCY_NAME,
        .explanation = text,
    };
    return true;
}
