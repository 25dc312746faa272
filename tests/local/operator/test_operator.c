// SPDX-License-Identifier: Apache-2.0
// The controller on the embedded API, with the definitions and objects of the real chart.
#include "unit.h"

#include "local/cluster_harness.h"
#include "local/operator/fixtures.h"
#include "local/operator/operator.h"
#include "local/workloads.h"

#include <unistd.h>

#define PROMETHEUSES  ((struct kube_gvr){"monitoring.coreos.com", "v1", "prometheuses"})
#define ALERTMANAGERS ((struct kube_gvr){"monitoring.coreos.com", "v1", "alertmanagers"})
#define PROBES        ((struct kube_gvr){"monitoring.coreos.com", "v1", "probes"})
#define SECRETS       ((struct kube_gvr){"", "v1", "secrets"})
#define CRDS          ((struct kube_gvr){"apiextensions.k8s.io", "v1", "customresourcedefinitions"})

#define ACCOUNTS ((struct kube_gvr){"", "v1", "serviceaccounts"})

#define NAME         "kube-prometheus-stack-prometheus"
#define ALERTMANAGER "kube-prometheus-stack-alertmanager"

struct fixture {
    struct cluster k;
    struct local_workloads *workloads;
    struct operator_controller *o;
    struct codec_yaml_docs docs;
    unsigned changes;
    char dir[64];
};

static void on_change(void *arg)
{
    ((struct fixture *)arg)->changes++;
}

static void define(struct fixture *f, const char *kind, const char *plural)
{
    CODEC_AUTO_JSON json_t *names = json_pack("{s:s, s:s}", "kind", kind, "plural", plural);
    GS_AUTO_FREE char *name = gs_format("%s.monitoring.coreos.com", plural);
    CODEC_AUTO_JSON json_t *crd = json_pack(
        "{s:s, s:s, s:{s:s}, s:{s:s, s:s, s:O, s:[{s:s, s:b, s:b, s:{s:{}}, s:{s:{s:s, s:b}}}]}}",
        "apiVersion", "apiextensions.k8s.io/v1", "kind", "CustomResourceDefinition", "metadata",
        "name", name, "spec", "group", "monitoring.coreos.com", "scope", "Namespaced", "names",
        names, "versions", "name", "v1", "served", 1, "storage", 1, "subresources", "status",
        "schema", "openAPIV3Schema", "type", "object", "x-kubernetes-preserve-unknown-fields", 1);
    kube_create(f->k.client, CRDS, NULL, crd, call_took, &f->k);
    assert_int_equal(await(&f->k), 201);
}

static void open_fixture(struct fixture *f)
{
    *f = (struct fixture){.dir = "/tmp/gpuscale-operator-XXXXXX"};
    assert_non_null(mkdtemp(f->dir));
    cluster_open(&f->k);
    f->workloads = controllers_workloads_new(f->k.c);
    const struct operator_config cfg = {
        .cluster = f->k.c, .account_dir = f->dir, .ca_pem = "CA", .on_change = on_change, .arg = f};
    f->o = operator_new(&cfg);
    // Before the objects are listed, nothing is selected.
    CODEC_AUTO_JSON json_t *any = json_object();
    const json_t *global = NULL;
    assert_int_equal(operator_choose(f->o, ENGINE_CONFIG_RULE, any, &global), ENGINE_CONFIG_UNUSED);
    f->docs = chart_objects();
    cluster_create(&f->k, KUBE_NAMESPACES,
                   "{apiVersion: v1, kind: Namespace, metadata: {name: prometheus}}");
    cluster_create(&f->k, KUBE_NAMESPACES,
                   "{apiVersion: v1, kind: Namespace, metadata: {name: old}}");
}

static void close_fixture(struct fixture *f)
{
    operator_free(f->o);
    controllers_workloads_free(f->workloads);
    codec_yaml_docs_finish(&f->docs);
    cluster_close(&f->k);
    gs_remove_tree(f->dir);
}

static void create_object(struct fixture *f, struct kube_gvr r, const json_t *obj)
{
    kube_create(f->k.client, r, kube_namespace(obj), obj, call_took, &f->k);
    if (await(&f->k) != 201)
        fail_msg("%s: %s", kube_name(obj), codec_json_str(f->k.body, "message", NULL));
}

static void create_account(struct fixture *f, const char *ns, const char *name)
{
    CODEC_AUTO_JSON json_t *account =
        json_pack("{s:s, s:s, s:{s:s, s:s}}", "apiVersion", "v1", "kind", "ServiceAccount",
                  "metadata", "name", name, "namespace", ns);
    create_object(f, ACCOUNTS, account);
}

static void create_prometheus(struct fixture *f, const char *ns)
{
    create_account(f, ns, NAME);
    create_object(f, PROMETHEUSES, chart_object(&f->docs, ns, "Prometheus", NAME));
}

static void create_chart(struct fixture *f, const char *ns)
{
    create_prometheus(f, ns);
    create_account(f, ns, ALERTMANAGER);
    create_object(f, SECRETS, chart_object(&f->docs, ns, "Secret", "-alertmanager"));
    create_object(f, ALERTMANAGERS, chart_object(&f->docs, ns, "Alertmanager", "-alertmanager"));
}

// The object as the API returns it.
static const json_t *get(struct fixture *f, struct kube_gvr r, const char *ns, const char *name)
{
    kube_get(f->k.client, r, ns, name, NULL, call_took, &f->k);
    return await(&f->k) == 200 ? f->k.body : NULL;
}

static bool is_available(struct fixture *f, struct kube_gvr r, const char *ns, const char *name)
{
    const json_t *obj = get(f, r, ns, name);
    return kube_condition_true(obj, "Available") && kube_condition_true(obj, "Reconciled") &&
           codec_json_int(obj, 0, "status", "availableReplicas", NULL) == 1;
}

static const json_t *job(const struct fixture *f, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(operator_sections(f->o), "scrape_configs"), i, item)
        if (gs_streq(codec_json_str(item, "job_name", NULL), name))
            return item;
    return NULL;
}

static void patch(struct fixture *f, struct kube_gvr r, const char *ns, const char *name,
                  const char *yaml)
{
    struct codec_yaml_docs docs = {0};
    assert_ok(codec_yaml_parse(gs_slice_of(yaml), "patch", &docs));
    kube_patch(f->k.client, r, ns, name, NULL, KUBE_MERGE_PATCH, docs.items[0].value, call_took,
               &f->k);
    assert_int_equal(await(&f->k), 200);
    codec_yaml_docs_finish(&docs);
}

static enum engine_config_choice choose(struct fixture *f, enum engine_config_kind kind,
                                        const char *ns, const char *labels)
{
    GS_AUTO_FREE char *yaml =
        gs_format("{metadata: {name: x, namespace: %s, labels: %s}}", ns, labels);
    struct codec_yaml_docs docs = {0};
    const json_t *global = NULL;
    assert_ok(codec_yaml_parse(gs_slice_of(yaml), "x", &docs));
    enum engine_config_choice choice = operator_choose(f->o, kind, docs.items[0].value, &global);
    if (choice == ENGINE_CONFIG_USED)
        assert_non_null(codec_json_str(global, "scrape_interval", NULL));
    codec_yaml_docs_finish(&docs);
    return choice;
}

static void test_objects_of_charts_become_ready_workloads(void **state)
{
    static const char *const versions[] = {"prometheus", "old"};
    struct fixture f;
    open_fixture(&f);
    define(&f, "Prometheus", "prometheuses");
    define(&f, "Alertmanager", "alertmanagers");
    for (size_t i = 0; i < GS_ARRAY_LEN(versions); i++) {
        create_chart(&f, versions[i]);
        loop_until(&f.k.loop, is_available(&f, PROMETHEUSES, versions[i], NAME));
        loop_until(&f.k.loop, is_available(&f, ALERTMANAGERS, versions[i], ALERTMANAGER));
        // Otherwise both can be new in the same second, and have no order.
        loop_until(&f.k.loop, operator_sections(f.o) != NULL);
        assert_non_null(get(&f, KUBE_PODS, versions[i], "prometheus-" NAME "-0"));
        assert_non_null(get(&f, KUBE_PODS, versions[i], "alertmanager-" ALERTMANAGER "-0"));
        assert_non_null(get(&f, KUBE_SERVICES, versions[i], "prometheus-operated"));
        const json_t *secret =
            get(&f, SECRETS, versions[i], "alertmanager-" ALERTMANAGER "-generated");
        assert_non_null(codec_json_str(secret, "data", "alertmanager.yaml", NULL));
        assert_non_null(get(&f, SECRETS, versions[i], "prometheus-" NAME));
    }
    cluster_delete(&f.k, SECRETS, "old", "prometheus-" NAME);
    cluster_delete(&f.k, KUBE_STATEFULSETS, "old", "alertmanager-" ALERTMANAGER);
    loop_until(&f.k.loop, get(&f, SECRETS, "old", "prometheus-" NAME) &&
                              get(&f, KUBE_STATEFULSETS, "old", "alertmanager-" ALERTMANAGER));
    loop_until(&f.k.loop, cluster_event(&f.k, "RetentionNotApplied", "10d") &&
                              cluster_event(&f.k, "SharedEngine", "prometheus/" NAME));
    close_fixture(&f);
}

static void test_everything_goes_with_the_object(void **state)
{
    struct fixture f;
    open_fixture(&f);
    define(&f, "Prometheus", "prometheuses");
    define(&f, "Alertmanager", "alertmanagers");
    create_chart(&f, "prometheus");
    loop_until(&f.k.loop, is_available(&f, PROMETHEUSES, "prometheus", NAME));
    loop_until(&f.k.loop, operator_sections(f.o) != NULL);
    cluster_delete(&f.k, PROMETHEUSES, "prometheus", NAME);
    cluster_delete(&f.k, ALERTMANAGERS, "prometheus", ALERTMANAGER);
    loop_until(&f.k.loop, !get(&f, KUBE_STATEFULSETS, "prometheus", "prometheus-" NAME) &&
                              !get(&f, KUBE_SERVICES, "prometheus", "prometheus-operated") &&
                              !get(&f, KUBE_SERVICES, "prometheus", "alertmanager-operated") &&
                              !get(&f, SECRETS, "prometheus", "prometheus-" NAME));
    loop_until(&f.k.loop, !operator_sections(f.o));
    assert_int_equal(choose(&f, ENGINE_CONFIG_RULE, "prometheus", "{}"), ENGINE_CONFIG_BY_LABELS);
    close_fixture(&f);
}

static void test_nothing_happens_without_the_definitions(void **state)
{
    struct fixture f;
    open_fixture(&f);
    loop_until(&f.k.loop, f.changes);
    assert_null(operator_sections(f.o));
    assert_int_equal(choose(&f, ENGINE_CONFIG_RULE, "default", "{}"), ENGINE_CONFIG_BY_LABELS);
    close_fixture(&f);
}

#define SCRAPES(jobs)                                                                              \
    "{apiVersion: v1, kind: Secret, metadata: {name: scrapes, namespace: prometheus}, "            \
    "stringData: "                                                                                 \
    "{jobs.yaml: \"" jobs "\"}}"

static bool has_error(struct fixture *f, const char *text)
{
    const json_t *c = kube_condition(get(f, PROMETHEUSES, "prometheus", NAME), "Reconciled");
    const char *message = codec_json_str(c, "message", NULL);
    return message && strstr(message, text) && gs_streq(codec_json_str(c, "status", NULL), "False");
}

static void test_additional_scrape_configs_follow_their_secret(void **state)
{
    struct fixture f;
    open_fixture(&f);
    define(&f, "Prometheus", "prometheuses");
    create_prometheus(&f, "prometheus");
    loop_until(&f.k.loop, operator_sections(f.o));
    patch(
        &f, PROMETHEUSES, "prometheus", NAME,
        "{spec: {additionalScrapeConfigs: {name: scrapes, key: jobs.yaml}, scrapeInterval: 20s}}");
    loop_until(&f.k.loop, has_error(&f, "Secret prometheus/scrapes not found"));
    cluster_create(&f.k, SECRETS,
                   SCRAPES("[{job_name: gpu-metrics, scrape_interval: 1s}, {job_name: b}]"));
    loop_until(&f.k.loop, job(&f, "gpu-metrics") && job(&f, "b"));
    assert_string_equal(codec_json_str(job(&f, "gpu-metrics"), "scrape_interval", NULL), "1s");
    assert_string_equal(codec_json_str(job(&f, "b"), "scrape_interval", NULL), "20s");
    loop_until(&f.k.loop, is_available(&f, PROMETHEUSES, "prometheus", NAME));

    // A mistake keeps the jobs of before.
    patch(&f, SECRETS, "prometheus", "scrapes", "{stringData: {jobs.yaml: '[{job_nam: x}]'}}");
    loop_until(&f.k.loop, has_error(&f, "job_nam"));
    assert_non_null(job(&f, "gpu-metrics"));
    assert_true(cluster_event(&f.k, "InvalidConfiguration", "job_nam"));
    patch(&f, SECRETS, "prometheus", "scrapes", "{stringData: {jobs.yaml: '[{job_name: c}]'}}");
    loop_until(&f.k.loop, job(&f, "c") && !job(&f, "gpu-metrics"));

    // helm rollback
    patch(&f, PROMETHEUSES, "prometheus", NAME, "{spec: {additionalScrapeConfigs: null}}");
    loop_until(&f.k.loop, !job(&f, "c"));
    close_fixture(&f);
}

static void test_a_paused_object_is_not_followed(void **state)
{
    struct fixture f;
    open_fixture(&f);
    define(&f, "Prometheus", "prometheuses");
    create_prometheus(&f, "prometheus");
    loop_until(&f.k.loop, operator_sections(f.o));
    unsigned changes = f.changes;
    patch(&f, PROMETHEUSES, "prometheus", NAME,
          "{spec: {paused: true, replicas: 3, externalLabels: {a: b}}}");
    loop_until(&f.k.loop, f.changes > changes);
    assert_null(codec_json_str(operator_sections(f.o), "global", "external_labels", "a", NULL));
    loop_until(&f.k.loop, codec_json_bool(get(&f, PROMETHEUSES, "prometheus", NAME), false,
                                          "status", "paused", NULL));
    assert_int_equal(codec_json_int(get(&f, KUBE_STATEFULSETS, "prometheus", "prometheus-" NAME), 0,
                                    "spec", "replicas", NULL),
                     1);
    patch(&f, PROMETHEUSES, "prometheus", NAME, "{spec: {paused: false}}");
    loop_until(&f.k.loop, codec_json_str(operator_sections(f.o), "global", "external_labels", "a",
                                         NULL) != NULL);
    loop_until(&f.k.loop,
               codec_json_int(get(&f, KUBE_STATEFULSETS, "prometheus", "prometheus-" NAME), 0,
                              "spec", "replicas", NULL) == 3);
    close_fixture(&f);
}

static void test_selectors_decide_exactly(void **state)
{
    struct fixture f;
    open_fixture(&f);
    define(&f, "Prometheus", "prometheuses");
    create_prometheus(&f, "prometheus");
    loop_until(&f.k.loop, operator_sections(f.o));
    // The fixture has serviceMonitorSelector {} and a podMonitorSelector with the release.
    assert_int_equal(choose(&f, ENGINE_CONFIG_SERVICE_MONITOR, "default", "{}"),
                     ENGINE_CONFIG_USED);
    assert_int_equal(choose(&f, ENGINE_CONFIG_POD_MONITOR, "default", "{}"), ENGINE_CONFIG_UNUSED);
    assert_int_equal(
        choose(&f, ENGINE_CONFIG_POD_MONITOR, "default", "{release: kube-prometheus-stack}"),
        ENGINE_CONFIG_USED);
    loop_until(&f.k.loop, cluster_event(&f.k, "NotSelected", "release=kube-prometheus-stack"));
    patch(&f, PROMETHEUSES, "prometheus", NAME,
          "{spec: {serviceMonitorSelector: null, podMonitorNamespaceSelector: null, "
          "ruleSelector: {matchLabels: null}, ruleNamespaceSelector: {matchLabels: {team: a}}}}");
    loop_until(&f.k.loop, choose(&f, ENGINE_CONFIG_SERVICE_MONITOR, "prometheus", "{}") ==
                              ENGINE_CONFIG_UNUSED);
    assert_int_equal(
        choose(&f, ENGINE_CONFIG_POD_MONITOR, "default", "{release: kube-prometheus-stack}"),
        ENGINE_CONFIG_UNUSED);
    assert_int_equal(
        choose(&f, ENGINE_CONFIG_POD_MONITOR, "prometheus", "{release: kube-prometheus-stack}"),
        ENGINE_CONFIG_USED);
    assert_int_equal(choose(&f, ENGINE_CONFIG_RULE, "default", "{}"), ENGINE_CONFIG_UNUSED);
    patch(&f, KUBE_NAMESPACES, NULL, "default", "{metadata: {labels: {team: a}}}");
    loop_until(&f.k.loop, choose(&f, ENGINE_CONFIG_RULE, "default", "{}") == ENGINE_CONFIG_USED);
    close_fixture(&f);
}

static void test_two_objects_share_the_engine(void **state)
{
    struct fixture f;
    open_fixture(&f);
    define(&f, "Prometheus", "prometheuses");
    cluster_create(&f.k, SECRETS, SCRAPES("[{job_name: a}]"));
    cluster_create(&f.k, PROMETHEUSES,
                   "{apiVersion: monitoring.coreos.com/v1, kind: Prometheus, metadata: {name: a, "
                   "namespace: prometheus}, spec: {externalLabels: {who: a}, podMonitorSelector: "
                   "{}, podMonitorNamespaceSelector: {}, additionalScrapeConfigs: {name: scrapes, "
                   "key: jobs.yaml}}}");
    loop_until(&f.k.loop, job(&f, "a"));
    cluster_create(
        &f.k, PROMETHEUSES,
        "{apiVersion: monitoring.coreos.com/v1, kind: Prometheus, metadata: {name: b, "
        "namespace: prometheus}, spec: {externalLabels: {who: b}, serviceMonitorSelector: "
        "{}, additionalScrapeConfigs: {name: scrapes, key: jobs.yaml}, alerting: "
        "{alertmanagers: [{name: am, port: 9093}]}}}");
    loop_until(&f.k.loop,
               cluster_event(&f.k, "JobNotScraped", "the job a of Prometheus prometheus/a"));
    assert_string_equal(
        codec_json_str(operator_sections(f.o), "global", "external_labels", "who", NULL), "a");
    assert_int_equal(json_array_size(json_object_get(operator_sections(f.o), "scrape_configs")), 1);
    assert_int_equal(
        json_array_size(codec_json_get(operator_sections(f.o), "alerting", "alertmanagers", NULL)),
        1);
    assert_int_equal(choose(&f, ENGINE_CONFIG_SERVICE_MONITOR, "prometheus", "{}"),
                     ENGINE_CONFIG_USED);
    assert_int_equal(choose(&f, ENGINE_CONFIG_POD_MONITOR, "default", "{}"), ENGINE_CONFIG_USED);
    assert_int_equal(choose(&f, ENGINE_CONFIG_SERVICE_MONITOR, "default", "{}"),
                     ENGINE_CONFIG_UNUSED);
    // The other one takes over.
    cluster_delete(&f.k, PROMETHEUSES, "prometheus", "a");
    loop_until(&f.k.loop, gs_streq(codec_json_str(operator_sections(f.o), "global",
                                                  "external_labels", "who", NULL),
                                   "b"));
    close_fixture(&f);
}

static void test_kinds_that_are_not_read_are_named(void **state)
{
    struct fixture f;
    open_fixture(&f);
    define(&f, "Probe", "probes");
    cluster_create(&f.k, PROBES,
                   "{apiVersion: monitoring.coreos.com/v1, kind: Probe, metadata: {name: p}}");
    loop_until(&f.k.loop, cluster_event(&f.k, "NotSupported", "Probe"));
    close_fixture(&f);
}

static void test_kubelets_have_the_service_that_the_operator_names(void **state)
{
    struct fixture f;
    open_fixture(&f);
    cluster_node(&f.k, "0");
    cluster_patch(&f.k, KUBE_NODES, "node-1", "status",
                  "status: {addresses: [{type: InternalIP, address: 127.0.0.1}], "
                  "daemonEndpoints: {kubeletEndpoint: {Port: 4321}}}");
    cluster_create(&f.k, KUBE_DEPLOYMENTS,
                   "{apiVersion: apps/v1, kind: Deployment, metadata: {name: o}, spec: {replicas: "
                   "0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, "
                   "spec: {containers: [{name: c, image: "
                   "'quay.io/prometheus-operator/prometheus-operator:v1', args: "
                   "[--kubelet-service=kube-system/kubelets]}]}}}}");
    loop_until(&f.k.loop, get(&f, KUBE_ENDPOINTS, "kube-system", "kubelets"));
    const json_t *subset = json_array_get(
        json_object_get(get(&f, KUBE_ENDPOINTS, "kube-system", "kubelets"), "subsets"), 0);
    const json_t *port = json_array_get(json_object_get(subset, "ports"), 0);
    assert_string_equal(codec_json_str(port, "name", NULL), "https-metrics");
    assert_int_equal(codec_json_int(port, 0, "port", NULL), 4321);
    assert_string_equal(codec_json_str(get(&f, KUBE_SERVICES, "kube-system", "kubelets"), "spec",
                                       "clusterIP", NULL),
                        "None");
    close_fixture(&f);
}

static bool account_is(const struct fixture *f, const char *ns)
{
    GS_AUTO_FREE char *of_ns = gs_format("%s/namespace", f->dir);
    GS_AUTO_FREE char *token = gs_format("%s/token", f->dir);
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(of_ns, 100, &text);
    return !err && gs_streq(text.data, ns) && access(token, R_OK) == 0;
}

static void test_the_engine_has_the_account_of_the_oldest_object(void **state)
{
    struct fixture f;
    open_fixture(&f);
    loop_until(&f.k.loop, account_is(&f, "default"));
    define(&f, "Prometheus", "prometheuses");
    create_object(&f, PROMETHEUSES, chart_object(&f.docs, "prometheus", "Prometheus", NAME));
    // A chart's account may be created after its object.
    create_account(&f, "prometheus", NAME);
    loop_until(&f.k.loop, account_is(&f, "prometheus"));
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects_of_charts_become_ready_workloads),
        cmocka_unit_test(test_everything_goes_with_the_object),
        cmocka_unit_test(test_nothing_happens_without_the_definitions),
        cmocka_unit_test(test_additional_scrape_configs_follow_their_secret),
        cmocka_unit_test(test_a_paused_object_is_not_followed),
        cmocka_unit_test(test_selectors_decide_exactly),
        cmocka_unit_test(test_two_objects_share_the_engine),
        cmocka_unit_test(test_kinds_that_are_not_read_are_named),
        cmocka_unit_test(test_kubelets_have_the_service_that_the_operator_names),
        cmocka_unit_test(test_the_engine_has_the_account_of_the_oldest_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
