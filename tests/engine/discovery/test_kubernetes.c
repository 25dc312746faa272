// SPDX-License-Identifier: Apache-2.0
// kubernetes_sd_configs with a scripted API: the resulting groups as lines of text.
#include "engine/discovery/discovery.h"

#include "../../kube/loop.h"
#include "base/mem.h"
#include "net/http/client.h"

#define MAX_STREAMS 16

struct fixture {
    uv_loop_t loop;
    struct http_client *http;
    struct kube_client *client;
    struct discovery_informers *informers;
    struct discovery_kubernetes *sd;
    // items of the lists
    const char *pods, *services, *endpoints, *slices, *nodes, *namespaces, *replica_sets, *jobs;
    struct http_stream *pod_stream;
    struct gs_buf heard, node_labels; // labelSelector of nodes
    struct gs_buf asked;              // "path?labelSelector&fieldSelector;" of each list
    int updates;
};

static void stream_closed(void *arg)
{
    struct fixture *f = arg;
    f->pod_stream = NULL;
}

static void other_closed(void *arg)
{
    (void)arg;
}

static const char *items_of(const struct fixture *f, const char *path)
{
    const struct {
        const char *end, *items;
    } lists[] = {{"/pods", f->pods},
                 {"/services", f->services},
                 {"/endpointslices", f->slices},
                 {"/endpoints", f->endpoints},
                 {"/nodes", f->nodes},
                 {"/namespaces", f->namespaces},
                 {"/replicasets", f->replica_sets},
                 {"/jobs", f->jobs}};
    for (size_t i = 0; i < GS_ARRAY_LEN(lists); i++)
        if (gs_ends(path, lists[i].end))
            return lists[i].items;
    return NULL;
}

static void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    const char *items = items_of(f, http_path(x));
    const char *selector = http_query(x, "labelSelector");
    if (gs_ends(http_path(x), "/nodes") && selector && !f->node_labels.len)
        gs_buf_add_str(&f->node_labels, selector);
    if (!http_query(x, "watch")) {
        const char *fields = http_query(x, "fieldSelector");
        gs_buf_addf(&f->asked, "%s?%s&%s;", http_path(x), selector ? selector : "",
                    fields ? fields : "");
        GS_AUTO_FREE char *list = gs_format("{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":"
                                            "{\"resourceVersion\":\"1\"},\"items\":[%s]}",
                                            items ? items : "");
        http_reply(x, 200, "application/json", gs_slice_of(list));
    } else if (strstr(http_path(x), "/pods")) {
        f->pod_stream = http_reply_stream(x, 200, "application/json", stream_closed, f);
    } else {
        http_reply_stream(x, 200, "application/json", other_closed, f);
    }
}

// The last label with the name.
static const struct metrics_label *find(const struct metrics_label *l, size_t n, const char *name)
{
    while (n-- > 0)
        if (gs_slice_eq_str(l[n].name, name))
            return &l[n];
    return NULL;
}

// "source[group labels]{target}{target}" with the labels that the test compares.
static const char *const shown[] = {
    "__address__",
    "instance",
    "__meta_kubernetes_namespace",
    "__meta_kubernetes_service_name",
    "__meta_kubernetes_service_label_app_name",
    "__meta_kubernetes_endpoint_ready",
    "__meta_kubernetes_endpointslice_endpoint_conditions_ready",
    "__meta_kubernetes_endpointslice_port",
    "__meta_kubernetes_pod_name",
    "__meta_kubernetes_pod_node_name",
    "__meta_kubernetes_pod_container_name",
    "__meta_kubernetes_pod_container_port_name",
    "__meta_kubernetes_pod_container_port_number",
    "__meta_kubernetes_pod_controller_kind",
    "__meta_kubernetes_pod_annotation_prometheus_io_port",
    "__meta_kubernetes_pod_ready",
    "__meta_kubernetes_pod_labelpresent_team",
    "__meta_kubernetes_node_label_zone",
    "__meta_kubernetes_node_address_Hostname",
    "__meta_kubernetes_node_condition_ready",
    "__meta_kubernetes_node_condition_disk_pressure",
    "__meta_kubernetes_namespace_label_team",
    "__meta_kubernetes_namespace_annotationpresent_owner",
    "__meta_kubernetes_pod_deployment_name",
    "__meta_kubernetes_pod_job_name",
    "__meta_kubernetes_pod_cronjob_name",
    "__meta_kubernetes_service_loadbalancer_ip",
    "__meta_kubernetes_endpointslice_endpoint_topology_zone",
    "__meta_kubernetes_endpointslice_endpoint_topology_present_zone",
};

static void show(struct gs_buf *out, const struct metrics_label *l, size_t n)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(shown); i++) {
        const struct metrics_label *found = find(l, n, shown[i]);
        const char *prefix = "__meta_kubernetes_";
        const char *name = gs_starts(shown[i], prefix) ? shown[i] + strlen(prefix) : shown[i];
        if (found)
            gs_buf_addf(out, " %s=" GS_SLICE_FMT, name, GS_SLICE_ARG(found->value));
    }
}

static void on_update(void *arg, const struct discovery_group *groups, size_t n)
{
    struct fixture *f = arg;
    f->updates++;
    gs_buf_clear(&f->heard);
    for (size_t i = 0; i < n; i++) {
        gs_buf_addf(&f->heard, "%s[", groups[i].source);
        show(&f->heard, groups[i].labels, groups[i].n_labels);
        gs_buf_add_str(&f->heard, " ]\n");
        for (size_t t = 0; t < groups[i].n_targets; t++) {
            gs_buf_add_str(&f->heard, " ");
            show(&f->heard, groups[i].targets[t], groups[i].n_target_labels[t]);
            gs_buf_add_str(&f->heard, "\n");
        }
    }
}

static void start(struct fixture *f, const struct engine_config_kubernetes_sd *cfg)
{
    uv_loop_init(&f->loop);
    f->http = http_client_new_loopback(&f->loop, serve, f, NULL);
    f->client = kube_client_new(f->http);
    f->informers = discovery_informers_new(&f->loop, f->client);
    assert_ok(discovery_kubernetes_new(f->informers, cfg, on_update, f, &f->sd));
}

static void finish(struct fixture *f)
{
    discovery_kubernetes_free(f->sd);
    discovery_informers_free(f->informers);
    kube_client_free(f->client);
    http_client_free(f->http);
    gs_buf_finish(&f->heard);
    gs_buf_finish(&f->node_labels);
    gs_buf_finish(&f->asked);
    loop_finish(&f->loop);
}

#define POD(version, ready)                                                                        \
    "{\"metadata\":{\"name\":\"web-0\",\"namespace\":\"n\",\"uid\":\"u\",\"resourceVersion\":"     \
    "\"" version "\",\"labels\":{\"team\":\"\"},\"ownerReferences\":[{\"kind\":\"ReplicaSet\","    \
    "\"name\":\"web\",\"controller\":true}]},\"spec\":{\"nodeName\":\"a\",\"containers\":["        \
    "{\"name\":\"app\",\"image\":\"i\",\"ports\":[{\"name\":\"http\",\"containerPort\":80,"        \
    "\"protocol\":\"TCP\"},{\"name\":\"metrics\",\"containerPort\":9400}]},{\"name\":\"side\"}]}," \
    "\"status\":{\"podIP\":\"10.0.0.1\",\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\"" \
    ",\"status\":\"" ready "\"}]}}"
#define NODE                                                                                       \
    "{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\",\"labels\":{\"zone\":\"z1\"}},"       \
    "\"status\":{\"addresses\":[{\"type\":\"Hostname\",\"address\":\"a.local\"},{\"type\":"        \
    "\"InternalIP\",\"address\":\"192.0.2.1\"}],\"daemonEndpoints\":{\"kubeletEndpoint\":"         \
    "{\"Port\":10250}}}}"
#define SERVICE                                                                                    \
    "{\"metadata\":{\"name\":\"web\",\"namespace\":\"n\",\"resourceVersion\":\"1\",\"labels\":"    \
    "{\"app.name\":\"web\"}},\"spec\":{\"ports\":[{\"port\":80}]}}"
#define TARGET_REF "\"targetRef\":{\"kind\":\"Pod\",\"name\":\"web-0\",\"namespace\":\"n\"}"

static void test_pods_become_a_target_for_each_container_port(void **state)
{
    struct fixture f = {.pods = POD("1", "True"), .nodes = NODE};
    start(&f,
          &(struct engine_config_kubernetes_sd){.role = ENGINE_CONFIG_SD_POD, .attach.node = true});
    loop_until(&f.loop, f.updates == 1);
    assert_string_equal(
        f.heard.data,
        "pod/n/web-0[ namespace=n pod_name=web-0 pod_node_name=a pod_controller_kind=ReplicaSet"
        " pod_ready=true pod_labelpresent_team=true node_label_zone=z1 ]\n"
        "  __address__=10.0.0.1:80 pod_container_name=app pod_container_port_name=http"
        " pod_container_port_number=80\n"
        "  __address__=10.0.0.1:9400 pod_container_name=app pod_container_port_name=metrics"
        " pod_container_port_number=9400\n"
        "  __address__=10.0.0.1 pod_container_name=side\n");
    finish(&f);
    (void)state;
}

// With attach_metadata, pods on nodes that the selectors omit are no targets.
static void test_pods_on_other_nodes_are_no_targets(void **state)
{
    const struct engine_config_kubernetes_sd cfg = {.role = ENGINE_CONFIG_SD_POD,
                                                    .attach.node = true,
                                                    .selectors[ENGINE_CONFIG_SD_NODE].label =
                                                        "gpu in (a,b)"};
    struct fixture f = {.pods = POD("1", "True")};
    start(&f, &cfg);
    loop_until(&f.loop, f.updates == 1);
    assert_string_equal(f.node_labels.data, "gpu in (a,b)");
    assert_null(strstr(f.heard.data, "__address__"));
    finish(&f);
    f = (struct fixture){.pods = POD("1", "True"), .nodes = NODE};
    start(&f, &cfg);
    loop_until(&f.loop, f.updates == 1);
    assert_non_null(strstr(f.heard.data, "__address__=10.0.0.1:9400"));
    finish(&f);
    (void)state;
}

static void test_a_change_is_told_and_the_end_of_a_pod_empties_its_group(void **state)
{
    struct fixture f = {.pods = POD("1", "True")};
    start(&f, &(struct engine_config_kubernetes_sd){.role = ENGINE_CONFIG_SD_POD});
    loop_until(&f.loop, f.updates == 1 && f.pod_stream);
    http_stream_write(f.pod_stream,
                      GS_SLICE("{\"type\":\"MODIFIED\",\"object\":" POD("2", "False") "}\n"));
    loop_until(&f.loop, f.updates == 2);
    assert_non_null(strstr(f.heard.data, "pod_ready=false"));
    // Unchanged content is not reported.
    http_stream_write(f.pod_stream,
                      GS_SLICE("{\"type\":\"MODIFIED\",\"object\":" POD("3", "False") "}\n"));
    loop_for_ms(&f.loop, 700);
    assert_int_equal(f.updates, 2);
    http_stream_write(f.pod_stream,
                      GS_SLICE("{\"type\":\"DELETED\",\"object\":" POD("4", "False") "}\n"));
    loop_until(&f.loop, f.updates == 3);
    assert_string_equal(f.heard.data, "pod/n/web-0[ ]\n");
    finish(&f);
    (void)state;
}

static void test_selectors_of_each_role_select_its_objects(void **state)
{
    struct fixture f = {.services = SERVICE};
    start(&f, &(struct engine_config_kubernetes_sd){
                  .role = ENGINE_CONFIG_SD_ENDPOINTSLICE,
                  .selectors = {[ENGINE_CONFIG_SD_POD] = {"p=1", NULL},
                                [ENGINE_CONFIG_SD_SERVICE] = {"s=1", "metadata.name=web"},
                                [ENGINE_CONFIG_SD_ENDPOINTSLICE] = {NULL, "metadata.name=e"}}});
    loop_until(&f.loop, f.updates == 1);
    assert_non_null(strstr(f.asked.data, "/pods?p=1&;"));
    assert_non_null(strstr(f.asked.data, "/services?s=1&metadata.name=web;"));
    assert_non_null(strstr(f.asked.data, "/endpointslices?&metadata.name=e;"));
    finish(&f);
    (void)state;
}

static void test_endpoints_have_the_labels_of_service_and_pod(void **state)
{
    struct fixture f = {
        .pods = POD("1", "True"),
        .services = SERVICE,
        .endpoints = "{\"metadata\":{\"name\":\"web\",\"namespace\":\"n\",\"resourceVersion\":"
                     "\"1\"},\"subsets\":[{\"addresses\":[{\"ip\":\"10.0.0.1\"," TARGET_REF
                     "}],\"notReadyAddresses\":[{\"ip\":\"10.0.0.9\"}],\"ports\":[{\"name\":"
                     "\"web\",\"port\":80}]}]}",
    };
    static const char *const namespaces[] = {"n"};
    start(&f, &(struct engine_config_kubernetes_sd){
                  .role = ENGINE_CONFIG_SD_ENDPOINTS, .namespaces = namespaces, .n_namespaces = 1});
    loop_until(&f.loop, f.updates == 1);
    assert_string_equal(
        f.heard.data,
        "endpoints/n/web[ namespace=n service_name=web service_label_app_name=web ]\n"
        "  __address__=10.0.0.1:80 endpoint_ready=true pod_name=web-0 pod_node_name=a"
        " pod_container_name=app pod_container_port_name=http pod_container_port_number=80"
        " pod_controller_kind=ReplicaSet"
        " pod_ready=true pod_labelpresent_team=true\n"
        "  __address__=10.0.0.9:80 endpoint_ready=false\n"
        "  __address__=10.0.0.1:9400 pod_name=web-0 pod_node_name=a pod_container_name=app"
        " pod_container_port_name=metrics pod_container_port_number=9400"
        " pod_controller_kind=ReplicaSet pod_ready=true"
        " pod_labelpresent_team=true\n");
    finish(&f);
    (void)state;
}

// gpuscale up records the replacement of ports that it cannot bind: the target has the replacement
// as address, and name and number of the port as in the manifest.
static void test_moved_ports_are_targets_where_they_listen(void **state)
{
    static const char pod[] =
        "{\"metadata\":{\"name\":\"web-0\",\"namespace\":\"n\",\"uid\":\"u\",\"resourceVersion\":"
        "\"1\",\"annotations\":{\"gpuscale.dev/ports\":\"80=8080,81=8081\","
        "\"prometheus.io/port\":\"81\"}},\"spec\":{"
        "\"containers\":[{\"name\":\"app\",\"ports\":[{\"name\":\"http\",\"containerPort\":80},"
        "{\"name\":\"admin\",\"containerPort\":81}]}]},\"status\":{\"podIP\":\"10.0.0.1\"}}";
    struct fixture f = {
        .pods = pod,
        .services = SERVICE,
        .endpoints = "{\"metadata\":{\"name\":\"web\",\"namespace\":\"n\",\"resourceVersion\":"
                     "\"1\"},\"subsets\":[{\"addresses\":[{\"ip\":\"10.0.0.1\"," TARGET_REF
                     "}],\"ports\":[{\"name\":\"web\",\"port\":8080}]}]}",
    };
    start(&f, &(struct engine_config_kubernetes_sd){.role = ENGINE_CONFIG_SD_POD});
    loop_until(&f.loop, f.updates == 1);
    assert_string_equal(f.heard.data,
                        "pod/n/web-0[ namespace=n pod_name=web-0 "
                        "pod_annotation_prometheus_io_port=8081 pod_ready=unknown ]\n"
                        "  __address__=10.0.0.1:8080 pod_container_name=app"
                        " pod_container_port_name=http pod_container_port_number=80\n"
                        "  __address__=10.0.0.1:8081 pod_container_name=app"
                        " pod_container_port_name=admin pod_container_port_number=81\n");
    finish(&f);
    f.updates = 0;
    f.heard = (struct gs_buf){0};
    start(&f, &(struct engine_config_kubernetes_sd){.role = ENGINE_CONFIG_SD_ENDPOINTS});
    loop_until(&f.loop, f.updates == 1);
    assert_string_equal(f.heard.data,
                        "endpoints/n/web[ namespace=n service_name=web"
                        " service_label_app_name=web ]\n"
                        "  __address__=10.0.0.1:8080 endpoint_ready=true pod_name=web-0"
                        " pod_container_name=app pod_container_port_name=http"
                        " pod_container_port_number=80"
                        " pod_annotation_prometheus_io_port=8081 pod_ready=unknown\n"
                        "  __address__=10.0.0.1:8081 pod_name=web-0 pod_container_name=app"
                        " pod_container_port_name=admin pod_container_port_number=81"
                        " pod_annotation_prometheus_io_port=8081 pod_ready=unknown\n");
    finish(&f);
    (void)state;
}

static void test_endpoint_slices_have_conditions(void **state)
{
    struct fixture f = {
        .services = SERVICE,
        .slices = "{\"metadata\":{\"name\":\"web-x\",\"namespace\":\"n\",\"resourceVersion\":\"1\","
                  "\"labels\":{\"kubernetes.io/service-name\":\"web\"}},\"addressType\":\"IPv6\","
                  "\"ports\":[{\"port\":80}],\"endpoints\":[{\"addresses\":[\"fd00::1\"],"
                  "\"conditions\":{\"ready\":false}}]}",
    };
    start(&f, &(struct engine_config_kubernetes_sd){.role = ENGINE_CONFIG_SD_ENDPOINTSLICE});
    loop_until(&f.loop, f.updates == 1);
    assert_string_equal(f.heard.data,
                        "endpointslice/n/web-x[ namespace=n service_name=web"
                        " service_label_app_name=web ]\n"
                        "  __address__=[fd00::1]:80"
                        " endpointslice_endpoint_conditions_ready=false endpointslice_port=80\n");
    finish(&f);
    (void)state;
}

static void test_nodes_are_reached_at_their_kubelet(void **state)
{
    struct fixture f = {.nodes = NODE};
    start(&f, &(struct engine_config_kubernetes_sd){.role = ENGINE_CONFIG_SD_NODE});
    loop_until(&f.loop, f.updates == 1);
    assert_string_equal(f.heard.data,
                        "node/a[ node_label_zone=z1 ]\n"
                        "  __address__=192.0.2.1:10250 instance=a node_address_Hostname=a.local\n");
    finish(&f);
    (void)state;
}

static void test_services_are_reached_by_their_name(void **state)
{
    struct fixture f = {.services = SERVICE};
    start(&f, &(struct engine_config_kubernetes_sd){.role = ENGINE_CONFIG_SD_SERVICE});
    loop_until(&f.loop, f.updates == 1);
    assert_string_equal(f.heard.data,
                        "svc/n/web[ namespace=n service_name=web service_label_app_name=web ]\n"
                        "  __address__=web.n.svc:80\n");
    finish(&f);
    (void)state;
}

static void test_nodes_have_their_conditions(void **state)
{
    struct fixture f = {
        .nodes =
            "{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"},\"status\":{\"addresses\":"
            "[{\"type\":\"InternalIP\",\"address\":\"192.0.2.1\"}],\"conditions\":[{\"type\":"
            "\"Ready\",\"status\":\"True\"},{\"type\":\"Disk-Pressure\",\"status\":"
            "\"Unknown\"},{\"type\":\"NoStatus\"}]}}"};
    start(&f, &(struct engine_config_kubernetes_sd){.role = ENGINE_CONFIG_SD_NODE});
    loop_until(&f.loop, f.updates == 1);
    assert_string_equal(f.heard.data,
                        "node/a[ node_condition_ready=true node_condition_disk_pressure=unknown ]\n"
                        "  __address__=192.0.2.1:0 instance=a\n");
    finish(&f);
    (void)state;
}

#define OWNED(name, kind, owner)                                                                   \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"n\",\"resourceVersion\":\"1\","          \
    "\"ownerReferences\":[{\"kind\":\"" kind "\",\"name\":\"" owner "\",\"controller\":true}]}}"
#define OWNED_POD(kind, owner)                                                                     \
    "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"resourceVersion\":\"1\","                 \
    "\"ownerReferences\":[{\"kind\":\"" kind "\",\"name\":\"" owner "\",\"controller\":true}]},"   \
    "\"spec\":{\"containers\":[{\"name\":\"c\"}]},\"status\":{\"podIP\":\"10.0.0.1\"}}"
#define NAMESPACE                                                                                  \
    "{\"metadata\":{\"name\":\"n\",\"resourceVersion\":\"1\",\"labels\":{\"team\":\"ml\"},"        \
    "\"annotations\":{\"owner\":\"\"}}}"

static void test_attached_metadata_of_owners_and_namespaces(void **state)
{
    static const struct {
        const char *pod, *want;
    } cases[] = {
        {OWNED_POD("ReplicaSet", "r"), " pod_deployment_name=d ]"},
        {OWNED_POD("ReplicaSet", "missing"), "_owner=true ]"},
        {OWNED_POD("Job", "j"), " pod_job_name=j pod_cronjob_name=c ]"},
        {OWNED_POD("Job", "missing"), " pod_job_name=missing ]"},
        {OWNED_POD("StatefulSet", "r"), "_owner=true ]"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct fixture f = {.pods = cases[i].pod,
                            .namespaces = NAMESPACE,
                            .replica_sets = OWNED("r", "Deployment", "d"),
                            .jobs = OWNED("j", "CronJob", "c")};
        start(&f, &(struct engine_config_kubernetes_sd){.role = ENGINE_CONFIG_SD_POD,
                                                        .attach = {false, true, true, true, true}});
        loop_until(&f.loop, f.updates == 1);
        assert_non_null(strstr(f.heard.data,
                               " namespace_label_team=ml namespace_annotationpresent_owner=true"));
        if (!strstr(f.heard.data, cases[i].want))
            fail_msg("%s, not %s", f.heard.data, cases[i].want);
        finish(&f);
    }
    // Without attach_metadata nothing is watched.
    struct fixture f = {.pods = OWNED_POD("Job", "j"), .jobs = OWNED("j", "CronJob", "c")};
    start(&f, &(struct engine_config_kubernetes_sd){.role = ENGINE_CONFIG_SD_POD});
    loop_until(&f.loop, f.updates == 1);
    assert_null(strstr(f.heard.data, "job_name"));
    finish(&f);
    (void)state;
}

static void test_load_balancers_have_the_addresses_of_their_status(void **state)
{
    static const struct {
        const char *spec, *status, *want;
    } cases[] = {
        {"",
         "{\"loadBalancer\":{\"ingress\":[{\"ip\":\"192.0.2.7\"},{\"hostname\":\"h\"},"
         "{\"ip\":\"192.0.2.8\"}]}}",
         " service_loadbalancer_ip=192.0.2.7,192.0.2.8\n"},
        {",\"loadBalancerIP\":\"192.0.2.1\"", "{}", " service_loadbalancer_ip=192.0.2.1\n"},
        {"", "{}", "web.n.svc:80\n"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *service =
            gs_format("{\"metadata\":{\"name\":\"web\",\"namespace\":\"n\",\"resourceVersion\":"
                      "\"1\"},\"spec\":{\"type\":\"LoadBalancer\"%s,\"ports\":[{\"port\":80}]},"
                      "\"status\":%s}",
                      cases[i].spec, cases[i].status);
        struct fixture f = {.services = service, .namespaces = NAMESPACE};
        start(&f, &(struct engine_config_kubernetes_sd){.role = ENGINE_CONFIG_SD_SERVICE,
                                                        .attach.namespace_ = true});
        loop_until(&f.loop, f.updates == 1);
        assert_non_null(strstr(f.heard.data, " namespace_label_team=ml"));
        assert_non_null(strstr(f.heard.data, cases[i].want));
        finish(&f);
    }
    (void)state;
}

static void test_the_second_slice_of_a_dual_stack_service_has_no_targets(void **state)
{
    static const struct {
        const char *policy, *first;
        bool has_targets;
    } cases[] = {{"PreferDualStack", "IPv4", false},
                 {"RequireDualStack", "IPv4", false},
                 {"PreferDualStack", "IPv6", true},
                 {"SingleStack", "IPv4", true}};
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *service =
            gs_format("{\"metadata\":{\"name\":\"web\",\"namespace\":\"n\",\"resourceVersion\":"
                      "\"1\"},\"spec\":{\"ipFamilyPolicy\":\"%s\",\"ipFamilies\":[\"%s\"]}}",
                      cases[i].policy, cases[i].first);
        struct fixture f = {
            .services = service,
            .slices =
                "{\"metadata\":{\"name\":\"web-x\",\"namespace\":\"n\",\"resourceVersion\":\"1\","
                "\"labels\":{\"kubernetes.io/service-name\":\"web\"}},\"addressType\":\"IPv6\","
                "\"ports\":[{\"port\":80}],\"endpoints\":[{\"addresses\":[\"fd00::1\"],"
                "\"deprecatedTopology\":{\"zone\":\"z\"}}]}"};
        start(&f, &(struct engine_config_kubernetes_sd){.role = ENGINE_CONFIG_SD_ENDPOINTSLICE});
        loop_until(&f.loop, f.updates == 1);
        const char *target = " endpointslice_endpoint_topology_zone=z"
                             " endpointslice_endpoint_topology_present_zone=true\n";
        assert_int_equal(strstr(f.heard.data, target) != NULL, cases[i].has_targets);
        assert_int_equal(strstr(f.heard.data, "__address__") != NULL, cases[i].has_targets);
        finish(&f);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods_become_a_target_for_each_container_port),
        cmocka_unit_test(test_pods_on_other_nodes_are_no_targets),
        cmocka_unit_test(test_a_change_is_told_and_the_end_of_a_pod_empties_its_group),
        cmocka_unit_test(test_selectors_of_each_role_select_its_objects),
        cmocka_unit_test(test_endpoints_have_the_labels_of_service_and_pod),
        cmocka_unit_test(test_moved_ports_are_targets_where_they_listen),
        cmocka_unit_test(test_endpoint_slices_have_conditions),
        cmocka_unit_test(test_nodes_are_reached_at_their_kubelet),
        cmocka_unit_test(test_services_are_reached_by_their_name),
        cmocka_unit_test(test_nodes_have_their_conditions),
        cmocka_unit_test(test_attached_metadata_of_owners_and_namespaces),
        cmocka_unit_test(test_load_balancers_have_the_addresses_of_their_status),
        cmocka_unit_test(test_the_second_slice_of_a_dual_stack_service_has_no_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
