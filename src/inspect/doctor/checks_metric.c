// SPDX-License-Identifier: Apache-2.0
// Checks of metrics of pods without a value: whether the pods are scraped, and whether they export
// the name. The diagnosis is that of `gpuscale explain hpa`.
#include "base/mem.h"
#include "diagnosis/metric.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"

bool doctor_lacks_value(const json_t *answer)
{
    const json_t *items = codec_json_get(answer, "body", "items", NULL);
    int64_t status = codec_json_int(answer, 0, "status", NULL);
    return status == 404 || (status == 200 && json_is_array(items) && !json_array_size(items));
}

const json_t *doctor_hpa_pod(const struct doctor_examination *e, const json_t *hpa, size_t *pos)
{
    const json_t *selector = codec_json_get(doctor_hpa_target(e, hpa), "spec", "selector", NULL);
    const json_t *pods = doctor_pods_of(e, kube_namespace(hpa)), *pod;
    while (selector && (pod = json_array_get(pods, *pos))) {
        (*pos)++;
        if (gs_streq(kube_phase(pod), "Running") && doctor_label_selects(selector, pod))
            return pod;
    }
    return NULL;
}

// What the adapter or Prometheus has of the pods. NULL: not known.
static const json_t *pod_series(const struct doctor_examination *e, const json_t *hpa,
                                const json_t *answer)
{
    GS_AUTO_FREE char *key = kube_key(hpa);
    const json_t *own = json_object_get(answer, "podSeries");
    return own ? own : codec_json_get(e->prometheus, "podSeries", key, NULL);
}

// A rule of an adapter may give the metric a name that no series has.
static bool is_named_by_rule(const struct doctor_examination *e, const char *metric)
{
    size_t i;
    const json_t *config;
    json_array_foreach (json_object_get(e->facts, "adapterConfigs"), i, config)
        if (doctor_contains(codec_json_str(config, "text", NULL), metric))
            return true;
    return false;
}

// UNKNOWN: another check may report the metric.
static void diagnose(struct doctor_examination *e, const json_t *hpa, const json_t *metric,
                     const json_t *answer, struct diagnosis_metric *ret)
{
    const char *name = doctor_hpa_metric_name(metric);
    const json_t *ref = codec_json_get(hpa, "spec", "scaleTargetRef", NULL);
    size_t pos = 0;
    *ret = (struct diagnosis_metric){.state = DIAGNOSIS_METRIC_UNKNOWN};
    if (!name || !gs_streq(codec_json_str(metric, "type", NULL), "Pods") ||
        !doctor_lacks_value(answer) || doctor_metric_is_retired(metric, answer) ||
        doctor_is_gpu_name(name) || is_named_by_rule(e, name))
        return;
    CODEC_AUTO_JSON json_t *series = diagnosis_metric_series(pod_series(e, hpa, answer));
    const struct diagnosis_metric_input in = {
        .metric = name,
        .ns = kube_namespace(hpa),
        .kind = doctor_text(codec_json_str(ref, "kind", NULL)),
        .name = doctor_text(codec_json_str(ref, "name", NULL)),
        .pod = doctor_hpa_pod(e, hpa, &pos),
        .series = series};
    if (series && in.pod)
        diagnosis_metric_of(&in, ret);
}

static bool is_reported(enum diagnosis_metric_state s)
{
    return s == DIAGNOSIS_METRIC_NOT_SCRAPED || s == DIAGNOSIS_METRIC_SCRAPE_FAILS ||
           s == DIAGNOSIS_METRIC_NO_SUCH_NAME || s == DIAGNOSIS_METRIC_ABSENT;
}

bool doctor_metric_is_diagnosed(struct doctor_examination *e, const json_t *hpa,
                                const json_t *metric, const json_t *answer)
{
    struct diagnosis_metric d;
    diagnose(e, hpa, metric, answer, &d);
    bool reported = is_reported(d.state);
    diagnosis_metric_finish(&d);
    return reported;
}

static void report(struct doctor_examination *e, const json_t *hpa, const json_t *metric,
                   const json_t *answer, enum diagnosis_metric_state first,
                   enum diagnosis_metric_state last)
{
    struct diagnosis_metric d;
    diagnose(e, hpa, metric, answer, &d);
    if (d.state >= first && d.state <= last)
        doctor_report(
            e, "HorizontalPodAutoscaler", hpa,
            gs_format("The metric %s has no value: %s.", doctor_hpa_metric_name(metric), d.text),
            gs_strdup(doctor_text(d.evidence)), gs_strdup(doctor_text(d.fix)));
    diagnosis_metric_finish(&d);
}

static void check_scraped(struct doctor_examination *e, const json_t *hpa, const json_t *metric,
                          const json_t *answer)
{
    report(e, hpa, metric, answer, DIAGNOSIS_METRIC_NOT_SCRAPED, DIAGNOSIS_METRIC_NOT_SCRAPED);
}

void doctor_check_metric_not_scraped(struct doctor_examination *e)
{
    doctor_each_hpa_metric(e, check_scraped);
}

static void check_scrape(struct doctor_examination *e, const json_t *hpa, const json_t *metric,
                         const json_t *answer)
{
    report(e, hpa, metric, answer, DIAGNOSIS_METRIC_SCRAPE_FAILS, DIAGNOSIS_METRIC_SCRAPE_FAILS);
}

void doctor_check_metric_scrape_fails(struct doctor_examination *e)
{
    doctor_each_hpa_metric(e, check_scrape);
}

static void check_name(struct doctor_examination *e, const json_t *hpa, const json_t *metric,
                       const json_t *answer)
{
    report(e, hpa, metric, answer, DIAGNOSIS_METRIC_NO_SUCH_NAME, DIAGNOSIS_METRIC_ABSENT);
}

void doctor_check_metric_not_exported(struct doctor_examination *e)
{
    doctor_each_hpa_metric(e, check_name);
}
