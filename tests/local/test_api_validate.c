// SPDX-License-Identifier: Apache-2.0
// What the API refuses, in whose words; what it fills in; which forms of bodies it reads.
#include "api_setup.h"

#define PODS        "/api/v1/namespaces/default/pods"
#define SERVICES    "/api/v1/namespaces/default/services"
#define DEPLOYMENTS "/apis/apps/v1/namespaces/default/deployments"
#define CMS         "/api/v1/namespaces/default/configmaps"

// Creates a Deployment whose spec has further members (with a trailing comma), and whose container
// has.
static struct reply deploy(struct harness *h, const char *query, const char *spec,
                           const char *container)
{
    GS_AUTO_FREE char *path = gs_format(DEPLOYMENTS "%s", query);
    GS_AUTO_FREE char *body = gs_format(
        "{\"metadata\":{\"name\":\"d\"},\"spec\":{%s\"selector\":{\"matchLabels\":{\"app\":\"x\"}},"
        "\"template\":{\"metadata\":{\"labels\":{\"app\":\"x\"}},\"spec\":{\"containers\":[{"
        "%s\"name\":\"c\",\"image\":\"i\"}]}}}}",
        spec, container);
    return request(h, "POST", path, body);
}

static void test_mistakes_are_named(void **state)
{
    static const struct {
        const char *spec, *container, *message;
    } cases[] = {
        {"\"replicas\":-1,", "",
         "spec.replicas: Invalid value: -1: must be greater than or equal to 0"},
        {"", "\"ports\":[{\"containerPort\":0}],",
         "spec.template.spec.containers[0].ports[0].containerPort: Invalid value: 0: must be "
         "between "
         "1 and 65535, inclusive"},
        {"", "\"imagePullPolicy\":\"Sometimes\",",
         "spec.template.spec.containers[0].imagePullPolicy: Unsupported value: \"Sometimes\": "
         "supported values: \"Always\", \"IfNotPresent\", \"Never\""},
        {"", "\"resources\":{\"limits\":{\"cpu\":\"1\"},\"requests\":{\"cpu\":\"2\"}},",
         "spec.template.spec.containers[0].resources.requests: Invalid value: \"2\": must be less "
         "than or equal to cpu limit of 1"},
        {"", "\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"500m\"}},", "must be an integer"},
        {"", "\"resources\":{\"requests\":{\"nvidia.com/gpu\":1}},",
         "Limit must be set for non overcommitable resources"},
        {"", "\"resources\":{\"limits\":{\"gpu\":1}},",
         "must be a standard resource type or fully qualified"},
        {"", "\"volumeMounts\":[{\"name\":\"v\",\"mountPath\":\"/v\"}],",
         "spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"v\""},
        {"", "\"livenessProbe\":{\"periodSeconds\":3},",
         "spec.template.spec.containers[0].livenessProbe: Required value: must specify a handler "
         "type"},
        {"", "\"env\":[{\"name\":\"A=B\",\"value\":\"\"}],",
         "spec.template.spec.containers[0].env[0].name: Invalid value: \"A=B\""},
        {"\"strategy\":{\"type\":\"Recreate\",\"rollingUpdate\":{\"maxSurge\":1}},", "",
         "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is "
         "'Recreate'"},
        {"\"strategy\":{\"rollingUpdate\":{\"maxSurge\":0,\"maxUnavailable\":0}},", "",
         "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when "
         "`maxSurge` is 0"},
        {"\"strategy\":{\"rollingUpdate\":{\"maxSurge\":\"a lot\"}},", "",
         "a valid percent string must be a numeric string followed by an ending '%'"},
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        AUTO_REPLY struct reply r = deploy(*state, "", cases[i].spec, cases[i].container);
        assert_status(r, 422);
        assert_member(r, "Invalid", "reason");
        assert_message(r, "Deployment.apps \"d\" is invalid: ");
        assert_message(r, cases[i].message);
    }
}

static void test_names_follow_rules(void **state)
{
    AUTO_REPLY struct reply upper = request(*state, "POST", CMS, "{\"metadata\":{\"name\":\"A\"}}");
    AUTO_REPLY struct reply none = request(*state, "POST", CMS, "{\"metadata\":{}}");
    AUTO_REPLY struct reply service =
        request(*state, "POST", SERVICES,
                "{\"metadata\":{\"name\":\"1a\"},\"spec\":{\"ports\":[{\"port\":1}]}}");
    AUTO_REPLY struct reply label =
        request(*state, "POST", CMS, "{\"metadata\":{\"name\":\"a\",\"labels\":{\"a b\":\"c\"}}}");
    AUTO_REPLY struct reply path =
        request(*state, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                "{\"metadata\":{\"name\":\"system:all\"}}");

    assert_status(upper, 422);
    assert_message(upper, "a lowercase RFC 1123 subdomain must consist of");
    assert_status(none, 422);
    assert_message(none, "metadata.name: Required value: name or generateName is required");
    assert_status(service, 422);
    assert_message(service, "a DNS-1035 label must consist of");
    assert_status(label, 422);
    assert_message(label, "metadata.labels: Invalid value: \"a b\": name part must consist of");
    assert_status(path, 201);
}

static void test_unknown_fields_are_warned_of_or_refused(void **state)
{
    AUTO_REPLY struct reply strict = deploy(*state, "?fieldValidation=Strict", "\"foo\":1,", "");
    assert_status(strict, 400);
    assert_message(strict, "Deployment in version \"v1\" cannot be handled as a Deployment: strict "
                           "decoding error: unknown field \"spec.foo\"");
    AUTO_REPLY struct reply warned = deploy(*state, "", "\"foo\":1,", "");
    assert_status(warned, 201);
    assert_null(codec_json_get(warned.body, "spec", "foo", NULL));
    AUTO_REPLY struct reply bad = deploy(*state, "?fieldValidation=Perhaps", "", "");
    assert_status(bad, 422);
}

static void test_unknown_fields_of_monitors_and_rules_are_refused(void **state)
{
    static const char *const cases[][4] = {
        {"servicemonitors",
         "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"selector\":{},\"endpoints\":[{\"port\":\"x\","
         "\"relabelings\":[{\"target_label\":\"y\"}]}]}}",
         "ServiceMonitor", "unknown field \"spec.endpoints[0].relabelings[0].target_label\""},
        {"podmonitors",
         "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"selector\":{},\"endpoints\":[]}}",
         "PodMonitor", "unknown field \"spec.endpoints\""},
        {"prometheusrules",
         "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"groups\":[{\"name\":\"g\",\"rules\":[{"
         "\"record\":\"a:b\",\"expression\":\"up\"}]}]}}",
         "PrometheusRule", "unknown field \"spec.groups[0].rules[0].expression\""},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *path =
            gs_format("/apis/monitoring.coreos.com/v1/namespaces/default/%s", cases[i][0]);
        GS_AUTO_FREE char *strict = gs_format("%s?fieldValidation=Strict", path);
        GS_AUTO_FREE char *text =
            gs_format("%s in version \"v1\" cannot be handled as a %s: strict decoding error: %s",
                      cases[i][2], cases[i][2], cases[i][3]);
        AUTO_REPLY struct reply refused = request(*state, "POST", strict, cases[i][1]);
        assert_status(refused, 400);
        assert_message(refused, text);
        AUTO_REPLY struct reply warned = request(*state, "POST", path, cases[i][1]);
        assert_status(warned, 201);
        GS_AUTO_FREE char *one = gs_format("%s/a", path);
        AUTO_REPLY struct reply patch = request(*state, "PATCH", one, "{}");
        assert_status(patch, 415);
    }
}

static void test_patterns_of_monitors_that_go_lacks_are_refused(void **state)
{
    static const char *const cases[][3] = {
        {"servicemonitors",
         "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"selector\":{},\"endpoints\":[{\"port\":\"x\"},"
         "{"
         "\"metricRelabelings\":[{\"regex\":\"(?!go_).*\"}]}]}}",
         "spec.endpoints[1].metricRelabelings[0].regex: Invalid value: \"(?!go_).*\": "},
        {"podmonitors",
         "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"selector\":{},\"podMetricsEndpoints\":[{"
         "\"relabelings\":[{\"regex\":\"ok\"},{\"regex\":\"(a\"}]}]}}",
         "spec.podMetricsEndpoints[0].relabelings[1].regex: Invalid value: \"(a\": "},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *path =
            gs_format("/apis/monitoring.coreos.com/v1/namespaces/default/%s", cases[i][0]);
        AUTO_REPLY struct reply refused = request(*state, "POST", path, cases[i][1]);
        assert_status(refused, 422);
        if (!strstr(codec_json_str(refused.body, "message", NULL), cases[i][2]))
            fail_msg("%s", refused.text);
    }
}

static void test_a_service_has_a_limited_number_of_ports(void **state)
{
    GS_AUTO_BUF struct gs_buf body = {0};
    gs_buf_add_str(&body, "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"ports\":[");
    for (int i = 1; i <= 1001; i++)
        gs_buf_addf(&body, "%s{\"name\":\"p%d\",\"port\":%d}", i > 1 ? "," : "", i, i);
    gs_buf_add_str(&body, "]}}");
    AUTO_REPLY struct reply r = request(*state, "POST", SERVICES, body.data);
    assert_status(r, 422);
    assert_message(r,
                   "Service \"s\" is invalid: spec.ports: Too many: 1001: must have at most 1000 "
                   "items");
}

static void test_wrong_types_are_refused(void **state)
{
    AUTO_REPLY struct reply text = deploy(*state, "", "\"replicas\":\"3\",", "");
    AUTO_REPLY struct reply quantity =
        deploy(*state, "", "", "\"resources\":{\"limits\":{\"cpu\":\"1x\"}},");
    AUTO_REPLY struct reply version =
        request(*state, "POST", PODS, "{\"apiVersion\":\"v2\",\"kind\":\"Pod\"}");
    AUTO_REPLY struct reply broken = request(*state, "POST", PODS, "{");
    AUTO_REPLY struct reply list = request(*state, "POST", PODS, "[]");

    assert_status(text, 400);
    assert_message(text, "cannot be handled as a Deployment: json: cannot unmarshal string into Go "
                         "struct field DeploymentSpec.spec.replicas of type int32");
    assert_status(quantity, 400);
    assert_message(quantity, "quantities must match the regular expression");
    assert_status(version, 400);
    assert_message(version, "the API version in the data (v2) does not match the expected API "
                            "version (v1)");
    assert_status(broken, 400);
    assert_status(list, 400);
}

static void test_quantities_are_canonical(void **state)
{
    AUTO_REPLY struct reply r = request(
        *state, "POST", PODS,
        "{\"metadata\":{\"name\":\"p\",\"creationTimestamp\":null},\"spec\":{\"containers\":[{"
        "\"name\":\"c\",\"image\":\"i\",\"resources\":{\"limits\":{\"cpu\":0.5,\"memory\":"
        "\"1024Mi\","
        "\"nvidia.com/gpu\":1}}}]},\"status\":{\"phase\":\"Running\"}}");
    const json_t *container = json_array_get(codec_json_get(r.body, "spec", "containers", NULL), 0);
    const json_t *requests = codec_json_get(container, "resources", "requests", NULL);

    assert_status(r, 201);
    assert_string_equal(codec_json_str(requests, "cpu", NULL), "500m");
    assert_string_equal(codec_json_str(requests, "memory", NULL), "1Gi");
    assert_string_equal(codec_json_str(requests, "nvidia.com/gpu", NULL), "1");
    assert_string_equal(codec_json_str(container, "imagePullPolicy", NULL), "Always");
    assert_member(r, "Guaranteed", "status", "qosClass");
    assert_member(r, "Pending", "status", "phase");
}

static void test_pods_hardly_change(void **state)
{
    AUTO_REPLY struct reply made =
        request(*state, "POST", PODS,
                "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                "\"image\":\"i\"}]}}");
    AUTO_REPLY struct reply image =
        request_with(*state, "PATCH", PODS "/p", "application/strategic-merge-patch+json", NULL,
                     "{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"j\"}]}}");
    AUTO_REPLY struct reply command =
        request_with(*state, "PATCH", PODS "/p", "application/strategic-merge-patch+json", NULL,
                     "{\"spec\":{\"containers\":[{\"name\":\"c\",\"command\":[\"x\"]}]}}");

    assert_status(image, 200);
    assert_status(command, 422);
    assert_message(command, "spec: Forbidden: pod updates may not change fields other than");
}

static struct reply add_ephemeral(struct harness *h, const char *containers)
{
    GS_AUTO_FREE char *body = gs_format("{\"metadata\":{\"labels\":{\"ignored\":\"x\"}},"
                                        "\"spec\":{\"ephemeralContainers\":[{%s}]}}",
                                        containers);
    return request_with(h, "PATCH", PODS "/p/ephemeralcontainers",
                        "application/strategic-merge-patch+json", NULL, body);
}

static void test_ephemeral_containers_are_only_added(void **state)
{
    static const struct {
        const char *container, *message;
    } wrong[] = {
        {"\"name\":\"c\",\"image\":\"i\"",
         "spec.ephemeralContainers[0].name: Duplicate value: \"c\""},
        {"\"name\":\"x\"", "spec.ephemeralContainers[0].image: Required value"},
        {"\"name\":\"x\",\"image\":\"i\",\"targetContainerName\":\"none\"",
         "spec.ephemeralContainers[0].targetContainerName: Not found: \"none\""},
        {"\"name\":\"x\",\"image\":\"i\",\"ports\":[{\"containerPort\":80}]",
         "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container"},
        {"\"name\":\"x\",\"image\":\"i\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":1}}",
         "spec.ephemeralContainers[0].resources: Forbidden"},
        {"\"name\":\"x\",\"image\":\"i\",\"readinessProbe\":{\"tcpSocket\":{\"port\":1}}",
         "spec.ephemeralContainers[0].readinessProbe: Forbidden"},
        {"\"name\":\"one\",\"image\":\"other\"",
         "existing ephemeral containers \"one\" may not be changed"},
    };
    AUTO_REPLY struct reply made =
        request(*state, "POST", PODS,
                "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                "\"image\":\"i\"}]}}");
    AUTO_REPLY struct reply added =
        add_ephemeral(*state, "\"name\":\"one\",\"image\":\"i\",\"targetContainerName\":\"c\"");
    AUTO_REPLY struct reply removed =
        request_with(*state, "PATCH", PODS "/p/ephemeralcontainers", "application/json-patch+json",
                     NULL, "[{\"op\":\"remove\",\"path\":\"/spec/ephemeralContainers\"}]");
    AUTO_REPLY struct reply elsewhere =
        request_with(*state, "PATCH", PODS "/p", "application/strategic-merge-patch+json", NULL,
                     "{\"spec\":{\"ephemeralContainers\":[{\"name\":\"two\",\"image\":\"i\"}]}}");
    AUTO_REPLY struct reply at_creation = request(
        *state, "POST", PODS,
        "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":"
        "\"i\"}],\"ephemeralContainers\":[{\"name\":\"e\",\"image\":\"i\"}]}}");
    AUTO_REPLY struct reply removal =
        request(*state, "DELETE", PODS "/p/ephemeralcontainers", NULL);

    assert_status(made, 201);
    assert_status(added, 200);
    assert_member(added, "Pod", "kind");
    const json_t *container =
        json_array_get(codec_json_get(added.body, "spec", "ephemeralContainers", NULL), 0);
    assert_string_equal(codec_json_str(container, "terminationMessagePolicy", NULL), "File");
    assert_null(codec_json_get(added.body, "metadata", "labels", NULL));
    assert_status(removed, 422);
    assert_message(removed, "existing ephemeral containers \"one\" may not be removed");
    assert_status(elsewhere, 422);
    assert_message(elsewhere, "spec: Forbidden: pod updates may not change fields other than");
    assert_status(at_creation, 422);
    assert_message(at_creation, "spec.ephemeralContainers: Forbidden: cannot be set on create");
    assert_status(removal, 405);
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        AUTO_REPLY struct reply r = add_ephemeral(*state, wrong[i].container);
        assert_status(r, 422);
        assert_message(r, wrong[i].message);
    }
    AUTO_REPLY struct reply read = request(*state, "GET", PODS "/p/ephemeralcontainers", NULL);
    assert_status(read, 200);
    assert_int_equal(
        json_array_size(codec_json_get(read.body, "spec", "ephemeralContainers", NULL)), 1);
}

static void test_services_keep_their_addresses(void **state)
{
    static const char body[] = "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"type\":\"NodePort\","
                               "\"ports\":[{\"port\":80}],\"selector\":{\"a\":\"b\"}}}";
    AUTO_REPLY struct reply made = request(*state, "POST", SERVICES, body);
    assert_status(made, 201);
    assert_member(made, "None", "spec", "sessionAffinity");
    assert_int_equal(
        codec_json_int(json_array_get(codec_json_get(made.body, "spec", "ports", NULL), 0), 0,
                       "targetPort", NULL),
        80);
    AUTO_REPLY struct reply allocated = request_with(
        *state, "PATCH", SERVICES "/s", "application/strategic-merge-patch+json", NULL,
        "{\"spec\":{\"clusterIP\":\"127.96.0.1\",\"ports\":[{\"port\":80,\"nodePort\":30001}]}}");
    assert_status(allocated, 200);
    AUTO_REPLY struct reply replaced = request(*state, "PUT", SERVICES "/s", body);
    assert_status(replaced, 200);
    assert_member(replaced, "127.96.0.1", "spec", "clusterIP");
    assert_int_equal(
        codec_json_int(json_array_get(codec_json_get(replaced.body, "spec", "ports", NULL), 0), 0,
                       "nodePort", NULL),
        30001);
    AUTO_REPLY struct reply moved =
        request_with(*state, "PATCH", SERVICES "/s", "application/merge-patch+json", NULL,
                     "{\"spec\":{\"clusterIP\":\"127.96.0.2\"}}");
    assert_status(moved, 422);
    assert_message(moved, "may not change once set");
    AUTO_REPLY struct reply inside =
        request_with(*state, "PATCH", SERVICES "/s", "application/merge-patch+json", NULL,
                     "{\"spec\":{\"type\":\"ClusterIP\"}}");
    assert_status(inside, 200);
    assert_null(json_object_get(
        json_array_get(codec_json_get(inside.body, "spec", "ports", NULL), 0), "nodePort"));
}

static void refuse_service(struct harness *h, const char *spec, const char *why)
{
    GS_AUTO_FREE char *body =
        gs_format("{\"metadata\":{\"name\":\"r\"},\"spec\":{\"ports\":[{\"port\":22}],%s}}", spec);
    AUTO_REPLY struct reply r = request(h, "POST", SERVICES, body);
    assert_status(r, 422);
    assert_message(r, why);
}

// Otherwise a Service takes ports of the machine's own programs.
static void test_services_get_addresses_of_services_only(void **state)
{
    static const char range[] =
        "is not in the valid range. The range of valid IPs is 127.96.0.0/16";
    static const char *const bad[][2] = {
        {"\"clusterIP\":\"127.0.0.1\"", range},
        {"\"clusterIP\":\"127.97.0.1\"", range},
        {"\"clusterIP\":\"127.96.0.0\"", range},
        {"\"clusterIP\":\"10.0.0.1\"", range},
        {"\"clusterIP\":\"0.0.0.0\"", range},
        {"\"clusterIP\":\"here\"", "must be a valid IP address"},
        {"\"clusterIP\":\"::1\"", "must be a valid IP address"},
        {"\"clusterIPs\":[\"127.0.0.1\"]", "must be empty when `clusterIP`"},
        {"\"clusterIP\":\"127.96.0.9\",\"clusterIPs\":[\"127.96.0.8\"]", "must match `clusterIP`"},
        {"\"externalIPs\":[\"127.0.0.1\"]", "may not be in the loopback range"},
        {"\"externalIPs\":[\"::1\"]", "may not be in the loopback range"},
        {"\"externalIPs\":[\"0.0.0.0\"]", "may not be unspecified"},
        {"\"externalIPs\":[\"169.254.1.1\"]", "may not be in the link-local range"},
        {"\"externalIPs\":[\"224.0.0.1\"]", "may not be in the link-local multicast range"},
        {"\"externalIPs\":[\"x\"]", "must be a valid IP address"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
        refuse_service(*state, bad[i][0], bad[i][1]);
    // For a service that has none yet, by a patch.
    AUTO_REPLY struct reply made =
        request(*state, "POST", SERVICES,
                "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"ports\":[{\"port\":80}]}}");
    assert_status(made, 201);
    AUTO_REPLY struct reply patched =
        request_with(*state, "PATCH", SERVICES "/p", "application/merge-patch+json", NULL,
                     "{\"spec\":{\"clusterIP\":\"127.0.0.1\",\"clusterIPs\":[\"127.0.0.1\"]}}");
    assert_status(patched, 422);
    assert_message(patched, range);
}

static void refuse_ports(struct harness *h, const char *ports, const char *why)
{
    GS_AUTO_FREE char *body = gs_format(
        "{\"metadata\":{\"name\":\"r\"},\"spec\":{\"type\":\"NodePort\",\"ports\":[%s]}}", ports);
    AUTO_REPLY struct reply r = request(h, "POST", SERVICES, body);
    assert_status(r, 422);
    assert_message(r, why);
}

static void test_addresses_of_services_are_given_once(void **state)
{
    AUTO_REPLY struct reply first = request(*state, "POST", SERVICES,
                                            "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"type\":"
                                            "\"NodePort\",\"clusterIP\":\"127.96.7.7\","
                                            "\"ports\":[{\"port\":80,\"nodePort\":30777}]}}");
    assert_status(first, 201);
    refuse_service(*state, "\"clusterIP\":\"127.96.7.7\"", "provided IP is already allocated");
    refuse_ports(
        *state, "{\"port\":80,\"nodePort\":30777}",
        "spec.ports[0].nodePort: Invalid value: 30777: provided port is already allocated");
    refuse_ports(*state, "{\"port\":80,\"nodePort\":22}",
                 "The range of valid ports is 30000-32767");
    refuse_ports(*state,
                 "{\"name\":\"x\",\"port\":80,\"nodePort\":30778},"
                 "{\"name\":\"y\",\"port\":81,\"nodePort\":30778}",
                 "spec.ports[1].nodePort: Duplicate value: 30778");
    // The first one keeps what it has.
    AUTO_REPLY struct reply same =
        request_with(*state, "PATCH", SERVICES "/a", "application/merge-patch+json", NULL,
                     "{\"spec\":{\"ports\":[{\"port\":81,\"nodePort\":30777}]}}");
    assert_status(same, 200);
}

static void test_patches_come_in_four_forms(void **state)
{
    AUTO_REPLY struct reply made = deploy(*state, "", "", "");
    AUTO_REPLY struct reply json =
        request_with(*state, "PATCH", DEPLOYMENTS "/d", "application/json-patch+json", NULL,
                     "[{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":4}]");
    AUTO_REPLY struct reply misfit =
        request_with(*state, "PATCH", DEPLOYMENTS "/d", "application/json-patch+json", NULL,
                     "[{\"op\":\"test\",\"path\":\"/spec/replicas\",\"value\":5}]");
    AUTO_REPLY struct reply unknown =
        request_with(*state, "PATCH", DEPLOYMENTS "/d", "text/plain", NULL, "replicas: 5");
    AUTO_REPLY struct reply custom = request_with(
        *state, "PATCH",
        "/apis/monitoring.coreos.com/v1/namespaces/default/servicemonitors/m?fieldManager=me",
        "application/apply-patch+yaml", NULL,
        "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: m}\n"
        "spec: {endpoints: [{port: a}]}\n");
    AUTO_REPLY struct reply strategic = request_with(
        *state, "PATCH", "/apis/monitoring.coreos.com/v1/namespaces/default/servicemonitors/m",
        "application/strategic-merge-patch+json", NULL, "{\"spec\":{}}");

    assert_status(made, 201);
    assert_status(json, 200);
    assert_number(json, 4, "spec", "replicas");
    assert_status(misfit, 422);
    assert_status(unknown, 415);
    assert_status(custom, 201);
    assert_status(strategic, 415);
    AUTO_REPLY struct reply applied = request_with(
        *state, "PATCH", DEPLOYMENTS "/d?fieldManager=me&force=true",
        "application/apply-patch+yaml", NULL,
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 6}\n");
    assert_status(applied, 200);
    assert_number(applied, 6, "spec", "replicas");
}

static void test_yaml_bodies_are_read(void **state)
{
    AUTO_REPLY struct reply r =
        request_with(*state, "POST", CMS, "application/yaml", NULL,
                     "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yaml\ndata:\n  a: b\n");
    AUTO_REPLY struct reply bad =
        request_with(*state, "POST", CMS, "application/yaml", NULL, "a: b: c\n");

    assert_status(r, 201);
    assert_member(r, "b", "data", "a");
    assert_status(bad, 400);
}

// As kubectl 1.32 sends `kubectl create deployment web0 --image=nginx --replicas=0`.
static void test_protobuf_bodies_are_read(void **state)
{
    static const unsigned char body[] =
        "k8s\0\x0a\x15\x0a\x07"
        "apps/v1\x12\x0a"
        "Deployment\x12\x57\x0a\x17\x0a\x04web0\x12\x00\x42\x00Z\x0b\x0a\x03"
        "app\x12\x04web0\x12\x3c\x08\x00\x12\x0d\x0a\x0b\x0a\x03"
        "app\x12\x04web0\x1a\x25\x0a\x0f\x0a\x00Z\x0b\x0a\x03"
        "app\x12\x04web0\x12\x12\x12\x0e\x0a\x05nginx\x12\x05nginx\x1a\x00"
        "\x22\x02\x0a\x00";
    struct harness *h = *state;
    struct reply r = {0};
    const struct http_callbacks cb = {.on_done = reply_done};
    struct gs_slice whole = gs_slice_make(body, sizeof body - 1);

    for (size_t cut = 0; cut <= whole.len; cut++) {
        reply_finish(&r);
        http_send(h->client,
                  &(struct http_request){.method = "POST",
                                         .path = DEPLOYMENTS "?fieldValidation=Strict",
                                         .content_type = "application/vnd.kubernetes.protobuf",
                                         .body = gs_slice_make(whole.data, cut)},
                  &cb, &r);
        while (!r.done)
            uv_run(&h->loop, UV_RUN_ONCE);
        if (cut < whole.len)
            assert_true(r.status == 400 || r.status == 422 || r.status == 415);
    }
    assert_status(r, 201);
    assert_member(r, "web0", "metadata", "name");
    assert_number(r, 0, "spec", "replicas");
    assert_member(r, "Always", "spec", "template", "spec", "restartPolicy");
    assert_member(r, "RollingUpdate", "spec", "strategy", "type");
    reply_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mistakes_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_follow_rules, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_fields_are_warned_of_or_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_unknown_fields_of_monitors_and_rules_are_refused,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_patterns_of_monitors_that_go_lacks_are_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_service_has_a_limited_number_of_ports, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_wrong_types_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quantities_are_canonical, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pods_hardly_change, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ephemeral_containers_are_only_added, setup, teardown),
        cmocka_unit_test_setup_teardown(test_services_keep_their_addresses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_services_get_addresses_of_services_only, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_addresses_of_services_are_given_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_patches_come_in_four_forms, setup, teardown),
        cmocka_unit_test_setup_teardown(test_yaml_bodies_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_protobuf_bodies_are_read, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
