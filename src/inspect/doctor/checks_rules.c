// SPDX-License-Identifier: Apache-2.0
// Checks of the adapter's rules against the series of Prometheus.
#include "adapter/config/config.h"
#include "base/mem.h"
#include "doctor/doctor_private.h"

#include <string.h>

static void each_config(struct doctor_examination *e,
                        void (*check)(struct doctor_examination *e, const char *name,
                                      const struct adapter_config *c, const char *error))
{
    size_t i;
    const json_t *config;

    json_array_foreach (json_object_get(e->facts, "adapterConfigs"), i, config) {
        const char *name = doctor_text(codec_json_str(config, "configMap", NULL));
        const char *text = doctor_text(codec_json_str(config, "text", NULL));
        struct adapter_config *c = NULL;
        GS_AUTO_ERROR struct gs_error *err = adapter_config_parse(
            gs_slice_of(text), doctor_text(codec_json_str(config, "key", NULL)), &c);
        check(e, name, c, err ? gs_error_message(err) : NULL);
        adapter_config_free(c);
    }
}

static void check_valid(struct doctor_examination *e, const char *name,
                        const struct adapter_config *c, const char *error)
{
    GS_AUTO_FREE char *subject = gs_format("ConfigMap %s", name);

    (void)c;
    if (!error)
        return;
    doctor_add(
        e, (struct doctor_finding){
               subject, gs_strdup("The adapter's configuration is invalid."),
               gs_format("%.400s", error),
               gs_strdup("gpuscale check adapter FILE     # shows each error with its line\n"
                         "prometheus-adapter reads its configuration only when it starts: kubectl "
                         "rollout restart its Deployment")});
}

void doctor_check_adapter_config(struct doctor_examination *e)
{
    each_config(e, check_valid);
}

// --- labels ---

// Counts the series that the query of a rule names, among those of GPUs: no others were read.
// *ret_with_label: those of them that have the label.
static size_t series_of(const struct doctor_examination *e, const char *query, const char *label,
                        size_t *ret_with_label)
{
    static const char *const queries[] = {"gpus", "utilization"};
    size_t all = 0, i;
    const json_t *sample;

    *ret_with_label = 0;
    for (size_t q = 0; q < 2; q++) {
        json_array_foreach (doctor_query(e, queries[q]), i, sample) {
            const char *name = doctor_sample_label(sample, "__name__");
            if (!name || !doctor_contains(query, name))
                continue;
            all++;
            bool names_owner = !gs_streq(label, "pod") || doctor_gpu_owner(e, sample).pod.len;
            *ret_with_label += doctor_sample_label(sample, label) && names_owner;
        }
    }
    return all;
}

// The label of pods that the series have; NULL: none.
static const char *pod_label(const struct doctor_examination *e, const char *query)
{
    static const char *const labels[] = {"exported_pod", "PodName", "pod_name", "pod", NULL};
    size_t with = 0;

    for (size_t i = 0; labels[i]; i++)
        if (series_of(e, query, labels[i], &with) && with)
            return labels[i];
    return NULL;
}

static bool is_pod(const struct adapter_config_override *o)
{
    return gs_streq(o->resource, "pod") || gs_streq(o->resource, "pods");
}

// The label of pods that the rule expects, if no series has one of them; NULL: fine.
static const char *missing_label(const struct doctor_examination *e,
                                 const struct adapter_config_rule *r)
{
    const char *missing = NULL;
    size_t with = 0;

    for (size_t i = 0; i < r->resources.n_overrides; i++) {
        const struct adapter_config_override *o = &r->resources.overrides[i];
        if (!is_pod(o))
            continue;
        if (series_of(e, r->series_query, o->label, &with) == 0 || with)
            return NULL;
        missing = o->label;
    }
    return missing;
}

static void check_labels(struct doctor_examination *e, const char *name,
                         const struct adapter_config *c, const char *error)
{
    GS_AUTO_FREE char *subject = gs_format("ConfigMap %s", name);

    if (error)
        return;
    for (size_t i = 0; i < c->n_custom; i++) {
        const struct adapter_config_rule *r = &c->rules[i];
        const char *missing = missing_label(e, r);
        const char *right = missing ? pod_label(e, r->series_query) : NULL;
        if (!missing || !right)
            continue;
        doctor_add(
            e, (struct doctor_finding){
                   subject,
                   gs_format("A rule of the adapter expects the label %s, but the series have %s.",
                             missing, right),
                   gs_format("%s: seriesQuery %.200s", r->place, r->series_query),
                   gs_format(
                       "resources:\n  overrides:\n    %s: {resource: pod}\n"
                       "or change honorLabels of the ServiceMonitor: true keeps pod, false renames "
                       "it to exported_pod",
                       right)});
    }
}

void doctor_check_adapter_labels(struct doctor_examination *e)
{
    each_config(e, check_labels);
}

static bool is_clear(const struct doctor_examination *e, const struct adapter_config_rule *r,
                     const char **ret_label, struct gs_buf *label)
{
    size_t with = 0;

    for (size_t i = 0; gs_buf_clear(label), adapter_config_rule_own_label(r, i, label); i++) {
        if (series_of(e, r->series_query, label->data ? label->data : "", &with) && !with) {
            *ret_label = label->data;
            return false;
        }
    }
    return true;
}

static void check_matchers(struct doctor_examination *e, const char *name,
                           const struct adapter_config *c, const char *error)
{
    GS_AUTO_FREE char *subject = gs_format("ConfigMap %s", name);

    if (error)
        return;
    for (size_t i = 0; i < c->n_custom; i++) {
        GS_AUTO_BUF struct gs_buf text = {0};
        const char *label = NULL;
        const struct adapter_config_rule *r = &c->rules[i];
        if (!r->series_query || missing_label(e, r) || is_clear(e, r, &label, &text))
            continue;
        doctor_add(
            e, (struct doctor_finding){
                   subject,
                   gs_format(
                       "A rule of the adapter selects series with the label %s, but none has it.",
                       label),
                   gs_format("%s: seriesQuery %.200s", r->place, r->series_query),
                   gs_format(
                       "Remove the matcher of %s from seriesQuery, or correct its name: gpuscale "
                       "query labels shows those that exist",
                       label)});
    }
}

void doctor_check_adapter_matchers(struct doctor_examination *e)
{
    each_config(e, check_matchers);
}
