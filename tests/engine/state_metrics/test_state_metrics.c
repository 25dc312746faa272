// SPDX-License-Identifier: Apache-2.0
// State of Kubernetes objects with the metric names of kube-state-metrics.
#include "engine/state_metrics/state_metrics.h"

#include "../../kube/loop.h"
#include "base/log.h"
#include "base/mem.h"
#include "metrics/reader.h"

struct fixture {
    uv_loop_t loop;
    struct http_client *http;
    struct kube_client *client;
    struct state_metrics *state;
    const char *kind; // "/pods": which list has items
    const char *items;
    int status; // of lists of other kinds
    struct http_stream *stream;
};

static void stream_closed(void *arg)
{
    struct fixture *f = arg;
    f->stream = NULL;
}

static void other_closed(void *arg)
{
    (void)arg;
}

static void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    bool mine = strstr(http_path(x), f->kind) != NULL;
    if (!mine && f->status != 200) {
        http_reply_text(x, f->status, "no");
    } else if (!http_query(x, "watch")) {
        GS_AUTO_FREE char *list = gs_format("{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":"
                                            "\"1\"},\"items\":[%s]}",
                                            mine ? f->items : "");
        http_reply(x, 200, "application/json", gs_slice_of(list));
    } else if (mine) {
        f->stream = http_reply_stream(x, 200, "application/json", stream_closed, f);
    } else {
        http_reply_stream(x, 200, "application/json", other_closed, f);
    }
}

static void start(struct fixture *f, const struct state_metrics_config *cfg)
{
    if (!f->status)
        f->status = 200;
    uv_loop_init(&f->loop);
    f->http = http_client_new_loopback(&f->loop, serve, f, NULL);
    f->client = kube_client_new(f->http);
    assert_ok(state_metrics_new(&f->loop, f->client, cfg, &f->state));
    loop_until(&f->loop, state_metrics_ready(f->state));
}

static void finish(struct fixture *f)
{
    state_metrics_free(f->state);
    kube_client_free(f->client);
    http_client_free(f->http);
    loop_finish(&f->loop);
}

static bool accept_sample(void *arg, const struct metrics_sample *s)
{
    (void)s;
    (*(size_t *)arg)++;
    return true;
}

// The whole is a valid exposition, and it has this line.
static bool has_line(struct fixture *f, const char *line)
{
    GS_AUTO_FREE char *all = gs_slice_dup(state_metrics_text(f->state));
    GS_AUTO_FREE char *wanted = gs_format("\n%s\n", line);
    return strstr(all, wanted) != NULL;
}

static void assert_line(struct fixture *f, const char *line)
{
    struct gs_slice text = state_metrics_text(f->state);
    size_t n = 0;
    assert_ok(metrics_parse_text(text, NULL, accept_sample, &n));
    if (!has_line(f, line))
        fail_msg("not there: %s\nin:\n" GS_SLICE_FMT, line, GS_SLICE_ARG(text));
}

#define POD(version, phase)                                                                        \
    "{\"metadata\":{\"name\":\"web-0\",\"namespace\":\"n\",\"uid\":\"u\",\"resourceVersion\":"     \
    "\"" version "\",\"creationTimestamp\":\"2026-01-02T03:04:05Z\",\"labels\":{\"app\":"          \
    "\"cuda-test\",\"app.kubernetes.io/partOf\":\"x\",\"a.b\":\"1\",\"a/b\":\"2\"},"               \
    "\"ownerReferences\":[{\"kind\":\"ReplicaSet\",\"name\":\"web\",\"controller\":true}]},"       \
    "\"spec\":{\"nodeName\":\"gpu-1\",\"containers\":[{\"name\":\"app\",\"resources\":{"           \
    "\"limits\":{\"nvidia.com/gpu\":1,\"memory\":\"1Gi\"},\"requests\":{\"cpu\":\"250m\"}}}]},"    \
    "\"status\":{\"phase\":\"" phase "\",\"podIP\":\"10.0.0.1\",\"conditions\":[{\"type\":"        \
    "\"Ready\",\"status\":\"True\"}],\"containerStatuses\":[{\"name\":\"app\",\"ready\":true,"     \
    "\"restartCount\":3,\"state\":{\"running\":{}}}]}}"

static void test_pods(void **state)
{
    struct fixture f = {.kind = "/pods", .items = POD("1", "Running")};
    start(&f, NULL);
    assert_line(&f, "kube_pod_labels{namespace=\"n\",pod=\"web-0\",uid=\"u\",label_a_b_conflict1="
                    "\"1\",label_a_b_conflict2=\"2\",label_app=\"cuda-test\","
                    "label_app_kubernetes_io_part_of=\"x\"} 1");
    assert_line(&f, "kube_pod_info{namespace=\"n\",pod=\"web-0\",uid=\"u\",pod_ip=\"10.0.0.1\","
                    "node=\"gpu-1\",created_by_kind=\"ReplicaSet\",created_by_name=\"web\","
                    "host_network=\"false\"} 1");
    assert_line(&f, "kube_pod_owner{namespace=\"n\",pod=\"web-0\",uid=\"u\",owner_kind="
                    "\"ReplicaSet\",owner_name=\"web\",owner_is_controller=\"true\"} 1");
    assert_line(&f, "kube_pod_status_phase{namespace=\"n\",pod=\"web-0\",uid=\"u\",phase="
                    "\"Running\"} 1");
    assert_line(&f, "kube_pod_status_phase{namespace=\"n\",pod=\"web-0\",uid=\"u\",phase="
                    "\"Pending\"} 0");
    assert_line(&f, "kube_pod_status_ready{namespace=\"n\",pod=\"web-0\",uid=\"u\",condition="
                    "\"true\"} 1");
    assert_line(&f, "kube_pod_container_resource_limits{namespace=\"n\",pod=\"web-0\",uid=\"u\","
                    "container=\"app\",node=\"gpu-1\",resource=\"nvidia_com_gpu\",unit="
                    "\"integer\"} 1");
    assert_line(&f, "kube_pod_container_resource_limits{namespace=\"n\",pod=\"web-0\",uid=\"u\","
                    "container=\"app\",node=\"gpu-1\",resource=\"memory\",unit=\"byte\"} "
                    "1073741824");
    assert_line(&f, "kube_pod_container_resource_requests{namespace=\"n\",pod=\"web-0\",uid=\"u\","
                    "container=\"app\",node=\"gpu-1\",resource=\"cpu\",unit=\"core\"} 0.25");
    assert_line(&f, "kube_pod_container_status_restarts_total{namespace=\"n\",pod=\"web-0\",uid="
                    "\"u\",container=\"app\"} 3");
    assert_line(&f, "kube_pod_created{namespace=\"n\",pod=\"web-0\",uid=\"u\"} 1767323045");
    finish(&f);
    (void)state;
}

static void test_a_change_shows(void **state)
{
    struct fixture f = {.kind = "/pods", .items = POD("1", "Pending")};
    start(&f, NULL);
    loop_until(&f.loop, f.stream);
    http_stream_write(f.stream,
                      GS_SLICE("{\"type\":\"MODIFIED\",\"object\":" POD("2", "Failed") "}\n"));
    loop_until(&f.loop, has_line(&f, "kube_pod_status_phase{namespace=\"n\",pod=\"web-0\",uid="
                                     "\"u\",phase=\"Failed\"} 1"));
    finish(&f);
    (void)state;
}

static void test_only_allowed_labels_show(void **state)
{
    struct fixture f = {.kind = "/pods", .items = POD("1", "Running")};
    start(&f, &(struct state_metrics_config){.labels_allowlist = "pods=[app, other], nodes=[*]"});
    assert_line(&f, "kube_pod_labels{namespace=\"n\",pod=\"web-0\",uid=\"u\",label_app="
                    "\"cuda-test\"} 1");
    finish(&f);
    (void)state;
}

// Objects within the limits of the API, whose series would exceed those of the store, of the
// reader, or of the memory.

// containers: of spec.containers, and of status.containerStatuses
static char *pod_with(const char *name, const char *labels, const char *containers)
{
    return gs_format("{\"metadata\":{\"name\":\"%s\",\"namespace\":\"n\",\"resourceVersion\":\"1\","
                     "\"labels\":{%s}},\"spec\":{\"containers\":[%s]},\"status\":{\"phase\":"
                     "\"Running\",\"containerStatuses\":[%s]}}",
                     name, labels, containers, containers);
}

static char *many_labels(int n)
{
    struct gs_buf out = {0};
    for (int i = 0; i < n; i++)
        gs_buf_addf(&out, "%s\"k%03d\":\"v\"", i ? "," : "", i);
    return gs_buf_take(&out);
}

static char *many_containers(int n)
{
    struct gs_buf out = {0};
    for (int i = 0; i < n; i++)
        gs_buf_addf(&out, "%s{\"name\":\"c%d\",\"image\":\"i\"}", i ? "," : "", i);
    return gs_buf_take(&out);
}

static char *large_image(void)
{
    struct gs_buf out = {0};
    gs_buf_add_str(&out, "{\"name\":\"c\",\"image\":\"");
    for (int i = 0; i < 400000; i++)
        gs_buf_add_str(&out, "\xc3\xa4n");
    gs_buf_add_str(&out, "\"}");
    return gs_buf_take(&out);
}

// Names of keys that are equal after their conversion, and one that is a name with a suffix.
static char *conflicting_labels(void)
{
    return gs_strdup("\"a.b\":\"1\",\"a-b\":\"2\",\"a.b-conflict1\":\"3\"");
}

struct widest {
    size_t labels, bytes, containers;
};

static bool measure(void *arg, const struct metrics_sample *s)
{
    struct widest *w = arg;
    size_t bytes = 0;
    for (size_t i = 0; i < s->n_labels; i++)
        bytes += s->labels[i].name.len + s->labels[i].value.len;
    w->labels = s->n_labels > w->labels ? s->n_labels : w->labels;
    w->bytes = bytes > w->bytes ? bytes : w->bytes;
    w->containers += gs_slice_eq_str(s->name, "kube_pod_container_info");
    return true;
}

static void keep_log(void *arg, const char *line, size_t len)
{
    gs_buf_add(arg, line, len);
}

static void test_an_object_over_a_limit_costs_only_a_part_of_its_series(void **state)
{
    GS_AUTO_FREE char *labels = many_labels(256), *same = conflicting_labels();
    GS_AUTO_FREE char *containers = many_containers(5000), *image = large_image();
    GS_AUTO_FREE char *a = pod_with("labels", labels, ""), *b = pod_with("same", same, "");
    GS_AUTO_FREE char *c = pod_with("containers", "", containers),
                      *d = pod_with("image", "", image);
    GS_AUTO_FREE char *e = pod_with("plain", "\"app\":\"x\"", "");
    GS_AUTO_FREE char *items = gs_format("%s,%s,%s,%s,%s", a, b, c, d, e);
    GS_AUTO_BUF struct gs_buf log = {0};
    struct fixture f = {.kind = "/pods", .items = items};
    gs_log_set_sink(keep_log, &log);
    start(&f, NULL);
    struct gs_slice text = state_metrics_text(f.state);
    gs_log_set_sink(NULL, NULL);
    const struct metrics_limits limits = {.max_line = 64 << 10, .max_labels = 250};
    struct widest w = {0};
    assert_ok(metrics_parse_text(text, &limits, measure, &w));
    assert_in_range(w.labels, 200, 205);
    assert_in_range(w.bytes, 4096, 60000);
    assert_in_range(w.containers, 1000, 1001); // and the one with the image
    assert_int_equal(state_metrics_incomplete_objects(f.state), 3);
    assert_non_null(strstr(log.data, "pods n/labels: kube_pod_labels is not complete"));
    assert_non_null(strstr(log.data, "pods n/image: kube_pod_container_info is not complete"));
    assert_non_null(strstr(log.data, "pods n/containers: kube_pod_container_"));
    assert_null(strstr(log.data, "n/plain"));
    assert_true(has_line(&f, "kube_pod_labels{namespace=\"n\",pod=\"plain\",label_app=\"x\"} 1"));
    assert_true(has_line(&f, "kube_pod_labels{namespace=\"n\",pod=\"same\",label_a_b_conflict2="
                             "\"1\",label_a_b_conflict3=\"2\",label_a_b_conflict1=\"3\"} 1"));
    assert_true(has_line(&f, "kube_pod_status_phase{namespace=\"n\",pod=\"labels\",phase="
                             "\"Running\"} 1"));
    finish(&f);
    (void)state;
}

static void test_a_resource_that_is_refused_leaves_the_others(void **state)
{
    struct fixture f = {.kind = "/pods", .items = POD("1", "Running"), .status = 403};
    start(&f, NULL);
    loop_until(&f.loop, f.stream);
    assert_line(&f, "kube_pod_status_phase{namespace=\"n\",pod=\"web-0\",uid=\"u\",phase="
                    "\"Running\"} 1");
    assert_null(strstr(state_metrics_text(f.state).data, "kube_node_info"));
    finish(&f);
    (void)state;
}

static void test_a_text_written_in_turns_is_the_same(void **state)
{
    struct fixture f = {.kind = "/pods", .items = POD("1", "Running")};
    size_t turns = 0;
    start(&f, NULL);
    while (!state_metrics_write(f.state, -1))
        turns++;
    assert_in_range(turns, 10, 1000); // one for each family
    GS_AUTO_FREE char *in_turns = gs_slice_dup(state_metrics_written(f.state));
    assert_true(strstr(in_turns, "kube_pod_container_info{") != NULL);
    loop_until(&f.loop, f.stream);
    assert_true(state_metrics_write(f.state, -1)); // nothing has changed
    GS_AUTO_FREE char *at_once = gs_slice_dup(state_metrics_text(f.state));
    assert_string_equal(in_turns, at_once);
    finish(&f);
    (void)state;
}

static void test_nodes(void **state)
{
    struct fixture f = {
        .kind = "/nodes",
        .items =
            "{\"metadata\":{\"name\":\"gpu-1\",\"resourceVersion\":\"1\"},\"spec\":{\"taints\":"
            "[{\"key\":\"nvidia.com/gpu\",\"effect\":\"NoSchedule\"}]},\"status\":{"
            "\"allocatable\":{\"nvidia.com/gpu\":\"8\",\"cpu\":\"7910m\",\"memory\":\"64Gi\"},"
            "\"conditions\":[{\"type\":\"Ready\",\"status\":\"Unknown\"}],\"nodeInfo\":{"
            "\"kernelVersion\":\"6.1\"}}}",
    };
    start(&f, NULL);
    assert_line(&f, "kube_node_status_allocatable{node=\"gpu-1\",resource=\"nvidia_com_gpu\",unit="
                    "\"integer\"} 8");
    assert_line(&f, "kube_node_status_allocatable{node=\"gpu-1\",resource=\"cpu\",unit=\"core\"} "
                    "7.91");
    assert_line(&f, "kube_node_status_condition{node=\"gpu-1\",condition=\"Ready\",status="
                    "\"unknown\"} 1");
    assert_line(&f, "kube_node_status_condition{node=\"gpu-1\",condition=\"Ready\",status="
                    "\"true\"} 0");
    assert_line(&f, "kube_node_spec_taint{node=\"gpu-1\",key=\"nvidia.com/gpu\",effect="
                    "\"NoSchedule\"} 1");
    assert_line(&f, "kube_node_info{node=\"gpu-1\",kernel_version=\"6.1\"} 1");
    assert_line(&f, "gpuscale_free_gpus 0"); // the node is not ready
    finish(&f);
    (void)state;
}

static void test_autoscalers(void **state)
{
    struct fixture f = {
        .kind = "/horizontalpodautoscalers",
        .items =
            "{\"metadata\":{\"name\":\"web\",\"namespace\":\"n\",\"resourceVersion\":\"1\","
            "\"generation\":4},\"spec\":{\"maxReplicas\":10,\"scaleTargetRef\":{\"apiVersion\":"
            "\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"web\"},\"metrics\":[{\"type\":\"Pods\","
            "\"pods\":{\"metric\":{\"name\":\"gpu\"},\"target\":{\"type\":\"AverageValue\","
            "\"averageValue\":\"60\"}}},{\"type\":\"Resource\",\"resource\":{\"name\":\"cpu\","
            "\"target\":{\"averageUtilization\":50}}}]},\"status\":{\"currentReplicas\":2,"
            "\"desiredReplicas\":3,\"currentMetrics\":[{\"type\":\"Pods\",\"pods\":{\"metric\":{"
            "\"name\":\"gpu\"},\"current\":{\"averageValue\":\"87500m\"}}}]}}",
    };
    start(&f, NULL);
#define HPA "namespace=\"n\",horizontalpodautoscaler=\"web\""
    assert_line(&f, "kube_horizontalpodautoscaler_info{" HPA ",scaletargetref_api_version="
                    "\"apps/v1\",scaletargetref_kind=\"Deployment\",scaletargetref_name=\"web\"} "
                    "1");
    assert_line(&f, "kube_horizontalpodautoscaler_spec_min_replicas{" HPA "} 1");
    assert_line(&f, "kube_horizontalpodautoscaler_spec_max_replicas{" HPA "} 10");
    assert_line(&f, "kube_horizontalpodautoscaler_status_desired_replicas{" HPA "} 3");
    assert_line(&f, "kube_horizontalpodautoscaler_spec_target_metric{" HPA ",metric_name=\"gpu\","
                    "metric_target_type=\"average\"} 60");
    assert_line(&f, "kube_horizontalpodautoscaler_spec_target_metric{" HPA ",metric_name=\"cpu\","
                    "metric_target_type=\"utilization\"} 50");
    assert_line(&f, "kube_horizontalpodautoscaler_status_target_metric{" HPA ",metric_name="
                    "\"gpu\",metric_target_type=\"average\"} 87.5");
    finish(&f);
    (void)state;
}

static void test_deployments(void **state)
{
    struct fixture f = {
        .kind = "/deployments",
        .items = "{\"metadata\":{\"name\":\"web\",\"namespace\":\"n\",\"resourceVersion\":\"1\","
                 "\"generation\":7},\"spec\":{\"replicas\":5},\"status\":{\"replicas\":4,"
                 "\"readyReplicas\":3}}",
    };
    start(&f, NULL);
    assert_line(&f, "kube_deployment_spec_replicas{namespace=\"n\",deployment=\"web\"} 5");
    assert_line(&f, "kube_deployment_status_replicas{namespace=\"n\",deployment=\"web\"} 4");
    assert_line(&f, "kube_deployment_status_replicas_ready{namespace=\"n\",deployment=\"web\"} 3");
    assert_line(&f, "kube_deployment_status_replicas_available{namespace=\"n\",deployment="
                    "\"web\"} 0");
    assert_line(&f, "kube_deployment_metadata_generation{namespace=\"n\",deployment=\"web\"} 7");
    finish(&f);
    (void)state;
}

// The lines of a kind whose only object is this one.
static void assert_object(const char *kind, const char *object, const char *const *lines)
{
    struct fixture f = {.kind = kind, .items = object};

    start(&f, NULL);
    for (size_t i = 0; lines[i]; i++)
        assert_line(&f, lines[i]);
    finish(&f);
}

#define LINES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define META(name)                                                                                 \
    "\"metadata\":{\"name\":\"" name "\",\"namespace\":\"n\",\"resourceVersion\":\"1\","           \
    "\"generation\":2,\"creationTimestamp\":\"1970-01-01T00:00:09Z\"}"

// The ledger reads them: what a workload at zero replicas saves.
static void test_gpus_of_a_replica(void **state)
{
    (void)state;
#define WORKLOAD(name, containers)                                                                 \
    "{\"metadata\":{\"name\":\"" name                                                              \
    "\",\"namespace\":\"n\",\"resourceVersion\":\"1\"},\"spec\":{"                                 \
    "\"replicas\":0,\"template\":{\"spec\":{\"containers\":[" containers "]}}}}"
#define LIMITS(name, n) "{\"resources\":{\"limits\":{\"" name "\":\"" n "\"}}}"
    struct fixture f = {
        .kind = "/deployments",
        .items = WORKLOAD(
            "web", LIMITS("nvidia.com/gpu", "2") "," LIMITS("nvidia.com/gpu", "1") "," LIMITS(
                       "cpu", "4")) "," WORKLOAD("cpu", LIMITS("cpu", "4")),
    };
    start(&f, NULL);
    assert_line(&f, "gpuscale_deployment_replica_gpus{namespace=\"n\",owner_kind=\"Deployment\","
                    "owner_name=\"web\"} 3");
    GS_AUTO_FREE char *text = gs_slice_dup(state_metrics_text(f.state));
    assert_null(strstr(text, "owner_name=\"cpu\""));
    finish(&f);
#undef LIMITS
#undef WORKLOAD
}

static void test_daemonsets_and_statefulsets(void **state)
{
    assert_object("/daemonsets",
                  "{" META("d") ",\"status\":{\"desiredNumberScheduled\":3,\"numberReady\":2}}",
                  LINES("kube_daemonset_created{namespace=\"n\",daemonset=\"d\"} 9",
                        "kube_daemonset_metadata_generation{namespace=\"n\",daemonset=\"d\"} 2",
                        "kube_daemonset_status_desired_number_scheduled{namespace=\"n\",daemonset="
                        "\"d\"} 3",
                        "kube_daemonset_status_number_ready{namespace=\"n\",daemonset=\"d\"} 2",
                        "kube_daemonset_status_number_unavailable{namespace=\"n\",daemonset=\"d\"} "
                        "0"));
    assert_object("/statefulsets",
                  "{" META("s") ",\"spec\":{\"replicas\":3},\"status\":{\"replicas\":2}}",
                  LINES("kube_statefulset_replicas{namespace=\"n\",statefulset=\"s\"} 3",
                        "kube_statefulset_status_replicas{namespace=\"n\",statefulset=\"s\"} 2",
                        "kube_statefulset_status_replicas_ready{namespace=\"n\",statefulset=\"s\"} "
                        "0"));
    (void)state;
}

static void test_jobs_and_cronjobs(void **state)
{
    assert_object(
        "/jobs",
        "{" META("j") ",\"spec\":{\"completions\":4},\"status\":{\"failed\":2,\"startTime\":"
                      "\"1970-01-01T00:00:10Z\",\"conditions\":[{\"type\":\"Failed\",\"status\":"
                      "\"True\","
                      "\"reason\":\"DeadlineExceeded\"}]}}",
        LINES("kube_job_info{namespace=\"n\",job_name=\"j\"} 1",
              "kube_job_spec_completions{namespace=\"n\",job_name=\"j\"} 4",
              "kube_job_status_start_time{namespace=\"n\",job_name=\"j\"} 10",
              "kube_job_status_active{namespace=\"n\",job_name=\"j\"} 0",
              "kube_job_status_failed{namespace=\"n\",job_name=\"j\",reason="
              "\"BackoffLimitExceeded\"} 0",
              "kube_job_status_failed{namespace=\"n\",job_name=\"j\",reason="
              "\"DeadlineExceeded\"} 1",
              "kube_job_failed{namespace=\"n\",job_name=\"j\",condition=\"true\"} 1"));
    assert_object("/cronjobs",
                  "{" META("c") ",\"spec\":{\"schedule\":\"0 * * * *\",\"concurrencyPolicy\":"
                                "\"Forbid\",\"suspend\":true},\"status\":{\"active\":[{},{}]}}",
                  LINES("kube_cronjob_info{namespace=\"n\",cronjob=\"c\",schedule=\"0 * * * *\","
                        "concurrency_policy=\"Forbid\"} 1",
                        "kube_cronjob_spec_suspend{namespace=\"n\",cronjob=\"c\"} 1",
                        "kube_cronjob_status_active{namespace=\"n\",cronjob=\"c\"} 2"));
    (void)state;
}

static void test_budgets(void **state)
{
#define PDB(name)                                                                                  \
    "kube_poddisruptionbudget_status_" name "{namespace=\"n\",poddisruptionbudget=\"b\"}"
    assert_object(
        "/poddisruptionbudgets",
        "{" META("b") ",\"status\":{\"currentHealthy\":3,\"desiredHealthy\":2,"
                      "\"disruptionsAllowed\":1,\"expectedPods\":4,\"observedGeneration\":2}}",
        LINES(PDB("current_healthy") " 3", PDB("desired_healthy") " 2",
              PDB("pod_disruptions_allowed") " 1", PDB("expected_pods") " 4",
              PDB("observed_generation") " 2"));
    (void)state;
}

static void test_quotas_and_limit_ranges(void **state)
{
#define QUOTA(resource, type)                                                                      \
    "kube_resourcequota{namespace=\"n\",resourcequota=\"q\",resource=\"" resource                  \
    "\",type=\"" type "\"}"
#define LIMIT(resource, type, constraint)                                                          \
    "kube_limitrange{namespace=\"n\",limitrange=\"l\",resource=\"" resource "\",type=\"" type      \
    "\",constraint=\"" constraint "\"}"
    assert_object("/resourcequotas",
                  "{" META("q") ",\"status\":{\"hard\":{\"requests.cpu\":\"1500m\",\"pods\":\"10\","
                                "\"requests.nvidia.com/gpu\":\"4\",\"limits.memory\":\"100Ti\"},"
                                "\"used\":{\"pods\":\"0\",\"requests.nvidia.com/gpu\":1}}}",
                  LINES(QUOTA("requests.cpu", "hard") " 1.5", QUOTA("pods", "hard") " 10",
                        QUOTA("requests.nvidia.com/gpu", "hard") " 4",
                        QUOTA("limits.memory", "hard") " 109951162777600",
                        QUOTA("pods", "used") " 0", QUOTA("requests.nvidia.com/gpu", "used") " 1"));
    assert_object(
        "/limitranges",
        "{" META("l") ",\"spec\":{\"limits\":[{\"type\":\"Container\",\"max\":{\"cpu\":\"2\"},"
                      "\"defaultRequest\":{\"cpu\":\"100m\"},\"maxLimitRequestRatio\":{\"memory\":"
                      "\"1.5\"}},{\"type\":\"Pod\",\"min\":{\"memory\":\"1Mi\"}}]}}",
        LINES(LIMIT("cpu", "Container", "max") " 2",
              LIMIT("cpu", "Container", "defaultRequest") " 0.1",
              LIMIT("memory", "Container", "maxLimitRequestRatio") " 1.5",
              LIMIT("memory", "Pod", "min") " 1048576"));
    (void)state;
}

static bool count_point(void *arg, tsdb_ref ref, struct tsdb_point p)
{
    (void)ref, (void)p;
    ++*(size_t *)arg;
    return true;
}

static size_t n_series(const struct tsdb *db, int64_t now_ms)
{
    size_t n = 0;
    const struct tsdb_matcher m = {GS_SLICE("__name__"), GS_SLICE("kube_pod_info"), TSDB_EQ, NULL};
    tsdb_each_latest(db, &m, 1, now_ms, now_ms - 3600000, count_point, &n);
    return n;
}

static void test_a_hidden_feed_has_no_series(void **state)
{
    struct fixture f = {.kind = "/pods",
                        .items = "{\"metadata\":{\"name\":\"a\",\"namespace\":\"d\","
                                 "\"uid\":\"u\",\"resourceVersion\":\"1\"},\"spec\":{},"
                                 "\"status\":{}}"};
    struct tsdb *db = tsdb_new(NULL);
    struct state_metrics_feed *feed;
    start(&f, NULL);
    assert_ok(state_metrics_feed_new(
        &f.loop, db, f.client, &(struct state_metrics_feed_config){.interval_ms = 10}, &feed));
    loop_until(&f.loop, n_series(db, gs_unix_ms()) == 1);
    state_metrics_feed_hide(feed, true);
    assert_int_equal(n_series(db, gs_unix_ms() + 10), 0);
    loop_for_ms(&f.loop, 50);
    assert_int_equal(n_series(db, gs_unix_ms() + 10), 0);
    state_metrics_feed_hide(feed, false);
    loop_until(&f.loop, n_series(db, gs_unix_ms()) == 1);
    state_metrics_feed_free(feed);
    finish(&f);
    tsdb_free(db);
    (void)state;
}

static void test_a_wrong_configuration_is_refused(void **state)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct state_metrics *s;
    assert_error(
        state_metrics_new(&loop, NULL, &(struct state_metrics_config){.resources = "poods"}, &s),
        GS_EINVAL, "unknown resource \"poods\"");
    assert_error(state_metrics_new(
                     &loop, NULL, &(struct state_metrics_config){.labels_allowlist = "pods=*"}, &s),
                 GS_EINVAL, "expected resource=[label");
    loop_finish(&loop);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_a_change_shows),
        cmocka_unit_test(test_only_allowed_labels_show),
        cmocka_unit_test(test_an_object_over_a_limit_costs_only_a_part_of_its_series),
        cmocka_unit_test(test_a_resource_that_is_refused_leaves_the_others),
        cmocka_unit_test(test_a_text_written_in_turns_is_the_same),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_autoscalers),
        cmocka_unit_test(test_deployments),
        cmocka_unit_test(test_gpus_of_a_replica),
        cmocka_unit_test(test_daemonsets_and_statefulsets),
        cmocka_unit_test(test_jobs_and_cronjobs),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_quotas_and_limit_ranges),
        cmocka_unit_test(test_a_hidden_feed_has_no_series),
        cmocka_unit_test(test_a_wrong_configuration_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
