// SPDX-License-Identifier: Apache-2.0
// Checks of autoscalers that scale on signals of inference engines: names that an engine no longer
// has, values that cannot rise, and values that are not demand. The names are those of the table of
// engines.
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "engine/signals/signals.h"
#include "kube/object.h"

#include <math.h>
#include <string.h>

// The table that is a part of the program, read once. NULL would be a bug of this program, not of
// the cluster.
static const struct signals_table *default_table(void)
{
    static struct signals_table *table;
    if (!table)
        gs_error_free(signals_table_load(NULL, &table));
    return table;
}

// --- names ---

// Rules often replace the colon of a name by an underscore.
static bool is_retired(const struct signals_table *t, const char *name, struct signals_retired *ret)
{
    GS_AUTO_FREE char *with_colon = gs_strdup(name);
    char *underscore = strchr(with_colon, '_');
    if (signals_table_retired(t, name, ret))
        return true;
    if (!underscore)
        return false;
    *underscore = ':';
    return signals_table_retired(t, with_colon, ret);
}

static bool has_value(const json_t *answer)
{
    return codec_json_int(answer, 0, "status", NULL) == 200 &&
           json_array_size(codec_json_get(answer, "body", "items", NULL)) > 0;
}

static char *retired_fix(const struct signals_table *t, const struct signals_retired *r)
{
    enum signals_quantity q;
    if (!r->use)
        return gs_strdup(doctor_text(r->note));
    if (signals_table_quantity(t, r->use, &q) && signals_quantity_type(q) == METRICS_HISTOGRAM)
        q = (enum signals_quantity)(q + SIGNALS_N_HISTOGRAMS); // its percentile
    else if (!signals_table_quantity(t, r->use, &q))
        q = SIGNALS_N_QUANTITIES;
    if (q < SIGNALS_N_QUANTITIES)
        return gs_format(
            "Write %s in spec.metrics and in the rule of the adapter, or scale on " SIGNALS_PREFIX
            "%s, which has this value for each release of the engine",
            r->use, signals_quantity_name(q));
    return gs_format("Write %s in spec.metrics and in the rule of the adapter", r->use);
}

bool doctor_metric_is_retired(const json_t *metric, const json_t *answer)
{
    const struct signals_table *t = default_table();
    const char *name = doctor_hpa_metric_name(metric);
    struct signals_retired r;
    return t && name && answer && !has_value(answer) && is_retired(t, name, &r);
}

static void check_retired(struct doctor_examination *e, const json_t *hpa, const json_t *metric,
                          const json_t *answer)
{
    const struct signals_table *t = default_table();
    struct signals_retired r;
    if (!t || !doctor_metric_is_retired(metric, answer) ||
        !is_retired(t, doctor_hpa_metric_name(metric), &r))
        return;
    char *renamed = r.use ? gs_format("; its name is %s", r.use) : gs_strdup("");
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_format("%s has no series %s from %s on%s.", r.engine, r.name, r.since, renamed),
        gs_format("GET %s: status %lld", doctor_text(codec_json_str(answer, "path", NULL)),
                  (long long)codec_json_int(answer, 0, "status", NULL)),
        retired_fix(t, &r));
    free(renamed);
}

void doctor_check_metric_retired(struct doctor_examination *e)
{
    doctor_each_hpa_metric(e, check_retired);
}

// --- values ---

// The first sample of a query about a pod of the autoscaler's target; NULL: none.
static const json_t *sample_of(const struct doctor_examination *e, const json_t *hpa,
                               const char *query)
{
    const json_t *selector = codec_json_get(doctor_hpa_target(e, hpa), "spec", "selector", NULL);
    const json_t *sample;
    size_t i;
    json_array_foreach (doctor_query(e, query), i, sample) {
        const char *ns = doctor_sample_label(sample, "namespace");
        const char *name = doctor_sample_label(sample, "pod");
        const json_t *pod = ns && name ? doctor_find(e, "pods", ns, name) : NULL;
        if (selector && pod && gs_streq(ns, kube_namespace(hpa)) &&
            doctor_label_selects(selector, pod))
            return sample;
    }
    return NULL;
}

static bool is_about(const json_t *metric, enum signals_quantity wanted)
{
    const struct signals_table *t = default_table();
    const char *name = doctor_hpa_metric_name(metric);
    enum signals_quantity q;
    return t && name && signals_table_quantity(t, name, &q) && q == wanted;
}

static void check_engine_ceiling(struct doctor_examination *e, const json_t *hpa,
                                 const json_t *metric, const json_t *answer)
{
    double target = doctor_hpa_metric_target(metric);
    const json_t *sample = sample_of(e, hpa, "engine_ceiling");
    (void)answer;
    if (!sample || !is_about(metric, SIGNALS_RUNNING) || !(target >= doctor_sample_value(sample)))
        return;
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_format("The target of %s is %g, but no more than %g requests run in a pod while others "
                  "wait.",
                  doctor_hpa_metric_name(metric), target, doctor_sample_value(sample)),
        gs_format("pod %s has had a queue for five minutes", doctor_sample_label(sample, "pod")),
        gs_format("kubectl -n %s edit hpa %s   # scale on " SIGNALS_PREFIX "waiting",
                  kube_namespace(hpa), kube_name(hpa)));
}

void doctor_check_engine_ceiling(struct doctor_examination *e)
{
    doctor_each_hpa_metric(e, check_engine_ceiling);
}

static void check_deferred(struct doctor_examination *e, const json_t *hpa, const json_t *metric,
                           const json_t *answer)
{
    const char *name = doctor_hpa_metric_name(metric);
    const json_t *sample = sample_of(e, hpa, "engine_deferred");
    (void)answer;
    if (!sample || !name ||
        !(gs_streq(name, "vllm:num_requests_waiting") ||
          gs_streq(name, "vllm_num_requests_waiting")))
        return;
    doctor_report(e, "HorizontalPodAutoscaler", hpa,
                  gs_format("%s also counts deferred requests.", name),
                  gs_format("%g of the waiting requests of pod %s are deferred",
                            doctor_sample_value(sample), doctor_sample_label(sample, "pod")),
                  gs_format("kubectl -n %s edit hpa %s   # scale on " SIGNALS_PREFIX
                            "waiting, which leaves them out",
                            kube_namespace(hpa), kube_name(hpa)));
}

void doctor_check_engine_deferred(struct doctor_examination *e)
{
    doctor_each_hpa_metric(e, check_deferred);
}

static void check_rejections(struct doctor_examination *e, const json_t *hpa, const json_t *metric,
                             const json_t *answer)
{
    const json_t *sample = sample_of(e, hpa, "engine_rejections");
    (void)answer;
    if (!sample || !is_about(metric, SIGNALS_WAITING))
        return;
    doctor_report(e, "HorizontalPodAutoscaler", hpa,
                  gs_format("Pods of the target refuse requests: %s stays short while demand is "
                            "higher.",
                            doctor_hpa_metric_name(metric)),
                  gs_format("pod %s refused %.0f requests in 10 minutes",
                            doctor_sample_label(sample, "pod"), doctor_sample_value(sample)),
                  gs_strdup("Set a target below the limit of the queue (vLLM: "
                            "--max-num-queued-reqs), or add a metric " SIGNALS_PREFIX
                            "rejections with a target of AverageValue"));
}

void doctor_check_engine_rejections(struct doctor_examination *e)
{
    doctor_each_hpa_metric(e, check_rejections);
}

// --- pages ---

// A program that serves its metrics only with a flag.
static const char *flag_of(const json_t *pod)
{
    size_t i;
    const json_t *container;
    json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), i, container) {
        const char *image = codec_json_str(container, "image", NULL);
        if (doctor_contains(image, "sglang"))
            return "--enable-metrics";
        if (doctor_contains(image, "llama.cpp") || doctor_contains(image, "llama-server"))
            return "--metrics";
    }
    return NULL;
}

static void report_page(struct doctor_examination *e, const json_t *entry)
{
    const char *ns = doctor_text(codec_json_str(entry, "namespace", NULL));
    const char *name = doctor_text(codec_json_str(entry, "pod", NULL));
    const char *reason = doctor_text(codec_json_str(entry, "reason", NULL)), *flag = NULL;
    const json_t *pod = doctor_find(e, "pods", ns, name);
    char *fix = NULL;
    if (!pod)
        return;
    if (doctor_contains(reason, "needs a token"))
        fix = gs_format("Write a PodMonitor for the pod with the Secret of its token in "
                        "podMetricsEndpoints[].authorization.credentials");
    else if (doctor_contains(reason, "its annotation"))
        fix = gs_format("kubectl -n %s annotate pod %s --overwrite "
                        "gpuscale.dev/inference=vllm:8000/metrics   # also in the template",
                        ns, name);
    else if (doctor_contains(reason, "status 404") && (flag = flag_of(pod)))
        fix = gs_format("Add %s to the arguments of the engine", flag);
    if (fix)
        doctor_report(e, "Pod", pod,
                      gs_strdup("The metrics of its inference engine cannot be read."),
                      gs_strdup(reason), fix);
}

void doctor_check_engine_not_read(struct doctor_examination *e)
{
    size_t i;
    const json_t *entry;
    json_array_foreach (codec_json_get(e->prometheus, "inference", "pods", NULL), i, entry)
        if (gs_streq(codec_json_str(entry, "state", NULL), "searching"))
            report_page(e, entry);
}
