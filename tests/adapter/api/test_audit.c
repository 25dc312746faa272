// SPDX-License-Identifier: Apache-2.0
// The audit log: selected requests, contents of events, and files.
#include "adapter/api/audit.h"
#include "base/file.h"
#include "base/mem.h"
#include "codec/json.h"
#include "net/http/client.h"
#include "unit.h"

#include <dirent.h>
#include <stdlib.h>

static const char policy[] = "apiVersion: audit.k8s.io/v1\n"
                             "kind: Policy\n"
                             "omitStages: [RequestReceived]\n"
                             "rules:\n"
                             "- level: None\n"
                             "  users: ['system:kube-probe']\n"
                             "- level: None\n"
                             "  nonResourceURLs: ['/healthz*', '/version']\n"
                             "- level: RequestResponse\n"
                             "  namespaces: [ml]\n"
                             "  resources:\n"
                             "  - {group: custom.metrics.k8s.io, resources: ['pods/*']}\n"
                             "- level: Request\n"
                             "  resources:\n"
                             "  - group: '*'\n"
                             "    resources: ['*/special']\n"
                             "    resourceNames: [one]\n"
                             "- level: Metadata\n"
                             "  userGroups: [people]\n"
                             "  verbs: [get, list]\n"
                             "  omitStages: [ResponseComplete]\n";

struct fixture {
    struct adapter_api_audit_policy *p;
    struct adapter_api_auth_user user;
};

static enum adapter_api_audit_level level(struct fixture *f, struct adapter_api_auth_attributes a)
{
    unsigned omitted = 0;
    a.verb = a.verb ? a.verb : "get";
    a.is_resource = a.resource != NULL;
    a.path = a.path ? a.path : "/";
    return adapter_api_audit_policy_level(f->p, &f->user, &a, &omitted);
}

static void test_policy(void **state)
{
    struct fixture f = {.user = {.name = (char *)"someone", .groups = json_pack("[s]", "people")}};
    assert_ok(adapter_api_audit_policy_parse(gs_slice_of(policy), "policy.yaml", &f.p));
    const struct adapter_api_auth_attributes pods = {.group = "custom.metrics.k8s.io",
                                                     .ns = "ml",
                                                     .resource = "pods",
                                                     .name = "*",
                                                     .subresource = "gpu"};
    struct adapter_api_auth_attributes a = pods;
    assert_int_equal(level(&f, a), ADAPTER_API_AUDIT_REQUEST_RESPONSE);
    a.ns = "other";
    assert_int_equal(level(&f, a), ADAPTER_API_AUDIT_METADATA);
    a.verb = "watch";
    assert_int_equal(level(&f, a), ADAPTER_API_AUDIT_NONE);
    a.subresource = "special";
    assert_int_equal(level(&f, a), ADAPTER_API_AUDIT_NONE);
    a.name = "one";
    assert_int_equal(level(&f, a), ADAPTER_API_AUDIT_REQUEST);
    a.subresource = NULL;
    assert_int_equal(level(&f, a), ADAPTER_API_AUDIT_NONE);
    a = pods;
    a.group = "external.metrics.k8s.io";
    assert_int_equal(level(&f, a), ADAPTER_API_AUDIT_METADATA);
    assert_int_equal(level(&f, (struct adapter_api_auth_attributes){.path = "/healthz/ping"}),
                     ADAPTER_API_AUDIT_NONE);
    assert_int_equal(level(&f, (struct adapter_api_auth_attributes){.path = "/version"}),
                     ADAPTER_API_AUDIT_NONE);
    assert_int_equal(level(&f, (struct adapter_api_auth_attributes){.path = "/versions"}),
                     ADAPTER_API_AUDIT_METADATA);
    f.user.name = (char *)"system:kube-probe";
    assert_int_equal(level(&f, pods), ADAPTER_API_AUDIT_NONE);
    unsigned omitted = 0;
    f.user.name = (char *)"someone";
    a = (struct adapter_api_auth_attributes){.verb = "get", .path = "/x"};
    adapter_api_audit_policy_level(f.p, &f.user, &a, &omitted);
    assert_int_equal(omitted, ADAPTER_API_AUDIT_RECEIVED | ADAPTER_API_AUDIT_COMPLETE);
    json_decref(f.user.groups);
    adapter_api_audit_policy_free(f.p);
}

static void wrong(const char *rules, const char *why)
{
    struct adapter_api_audit_policy *p = NULL;
    GS_AUTO_FREE char *text =
        gs_format("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n%s\n", rules);
    assert_error(adapter_api_audit_policy_parse(gs_slice_of(text), "p.yaml", &p), GS_EINVAL, why);
}

static void test_wrong_policies(void **state)
{
    struct adapter_api_audit_policy *p = NULL;
    wrong("- level: Everything", "unknown level \"Everything\"");
    wrong("- users: [a]", "unknown level \"\"");
    wrong("- {level: None, user: [a]}", "did you mean \"users\"");
    wrong("- {level: None, nonResourceURLs: [healthz]}", "does not begin with a slash");
    wrong("- {level: None, nonResourceURLs: ['/a*b']}", "not at its end");
    wrong("- {level: None, nonResourceURLs: [/a], namespaces: [x]}", "must not have both");
    wrong("- {level: None, resources: [{group: apps/v1}]}", "without its version");
    wrong("- {level: None, resources: [{group: '', resourceNames: [a]}]}", "requires resources");
    wrong("- {level: None, omitStages: [Never]}", "p.yaml:4");
    assert_error(adapter_api_audit_policy_parse(
                     GS_SLICE("kind: Policy\napiVersion: audit.k8s.io/v1\n"), "p", &p),
                 GS_EINVAL, "no rules");
    assert_error(adapter_api_audit_policy_parse(GS_SLICE("kind: List\n"), "p", &p), GS_EINVAL,
                 "want kind");
    assert_error(adapter_api_audit_policy_parse(GS_SLICE(""), "p", &p), GS_EINVAL, "one document");
}

// --- files ---

static size_t count_files(const char *folder)
{
    DIR *d = opendir(folder);
    size_t n = 0;
    const struct dirent *e;
    while ((e = readdir(d)))
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void remove_folder(const char *folder)
{
    DIR *d = opendir(folder);
    const struct dirent *e;
    while ((e = readdir(d))) {
        GS_AUTO_FREE char *path = gs_format("%s/%s", folder, e->d_name);
        (void)unlink(path);
    }
    closedir(d);
    rmdir(folder);
}

static void test_rotation(void **state)
{
    char folder[] = "/tmp/gpuscale-audit-XXXXXX";
    assert_non_null(mkdtemp(folder));
    GS_AUTO_FREE char *path = gs_format("%s/audit.log", folder);
    GS_AUTO_FREE char *other = gs_format("%s/audit-not-ours.log", folder);
    assert_ok(gs_file_write_atomic(other, 0600, GS_SLICE("stays")));
    struct adapter_api_audit_log *l = NULL;
    const struct adapter_api_audit_log_options o = {.path = path, .max_bytes = 100, .max_old = 2};
    assert_ok(adapter_api_audit_log_new(&o, &l));
    for (int i = 0; i < 20; i++)
        assert_ok(
            adapter_api_audit_log_write(l, GS_SLICE("0123456789012345678901234567890123456789\n")));
    assert_int_equal(count_files(folder), 4); // the current one, two rotated ones, the other
    GS_AUTO_BUF struct gs_buf text = {0};
    assert_ok(gs_file_read(path, 1000, &text));
    assert_true(text.len == 41 * 2);
    // A deleted file is created again.
    assert_int_equal(unlink(path), 0);
    assert_ok(adapter_api_audit_log_write(l, GS_SLICE("again\n")));
    gs_buf_finish(&text);
    assert_ok(gs_file_read(path, 1000, &text));
    assert_string_equal(text.data, "again\n");
    adapter_api_audit_log_free(l);
    // A line that exceeds the maximum file size has a file of its own.
    assert_ok(adapter_api_audit_log_new(&o, &l));
    GS_AUTO_FREE char *line = gs_format("%0200d\n", 0);
    assert_ok(adapter_api_audit_log_write(l, gs_slice_of(line)));
    assert_ok(adapter_api_audit_log_write(l, GS_SLICE("x\n")));
    gs_buf_finish(&text);
    assert_ok(gs_file_read(path, 1000, &text));
    assert_string_equal(text.data, "x\n");
    adapter_api_audit_log_free(l);
    remove_folder(folder);
    const struct adapter_api_audit_log_options bad = {.path = "/proc/nowhere/audit.log"};
    assert_error(adapter_api_audit_log_new(&bad, &l), GS_ENOTFOUND, "/proc/nowhere");
}

// --- events ---

struct server {
    struct adapter_api_audit *audit;
    bool allowed;
};

static void serve(void *arg, struct http_exchange *x)
{
    struct server *s = arg;
    const struct adapter_api_auth_user user = {.name = (char *)"alice",
                                               .groups = json_pack("[s]", "people")};
    const struct adapter_api_auth_attributes asked = {.is_resource = true,
                                                      .verb = "get",
                                                      .group = "custom.metrics.k8s.io",
                                                      .version = "v1beta1",
                                                      .ns = "ml",
                                                      .resource = "pods",
                                                      .name = "*",
                                                      .subresource = "gpu",
                                                      .path = http_path(x)};
    const struct adapter_api_auth_decision d = {s->allowed, &user, &asked, "because"};
    struct adapter_api_audit_event *e = adapter_api_audit_begin(s->audit, x, "id-1");
    if (s->allowed) {
        adapter_api_audit_decided(e, &d);
        http_reply(x, 200, "application/json", GS_SLICE("{\"a\":\n 1}"));
    } else { // refused before it is logged
        http_reply(x, 403, "application/json",
                   GS_SLICE("{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Forbidden\","
                            "\"message\":\"no\",\"code\":403}"));
        adapter_api_audit_decided(e, &d);
    }
    adapter_api_audit_end(e);
    json_decref(user.groups);
}

static void on_done(void *arg, const struct http_response *a, struct gs_error *err)
{
    *(bool *)arg = true;
    assert_ok(err);
}

static void ask(uv_loop_t *loop, struct server *s, const char *path)
{
    static const struct http_callbacks callbacks = {.on_done = on_done};
    static const struct http_header headers[] = {
        {"X-Forwarded-For", "10.0.0.1, 10.0.0.2"}, {"User-Agent", "kubectl/v1.36"}, {0}};
    struct http_client *c = http_client_new_loopback(loop, serve, s, NULL);
    bool done = false;
    const struct http_request request = {.path = path, .headers = headers};
    http_send(c, &request, &callbacks, &done);
    while (!done)
        uv_run(loop, UV_RUN_ONCE);
    http_client_free(c);
}

static void test_events(void **state)
{
    char folder[] = "/tmp/gpuscale-audit-XXXXXX";
    uv_loop_t loop;
    uv_loop_init(&loop);
    assert_non_null(mkdtemp(folder));
    GS_AUTO_FREE char *path = gs_format("%s/a.log", folder);
    GS_AUTO_FREE char *policy_path = gs_format("%s/policy.yaml", folder);
    assert_ok(gs_file_write_atomic(policy_path, 0600, gs_slice_of(policy)));
    struct server s = {.allowed = true};
    struct adapter_api_audit_options o = {
        .loop = &loop, .policy_file = policy_path, .log = {.path = path}, .batch = true};
    assert_ok(adapter_api_audit_new(&o, &s.audit));
    ask(&loop, &s, "/apis/x/pods/*/gpu?labelSelector=a%3Db");
    s.allowed = false;
    ask(&loop, &s, "/y");
    struct adapter_api_audit_stats stats;
    adapter_api_audit_stats(s.audit, &stats);
    assert_int_equal(stats.events, 2);
    adapter_api_audit_free(s.audit); // writes pending lines
    uv_run(&loop, UV_RUN_DEFAULT);
    GS_AUTO_BUF struct gs_buf text = {0};
    assert_ok(gs_file_read(path, 100000, &text));
    struct gs_slice rest = gs_buf_slice(&text), line = gs_slice_cut(&rest, '\n');
    CODEC_AUTO_JSON json_t *first = NULL, *second = NULL;
    assert_ok(codec_json_parse(line, true, &first));
    assert_string_equal(codec_json_str(first, "kind", NULL), "Event");
    assert_string_equal(codec_json_str(first, "apiVersion", NULL), "audit.k8s.io/v1");
    assert_string_equal(codec_json_str(first, "level", NULL), "RequestResponse");
    assert_string_equal(codec_json_str(first, "auditID", NULL), "id-1");
    assert_string_equal(codec_json_str(first, "stage", NULL), "ResponseComplete");
    assert_string_equal(codec_json_str(first, "requestURI", NULL),
                        "/apis/x/pods/*/gpu?labelSelector=a%3Db");
    assert_string_equal(codec_json_str(first, "user", "username", NULL), "alice");
    assert_string_equal(codec_json_str(first, "objectRef", "subresource", NULL), "gpu");
    assert_string_equal(codec_json_str(first, "userAgent", NULL), "kubectl/v1.36");
    assert_int_equal(json_array_size(json_object_get(first, "sourceIPs")), 3);
    assert_int_equal(codec_json_int(first, 0, "responseStatus", "code", NULL), 200);
    assert_int_equal(codec_json_int(first, 0, "responseObject", "a", NULL), 1);
    assert_string_equal(codec_json_str(first, "annotations", "authorization.k8s.io/decision", NULL),
                        "allow");
    assert_int_equal(strlen(codec_json_str(first, "requestReceivedTimestamp", NULL)), 27);
    line = gs_slice_cut(&rest, '\n');
    assert_ok(codec_json_parse(line, true, &second));
    assert_string_equal(codec_json_str(second, "responseStatus", "reason", NULL), "Forbidden");
    assert_string_equal(
        codec_json_str(second, "annotations", "authorization.k8s.io/decision", NULL), "forbid");
    assert_string_equal(codec_json_str(second, "annotations", "authorization.k8s.io/reason", NULL),
                        "because");
    assert_int_equal(rest.len, 0);
    remove_folder(folder);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policy),
        cmocka_unit_test(test_wrong_policies),
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
