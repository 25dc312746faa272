// SPDX-License-Identifier: Apache-2.0
#include "adapter/config/config.h"
#include "base/file.h"
#include "base/mem.h"
#include "unit.h"

static struct adapter_config *parse(const char *text)
{
    struct adapter_config *c = NULL;
    assert_ok(adapter_config_parse(gs_slice_of(text), "rules.yaml", &c));
    return c;
}

static void wrong(const char *text, const char *message)
{
    struct adapter_config *c = NULL;
    assert_error(adapter_config_parse(gs_slice_of(text), "rules.yaml", &c), GS_EINVAL, message);
}

static void assert_name(const char *rule, const char *series, const char *name)
{
    GS_AUTO_FREE char *text = gs_format("rules:\n- seriesQuery: x\n  metricsQuery: y\n%s", rule);
    struct adapter_config *c = parse(text);
    const struct adapter_config_filter *filter = NULL;
    GS_AUTO_BUF struct gs_buf out = {0};
    bool named = adapter_config_rule_name(&c->rules[0], gs_slice_of(series), &out, &filter);
    if (!name)
        assert_false(named);
    else
        assert_string_equal(out.data ? out.data : "", name);
    adapter_config_free(c);
}

static void test_names(void **state)
{
    assert_name("", "foo_total", "foo_total");
    assert_name("  name: {matches: '^(.*)_total$'}\n", "foo_total", "foo");
    assert_name("  name: {matches: '^(.*)_total$'}\n", "foo", NULL);
    assert_name("  name: {matches: '^(.*)_total$', as: '${1}_per_second'}\n", "foo_total",
                "foo_per_second");
    assert_name("  name: {matches: '^(.*)_total$', as: '$1x'}\n", "foo_total", "");
    assert_name("  name: {matches: '(?P<n>o+)', as: '$n-$$-$'}\n", "foo", "oo-$-$");
    assert_name("  name: {matches: 'foo'}\n", "xfoobar", "foo");
    assert_name("  name: {as: fixed}\n", "anything", "fixed");
    assert_name("  seriesFilters: [{isNot: '_total$'}]\n", "a_total", NULL);
    assert_name("  seriesFilters: [{is: '^a'}, {isNot: 'b$'}]\n", "ac", "ac");
    assert_name("  seriesFilters: [{is: '^a'}, {isNot: 'b$'}]\n", "ab", NULL);
}

static void assert_label(const char *resources, const char *label, const char *want)
{
    GS_AUTO_FREE char *text =
        gs_format("rules:\n- seriesQuery: x\n  metricsQuery: y\n  resources: %s\n", resources);
    struct adapter_config *c = parse(text);
    struct gs_slice group, resource;
    GS_AUTO_FREE char *got = NULL;
    if (adapter_config_label_resource(&c->rules[0].resources, gs_slice_of(label), &group,
                                      &resource))
        got = gs_format(GS_SLICE_FMT "/" GS_SLICE_FMT, GS_SLICE_ARG(group), GS_SLICE_ARG(resource));
    if (want)
        assert_string_equal(got ? got : "(none)", want);
    else
        assert_null(got);
    adapter_config_free(c);
}

static void test_labels(void **state)
{
    assert_label("{overrides: {PodName: {resource: pod}}}", "PodName", "/pod");
    assert_label("{overrides: {PodName: {resource: pod}}}", "pod", NULL);
    assert_label("{template: '<<.Resource>>'}", "pod", "/pod");
    assert_label("{template: 'kube_<<.Group>>_<<.Resource>>'}", "kube_apps_deployment",
                 "apps/deployment");
    assert_label("{template: 'kube_<<.Resource>>'}", "pod", NULL);
    assert_label("{template: 'k_<<.Resource>>', overrides: {k_x: {group: apps, resource: "
                 "deployment}}}",
                 "k_x", "apps/deployment");
}

static void test_query(void **state)
{
    struct adapter_config *c = parse(
        "rules:\n- seriesQuery: x\n  metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>,k=\"<<index "
        ".LabelValuesByName \"pod\">>\"}) by (<<.GroupBy>>) <<.GroupBySlice>><<range "
        ".GroupBySlice>>,<<.>><<end>> <<index .LabelValuesByName \"no\">>'\n");
    const struct metrics_label values[] = {{GS_SLICE("pod"), GS_SLICE("a|b")}};
    const struct gs_slice by[] = {GS_SLICE("pod"), GS_SLICE("container")};
    const struct adapter_config_query_data d = {.series = GS_SLICE("m"),
                                                .matchers = GS_SLICE("pod=~\"a|b\""),
                                                .group_by = GS_SLICE("pod,container"),
                                                .values = values,
                                                .n_values = 1,
                                                .group_by_list = by,
                                                .n_group_by = 2};
    GS_AUTO_BUF struct gs_buf out = {0};
    assert_ok(adapter_config_query_expand(c->rules[0].query, &d, &out));
    assert_string_equal(out.data, "sum(m{pod=~\"a|b\",k=\"a|b\"}) by (pod,container) [pod "
                                  "container],pod,container ");
    adapter_config_free(c);
}

static void test_wrong(void **state)
{
    wrong("rules:\n- seriesQuery: x\n  metricQuery: y\n", "rules.yaml:3:");
    wrong("rules:\n- seriesQuery: x\n  metricQuery: y\n", "did you mean \"metricsQuery\"?");
    wrong("rulez: []\n", "unknown field \"rulez\"");
    wrong("rules:\n- seriesQuery: x\n  seriesQuery: y\n", "rules.yaml:3");
    wrong("rules:\n- seriesFilters: [{is: a, isNot: b}]\n", "either is or isNot");
    wrong("rules:\n- seriesFilters: [{}]\n", "either is or isNot");
    wrong("rules:\n- name: {matches: '('}\n", "missing closing )");
    wrong("rules:\n- name: {matches: '^DCGM_(?!FI)(.*)$'}\n",
          "invalid or unsupported Perl syntax: `(?!`");
    wrong("rules:\n- name: {matches: '(a)(b)'}\n", "name.as is required");
    wrong("rules:\n- metricsQuery: '<<.Series'\n", "metrics-query");
    wrong("rules:\n- resources: {template: 'x'}\n", "must use <<.Resource>>");
    wrong("rules:\n- resources: {overrides: {a: {group: apps}}}\n", "names no resource");
    wrong("prometheus: {url: x}\nrules: {existing: my-map}\n", "ConfigMap my-map");
    wrong("prometheus: {url: x}\nrules: {customs: []}\n", "did you mean \"custom\"?");
    wrong("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  config.yaml: |\n    "
          "rules:\n    - seriesQuery: x\n      metricQuery: y\n",
          "rules.yaml:8:");
}

static void test_forms(void **state)
{
    struct adapter_config *c = parse(
        "prometheus: {url: http://p, port: 0, path: /q}\nrules:\n  default: false\n  custom:\n"
        "  - {seriesQuery: a, metricsQuery: b}\n  external:\n  - {seriesQuery: c, "
        "metricsQuery: d, resources: {namespaced: false}}\n  resource: {}\n");
    assert_string_equal(c->prometheus_url, "http://p/q");
    assert_int_equal(c->n_rules, 2);
    assert_int_equal(c->n_custom, 1);
    assert_true(c->rules[1].external);
    assert_false(c->rules[1].resources.namespaced);
    assert_false(c->resource.present);
    adapter_config_free(c);
    c = parse("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  config.yaml: |\n    "
              "resourceRules:\n      window: 1m30s\n");
    assert_true(c->resource.present);
    assert_int_equal(c->resource.window_ns, 90000000000);
    adapter_config_free(c);
    c = parse("");
    assert_int_equal(c->n_rules, 0);
    adapter_config_free(c);
}

static void test_ack_values_have_rules_below_other_keys(void **state)
{
    static const char rules[] = "prometheus:\n    enabled: true\n    url: https://p:9443/x\n"
                                "    metricsRelistInterval: 30s\n    adapter:\n      rules:\n"
                                "        default: false\n        custom:\n"
                                "        - {seriesQuery: a, metricsQuery: b}\n";
    GS_AUTO_FREE char *nested = gs_format("AlibabaCloudMetricsAdapter:\n  %s", rules);
    const char *const texts[] = {rules, nested};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
        struct adapter_config *c = parse(texts[i]);
        assert_int_equal(c->n_rules, 1);
        assert_string_equal(c->prometheus_url, "https://p:9443/x");
        assert_string_equal(c->relist_interval, "30s");
        adapter_config_free(c);
    }
}

static void test_values_of_several_charts_in_one_file(void **state)
{
    struct adapter_config *c =
        parse("prometheus: {prometheusSpec: {replicas: 2}}\numbrella:\n  prometheus-adapter:\n"
              "    rules: {default: false, custom: [{seriesQuery: a, metricsQuery: b}]}\n");
    assert_int_equal(c->n_rules, 1);
    adapter_config_free(c);
    c = parse("prometheus: {prometheusSpec: {replicas: 2}}\n"
              "rules: {default: false, custom: [{seriesQuery: a, metricsQuery: b}]}\n");
    assert_int_equal(c->n_rules, 1);
    adapter_config_free(c);
}

static const char two_sources[] = "sources:\n"
                                  "- name: long-term\n"
                                  "  url: https://thanos:10902/prefix\n"
                                  "  verb: POST\n"
                                  "  timeout: 5s\n"
                                  "  headers: {X-Scope-OrgID: team, A: b}\n"
                                  "  basic_auth: {username: u, password_file: /p}\n"
                                  "  tls_config: {ca_file: /ca, server_name: thanos}\n"
                                  "  rules: ['^container_', '{job=\"x\"']\n"
                                  "- {name: own, engine: true, resourceRules: true}\n";

static void test_sources(void **state)
{
    GS_AUTO_FREE char *text = gs_format(
        "%srules:\n- {seriesQuery: 'container_cpu{}', metricsQuery: x}\n"
        "- {seriesQuery: '{job=\"x\"}', metricsQuery: x, source: own}\n"
        "- {seriesQuery: 'my_container_cpu', metricsQuery: x}\n"
        "externalRules:\n- {seriesQuery: 'container_x', metricsQuery: x, source: default}\n"
        "- {seriesQuery: '{job=\"x\"}', metricsQuery: x}\nresourceRules: {}\n",
        two_sources);
    struct adapter_config *c = parse(text);
    const struct adapter_config_source *s = &c->sources[0];
    assert_int_equal(c->n_sources, 2);
    assert_true(s->post);
    assert_int_equal(s->timeout_ms, 5000);
    assert_int_equal(s->n_headers, 2);
    assert_string_equal(s->headers[0], "X-Scope-OrgID=team");
    assert_string_equal(s->http.user.text, "u");
    assert_string_equal(s->http.password.file, "/p");
    assert_string_equal(s->http.ca.file, "/ca");
    assert_true(c->sources[1].engine);
    static const size_t want[] = {1, 2, 0, 0, 1};
    for (size_t i = 0; i < c->n_rules; i++)
        assert_int_equal(c->rules[i].source, want[i]);
    assert_int_equal(c->resource.source, 2);
    adapter_config_free(c);
    // A separate file, so that prometheus-adapter can read the rules.
    GS_AUTO_FREE char *indented =
        gs_strdup("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  config.yaml: |\n "
                  "   rules:\n"
                  "    - {seriesQuery: a_b, metricsQuery: x}\n  sources.yaml: |\n    sources:\n"
                  "    - {name: n, url: http://x, rules: ['^a']}\n");
    c = parse(indented);
    assert_int_equal(c->rules[0].source, 1);
    adapter_config_free(c);
    c = parse("prometheus: {url: http://p}\nrules: {default: false, custom: [{seriesQuery: a, "
              "metricsQuery: x}]}\nsources: [{name: n, url: http://x, rules: [a]}]\n");
    assert_int_equal(c->rules[0].source, 1);
    adapter_config_free(c);
}

static void test_params_of_a_source_are_in_its_url(void **state)
{
    (void)state;
    struct adapter_config *c =
        parse("sources:\n"
              "- {name: a, url: 'https://vm/select?tenant=0', params: {nocache: '1', extra_label: "
              "['team=x', 'b c']}}\n"
              "- {name: b, url: http://p, params: {}}\n");
    assert_string_equal(
        c->sources[0].url,
        "https://vm/select?tenant=0&nocache=1&extra_label=team%3Dx&extra_label=b%20c");
    assert_string_equal(c->sources[1].url, "http://p");
    adapter_config_free(c);
    wrong("sources: [{name: a, url: http://x, params: [a]}]", "params must be a mapping");
    wrong("sources: [{name: a, engine: true, params: {a: b}}]", "takes no params");
}

static void test_wrong_sources(void **state)
{
    wrong("sources: [{url: http://x}]", "has no name");
    wrong("sources: [{name: a}]", "needs either url or engine");
    wrong("sources: [{name: a, url: http://x, engine: true}]", "needs either url or engine");
    wrong("sources: [{name: a, url: http://x}, {name: a, url: http://y}]", "another source");
    wrong("sources: [{name: default, url: http://x}]", "another source");
    wrong("sources: [{name: a, url: http://x, verb: PUT}]", "want GET or POST");
    wrong("sources: [{name: a, url: http://x, oauth2: {}}]", "oauth2");
    wrong("sources: [{name: a, url: http://x, rules: ['(']}]", "rules.yaml:1");
    wrong("sources: [{name: a, url: http://x, rule: [a]}]", "did you mean \"rules\"");
    wrong("rules: [{seriesQuery: a, metricsQuery: x, source: b}]", "source \"b\" is not defined");
    wrong("resourceRules: {source: b}", "source \"b\" is not defined");
}

static void test_defaults(void **state)
{
    struct adapter_config *c = parse(adapter_config_defaults());
    assert_int_equal(c->n_custom, 6);
    assert_string_equal(c->rules[0].as, "$1");
    assert_string_equal(c->rules[3].as, "$0");
    adapter_config_free(c);
}

// The manifests of the guides, and the original files of the guides where they exist.
static void test_guides(void **state)
{
    const char *root = getenv("GPUSCALE_SOURCE_ROOT");
    static const struct {
        const char *file;
        size_t custom;
    } files[] = {{"ack/adapter-rules.yaml", 5}, {"eks/prometheus-adapter-values.yaml", 9}};
    for (size_t i = 0; i < 2 * GS_ARRAY_LEN(files); i++) {
        bool original = i >= GS_ARRAY_LEN(files);
        size_t at = i % GS_ARRAY_LEN(files);
        GS_AUTO_FREE char *path =
            gs_format("%s/%s/%s", root ? root : ".",
                      original ? "../shared/walkthroughs" : "examples/guides", files[at].file);
        if (original && access(path, R_OK) != 0)
            continue;
        struct adapter_config *c = NULL;
        assert_ok(adapter_config_load(path, NULL, &c));
        assert_int_equal(c->n_custom, files[at].custom);
        adapter_config_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_guides),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_wrong_sources),
        cmocka_unit_test(test_params_of_a_source_are_in_its_url),
        cmocka_unit_test(test_values_of_several_charts_in_one_file),
        cmocka_unit_test(test_ack_values_have_rules_below_other_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
