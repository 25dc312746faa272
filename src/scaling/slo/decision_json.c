// SPDX-License-Identifier: Apache-2.0
// The decision as JSON, for explanations, pages and records.
#include "slo/slo.h"

#include <math.h>

static json_t *line_or_null(bool has, const char *text)
{
    return has ? json_string(text) : json_null();
}

static json_t *number_or_null(double v)
{
    return isfinite(v) ? json_real(round(v * 1000) / 1000) : json_null();
}

static json_t *bounds_json(const struct slo_decision *d)
{
    json_t *out = json_array();
    for (size_t i = 0; i < d->n_bounds; i++) {
        const struct slo_bound *b = &d->bounds[i];
        json_t *bound = json_object();
        codec_json_set_str(bound, "name", b->name);
        if (b->proposal >= 0)
            codec_json_set_int(bound, "proposal", b->proposal);
        codec_json_set_str(bound, b->proposal >= 0 ? "text" : "abstains", b->text);
        json_array_append_new(out, bound);
    }
    return out;
}

static json_t *targets_json(const struct slo_policy *p)
{
    json_t *out = json_object();
    for (int l = 0; l < SLO_LATENCIES; l++)
        if (p->seconds[l] > 0)
            json_object_set_new(out, slo_latency_name(p, (enum slo_latency)l),
                                json_real(p->seconds[l]));
    codec_json_set_int(out, "p", p->percent);
    return out;
}

json_t *slo_decision_json(const struct slo_policy *policy, const struct slo_decision *d)
{
    json_t *out = json_object(), *credit = json_object(), *guard = json_object();
    codec_json_set_int(out, "proposal", d->proposal);
    codec_json_set_bool(out, "shadow", policy->shadow);
    json_object_set_new(out, "targets", targets_json(policy));
    json_object_set_new(out, "pressure", number_or_null(d->pressure));
    codec_json_set_str(out, "pressureText", d->pressure_text);
    json_object_set_new(out, "hold", line_or_null(d->hold, d->hold_text));
    json_object_set_new(out, "bounds", bounds_json(d));
    if (d->decider >= 0)
        codec_json_set_str(out, "decider", d->bounds[d->decider].name);
    codec_json_set_int(credit, "ready", d->credit.ready);
    codec_json_set_int(credit, "starting", d->credit.starting);
    codec_json_set_int(credit, "late", d->credit.late);
    codec_json_set_int(credit, "unschedulable", d->credit.unschedulable);
    codec_json_set_str(credit, "text", d->credit.text);
    json_object_set_new(out, "credit", credit);
    codec_json_set_bool(guard, "checked", d->guard.checked);
    codec_json_set_bool(guard, "holds", d->guard.holds);
    codec_json_set_str(guard, "text", d->guard.text);
    json_object_set_new(out, "guard", guard);
    json_object_set_new(out, "demand", number_or_null(d->demand));
    codec_json_set_str(out, "demandUnit", d->demand_unit);
    codec_json_set_str(out, "explanation", d->explanation);
    return out;
}
