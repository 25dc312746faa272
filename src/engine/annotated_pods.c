// SPDX-License-Identifier: Apache-2.0
// The scrape job of pods with the annotations prometheus.io/scrape, port, path, scheme and param-…,
// as the configuration of Prometheus' own Helm chart has it. A job of the same name in the
// configuration replaces it.
// https://github.com/prometheus-community/helm-charts/blob/main/charts/prometheus/values.yaml
#include "engine/engine_private.h"

#include "base/assert.h"
#include "base/mem.h"

#define SET        "__meta_kubernetes_pod_annotation_prometheus_io_"
#define ANNOTATION "kubernetes-annotations" // the name of the set of jobs
// At least 100 ms, because any pod can have it.
#define INTERVAL "([1-9][0-9]*(s|m)|[1-9][0-9]{2,}ms)"

// With limits, because any pod can have the annotations. gpuscale.dev/scrape-interval is of
// gpuscale only: a metric that scales a workload is worth more than the interval of all others.
static const char job[] =
    "- job_name: " ENGINE_ANNOTATED_PODS_JOB "\n"
    "  sample_limit: 10000\n"
    "  target_limit: 2000\n"
    "  body_size_limit: 32MB\n"
    "  kubernetes_sd_configs: [{role: pod}]\n"
    "  relabel_configs:\n"
    "  - {source_labels: [" SET "scrape], regex: 'true', action: keep}\n"
    "  - {source_labels: [__meta_kubernetes_pod_phase], regex: Pending|Succeeded|Failed|Completed, "
    "action: drop}\n"
    "  - {source_labels: [__meta_kubernetes_pod_container_init], regex: 'true', action: drop}\n"
    "  - {source_labels: [" SET "scheme], regex: (https?), target_label: __scheme__}\n"
    "  - {source_labels: [" SET "path], regex: (.+), target_label: __metrics_path__}\n"
    "  - {source_labels: [" SET "port, __meta_kubernetes_pod_ip], "
    "regex: '(\\d+);(([A-Fa-f0-9]{1,4}::?){1,7}[A-Fa-f0-9]{1,4})', replacement: '[$2]:$1', "
    "target_label: __address__}\n"
    "  - {source_labels: [" SET "port, __meta_kubernetes_pod_ip], "
    "regex: '(\\d+);((([0-9]+?)(\\.|$)){4})', replacement: '$2:$1', target_label: __address__}\n"
    "  - {source_labels: [__meta_kubernetes_pod_annotation_gpuscale_dev_scrape_interval], "
    "regex: '" INTERVAL "', target_label: __scrape_interval__}\n"
    "  - {source_labels: [__meta_kubernetes_pod_annotation_gpuscale_dev_scrape_interval], "
    "regex: '" INTERVAL "', target_label: __scrape_timeout__}\n"
    "  - {action: labelmap, regex: " SET "param_(.+), replacement: __param_$1}\n"
    "  - {source_labels: [__meta_kubernetes_namespace], target_label: namespace}\n"
    "  - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}\n";

static bool has_job(const struct engine_config *c)
{
    for (size_t i = 0; i < c->n_scrapes; i++)
        if (gs_streq(c->scrapes[i].job_name, ENGINE_ANNOTATED_PODS_JOB))
            return true;
    return false;
}

void engine_scrape_annotated_pods(struct scrape_manager *scrapes, const struct engine_config *c,
                                  struct engine_config **own)
{
    GS_CLEANUP(engine_config_freep) struct engine_config *old = GS_TAKE(*own);
    if (has_job(c)) {
        scrape_manager_apply_extra(scrapes, ANNOTATION, NULL, 0);
        return;
    }
    GS_AUTO_FREE char *text =
        gs_format("global: {scrape_interval: %lldms, scrape_timeout: %lldms}\nscrape_configs:\n%s",
                  (long long)c->scrape_interval_ms, (long long)c->scrape_timeout_ms, job);
    struct gs_error *err = engine_config_parse(gs_slice_of(text), "annotated pods", ".", own);
    gs_assert(!err);
    engine_config_set_yields(*own); // to a monitor of the same pods
    scrape_manager_apply_extra(scrapes, ANNOTATION, (*own)->scrapes, (*own)->n_scrapes);
}
