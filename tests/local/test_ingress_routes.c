// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "codec/yaml.h"
#include "local/services/services_private.h"

static void add(struct services_ingress_routes *r, const char *spec)
{
    GS_AUTO_FREE char *yaml = gs_format("{metadata: {namespace: ns, name: i}, spec: {%s}}", spec);
    struct codec_yaml_docs docs = {0};
    assert_ok(codec_yaml_parse(gs_slice_of(yaml), "test.yaml", &docs));
    services_ingress_routes_add(r, docs.items[0].value);
    codec_yaml_docs_finish(&docs);
}

#define PATH(path, type, service)                                                                  \
    "{path: '" path "', pathType: " type ", backend: {service: {name: " service                    \
    ", port: {number: 80}}}}"

static void assert_route(const struct services_ingress_routes *r, const char *host,
                         const char *path, const char *want)
{
    const struct services_ingress_route *found = services_ingress_routes_find(r, host, path);
    const char *service = found ? found->service : NULL;
    if (!gs_streq(service, want))
        fail_msg("%s%s: %s, expected %s", host ? host : "", path, service ? service : "none",
                 want ? want : "none");
}

// The examples of Kubernetes' documentation of Ingress.
static void test_path_types(void **state)
{
    static const struct {
        const char *type, *rule, *path;
        bool matches;
    } cases[] = {
        {"Prefix", "/", "/any/path", true},
        {"Exact", "/foo", "/foo", true},
        {"Exact", "/foo", "/bar", false},
        {"Exact", "/foo", "/foo/", false},
        {"Exact", "/foo/", "/foo", false},
        {"Prefix", "/foo", "/foo", true},
        {"Prefix", "/foo", "/foo/", true},
        {"Prefix", "/foo/", "/foo", true},
        {"Prefix", "/foo/", "/foo/", true},
        {"Prefix", "/aaa/bb", "/aaa/bbb", false},
        {"Prefix", "/aaa/bbb", "/aaa/bbb/ccc", true},
        {"Prefix", "/aaa/bbb", "/aaa/bbbxyz", false},
        {"Prefix", "/foo", "/FOO", false},
        {"ImplementationSpecific", "/*", "/", true},
        {"ImplementationSpecific", "/*", "/a/b", true},
        {"ImplementationSpecific", "/img/*", "/img", false},
        {"ImplementationSpecific", "/img/*.png", "/img/a/b.png", true},
        {"ImplementationSpecific", "/a?c", "/abc", true},
        {"ImplementationSpecific", "/a?c", "/abbc", false},
        {"ImplementationSpecific", "/foo", "/foo/x", true},
        {"ImplementationSpecific", "", "/x", true},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct services_ingress_routes r = {0};
        GS_AUTO_FREE char *spec = gs_format(
            "rules: [{http: {paths: [{path: '%s', pathType: %s, backend: {service: {name: s, port: "
            "{number: 80}}}}]}}]",
            cases[i].rule, cases[i].type);
        add(&r, spec);
        services_ingress_routes_sort(&r);
        assert_route(&r, "any", cases[i].path, cases[i].matches ? "s" : NULL);
        services_ingress_routes_finish(&r);
    }
}

static void test_paths_that_hide_their_target(void **state)
{
    static const struct {
        const char *raw, *path;
    } cases[] = {
        {"/public/../admin", "/admin"},
        {"/public/%2e%2E/admin", "/admin"},
        {"/public/..%2fadmin", "/admin"},
        {"//admin", "/admin"},
        {"/./admin/", "/admin/"},
        {"/%61dmin", "/admin"},
        {"/a/..", "/"},
        {"/a/b/..", "/a/"},
        {"/a/.", "/a/"},
        {"/a/...", "/a/..."},
        {"/%2561", "/%61"},
        {"/admin;x=1", "/admin;x=1"},
        {"/", "/"},
        {"/..", NULL},
        {"/a/../../b", NULL},
        {"/a%00", NULL},
        {"/a%", NULL},
        {"/a%4", NULL},
        {"/a%zz", NULL},
        {"*", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *path = services_ingress_path(cases[i].raw);
        if (!gs_streq(path, cases[i].path))
            fail_msg("%s: %s", cases[i].raw, path ? path : "refused");
    }
    struct services_ingress_routes r = {0};
    add(&r, "rules: [{http: {paths: [" PATH("/a%20b", "Exact", "s") "]}}]");
    assert_route(&r, "h", "/a b", "s");
    services_ingress_routes_finish(&r);
}

static void test_hosts(void **state)
{
    struct services_ingress_routes r = {0};
    add(&r, "rules: [{http: {paths: [" PATH(
                "/", "Prefix",
                "any") "]}}, {host: '*.foo.com', http: "
                       "{paths: [" PATH(
                           "/", "Prefix",
                           "wild") "]}}, {host: bar.foo.com, http: {paths: [" PATH("/", "Prefix",
                                                                                   "exact") "]}}]");
    services_ingress_routes_sort(&r);
    assert_route(&r, "bar.foo.com", "/", "exact");
    assert_route(&r, "BAR.foo.com:8080", "/", "exact");
    assert_route(&r, "bar.foo.com.", "/", "exact");
    assert_route(&r, "x.foo.com", "/", "wild");
    assert_route(&r, "x.bar.foo.com", "/", "any");
    assert_route(&r, "foo.com", "/", "any");
    assert_route(&r, "[::1]:80", "/", "any");
    assert_route(&r, "", "/", "any");
    assert_route(&r, NULL, "/", "any");
    services_ingress_routes_finish(&r);
}

static void test_the_most_specific_route_wins(void **state)
{
    struct services_ingress_routes r = {0};
    add(&r,
        "defaultBackend: {service: {name: fallback, port: {number: 1}}}, rules: [{http: {paths: "
        "[" PATH("/a", "Prefix", "a") ", " PATH("/a/b", "Prefix", "ab") ", " PATH("/a", "Exact",
                                                                                  "exact") "]}}]");
    add(&r, "rules: [{http: {paths: [" PATH("/a/b", "Prefix", "newer") "]}}]");
    services_ingress_routes_sort(&r);
    assert_route(&r, "h", "/a", "exact");
    assert_route(&r, "h", "/a/x", "a");
    assert_route(&r, "h", "/a/b/c", "ab");
    assert_route(&r, "h", "/other", "fallback");
    services_ingress_routes_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path_types),
        cmocka_unit_test(test_paths_that_hide_their_target),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_the_most_specific_route_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
