// SPDX-License-Identifier: Apache-2.0
// What the API says that it serves, reviews, mounted groups, logs, and bounds on events.
#include "api_setup.h"

#include "kube/object.h"

static const json_t *find(const json_t *list, const char *name)
{
    size_t i;
    json_t *item;

    json_array_foreach ((json_t *)list, i, item)
        if (gs_streq(codec_json_str(item, "name", NULL), name))
            return item;
    return NULL;
}

static void test_resources_are_described(void **state)
{
    AUTO_REPLY struct reply core = request(*state, "GET", "/api/v1", NULL);
    const json_t *pods = find(json_object_get(core.body, "resources"), "pods");

    assert_member(core, "APIResourceList", "kind");
    assert_string_equal(codec_json_str(pods, "singularName", NULL), "pod");
    assert_string_equal(json_string_value(json_array_get(json_object_get(pods, "shortNames"), 0)),
                        "po");
    assert_string_equal(json_string_value(json_array_get(json_object_get(pods, "categories"), 0)),
                        "all");
    assert_non_null(find(json_object_get(core.body, "resources"), "pods/log"));
    AUTO_REPLY struct reply apps = request(*state, "GET", "/apis/apps/v1", NULL);
    const json_t *scale = find(json_object_get(apps.body, "resources"), "deployments/scale");
    assert_string_equal(codec_json_str(scale, "group", NULL), "autoscaling");
    assert_string_equal(codec_json_str(scale, "kind", NULL), "Scale");
    AUTO_REPLY struct reply none = request(*state, "GET", "/apis/apps/v7", NULL);
    assert_status(none, 404);
}

static void test_groups_are_listed(void **state)
{
    AUTO_REPLY struct reply groups = request_with(
        *state, "GET", "/apis", NULL,
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
        NULL);
    const json_t *hpa = find(json_object_get(groups.body, "groups"), "autoscaling");

    assert_member(groups, "APIGroupList", "kind");
    assert_int_equal(json_array_size(json_object_get(hpa, "versions")), 4);
    assert_string_equal(codec_json_str(hpa, "preferredVersion", "groupVersion", NULL),
                        "autoscaling/v2");
    AUTO_REPLY struct reply group = request(*state, "GET", "/apis/autoscaling", NULL);
    assert_member(group, "APIGroup", "kind");
    AUTO_REPLY struct reply core = request(*state, "GET", "/api", NULL);
    assert_member(core, "APIVersions", "kind");
}

static void test_the_version_is_told(void **state)
{
    AUTO_REPLY struct reply r = request(*state, "GET", "/version", NULL);
    assert_member(r, KUBE_VERSION_MINOR, "minor");
    assert_true(
        gs_starts(codec_json_str(r.body, "gitVersion", NULL), "v" KUBE_VERSION ".0+gpuscale"));
}

static void test_openapi_is_made_once(void **state)
{
    AUTO_REPLY struct reply index = request(*state, "GET", "/openapi/v3", NULL);
    AUTO_REPLY struct reply apps = request(*state, "GET", "/openapi/v3/apis/apps/v1", NULL);
    AUTO_REPLY struct reply v2 = request(*state, "GET", "/openapi/v2", NULL);
    AUTO_REPLY struct reply none = request(*state, "GET", "/openapi/v3/apis/apps/v7", NULL);

    assert_non_null(codec_json_get(index.body, "paths", "apis/apps/v1", "serverRelativeURL", NULL));
    assert_non_null(codec_json_get(apps.body, "components", "schemas", NULL));
    assert_member(v2, "2.0", "swagger");
    assert_status(none, 404);
}

static void test_reviews_are_answered(void **state)
{
    AUTO_REPLY struct reply can =
        request(*state, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                "{\"spec\":{\"resourceAttributes\":{\"verb\":\"get\",\"resource\":\"pods\"}}}");
    assert_status(can, 201);
    assert_true(codec_json_bool(can.body, false, "status", "allowed", NULL));
    AUTO_REPLY struct reply other =
        request(*state, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                "{\"spec\":{\"user\":\"somebody\"}}");
    assert_false(codec_json_bool(other.body, true, "status", "allowed", NULL));
    AUTO_REPLY struct reply who =
        request(*state, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}");
    assert_member(who, "system:admin", "status", "userInfo", "username");
    AUTO_REPLY struct reply get =
        request(*state, "GET", "/apis/authentication.k8s.io/v1/selfsubjectreviews", NULL);
    assert_status(get, 405);
}

// --- metrics ---

static void test_requests_and_objects_are_counted(void **state)
{
    struct harness *h = *state;
    AUTO_REPLY struct reply list = request(h, "GET", "/api/v1/namespaces/default/pods", NULL);
    AUTO_REPLY struct reply missing =
        request(h, "GET", "/api/v1/namespaces/default/pods/p/status", NULL);
    AUTO_REPLY struct reply strange =
        request(h, "GET", "/api/v1/namespaces/default/pods/p/x%22y", NULL);
    AUTO_REPLY struct reply r = request(h, "GET", "/metrics", NULL);

    assert_status(r, 200);
    assert_status(list, 200);
    assert_non_null(strstr(r.text, "\napiserver_request_total{verb=\"LIST\",group=\"\",version="
                                   "\"v1\",resource=\"pods\",subresource=\"\",scope="
                                   "\"namespace\",component=\"apiserver\",code=\"200\"} 1\n"));
    assert_non_null(strstr(r.text, "subresource=\"status\",scope=\"resource\",component="
                                   "\"apiserver\",code=\"404\"} 1\n"));
    assert_null(strstr(r.text, "x\\\"y")); // of the path of a request
    assert_non_null(strstr(r.text, "\napiserver_storage_objects{resource=\"namespaces\"} 4\n"));
    assert_non_null(strstr(r.text, "\nkubernetes_build_info{major=\"1\",minor="));
    assert_non_null(strstr(r.text, "\nprocess_resident_memory_bytes "));
}

// --- mounted groups, logs ---

static json_t *describe(const void *ctx, const char *name)
{
    json_t *group = json_object();
    codec_json_set_str(group, "kind", "APIGroup");
    codec_json_set_str(group, "name", name);
    return group;
}

static void serve_group(void *ctx, struct http_exchange *x)
{
    http_reply_text(x, 200, "%s %s", (const char *)ctx, http_path(x));
}

static void test_mounted_groups_are_served(void **state)
{
    struct harness *h = *state;

    local_api_mount(h->api, "custom.metrics.k8s.io", describe, serve_group, (char[]){"mounted"});
    AUTO_REPLY struct reply groups = request(h, "GET", "/apis", NULL);
    assert_non_null(find(json_object_get(groups.body, "groups"), "custom.metrics.k8s.io"));
    AUTO_REPLY struct reply r =
        request(h, "GET", "/apis/custom.metrics.k8s.io/v1beta1/namespaces/a/pods/%2A/m", NULL);
    assert_string_equal(r.text,
                        "mounted /apis/custom.metrics.k8s.io/v1beta1/namespaces/a/pods/%2A/m");
}

static void serve_logs(void *ctx, const json_t *pod, struct http_exchange *x)
{
    http_reply_text(x, 200, "%s of %s", http_query(x, "container"),
                    codec_json_str(pod, "metadata", "name", NULL));
}

static void test_logs_are_the_kubelets(void **state)
{
    struct harness *h = *state;
    static const char path[] = "/api/v1/namespaces/default/pods/p/log?container=c";
    AUTO_REPLY struct reply made =
        request(h, "POST", "/api/v1/namespaces/default/pods",
                "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                "\"image\":\"i\"}]}}");
    AUTO_REPLY struct reply without = request(h, "GET", path, NULL);
    assert_status(without, 503);
    const struct local_api_kubelet kubelet = {.logs = serve_logs};
    local_api_set_kubelet(h->api, "n", &kubelet);
    AUTO_REPLY struct reply r = request_with(h, "GET", path, NULL, "text/plain", NULL);
    assert_string_equal(r.text, "c of p");
    AUTO_REPLY struct reply exec =
        request(h, "POST", "/api/v1/namespaces/default/pods/p/resize?x=y", "{}");
    assert_status(exec, 501);
}

static void test_a_burst_of_events_is_bounded(void **state)
{
    static const char path[] = "/api/v1/namespaces/default/events";
    struct harness *h = *state;

    for (int i = 0; i < 5200; i++) {
        AUTO_REPLY struct reply r = request(h, "POST", path,
                                            "{\"metadata\":{\"generateName\":\"e\"},"
                                            "\"involvedObject\":{\"namespace\":\"default\"}}");
        assert_true(r.status == 201 || r.status == 409);
    }
    AUTO_REPLY struct reply list = request(h, "GET", path, NULL);
    size_t n = json_array_size(json_object_get(list.body, "items"));
    assert_in_range(n, 4000, 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_resources_are_described, setup, teardown),
        cmocka_unit_test_setup_teardown(test_groups_are_listed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_version_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_openapi_is_made_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reviews_are_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_requests_and_objects_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mounted_groups_are_served, setup, teardown),
        cmocka_unit_test_setup_teardown(test_logs_are_the_kubelets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_burst_of_events_is_bounded, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
