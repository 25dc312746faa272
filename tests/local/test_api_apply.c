// SPDX-License-Identifier: Apache-2.0
// Server-side apply: ownership of fields, conflicts, removal. The expected sets and texts were
// compared with those of the API server of Kubernetes 1.36.
#include "api_setup.h"

#include "local/api/apply.h"

#define WEB     "/apis/apps/v1/namespaces/default/deployments/web"
#define SETTING "/api/v1/namespaces/default/configmaps/setting"
#define APPLY   "application/apply-patch+yaml"

#define TEMPLATE_OF(container)                                                                     \
    "selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, "             \
    "spec: {containers: [{" container "}]}}"
#define WEB_OF(meta, spec)                                                                         \
    "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web" meta "}, spec: {" spec "}}"
#define SETTING_OF(data) "{apiVersion: v1, kind: ConfigMap, data: {" data "}}"

static struct reply apply(struct harness *h, const char *path, const char *manager,
                          const char *body)
{
    GS_AUTO_FREE char *url = gs_format("%s?fieldManager=%s", path, manager);
    return request_with(h, "PATCH", url, APPLY, NULL, body);
}

static void must_apply(struct harness *h, const char *path, const char *manager, const char *body)
{
    AUTO_REPLY struct reply r = apply(h, path, manager, body);
    if (r.status != 200 && r.status != 201)
        fail_msg("HTTP %d: %s", r.status, r.text);
}

// The FieldsV1 of a manager as text; "" if it owns nothing. Caller frees.
static char *fields_of_manager(struct harness *h, const char *path, const char *manager)
{
    AUTO_REPLY struct reply r = request(h, "GET", path, NULL);
    size_t i;
    json_t *entry;

    json_array_foreach (codec_json_get(r.body, "metadata", "managedFields", NULL), i, entry)
        if (gs_streq(codec_json_str(entry, "manager", NULL), manager))
            return codec_json_text(json_object_get(entry, "fieldsV1"));
    return gs_strdup("");
}

static void assert_owns(struct harness *h, const char *path, const char *manager, const char *want)
{
    GS_AUTO_FREE char *fields = fields_of_manager(h, path, manager);
    assert_string_equal(fields, want);
}

static void test_an_apply_creates_the_object_and_owns_its_fields(void **state)
{
    struct harness *h = *state;
    AUTO_REPLY struct reply r =
        apply(h, WEB, "one",
              WEB_OF(", annotations: {a: b}",
                     "replicas: 2, " TEMPLATE_OF("name: c, image: i, args: [x], "
                                                 "env: [{name: E, value: '1'}], "
                                                 "ports: [{containerPort: 80}]")));

    assert_status(r, 201);
    assert_owns(h, WEB, "one",
                "{\"f:metadata\":{\"f:annotations\":{\"f:a\":{}}},\"f:spec\":{\"f:replicas\":{},"
                "\"f:selector\":{},\"f:template\":{\"f:metadata\":{\"f:labels\":{\"f:app\":{}}},"
                "\"f:spec\":{\"f:containers\":{\"k:{\\\"name\\\":\\\"c\\\"}\":{\".\":{},"
                "\"f:args\":{},\"f:env\":{\"k:{\\\"name\\\":\\\"E\\\"}\":{\".\":{},\"f:name\":{},"
                "\"f:value\":{}}},\"f:image\":{},\"f:name\":{},\"f:ports\":{"
                "\"k:{\\\"containerPort\\\":80,\\\"protocol\\\":\\\"TCP\\\"}\":{\".\":{},"
                "\"f:containerPort\":{}}}}}}}}}");
}

static void test_a_field_of_another_manager_is_a_conflict(void **state)
{
    struct harness *h = *state;
    must_apply(h, WEB, "one", WEB_OF("", "replicas: 2, " TEMPLATE_OF("name: c, image: a")));
    AUTO_REPLY struct reply two =
        apply(h, WEB, "two", WEB_OF("", "replicas: 3, " TEMPLATE_OF("name: c, image: b")));
    AUTO_REPLY struct reply same =
        apply(h, WEB, "two", WEB_OF("", "replicas: 2, " TEMPLATE_OF("name: c, image: a")));

    assert_status(two, 409);
    assert_member(two, "Conflict", "reason");
    assert_member(two,
                  "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.replicas\n- "
                  ".spec.template.spec.containers[name=\"c\"].image",
                  "message");
    assert_non_null(strstr(two.text, "\"FieldManagerConflict\""));
    assert_status(same, 200); // equal values are shared
}

static void test_an_object_has_a_limit_of_managers(void **state)
{
    struct harness *h = *state;
    GS_AUTO_BUF struct gs_buf body = {0};
    gs_buf_add_str(&body, "{\"metadata\":{\"name\":\"many\",\"managedFields\":[");
    for (int i = 0; i < 1000; i++)
        gs_buf_addf(&body,
                    "%s{\"manager\":\"m%d\",\"operation\":\"Apply\",\"apiVersion\":\"v1\","
                    "\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:data\":{\"f:k%d\":{}}}}",
                    i ? "," : "", i, i);
    gs_buf_add_str(&body, "]},\"data\":{\"k0\":\"1\"}}");
    AUTO_REPLY struct reply created =
        request(h, "POST", "/api/v1/namespaces/default/configmaps",
                "{\"metadata\":{\"name\":\"many\"},\"data\":{\"k0\":\"1\"}}");
    AUTO_REPLY struct reply full =
        request(h, "PUT", "/api/v1/namespaces/default/configmaps/many", body.data);
    AUTO_REPLY struct reply more = request_with(
        h, "PATCH", "/api/v1/namespaces/default/configmaps/many?fieldManager=one-more", APPLY, NULL,
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: many}, data: {z: '1'}}");

    assert_status(created, 201);
    assert_status(full, 200);
    assert_status(more, 422);
    assert_non_null(strstr(more.text, "metadata.managedFields: Too many: must have at most 1000"));
}

static void test_force_takes_the_field(void **state)
{
    struct harness *h = *state;
    must_apply(h, SETTING, "one", SETTING_OF("a: '1', b: '1'"));
    AUTO_REPLY struct reply r = request_with(h, "PATCH", SETTING "?fieldManager=two&force=true",
                                             APPLY, NULL, SETTING_OF("a: '2'"));

    assert_status(r, 200);
    assert_member(r, "2", "data", "a");
    assert_owns(h, SETTING, "one", "{\"f:data\":{\"f:b\":{}}}");
    assert_owns(h, SETTING, "two", "{\"f:data\":{\"f:a\":{}}}");
}

static void test_fields_that_are_no_longer_applied_are_removed(void **state)
{
    struct harness *h = *state;
    must_apply(h, SETTING, "one", SETTING_OF("a: '1', b: '1', c: '1'"));
    must_apply(h, SETTING, "two", SETTING_OF("b: '1'"));
    AUTO_REPLY struct reply r = apply(h, SETTING, "one", SETTING_OF("c: '1'"));

    assert_status(r, 200);
    assert_null(codec_json_get(r.body, "data", "a", NULL));
    assert_member(r, "1", "data", "b"); // still owned by two
    assert_member(r, "1", "data", "c");
}

static void test_list_items_are_merged_and_removed_by_their_keys(void **state)
{
    struct harness *h = *state;
    must_apply(h, WEB, "one",
               WEB_OF("", TEMPLATE_OF("name: c, image: a, env: [{name: A, value: '1'}, "
                                      "{name: B, value: '1'}]")));
    must_apply(h, WEB, "two", WEB_OF("", TEMPLATE_OF("name: c, env: [{name: C, value: '1'}]")));
    AUTO_REPLY struct reply r = apply(
        h, WEB, "one", WEB_OF("", TEMPLATE_OF("name: c, image: a, env: [{name: B, value: '2'}]")));
    const json_t *containers =
        codec_json_get(r.body, "spec", "template", "spec", "containers", NULL);
    GS_AUTO_FREE char *env = codec_json_text(json_object_get(json_array_get(containers, 0), "env"));

    assert_status(r, 200);
    assert_string_equal(env, "[{\"name\":\"B\",\"value\":\"2\"},{\"name\":\"C\",\"value\":\"1\"}]");
}

// A certificate generator writes the authority of a webhook that Helm has applied and applies
// again.
static void test_webhooks_are_merged_by_their_names(void **state)
{
    struct harness *h = *state;
    static const char path[] =
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/w";
    static const char body[] =
        "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, "
        "webhooks: [{name: a.b.c, failurePolicy: Ignore, sideEffects: None, "
        "admissionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: here}}}]}";
    must_apply(h, path, "helm", body);
    AUTO_REPLY struct reply patched = request_with(
        h, "PATCH", path, "application/strategic-merge-patch+json", NULL,
        "{\"webhooks\":[{\"name\":\"a.b.c\",\"clientConfig\":{\"caBundle\":\"QQ==\"}}]}");
    assert_status(patched, 200);
    AUTO_REPLY struct reply again = apply(h, path, "helm", body);
    assert_status(again, 200);
    const json_t *hook = json_array_get(json_object_get(again.body, "webhooks"), 0);
    assert_string_equal(codec_json_str(hook, "clientConfig", "caBundle", NULL), "QQ==");
    assert_string_equal(codec_json_str(hook, "failurePolicy", NULL), "Ignore");
}

static void test_other_writes_own_what_they_change(void **state)
{
    struct harness *h = *state;
    must_apply(h, SETTING, "one", SETTING_OF("a: '1'"));
    AUTO_REPLY struct reply patched =
        request_with(h, "PATCH", SETTING "?fieldManager=editor", "application/merge-patch+json",
                     NULL, "{\"data\":{\"a\":\"2\",\"b\":\"2\"}}");
    AUTO_REPLY struct reply applied = apply(h, SETTING, "one", SETTING_OF("a: '1'"));

    assert_status(patched, 200);
    assert_owns(h, SETTING, "editor", "{\"f:data\":{\"f:a\":{},\"f:b\":{}}}");
    assert_owns(h, SETTING, "one", "");
    assert_status(applied, 409);
    assert_member(applied,
                  "Apply failed with 1 conflict: conflict with \"editor\" using v1: .data.a",
                  "message");
}

static void test_an_apply_that_changes_nothing_keeps_the_version(void **state)
{
    struct harness *h = *state;
    AUTO_REPLY struct reply first = apply(h, SETTING, "one", SETTING_OF("a: '1'"));
    AUTO_REPLY struct reply second = apply(h, SETTING, "one", SETTING_OF("a: '1'"));

    assert_status(first, 201);
    assert_status(second, 200);
    assert_member(second, codec_json_str(first.body, "metadata", "resourceVersion", NULL),
                  "metadata", "resourceVersion");
}

static void test_wrong_applies_are_rejected_with_the_texts_of_kubernetes(void **state)
{
    static const struct {
        const char *query, *body;
        int status;
        const char *message;
    } cases[] = {
        {"", SETTING_OF("a: '1'"), 422,
         "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for "
         "apply patch"},
        {"?fieldManager=one", "{kind: ConfigMap}", 400, "invalid object type: /, Kind=ConfigMap"},
        {"?fieldManager=one",
         "{apiVersion: v1, kind: ConfigMap, metadata: {managedFields: [{manager: x}]}}", 400,
         "metadata.managedFields must be nil"},
        {"?fieldManager=one", "{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}", 400,
         "the name of the object (other) does not match the name on the URL (setting)"},
        {"?fieldManager=one", "{apiVersion: v1, kind: ConfigMap, foo: 1}", 500,
         "failed to create typed patch object (default/setting; v1, Kind=ConfigMap): .foo: field "
         "not declared in schema"},
    };
    struct harness *h = *state;

    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *path = gs_format(SETTING "%s", cases[i].query);
        AUTO_REPLY struct reply r = request_with(h, "PATCH", path, APPLY, NULL, cases[i].body);
        assert_status(r, cases[i].status);
        assert_message(r, cases[i].message);
    }
}

static void test_force_needs_an_apply(void **state)
{
    struct harness *h = *state;
    must_apply(h, SETTING, "one", SETTING_OF("a: '1'"));
    AUTO_REPLY struct reply r =
        request_with(h, "PATCH", SETTING "?force=true", "application/merge-patch+json", NULL, "{}");

    assert_status(r, 422);
    assert_message(r, "force: Forbidden: may not be specified for non-apply patch");
}

static void test_the_list_of_managers_can_be_reset(void **state)
{
    struct harness *h = *state;
    must_apply(h, SETTING, "one", SETTING_OF("a: '1'"));
    AUTO_REPLY struct reply r = request_with(h, "PATCH", SETTING, "application/merge-patch+json",
                                             NULL, "{\"metadata\":{\"managedFields\":[]}}");
    AUTO_REPLY struct reply applied = apply(h, SETTING, "two", SETTING_OF("a: '2'"));

    assert_status(r, 200);
    assert_null(codec_json_get(r.body, "metadata", "managedFields", NULL));
    assert_status(applied, 409);
    assert_message(applied, "conflict with \"before-first-apply\" using v1: .data.a");
}

static void test_custom_resources_merge_by_their_schema(void **state)
{
    static const char *const crd =
        "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, "
        "metadata: {name: teams.example.com}, spec: {group: example.com, scope: Namespaced, "
        "names: {plural: teams, kind: Team}, versions: [{name: v1, served: true, storage: true, "
        "schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {"
        "members: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], "
        "items: {type: object, required: [name], properties: {name: {type: string}, "
        "role: {type: string}}}}, tags: {type: array, items: {type: string}}}}}}}}]}}";
    static const char team[] = "/apis/example.com/v1/namespaces/default/teams/a";
#define TEAM_OF(spec) "{apiVersion: example.com/v1, kind: Team, spec: {" spec "}}"
    struct harness *h = *state;
    must_apply(h, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/teams.example.com",
               "one", crd);
    must_apply(h, team, "one", TEAM_OF("members: [{name: x, role: r}], tags: [t]"));
    must_apply(h, team, "two", TEAM_OF("members: [{name: z}]"));
    AUTO_REPLY struct reply conflict = apply(h, team, "two", TEAM_OF("tags: [u]"));
    AUTO_REPLY struct reply r = request(h, "GET", team, NULL);
    GS_AUTO_FREE char *members = codec_json_text(codec_json_get(r.body, "spec", "members", NULL));

    assert_string_equal(members, "[{\"name\":\"x\",\"role\":\"r\"},{\"name\":\"z\"}]");
    assert_owns(h, team, "one",
                "{\"f:spec\":{\"f:members\":{\"k:{\\\"name\\\":\\\"x\\\"}\":{\".\":{},"
                "\"f:name\":{},\"f:role\":{}}},\"f:tags\":{}}}");
    assert_status(conflict, 409); // an atomic list
    assert_message(conflict, "conflict with \"one\": .spec.tags");
}

static void test_more_than_ten_updating_managers_are_merged(void **state)
{
    struct harness *h = *state;
    must_apply(h, SETTING, "one", SETTING_OF("a: '1'"));
    for (int i = 0; i < 15; i++) {
        GS_AUTO_FREE char *path = gs_format(SETTING "?fieldManager=m%d", i);
        GS_AUTO_FREE char *body = gs_format("{\"data\":{\"k%d\":\"1\"}}", i);
        AUTO_REPLY struct reply r =
            request_with(h, "PATCH", path, "application/merge-patch+json", NULL, body);
        assert_status(r, 200);
    }
    AUTO_REPLY struct reply r = request(h, "GET", SETTING, NULL);
    assert_int_equal(json_array_size(codec_json_get(r.body, "metadata", "managedFields", NULL)),
                     11);
    assert_non_null(strstr(r.text, "\"ancient-changes\""));
}

static void test_malformed_sets_are_read_without_harm(void **state)
{
    CODEC_AUTO_JSON json_t *stored =
        json_pack("{s{s{}s{s[]}}ss}", "f:a", ".", "f:b", "k:{bad", "v:", "not an object");
    CODEC_AUTO_JSON json_t *set = local_api_fields_read(stored);
    CODEC_AUTO_JSON json_t *paths = local_api_fields_paths(set);

    assert_true(json_array_size(paths) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_apply_creates_the_object_and_owns_its_fields, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_field_of_another_manager_is_a_conflict, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_an_object_has_a_limit_of_managers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_force_takes_the_field, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fields_that_are_no_longer_applied_are_removed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_list_items_are_merged_and_removed_by_their_keys, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_webhooks_are_merged_by_their_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_writes_own_what_they_change, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_apply_that_changes_nothing_keeps_the_version, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_wrong_applies_are_rejected_with_the_texts_of_kubernetes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_force_needs_an_apply, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_list_of_managers_can_be_reset, setup, teardown),
        cmocka_unit_test_setup_teardown(test_custom_resources_merge_by_their_schema, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_more_than_ten_updating_managers_are_merged, setup,
                                        teardown),
        cmocka_unit_test(test_malformed_sets_are_read_without_harm),
    };
    return cmocka_run_group_tests_name("api_apply", tests, NULL, NULL);
}
