// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/file.h"
#include "base/mem.h"
#include "local/api.h"
#include "up/up_private.h"

#include <stdlib.h>

struct fixture {
    uv_loop_t loop;
    struct local_api *api;
    struct http_client *http;
    struct kube_client *client;
    char path[64];
};

static int set_up(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    const struct local_api_config cfg = {.node_name = "n"};
    static const char *const groups[] = {"system:masters"};
    const struct http_identity self = {"test", groups, 1};
    uv_loop_init(&f->loop);
    assert_ok(local_api_new(&f->loop, &cfg, &f->api));
    f->http = http_client_new_loopback(&f->loop, local_api_handle, f->api, &self);
    f->client = kube_client_new(f->http);
    snprintf(f->path, sizeof(f->path), "/tmp/gs-apply-XXXXXX");
    close(mkstemp(f->path));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    kube_client_free(f->client);
    http_client_free(f->http);
    local_api_free(f->api);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    unlink(f->path);
    free(f);
    return 0;
}

static void write_file(struct fixture *f, const char *text)
{
    assert_ok(gs_file_write_atomic(f->path, 0600, gs_slice_of(text)));
}

struct outcome {
    bool done;
    struct gs_error *err;
};

static void on_done(void *arg, struct gs_error *err)
{
    struct outcome *o = arg;
    o->done = true;
    o->err = err;
}

static struct gs_error *apply(struct fixture *f)
{
    const char *const paths[] = {f->path};
    struct up_apply *a = NULL;
    struct gs_error *err = up_apply_load(paths, 1, &a);
    if (err)
        return err;
    struct outcome o = {0};
    up_apply_start(a, f->client, on_done, &o);
    while (!o.done)
        uv_run(&f->loop, UV_RUN_ONCE);
    up_apply_free(a);
    return o.err;
}

struct got {
    bool done;
    char value[64];
};

static void on_got(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct got *g = arg;
    g->done = true;
    const char *v = codec_json_str(body, "data", "k", NULL);
    snprintf(g->value, sizeof(g->value), "%s", v ? v : "");
    gs_error_free(err);
}

static void test_created_then_configured(void **state)
{
    struct fixture *f = *state;
    static const char *const values[] = {"one", "two"};
    for (size_t i = 0; i < GS_ARRAY_LEN(values); i++) {
        GS_AUTO_FREE char *text =
            gs_format("apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n---\n"
                      "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n"
                      "  metadata: {name: c, namespace: team}\n  data: {k: %s}\n",
                      values[i]);
        write_file(f, text);
        assert_ok(apply(f));
        struct got g = {0};
        kube_get(f->client, KUBE_CONFIGMAPS, "team", "c", NULL, on_got, &g);
        while (!g.done)
            uv_run(&f->loop, UV_RUN_ONCE);
        assert_string_equal(g.value, values[i]);
    }
}

static void on_object(void *arg, int status, json_t *body, struct gs_error *err)
{
    json_t **ret = arg;
    assert_ok(err);
    *ret = json_incref(body);
}

static json_t *get_configmap(struct fixture *f, const char *name)
{
    json_t *object = NULL;
    kube_get(f->client, KUBE_CONFIGMAPS, "default", name, NULL, on_object, &object);
    while (!object)
        uv_run(&f->loop, UV_RUN_ONCE);
    return object;
}

static void test_the_annotation_is_that_of_kubectl(void **state)
{
    struct fixture *f = *state;
    write_file(f, "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata: {b: '1', a: é}\n");
    assert_ok(apply(f));
    CODEC_AUTO_JSON json_t *object = get_configmap(f, "a");
    assert_string_equal(codec_json_str(object, "metadata", "annotations",
                                       "kubectl.kubernetes.io/last-applied-configuration", NULL),
                        "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"é\",\"b\":\"1\"},\"kind\":"
                        "\"ConfigMap\",\"metadata\":{\"annotations\":{},\"name\":\"a\","
                        "\"namespace\":\"default\"}}\n");
}

static void test_what_the_file_no_longer_has_is_removed(void **state)
{
    struct fixture *f = *state;
    write_file(f, "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a, labels: {x: '1'}, "
                  "annotations: {y: '2', z: '3'}}\ndata: {k: v, l: w}\n");
    assert_ok(apply(f));
    write_file(f, "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a, annotations: {z: '3'}}\n"
                  "data: {l: w}\n");
    assert_ok(apply(f));
    CODEC_AUTO_JSON json_t *object = get_configmap(f, "a");
    assert_null(codec_json_str(object, "data", "k", NULL));
    assert_string_equal(codec_json_str(object, "data", "l", NULL), "w");
    assert_null(codec_json_str(object, "metadata", "labels", "x", NULL));
    assert_null(codec_json_str(object, "metadata", "annotations", "y", NULL));
    assert_string_equal(codec_json_str(object, "metadata", "annotations", "z", NULL), "3");
}

// An annotation has a limit. The large definitions of charts are applied without it.
static void test_large_objects_have_no_annotation(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_add_str(&text, "kind: ConfigMap\napiVersion: v1\nmetadata: {name: big}\ndata: {k: ");
    for (size_t i = 0; i < 300000; i++)
        gs_buf_add_char(&text, 'x');
    gs_buf_add_str(&text, "}\n");
    write_file(f, text.data);
    assert_ok(apply(f));
    CODEC_AUTO_JSON json_t *object = get_configmap(f, "big");
    assert_null(codec_json_get(object, "metadata", "annotations", NULL));
}

static void test_errors_name_the_place(void **state)
{
    struct fixture *f = *state;
    write_file(f, "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n");
    assert_error(apply(f), GS_EINVAL, ":1: metadata.name is not set");
    write_file(f, "# first\n---\n- a list\n");
    assert_error(apply(f), GS_EINVAL, ":3: not a Kubernetes object");
    write_file(f, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: UPPER}\n");
    assert_error(apply(f), GS_EINVAL, ":1: ConfigMap UPPER: ");
    write_file(f, "apiVersion: nowhere.example/v1\nkind: Thing\nmetadata: {name: x}\n");
    assert_error(apply(f), GS_EINVAL,
                 "Thing x: no matches for kind \"Thing\" in version \"nowhere.example/v1\"");
}

// The scope and the plural come from the API, also for kinds that the same file defines.
static void test_kinds_without_namespace_are_applied(void **state)
{
    struct fixture *f = *state;
    write_file(f, "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: low}\n"
                  "value: -5\n---\napiVersion: apiextensions.k8s.io/v1\n"
                  "kind: CustomResourceDefinition\nmetadata: {name: octopodes.sea.example}\n"
                  "spec: {group: sea.example, scope: Cluster, names: {plural: octopodes, "
                  "singular: octopus, kind: Octopus}, versions: [{name: v1, served: true, "
                  "storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n---\n"
                  "apiVersion: sea.example/v1\nkind: Octopus\nmetadata: {name: paul}\n");
    assert_ok(apply(f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_created_then_configured, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_annotation_is_that_of_kubectl, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_the_file_no_longer_has_is_removed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_large_objects_have_no_annotation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errors_name_the_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_kinds_without_namespace_are_applied, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
