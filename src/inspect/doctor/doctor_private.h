// SPDX-License-Identifier: Apache-2.0
// Facts are one JSON object:
//
//   now          RFC 3339
//   kubernetes   {"server", "nodes": LIST, "pods": LIST, …}, keys by doctor_lists[]
//   metrics      {"ns/name of an HPA": [{"path", "status", "body", "others", "podSeries"}]}, one
//                per metric
//   apis         {"custom.metrics.k8s.io/v1beta1": APIResourceList or {"unknown"}}
//   logs         {"ns/pod/container": text} of containers that crash
//   pools        those of gpuscale up (nodes_pools_json()); absent: not known
//   adapterConfigs [{"configMap", "key", "text"}]
//   exporters    [{"namespace", "pod", "status", "series", "attributed"}], of some exporters
//   certificates [{"of", "from", "until": Unix seconds}]
//   prometheus   {"address", "targets", "rules", "config", "queries": {NAME: result}, "metrics",
//                "delay", "partial", "inference", "aliases"} or {"unknown"}
//   node         the state of this machine
//
// LIST is a list of the API, {"absent": true} if the API does not have the resource, or
// {"unknown": "why"}.
#pragma once

#include "diagnosis/diagnosis.h"
#include "doctor/doctor.h"
#include "metrics/gpu_owner.h"

enum doctor_link {
    DOCTOR_DRIVER,
    DOCTOR_NODE,
    DOCTOR_EXPORTER,
    DOCTOR_ATTRIBUTION,
    DOCTOR_SCRAPE,
    DOCTOR_SERIES,
    DOCTOR_ADAPTER,
    DOCTOR_HPA,
    DOCTOR_PODS,
    DOCTOR_NODE_GROUPS,
    DOCTOR_LINKS
};

// Findings of broken links are reported before those of risks.
enum doctor_level { DOCTOR_BROKEN, DOCTOR_RISK };

#define DOCTOR_MAX_DIAGNOSES 200

struct doctor_diagnosis {
    const json_t *pod; // the first one
    struct diagnosis is;
    size_t n_pods; // of the same owner with the same problem
};

struct doctor_examination {
    const json_t *facts;
    const json_t *kube, *prometheus, *node; // NULL: not part of the facts
    int64_t now_ms;
    json_t *findings; // array
    const struct doctor_check *check;
    size_t check_index, n_of_check;
    struct doctor_diagnosis *diagnoses; // of pods that do not run
    size_t n_diagnoses;
    char *line;                 // the last one of a log
    struct doctor_index *index; // NULL: each search reads the list
};

struct doctor_check {
    const char *id;
    enum doctor_link link;
    enum doctor_level level;
    const char *title; // what is wrong, in general
    const char *why;   // why it matters
    void (*run)(struct doctor_examination *e);
};
extern const struct doctor_check doctor_checks[]; // in the order of the chain; ends with a NULL id

// The texts are owned by the caller until doctor_add() takes them. fix: commands or YAML.
struct doctor_finding {
    const char *subject; // borrowed: "DaemonSet monitoring/dcgm-exporter"
    char *what, *evidence, *fix;
};
void doctor_add(struct doctor_examination *e, struct doctor_finding f);
// The same about an object. Takes the texts.
void doctor_report(struct doctor_examination *e, const char *kind, const json_t *obj, char *what,
                   char *evidence, char *fix);

// --- diagnoses.c ---

void doctor_diagnose(struct doctor_examination *e); // fills e->diagnoses
void doctor_diagnoses_finish(struct doctor_examination *e);
// NULL: the pod runs, or it is a further one with the same problem.
const struct doctor_diagnosis *doctor_diagnosis_of(const struct doctor_examination *e,
                                                   const json_t *pod);

// --- causes.c ---

// Moves causes before what they explain, which gets "because": {"check", "subject"}. findings: in
// the order of the report.
void doctor_order_causes(const struct doctor_examination *e, json_t *findings);

// --- index.c ---

// Remembers each list at its first search; the lists must not change afterwards.
struct doctor_index *doctor_index_new(void);
void doctor_index_free(struct doctor_index *x);
// items: those of the list. The result is borrowed from the index. ns NULL: any.
const json_t *doctor_index_find(struct doctor_index *x, const json_t *items, const char *list,
                                const char *ns, const char *name);
// The objects of a namespace, an array in the order of the list; NULL: it has no such object.
const json_t *doctor_index_group(struct doctor_index *x, const json_t *items, const char *list,
                                 const char *ns);

// --- facts.c ---

// The objects of a list; NULL: unknown, or the API does not have them.
const json_t *doctor_items(const struct doctor_examination *e, const char *list);
bool doctor_known(const struct doctor_examination *e, const char *list);  // it could be read
bool doctor_absent(const struct doctor_examination *e, const char *list); // no such resource
const json_t *doctor_find(const struct doctor_examination *e, const char *list, const char *ns,
                          const char *name); // ns NULL: any
// The pods of a namespace; there must be an index.
const json_t *doctor_pods_of(const struct doctor_examination *e, const char *ns);
// The result of a query of doctor_queries[]: samples of a vector; NULL: unknown.
const json_t *doctor_query(const struct doctor_examination *e, const char *name);
double doctor_sample_value(const json_t *sample); // NaN: none
const char *doctor_sample_label(const json_t *sample, const char *label);
// The pod that a sample of a GPU names. Without a pod: the GPU is idle, or the pod is unknown.
struct metrics_gpu_pod doctor_gpu_owner(const struct doctor_examination *e, const json_t *sample);
// The age of a time in RFC 3339 in ms; -1: unknown.
int64_t doctor_age_ms(const struct doctor_examination *e, const char *time);
// "Kind ns/name", caller frees.
char *doctor_subject(const char *kind, const json_t *obj) GS_MUST_USE;
bool doctor_contains(const char *text, const char *part); // both may be NULL

// Whether the image of a container contains one of these texts; images ends with NULL.
bool doctor_pod_has_image(const json_t *pod, const char *const *images);
const json_t *doctor_pod_spec(const json_t *obj); // of a pod or of a workload's template
// What a container of the pod or the template does.
enum doctor_role {
    DOCTOR_EXPORTER_ROLE,
    DOCTOR_ADAPTER_ROLE,
    DOCTOR_PLUGIN_ROLE,
    DOCTOR_PROMETHEUS_ROLE
};
// The container with this role; NULL: none.
const json_t *doctor_container_of(const json_t *obj, enum doctor_role role);
// The value of "--flag value", "--flag=value" or "-f value" in command and args; NULL: absent.
const char *doctor_flag(const json_t *container, const char *flag);
const char *doctor_env(const json_t *container, const char *name); // plain values only
const json_t *doctor_container_status(const json_t *pod, const char *container);

bool doctor_is_gpu_node(const json_t *node);  // it has GPUs, or its labels say so
int64_t doctor_gpus(const json_t *resources); // whole GPUs of a map of quantities, MIG devices too
int64_t doctor_pod_gpus(const json_t *pod);
bool doctor_node_ready(const json_t *node);
bool doctor_selects(const json_t *map, const json_t *obj); // a Service's selector and an object
bool doctor_label_selects(const json_t *label_selector, const json_t *obj);
// "key=value,key2=value2", caller frees.
char *doctor_labels_text(const json_t *map) GS_MUST_USE;
// "key=value key2=value2": arguments of kubectl label; caller frees.
char *doctor_labels_words(const json_t *map) GS_MUST_USE;
// "key: \"value\", key2: \"value2\"" for a mapping in YAML, without labels that a rollout changes;
// caller frees.
char *doctor_labels_yaml(const json_t *map) GS_MUST_USE;

bool doctor_is_gpu_name(const char *name); // of a metric, rule or job about GPUs
const char *doctor_text(const char *text); // "" for NULL
// The metric of an element of spec.metrics: {"name", "selector"}; NULL: a resource metric.
const json_t *doctor_hpa_metric(const json_t *metric);
// Whether the controller of the autoscaler has the value of this metric itself (slo/slo.h): it need
// not be served.
bool doctor_hpa_decides(const json_t *hpa, const json_t *metric);
bool doctor_hpa_uses(const struct doctor_examination *e, const char *type, const char *metric);
// The workload of spec.scaleTargetRef; NULL: unknown.
const json_t *doctor_hpa_target(const struct doctor_examination *e, const json_t *hpa);
// The Service of a Prometheus in the cluster, and its port; NULL: none.
const json_t *doctor_prometheus_service(const struct doctor_examination *e, int64_t *ret_port);
// The newest event about an object whose message contains the text; NULL: none.
const char *doctor_event_with(const struct doctor_examination *e, const json_t *obj,
                              const char *text);

// --- checks_monitors.c ---

// Whether a Prometheus selects an object by these members of its spec. *ret_labels: by its labels;
// then only the namespace is not selected.
bool doctor_prometheus_selects(const struct doctor_examination *e, const json_t *prometheus,
                               const json_t *obj, const char *selector, const char *namespaces,
                               bool *ret_labels);

// --- checks_hpa.c ---

const json_t *doctor_hpa_metrics(const json_t *hpa); // spec.metrics
const char *doctor_hpa_metric_name(const json_t *metric);
const char *doctor_hpa_message(const json_t *hpa, const char *condition); // "" if absent
// reason NULL: any.
bool doctor_hpa_condition_is(const json_t *hpa, const char *type, const char *status,
                             const char *reason);
void doctor_each_hpa(struct doctor_examination *e,
                     void (*check)(struct doctor_examination *e, const json_t *hpa));
// answer: what the metrics API returned for the metric; NULL: unknown.
void doctor_each_hpa_metric(struct doctor_examination *e,
                            void (*check)(struct doctor_examination *e, const json_t *hpa,
                                          const json_t *metric, const json_t *answer));

// --- checks_scaling.c ---

double doctor_hpa_metric_target(const json_t *metric); // NaN: none

// --- checks_inference.c ---

// The check of retired names reports the metric.
bool doctor_metric_is_retired(const json_t *metric, const json_t *answer);

// --- checks_metric.c ---

// The metrics API has no value for the metric, and no error.
bool doctor_lacks_value(const json_t *answer);
// Iterates over the running pods of the target of an autoscaler; *pos starts at 0. NULL: the end.
const json_t *doctor_hpa_pod(const struct doctor_examination *e, const json_t *hpa, size_t *pos);
// One of the checks of this file reports the metric.
bool doctor_metric_is_diagnosed(struct doctor_examination *e, const json_t *hpa,
                                const json_t *metric, const json_t *answer);

// --- gathering ---

struct doctor_list {
    const char *name;
    const char *group, *version, *resource;
    const char *query; // NULL: all objects
    const char *ns;    // NULL: all namespaces
};
extern const struct doctor_list doctor_lists[]; // ends with a NULL name

struct doctor_query_row {
    const char *name, *expr;
};
extern const struct doctor_query_row doctor_queries[]; // ends with a NULL name

struct kube_session;
void doctor_gather_cluster(const struct doctor_options *o, json_t *facts);
void doctor_gather_prometheus(const struct doctor_options *o, struct kube_session *s,
                              json_t *facts); // s NULL: no cluster
void doctor_gather_node(json_t *facts);
void doctor_gather_exporters(struct kube_session *s, json_t *facts);
// {"status", "series", "attributed", "error", "dcgm": {"up", "code"}} of an exporter's page: the
// numbers of its series of GPUs and of those with a pod. New reference.
json_t *doctor_page_facts(int status, struct gs_slice body);
void doctor_gather_metrics(struct kube_session *s, json_t *facts);
// GETs a path of the API server. Returns its status (0: no response) and the body as text.
int doctor_get(struct kube_session *s, const char *path, struct gs_buf *ret_body);
// The same in another representation. accept NULL: the usual one.
int doctor_get_as(struct kube_session *s, const char *path, const char *accept,
                  struct gs_buf *ret_body);
void doctor_gather_helm(struct kube_session *s, json_t *facts);
// "status 503: …": the beginning of a response, or of the error without one (status 0), without
// control characters. New reference.
json_t *doctor_excerpt(int status, const struct gs_buf *body);
struct doctor_examination doctor_examination_of(const json_t *facts);

// --- checks ---

void doctor_check_metric_renamed(struct doctor_examination *e);
void doctor_check_target_unit(struct doctor_examination *e);

void doctor_check_gpus_not_allocatable(struct doctor_examination *e);
void doctor_check_gpus_unhealthy(struct doctor_examination *e);
void doctor_check_node_not_ready(struct doctor_examination *e);

void doctor_check_monitoring_crds(struct doctor_examination *e);
void doctor_check_exporter_missing(struct doctor_examination *e);
void doctor_check_exporter_selects_no_node(struct doctor_examination *e);
void doctor_check_exporter_coverage(struct doctor_examination *e);
void doctor_check_exporter_profiling(struct doctor_examination *e);
void doctor_check_exporter_memory(struct doctor_examination *e);
void doctor_check_exporter_liveness(struct doctor_examination *e);
void doctor_check_exporter_not_running(struct doctor_examination *e);
void doctor_check_second_collector(struct doctor_examination *e);

void doctor_check_prometheus_missing(struct doctor_examination *e);
void doctor_check_prometheus_unreachable(struct doctor_examination *e);
void doctor_check_target_down(struct doctor_examination *e);
void doctor_check_target_timeout(struct doctor_examination *e);
void doctor_check_target_twice(struct doctor_examination *e);
void doctor_check_scrape_interval(struct doctor_examination *e);
void doctor_check_scrape_stalled(struct doctor_examination *e);
void doctor_check_exporter_service(struct doctor_examination *e);
void doctor_check_exporter_not_scraped(struct doctor_examination *e);
void doctor_check_monitor_namespace(struct doctor_examination *e);
void doctor_check_monitor_port(struct doctor_examination *e);
void doctor_check_monitor_not_selected(struct doctor_examination *e);
void doctor_check_monitor_namespace_not_selected(struct doctor_examination *e);
void doctor_check_job_namespace(struct doctor_examination *e);
void doctor_check_monitor_ignored(struct doctor_examination *e);
void doctor_check_monitor_endpoints(struct doctor_examination *e);
void doctor_check_gpu_series_missing(struct doctor_examination *e);
void doctor_check_utilization_missing(struct doctor_examination *e);
void doctor_check_samples_old(struct doctor_examination *e);
void doctor_check_xid_errors(struct doctor_examination *e);
void doctor_check_gpu_twice(struct doctor_examination *e);
void doctor_check_pod_resources_mount(struct doctor_examination *e);
void doctor_check_kubernetes_flag(struct doctor_examination *e);
void doctor_check_gpu_id_type(struct doctor_examination *e);
void doctor_check_attribution_missing(struct doctor_examination *e);
void doctor_check_rule_failing(struct doctor_examination *e);
void doctor_check_pod_labels_missing(struct doctor_examination *e);
void doctor_check_rule_without_result(struct doctor_examination *e);
void doctor_check_rules_not_loaded(struct doctor_examination *e);
void doctor_check_custom_metrics_missing(struct doctor_examination *e);
void doctor_check_external_metrics_missing(struct doctor_examination *e);
void doctor_check_resource_metrics_missing(struct doctor_examination *e);
void doctor_check_apiservice_service(struct doctor_examination *e);
void doctor_check_apiservice_endpoints(struct doctor_examination *e);
void doctor_check_apiservice_certificate(struct doctor_examination *e);
void doctor_check_apiservice_unavailable(struct doctor_examination *e);
void doctor_check_external_metrics_owner(struct doctor_examination *e);
void doctor_check_custom_metrics_owner(struct doctor_examination *e);
void doctor_check_adapter_not_running(struct doctor_examination *e);
void doctor_check_adapter_prometheus(struct doctor_examination *e);
void doctor_check_adapter_window(struct doctor_examination *e);
void doctor_check_adapter_delegator(struct doctor_examination *e);
void doctor_check_adapter_reader(struct doctor_examination *e);
void doctor_check_certificate_expired(struct doctor_examination *e);
void doctor_check_certificate_expires(struct doctor_examination *e);
void doctor_check_hpa_target(struct doctor_examination *e);
void doctor_check_hpa_forbidden(struct doctor_examination *e);
void doctor_check_metric_retired(struct doctor_examination *e);
void doctor_check_engine_not_read(struct doctor_examination *e);
void doctor_check_engine_ceiling(struct doctor_examination *e);
void doctor_check_engine_deferred(struct doctor_examination *e);
void doctor_check_engine_rejections(struct doctor_examination *e);
void doctor_check_metric_not_scraped(struct doctor_examination *e);
void doctor_check_metric_scrape_fails(struct doctor_examination *e);
void doctor_check_metric_not_exported(struct doctor_examination *e);
void doctor_check_metric_not_served(struct doctor_examination *e);
void doctor_check_metric_wrong_object(struct doctor_examination *e);
void doctor_check_metric_without_value(struct doctor_examination *e);
void doctor_check_metric_server_error(struct doctor_examination *e);
void doctor_check_metric_old(struct doctor_examination *e);
void doctor_check_target_above_ceiling(struct doctor_examination *e);
void doctor_check_metric_flat(struct doctor_examination *e);
void doctor_check_metric_counter(struct doctor_examination *e);
void doctor_check_source_delay(struct doctor_examination *e);
void doctor_check_source_partial(struct doctor_examination *e);
void doctor_check_source_replicas(struct doctor_examination *e);
void doctor_check_max_replicas(struct doctor_examination *e);
void doctor_check_scaling_disabled(struct doctor_examination *e);
void doctor_check_request_missing(struct doctor_examination *e);
void doctor_check_hpa_inactive(struct doctor_examination *e);
void doctor_check_latency_target(struct doctor_examination *e);
void doctor_check_latency_inexact(struct doctor_examination *e);
void doctor_check_budgets_wrong(struct doctor_examination *e);
void doctor_check_budget_left_over(struct doctor_examination *e);
void doctor_check_two_hpas(struct doctor_examination *e);
void doctor_check_ambiguous_selector(struct doctor_examination *e);
void doctor_check_selector_overlap(struct doctor_examination *e);
void doctor_check_keda_and_hpa(struct doctor_examination *e);
void doctor_check_vpa_and_hpa(struct doctor_examination *e);
void doctor_check_replicas_written(struct doctor_examination *e);
void doctor_check_flapping(struct doctor_examination *e);
void doctor_check_pending_resource_name(struct doctor_examination *e);
void doctor_check_pending_selector(struct doctor_examination *e);
void doctor_check_pending_taint(struct doctor_examination *e);
void doctor_check_pending_max_nodes(struct doctor_examination *e);
void doctor_check_pending_too_large(struct doctor_examination *e);
void doctor_check_pending_no_gpus(struct doctor_examination *e);
void doctor_check_quota(struct doctor_examination *e);
void doctor_check_helm_release(struct doctor_examination *e);
void doctor_check_service_selector(struct doctor_examination *e);
void doctor_check_service_port(struct doctor_examination *e);
void doctor_check_pending_busy(struct doctor_examination *e);
void doctor_check_pod_image(struct doctor_examination *e);
void doctor_check_pod_object_missing(struct doctor_examination *e);
void doctor_check_pod_scheduler(struct doctor_examination *e);
void doctor_check_pod_held(struct doctor_examination *e);
void doctor_check_workload_not_running(struct doctor_examination *e);
void doctor_check_node_group_failing(struct doctor_examination *e);
void doctor_check_node_claim_failing(struct doctor_examination *e);
void doctor_check_node_pool_limit(struct doctor_examination *e);
void doctor_check_gpu_label(struct doctor_examination *e);
void doctor_check_scale_from_zero(struct doctor_examination *e);
void doctor_check_startup_taint(struct doctor_examination *e);

void doctor_check_driver_library(struct doctor_examination *e);
void doctor_check_driver_not_loaded(struct doctor_examination *e);
void doctor_check_driver_mismatch(struct doctor_examination *e);
void doctor_check_driver_permission(struct doctor_examination *e);
void doctor_check_driver_no_gpu(struct doctor_examination *e);
void doctor_check_driver_failed(struct doctor_examination *e);
void doctor_check_driver_hung(struct doctor_examination *e);
void doctor_check_gpu_lost(struct doctor_examination *e);
void doctor_check_pod_resources_socket(struct doctor_examination *e);
void doctor_check_profiling_contention(struct doctor_examination *e);
void doctor_check_node_exporter_missing(struct doctor_examination *e);
void doctor_check_node_exporter_page(struct doctor_examination *e);
void doctor_check_node_dcgm(struct doctor_examination *e);

void doctor_check_adapter_config(struct doctor_examination *e);
void doctor_check_adapter_labels(struct doctor_examination *e);
void doctor_check_adapter_matchers(struct doctor_examination *e);
void doctor_check_labels_dropped(struct doctor_examination *e);
void doctor_check_hostname_label(struct doctor_examination *e);
void doctor_check_exporter_page(struct doctor_examination *e);
