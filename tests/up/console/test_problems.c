// SPDX-License-Identifier: Apache-2.0
// Broken pods with a scripted API: the problems, their texts, and that each is logged once.
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/loop.h"
#include "up/console/console.h"

#define NOW_MS   INT64_C(1700000100000) // 2023-11-14T22:15:00Z
#define START_MS INT64_C(1700000000000) // 2023-11-14T22:13:20Z

// A node of gpuscale up.
#define NODE                                                                                       \
    "{\"metadata\":{\"name\":\"vm\"},\"status\":{\"allocatable\":{\"nvidia.com/gpu\":\"8\"},"      \
    "\"nodeInfo\":{\"kubeletVersion\":\"v1.36.0-gpuscale.1\"}}}"

struct fixture {
    uv_loop_t loop;
    struct http_client *http;
    struct kube_client *client;
    struct kube_cache *pods, *events, *nodes;
    struct console_problems *problems;
    const char *pod_list, *event_list, *log;
    char *log_query;
    int log_requests;
    size_t log_lines;
    struct gs_buf logged;
};

static void stream_closed(void *arg)
{
    (void)arg;
}

static void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    struct gs_buf body = {0};
    if (strstr(http_path(x), "/log")) {
        f->log_requests++;
        free(f->log_query);
        f->log_query = gs_format("%s c=%s p=%s", http_path(x), http_query(x, "container"),
                                 http_query(x, "previous") ? "1" : "0");
        http_reply(x, 200, "text/plain", gs_slice_of(f->log));
        return;
    }
    if (http_query(x, "watch")) {
        http_reply_stream(x, 200, "application/json", stream_closed, NULL);
        return;
    }
    bool pods = strstr(http_path(x), "/pods") != NULL;
    bool nodes = strstr(http_path(x), "/nodes") != NULL;
    gs_buf_addf(&body,
                "{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[%s]}",
                pods    ? f->pod_list
                : nodes ? NODE
                        : f->event_list);
    http_reply(x, 200, "application/json", gs_buf_slice(&body));
    gs_buf_finish(&body);
}

static void on_log_line(void *arg, const char *line, size_t len)
{
    struct fixture *f = arg;
    f->log_lines++;
    gs_buf_add(&f->logged, line, len);
}

static void setup(struct fixture *f, const char *pods, const char *events, const char *log)
{
    *f = (struct fixture){.pod_list = pods, .event_list = events, .log = log};
    uv_loop_init(&f->loop);
    f->http = http_client_new_loopback(&f->loop, serve, f, NULL);
    f->client = kube_client_new(f->http);
    f->nodes = kube_cache_new(&f->loop, f->client, KUBE_NODES, NULL, NULL);
    f->pods = kube_cache_new(&f->loop, f->client, KUBE_PODS, NULL, NULL);
    f->events = kube_cache_new(&f->loop, f->client, KUBE_EVENTS, NULL, NULL);
    kube_cache_start(f->nodes);
    kube_cache_start(f->pods);
    kube_cache_start(f->events);
    loop_until(&f->loop, kube_cache_synced(f->pods) && kube_cache_synced(f->events) &&
                             kube_cache_synced(f->nodes));
    const struct console_problems_source source = {
        .client = f->client, .pods = f->pods, .nodes = f->nodes, .events = f->events};
    f->problems = console_problems_new(&source, START_MS);
    gs_log_configure(GS_LOG_INFO, GS_LOG_TEXT);
    gs_log_set_sink(on_log_line, f);
}

static void finish(struct fixture *f)
{
    gs_log_set_sink(NULL, NULL);
    console_problems_free(f->problems);
    kube_cache_free(f->nodes);
    kube_cache_free(f->pods);
    kube_cache_free(f->events);
    kube_client_free(f->client);
    http_client_free(f->http);
    loop_finish(&f->loop);
    gs_buf_finish(&f->logged);
    free(f->log_query);
}

static void assert_one(struct fixture *f, const char *who, const char *reason, const char *text,
                       const char *remedy)
{
    console_problems_update(f->problems, NOW_MS);
    assert_int_equal(console_problems_len(f->problems), 1);
    const struct console_problem *p = console_problems_at(f->problems, 0);
    assert_string_equal(p->who, who);
    assert_string_equal(p->reason, reason);
    assert_string_equal(p->text, text);
    assert_string_equal(p->remedy, remedy);
}

// "{", the name of a pod of the Deployment web, "}": metadata.
#define POD(name, status) META(name, "default", OWNER) "," status "}"
#define OWNER                                                                                      \
    ",\"labels\":{\"pod-template-hash\":\"6f\"},\"ownerReferences\":[{\"kind\":\"ReplicaSet\","    \
    "\"name\":\"web-6f\",\"controller\":true}]"
#define META(name, ns, more)                                                                       \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"" ns "\",\"uid\":\"u-" name "\"" more "}"
#define CONTAINER(state)                                                                           \
    "\"status\":{\"phase\":\"Pending\",\"containerStatuses\":[{\"name\":\"c\",\"image\":\"api:1\"" \
    "," state "}]}"
#define ENDED(code, when)                                                                          \
    "{\"terminated\":{\"exitCode\":" code ",\"reason\":\"Error\",\"containerID\":\"id-" code when  \
    "\",\"startedAt\":\"2023-11-14T22:14:00Z\",\"finishedAt\":\"" when "\"}}"

static void test_pods_of_one_workload_are_one_problem(void **state)
{
    struct fixture f;
    setup(&f,
          POD("web-1",
              CONTAINER(
                  "\"state\":{\"waiting\":{\"reason\":\"ErrImagePull\",\"message\":"
                  "\"no command is mapped to this image here\"}}")) "," POD("web-2",
                                                                            CONTAINER(
                                                                                "\"state\":{"
                                                                                "\"waiting\":{"
                                                                                "\"reason\":"
                                                                                "\"ImagePullBackOff"
                                                                                "\","
                                                                                "\"message\":\"no "
                                                                                "command is mapped "
                                                                                "to this image "
                                                                                "here\"}}")),
          "", "");
    assert_one(&f, "web (2 pods)", "ImagePullBackOff",
               "no command is configured for image \"api:1\"",
               "start gpuscale up with --image 'api:1=COMMAND'");
    finish(&f);
}

static void test_a_crash_has_its_exit_code_and_last_line(void **state)
{
    struct fixture f;
    setup(&f,
          POD("web-1", CONTAINER("\"restartCount\":2,\"state\":{\"waiting\":{\"reason\":"
                                 "\"CrashLoopBackOff\"}},\"lastState\":" ENDED(
                                     "3", "2023-11-14T22:14:30Z"))),
          "", "Traceback:\n  here\nValueError: \033[1mno\n\n");
    console_problems_update(f.problems, NOW_MS);
    assert_int_equal(console_problems_len(f.problems), 0); // the line is being fetched
    loop_until(&f.loop, f.log_requests == 1);
    loop_until(&f.loop, (console_problems_update(f.problems, NOW_MS),
                         console_problems_len(f.problems) == 1));
    assert_one(&f, "web", "CrashLoopBackOff",
               "exit code 3, restarted 2 times; last log line: ValueError:  [1mno",
               "kubectl logs web-1");
    assert_string_equal(f.log_query, "/api/v1/namespaces/default/pods/web-1/log c=c p=0");
    assert_int_equal(f.log_requests, 1);
    finish(&f);
}

static void test_a_crash_loop_does_not_flicker_while_it_runs_again(void **state)
{
    struct fixture f;
    setup(&f,
          POD("web-1", CONTAINER("\"restartCount\":2,\"state\":{\"running\":{\"startedAt\":"
                                 "\"2023-11-14T22:14:55Z\"}},\"lastState\":" ENDED(
                                     "3", "2023-11-14T22:14:30Z"))),
          "", "bad\n");
    loop_until(&f.loop, (console_problems_update(f.problems, NOW_MS),
                         console_problems_len(f.problems) == 1));
    assert_string_equal(f.log_query, "/api/v1/namespaces/default/pods/web-1/log c=c p=1");
    console_problems_update(f.problems, NOW_MS + 10000); // it runs for long enough
    assert_int_equal(console_problems_len(f.problems), 0);
    finish(&f);
}

static void test_containers_that_a_former_run_ended_did_not_crash(void **state)
{
    struct fixture f;
    setup(&f,
          POD("web-1", CONTAINER("\"restartCount\":1,\"state\":{\"running\":{\"startedAt\":"
                                 "\"2023-11-14T22:14:55Z\"}},\"lastState\":" ENDED(
                                     "143", "2023-11-14T22:13:10Z"))),
          "", "");
    console_problems_update(f.problems, NOW_MS);
    assert_int_equal(console_problems_len(f.problems), 0);
    assert_int_equal(f.log_requests, 0);
    finish(&f);
}

#define UNHEALTHY(message) WARNING("Unhealthy", message)
#define WARNING(reason, message)                                                                   \
    "{\"metadata\":{\"name\":\"e\",\"namespace\":\"default\",\"uid\":\"ue\"},\"reason\":"          \
    "\"" reason "\",\"message\":\"" message                                                        \
    "\",\"type\":\"Warning\",\"involvedObject\":{\"kind\":\"Pod\",\"uid\":\"u-web-1\"},"           \
    "\"lastTimestamp\":\"2023-11-14T22:14:20Z\"}"

static void test_a_failing_probe_is_named(void **state)
{
    struct fixture f;
    setup(&f,
          POD("web-1", CONTAINER("\"state\":{\"running\":{\"startedAt\":"
                                 "\"2023-11-14T22:14:00Z\"}},\"ready\":false")),
          UNHEALTHY("Readiness probe failed: connection refused"), "");
    assert_one(&f, "web", "Unhealthy", "Readiness probe failed: connection refused",
               "check the probe's port and path, and kubectl logs web-1");
    finish(&f);
}

static void test_a_container_that_its_probe_killed_says_so(void **state)
{
    struct fixture f;
    setup(&f,
          POD("web-1", CONTAINER("\"restartCount\":1,\"state\":{\"waiting\":{\"reason\":"
                                 "\"CrashLoopBackOff\"}},\"lastState\":" ENDED(
                                     "143", "2023-11-14T22:14:30Z"))),
          UNHEALTHY("Liveness probe failed: timeout"), "bye\n");
    loop_until(&f.loop, (console_problems_update(f.problems, NOW_MS),
                         console_problems_len(f.problems) == 1));
    assert_one(&f, "web", "CrashLoopBackOff", "Liveness probe failed: timeout, restarted 1 time",
               "check the probe's port and path, and kubectl logs web-1");
    finish(&f);
}

static void test_a_crash_names_what_this_machine_does_not_give(void **state)
{
    struct fixture f;
    setup(&f,
          POD("web-1", CONTAINER("\"restartCount\":1,\"state\":{\"waiting\":{\"reason\":"
                                 "\"CrashLoopBackOff\"}},\"lastState\":" ENDED(
                                     "1", "2023-11-14T22:14:30Z"))),
          WARNING("VolumesNotMounted", "Volumes are not mounted here"), "/models: not found\n");
    loop_until(&f.loop, (console_problems_update(f.problems, NOW_MS),
                         console_problems_len(f.problems) == 1));
    assert_one(&f, "web", "CrashLoopBackOff",
               "exit code 1, restarted 1 time; last log line: /models: not found",
               "kubectl logs web-1. Volumes are not mounted here");
    finish(&f);
}

static void test_a_pod_without_a_place(void **state)
{
    struct fixture f;
    setup(&f,
          META("big", "ml", "") ",\"status\":{\"phase\":\"Pending\",\"conditions\":[{\"type\":"
                                "\"PodScheduled\",\"status\":\"False\",\"reason\":\"Unschedulable\""
                                ",\"message\":\"0/1 nodes are available: 1 Insufficient "
                                "nvidia.com/gpu.\"}]}}",
          "", "");
    assert_one(&f, "ml/big", "Unschedulable",
               "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
               "start with more GPUs or time slices (--gpus) or a pool (--pool), or request "
               "fewer: replicas, maxReplicas, limits");
    finish(&f);
}

static void test_a_pod_whose_node_is_coming(void **state)
{
    struct fixture f;
    setup(
        &f,
        META("big", "ml", "") ",\"status\":{\"phase\":\"Pending\",\"conditions\":[{\"type\":"
                              "\"PodScheduled\",\"status\":\"False\",\"reason\":\"Unschedulable\""
                              ",\"message\":\"0/1 nodes are available: 1 Insufficient "
                              "nvidia.com/gpu.\"}]}}",
        "{\"metadata\":{\"name\":\"e\",\"namespace\":\"ml\"},\"involvedObject\":{\"kind\":\"Pod\","
        "\"uid\":\"u-big\"},\"reason\":\"TriggeredScaleUp\",\"message\":\"pod triggered scale-up: "
        "[{t4 0->1 (max: 8)}]\",\"lastTimestamp\":\"2026-01-01T00:00:00Z\"}",
        "");
    assert_one(&f, "ml/big", "Unschedulable",
               "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
               "wait for the node that was triggered: gpuscale explain pod big -n ml");
    finish(&f);
}

static void test_what_a_container_needs_is_missing(void **state)
{
    struct fixture f;
    setup(&f,
          META("one", "ml", "") "," CONTAINER(
              "\"state\":{\"waiting\":{\"reason\":\"CreateContainerConfigError\",\"message\":"
              "\"configmap \\\"s\\\" not found\"}}") "}",
          "", "");
    assert_one(&f, "ml/one", "CreateContainerConfigError", "configmap \"s\" not found",
               "create it: the ConfigMap s in namespace ml, or set optional: true; it is tried "
               "again by itself");
    finish(&f);
}

static void test_pods_that_are_well_are_no_problem(void **state)
{
    struct fixture f;
    setup(&f,
          META("ready", "ml",
               "") ",\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":"
                   "\"Ready\",\"status\":\"True\"}]}}," META("new", "ml", "") "," CONTAINER(
                       "\"state\":{\"waiting\":{\"reason\":\"ContainerCreating\"}"
                       "}") "}," META("done", "ml", "") ",\"status\":{\"phase\":\"Succeeded\"}}",
          "", "");
    console_problems_update(f.problems, NOW_MS);
    assert_int_equal(console_problems_len(f.problems), 0);
    finish(&f);
}

static void test_each_problem_is_logged_once(void **state)
{
    struct fixture f;
    setup(&f,
          POD("web-1", CONTAINER("\"state\":{\"waiting\":{\"reason\":\"ErrImagePull\",\"message\":"
                                 "\"no command is mapped to this image here\"}}")),
          "", "");
    for (int i = 0; i < 100; i++)
        console_problems_update(f.problems, NOW_MS + i * 1000);
    assert_int_equal(f.log_lines, 1);
    assert_non_null(strstr(f.logged.data,
                           "warn  pods: web: ImagePullBackOff: no command is configured for image "
                           "\"api:1\" (what to do: start gpuscale up with --image "
                           "'api:1=COMMAND')\n"));
    finish(&f);
}

static void test_reported_problems_are_shown_once_and_not_logged(void **state)
{
    struct fixture f;
    (void)state;
    setup(&f, "", "", "");
    console_problems_report(f.problems, "serviceMonitor/default/m", "ScrapedTwice", "text", "fix");
    console_problems_report(f.problems, "serviceMonitor/default/m", "ScrapedTwice", "text", "fix");
    assert_one(&f, "serviceMonitor/default/m", "ScrapedTwice", "text", "fix");
    assert_int_equal(f.log_lines, 0);
    console_problems_update(f.problems, NOW_MS);
    assert_int_equal(console_problems_len(f.problems), 0);
    console_problems_report(f.problems, "freed", "with", "the", "others");
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods_of_one_workload_are_one_problem),
        cmocka_unit_test(test_a_crash_has_its_exit_code_and_last_line),
        cmocka_unit_test(test_a_crash_loop_does_not_flicker_while_it_runs_again),
        cmocka_unit_test(test_containers_that_a_former_run_ended_did_not_crash),
        cmocka_unit_test(test_a_failing_probe_is_named),
        cmocka_unit_test(test_a_container_that_its_probe_killed_says_so),
        cmocka_unit_test(test_a_crash_names_what_this_machine_does_not_give),
        cmocka_unit_test(test_a_pod_without_a_place),
        cmocka_unit_test(test_a_pod_whose_node_is_coming),
        cmocka_unit_test(test_what_a_container_needs_is_missing),
        cmocka_unit_test(test_pods_that_are_well_are_no_problem),
        cmocka_unit_test(test_each_problem_is_logged_once),
        cmocka_unit_test(test_reported_problems_are_shown_once_and_not_logged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
