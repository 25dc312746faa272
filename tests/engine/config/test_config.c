// SPDX-License-Identifier: Apache-2.0
// prometheus.yml: values, defaults, and positions of errors.
#include "engine/config/config.h"

#include "base/mem.h"
#include "unit.h"

static struct engine_config *read_config(const char *text)
{
    struct engine_config *c;
    assert_ok(engine_config_parse(gs_slice_of(text), "p.yml", "/etc/p", &c));
    return c;
}

static void test_what_is_written_is_read(void **state)
{
    struct engine_config *c =
        read_config("global:\n"
                    "  scrape_interval: 1s\n"
                    "  evaluation_interval: 1m30s\n"
                    "  external_labels: {b: x, a: 'y'}\n"
                    "rule_files: [rules/*.yml, /abs.yml]\n"
                    "alerting:\n"
                    "  alertmanagers:\n"
                    "  - static_configs: [{targets: ['am:9093']}]\n"
                    "remote_write: [{url: 'http://r/w', queue_config: {capacity: 5}}]\n"
                    "scrape_configs:\n"
                    "- job_name: gpu\n"
                    "  scrape_interval: 5s\n"
                    "  params: {collect: [a, b]}\n"
                    "  honor_labels: true\n"
                    "  sample_limit: 100\n"
                    "  body_size_limit: 10MB\n"
                    "  basic_auth: {username: u, password: p}\n"
                    "  tls_config: {ca_file: ca.pem, insecure_skip_verify: yes}\n"
                    "  static_configs:\n"
                    "  - targets: ['h:9400', 'i:9400']\n"
                    "    labels: {rack: 7}\n"
                    "  kubernetes_sd_configs:\n"
                    "  - role: endpoints\n"
                    "    namespaces: {names: [default]}\n"
                    "  relabel_configs:\n"
                    "  - source_labels: [__meta_kubernetes_pod_node_name]\n"
                    "    action: replace\n"
                    "    target_label: node\n"
                    "- job_name: other\n");
    assert_int_equal(c->evaluation_interval_ms, 90000);
    assert_int_equal(c->n_external_labels, 2);
    assert_true(gs_slice_eq_str(c->external_labels[0].name, "a"));
    assert_string_equal(c->rule_files[0], "/etc/p/rules/*.yml");
    assert_string_equal(c->rule_files[1], "/abs.yml");
    assert_string_equal(c->alertmanagers[0].sd.statics[0].targets[0], "am:9093");
    assert_int_equal(c->remote_writes[0].capacity, 5);
    assert_int_equal(c->remote_writes[0].max_samples_per_send, 2000);
    assert_true(c->remote_writes[0].retry_429 && !c->remote_writes[0].v2);
    const struct engine_config_scrape_config *s = &c->scrapes[0];
    assert_int_equal(s->interval_ms, 5000);
    assert_int_equal(s->timeout_ms, 1000); // the global timeout, limited to the interval
    assert_int_equal(s->n_params, 2);
    assert_true(s->honor_labels && s->honor_timestamps && s->enable_compression);
    assert_int_equal(s->body_size_limit, 10 << 20);
    assert_int_equal(s->sample_limit, 100);
    assert_string_equal(s->http.user.text, "u");
    assert_string_equal(s->http.ca.file, "/etc/p/ca.pem");
    assert_true(s->http.insecure_skip_verify && s->http.follow_redirects);
    assert_int_equal(s->sd.statics[0].n_targets, 2);
    assert_true(gs_slice_eq_str(s->sd.statics[0].labels[0].value, "7"));
    assert_int_equal(s->sd.kubernetes[0].role, ENGINE_CONFIG_SD_ENDPOINTS);
    assert_string_equal(s->sd.kubernetes[0].namespaces[0], "default");
    assert_string_equal(s->relabel.items[0].target_label, "node");
    assert_string_equal(s->relabel.items[0].separator, ";");
    s = &c->scrapes[1];
    assert_int_equal(s->interval_ms, 1000);
    assert_string_equal(s->metrics_path, "/metrics");
    assert_string_equal(s->scheme, "http");
    assert_int_equal(c->n_ignored, 0);
    engine_config_free(c);
    (void)state;
}

// A machine that was busy for a moment made the targets of short intervals look failed.
static void test_short_intervals_leave_time_for_a_scrape(void **state)
{
    struct engine_config *c = read_config("global: {scrape_interval: 1s}\n"
                                          "scrape_configs:\n"
                                          "- {job_name: a, scrape_interval: 250ms}\n"
                                          "- {job_name: b, scrape_interval: 250ms, "
                                          "scrape_timeout: 100ms}\n");
    assert_int_equal(c->scrapes[0].timeout_ms, 1000);
    assert_int_equal(c->scrapes[1].timeout_ms, 100);
    engine_config_free(c);
    (void)state;
}

static void test_nothing_gives_the_defaults(void **state)
{
    struct engine_config *c = read_config("");
    assert_int_equal(c->scrape_interval_ms, 60000);
    assert_int_equal(c->scrape_timeout_ms, 10000);
    assert_int_equal(c->evaluation_interval_ms, 60000);
    engine_config_free(c);
    (void)state;
}

static void test_what_is_not_supported_is_told(void **state)
{
    struct engine_config *c = read_config("tracing: {endpoint: x}\n"
                                          "scrape_configs:\n"
                                          "- job_name: a\n"
                                          "  ec2_sd_configs: [{region: x}]\n");
    assert_int_equal(c->n_ignored, 2);
    GS_AUTO_FREE char *both = gs_format("%s|%s", c->ignored[0], c->ignored[1]);
    assert_non_null(strstr(both, "p.yml:4"));
    assert_non_null(strstr(both, "ec2_sd_configs of scrape_configs is not supported"));
    engine_config_free(c);
    (void)state;
}

// With the settings of Prometheus 3.16 that have no effect here: at their defaults, and others.
static void test_settings_without_effect_are_silent_at_their_defaults(void **state)
{
    static const char silent[] =
        "global: {scrape_native_histograms: false, extra_scrape_metrics: false,\n"
        "  query_max_series: 5, query_max_samples_read: 9, query_max_duration: 1m}\n"
        "storage:\n"
        "  tsdb: {retention: {time: 0s, size: 0, percentage: 0}, chunk_encoding: {floats: xor},\n"
        "    stale_series_compaction_threshold: 0.0}\n"
        "  exemplars: {max_exemplars: 100000}\n"
        "otlp: {translation_strategy: UnderscoreEscapingWithSuffixes, promote_scope_metadata: "
        "false,\n"
        "  label_name_underscore_sanitization: true, promote_resource_attributes: []}\n"
        "scrape_configs: [{job_name: a, scrape_native_histograms: false}]\n";
    static const char *const noted[] = {
        "global: {extra_scrape_metrics: true}",
        "scrape_configs: [{job_name: a, scrape_native_histograms: true}]",
        "storage: {tsdb: {retention: {time: 1d}}}",
        "storage: {tsdb: {stale_series_compaction_threshold: 0.5}}",
        "otlp: {convert_histograms_to_nhcb: true}",
        "scrape_configs: [{job_name: a, oci_sd_configs: [{}]}]",
    };
    struct engine_config *c = read_config(silent);
    assert_int_equal(c->n_ignored, 0);
    engine_config_free(c);
    for (size_t i = 0; i < GS_ARRAY_LEN(noted); i++) {
        c = read_config(noted[i]);
        assert_int_equal(c->n_ignored, 1);
        engine_config_free(c);
    }
    (void)state;
}

static void test_log_level_of_the_configuration(void **state)
{
    struct engine_config *c = read_config("runtime: {gogc: 50, log_level: WARN}\n");
    assert_string_equal(c->log_level, "warn");
    engine_config_free(c);
    struct gs_error *err =
        engine_config_parse(GS_SLICE("runtime: {log_level: loud}"), "p", ".", &c);
    assert_non_null(strstr(gs_error_message(err), "unrecognized log level loud"));
    gs_error_free(err);
    (void)state;
}

static void test_nodes_select_pods(void **state)
{
    struct engine_config *c =
        read_config("scrape_configs:\n- job_name: a\n  kubernetes_sd_configs:\n  - role: pod\n"
                    "    attach_metadata: {node: true}\n"
                    "    selectors: [{role: node, label: gpu=yes}, {role: pod, label: app=a}]\n");
    assert_string_equal(c->scrapes[0].sd.kubernetes[0].selectors[ENGINE_CONFIG_SD_NODE].label,
                        "gpu=yes");
    assert_string_equal(c->scrapes[0].sd.kubernetes[0].selectors[ENGINE_CONFIG_SD_POD].label,
                        "app=a");
    engine_config_free(c);
    (void)state;
}

static void test_secrets_are_not_shown(void **state)
{
    struct engine_config *c = read_config("scrape_configs:\n"
                                          "- job_name: a\n"
                                          "  basic_auth:\n"
                                          "    username: me\n"
                                          "    password: hunter2\n");
    assert_non_null(strstr(c->shown, "password: <secret>"));
    assert_non_null(strstr(c->shown, "username: me"));
    assert_null(strstr(c->shown, "hunter2"));
    engine_config_free(c);
    (void)state;
}

static void test_limits_of_global_are_those_of_jobs_without(void **state)
{
    struct engine_config *c =
        read_config("scrape_configs: [{job_name: a, sample_limit: 5}, {job_name: b}]\n"
                    "global: {sample_limit: 7, body_size_limit: 1MB, label_limit: 3}\n");
    assert_int_equal(c->scrapes[0].sample_limit, 5);
    assert_int_equal(c->scrapes[1].sample_limit, 7);
    assert_int_equal(c->scrapes[0].body_size_limit, 1 << 20);
    assert_int_equal(c->scrapes[1].label_limit, 3);
    assert_int_equal(c->n_ignored, 0);
    engine_config_free(c);
    (void)state;
}

#define RELABEL(rule, error)                                                                       \
    {                                                                                              \
        "scrape_configs: [{job_name: a, relabel_configs: [" rule "]}]\n", error                    \
    }
#define KUBERNETES(sd, error)                                                                      \
    {                                                                                              \
        "scrape_configs: [{job_name: a, kubernetes_sd_configs: [{" sd "}]}]\n", error              \
    }

static void test_names_and_protocols_follow_global(void **state)
{
    struct engine_config *c =
        read_config("global:\n"
                    "  metric_name_validation_scheme: legacy\n"
                    "  scrape_protocols: [PrometheusText1.0.0, PrometheusProto]\n"
                    "scrape_configs:\n"
                    "- job_name: all\n"
                    "- job_name: own\n"
                    "  scrape_protocols: [PrometheusText0.0.4]\n"
                    "  fallback_scrape_protocol: OpenMetricsText1.0.0\n"
                    "- job_name: utf8\n"
                    "  metric_name_validation_scheme: utf8\n"
                    "- job_name: dots\n"
                    "  metric_name_escaping_scheme: dots\n"
                    "- job_name: any\n"
                    "  metric_name_validation_scheme: utf8\n"
                    "  metric_name_escaping_scheme: allow-utf-8\n");
    const struct engine_config_scrape_config *s = c->scrapes;
    assert_true(s[0].legacy_names && s[1].legacy_names && s[3].legacy_names);
    assert_string_equal(s[0].accept,
                        "text/plain;version=1.0.0;escaping=underscores;q=0.7,*/*;q=0.5");
    assert_string_equal(s[1].accept, "text/plain;version=0.0.4;q=0.7,*/*;q=0.6");
    assert_int_equal(s[1].fallback, ENGINE_CONFIG_FALLBACK_OPENMETRICS);
    assert_false(s[2].legacy_names); // the escaping scheme is that of its own validation scheme
    assert_non_null(strstr(s[2].accept, "escaping=allow-utf-8"));
    assert_non_null(strstr(s[3].accept, "escaping=dots"));
    assert_non_null(strstr(s[4].accept, "escaping=allow-utf-8"));
    assert_int_equal(c->n_ignored, 1);
    assert_non_null(strstr(c->ignored[0], "p.yml:3:21: PrometheusProto of scrape_protocols"));
    engine_config_free(c);
    (void)state;
}

static void test_external_labels_take_the_environment(void **state)
{
    assert_int_equal(setenv("GPUSCALE_TEST_NAME", "n 1", 1), 0);
    assert_int_equal(unsetenv("GPUSCALE_TEST_NONE"), 0);
    struct engine_config *c =
        read_config("global:\n"
                    "  external_labels: {a: '${GPUSCALE_TEST_NAME}/$GPUSCALE_TEST_NAME.$$x$', "
                    "b: '$GPUSCALE_TEST_NONE', c: '5$ ${', d: plain}\n");
    assert_int_equal(c->n_external_labels, 3); // a label without a value is absent
    assert_true(gs_slice_eq_str(c->external_labels[0].value, "n 1/n 1.$x$"));
    assert_true(gs_slice_eq_str(c->external_labels[1].value, "5$ "));
    assert_true(gs_slice_eq_str(c->external_labels[2].value, "plain"));
    assert_int_equal(c->n_ignored, 1);
    assert_non_null(strstr(c->ignored[0], "environment variable GPUSCALE_TEST_NONE"));
    engine_config_free(c);
    (void)state;
}

static void test_max_exemplars(void **state)
{
    static const struct {
        const char *text;
        size_t max;
    } cases[] = {
        {"", 100000},
        {"storage: {}", 100000},
        {"storage: {exemplars: }", 100000},
        {"storage: {exemplars: {}}", 0},
        {"storage: {exemplars: {max_exemplars: 5}}", 5},
        {"storage: {exemplars: {max_exemplars: -5}}", 0},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct engine_config *c = read_config(cases[i].text);
        assert_int_equal(c->max_exemplars, cases[i].max);
        assert_int_equal(c->n_ignored, 0);
        engine_config_free(c);
    }
    (void)state;
}

static void test_what_says_false_needs_no_support(void **state)
{
    struct engine_config *c =
        read_config("global: {convert_classic_histograms_to_nhcb: false, rule_query_offset: 5s}\n"
                    "scrape_configs: [{job_name: a, track_timestamps_staleness: false}]\n"
                    "remote_write: [{url: 'http://h', send_exemplars: false}]\n");
    assert_int_equal(c->n_ignored, 0);
    assert_int_equal(c->rule_query_offset_ms, 5000);
    engine_config_free(c);
    (void)state;
}

static void test_remote_write_messages(void **state)
{
    struct engine_config *c = read_config(
        "remote_write:\n"
        "- {url: 'http://a', protobuf_message: prometheus.WriteRequest}\n"
        "- {url: 'http://b', protobuf_message: io.prometheus.write.v2.Request, send_exemplars: "
        "true, queue_config: {retry_on_http_429: false}}\n");
    assert_int_equal(c->n_ignored, 0);
    assert_false(c->remote_writes[0].v2);
    assert_true(c->remote_writes[1].v2 && c->remote_writes[1].send_exemplars);
    assert_false(c->remote_writes[1].retry_429);
    engine_config_free(c);
    (void)state;
}

static void test_sizes_are_those_of_prometheus(void **state)
{
    static const struct {
        const char *text;
        size_t bytes;
    } cases[] = {
        {"10MB", 10 << 20}, {"1.5KiB", 1536}, {"1MiB", 1 << 20}, {"1KiB2B", 1026}, {"0", 0}};
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *text =
            gs_format("scrape_configs: [{job_name: a, body_size_limit: %s}]", cases[i].text);
        struct engine_config *c = read_config(text);
        assert_int_equal(c->scrapes[0].body_size_limit, cases[i].bytes);
        engine_config_free(c);
    }
    (void)state;
}

static void write_file(const char *dir, const char *name, const char *text)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void test_scrape_configs_come_from_files_too(void **state)
{
    char dir[] = "/tmp/gpuscale-config-XXXXXX";
    struct engine_config *c;
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *path = gs_format("%s/p.yml", dir);
    write_file(dir, "p.yml",
               "global: {scrape_interval: 7s}\n"
               "scrape_config_files: [more*.yml, none.yml]\n"
               "scrape_configs: [{job_name: a}]\n");
    write_file(dir, "more1.yml", "scrape_configs:\n- job_name: b\n  bearer_token_file: t\n");
    write_file(dir, "more2.yml", "scrape_configs: [{job_name: c, sample_limit: 3}]\n");
    assert_ok(engine_config_load(path, &c));
    assert_int_equal(c->n_scrapes, 3);
    assert_string_equal(c->scrapes[1].job_name, "b");
    assert_int_equal(c->scrapes[1].interval_ms, 7000);
    assert_non_null(c->scrapes[1].accept);
    GS_AUTO_FREE char *token = gs_format("%s/t", dir);
    assert_string_equal(c->scrapes[1].http.credentials.file, token);
    assert_int_equal(c->scrapes[2].sample_limit, 3);
    engine_config_free(c);
    write_file(dir, "more2.yml", "scrape_configs: [{job_name: a}]\n");
    assert_error(engine_config_load(path, &c), GS_EINVAL,
                 "more2.yml:1:18: found multiple scrape configs with job name \"a\"");
    write_file(dir, "more2.yml", "rule_files: [x]\n");
    assert_error(engine_config_load(path, &c), GS_EINVAL, "more2.yml:1:13: unknown field");
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"p.yml", "more1.yml", "more2.yml"};
        GS_AUTO_FREE char *file = gs_format("%s/%s", dir, names[i]);
        assert_int_equal(remove(file), 0);
    }
    assert_int_equal(remove(dir), 0);
    (void)state;
}

static void test_mistakes_are_told_with_their_place(void **state)
{
    static const char *const cases[][2] = {
        {"globl: {}\n",
         "p.yml:1:8: unknown field \"globl\" in the configuration, did you mean \"global\"?"},
        {"global:\n  scrape_interval: fast\n", "p.yml:2:20: not a valid duration string: \"fast\""},
        {"scrape_configs:\n- scrape_interval: 1s\n", "job_name is empty"},
        {"scrape_configs: [{job_name: a}, {job_name: a}]\n",
         "found multiple scrape configs with job name \"a\""},
        {"scrape_configs: [{job_name: a, scrape_interval: 1s, scrape_timeout: 2s}]\n",
         "scrape timeout greater than scrape interval for scrape config with job name \"a\""},
        {"scrape_configs:\n- job_name: a\n  relabel_configs:\n  - action: hashmod\n    "
         "target_label: x\n",
         "p.yml:4"},
        {"scrape_configs:\n- job_name: a\n  relabel_configs:\n  - regex: '('\n    target_label: "
         "x\n",
         "p.yml:4"},
        {"scrape_configs:\n- job_name: a\n  kubernetes_sd_configs:\n  - role: pods\n",
         "unknown Kubernetes SD role \"pods\""},
        {"scrape_configs:\n- job_name: a\n  basic_auth: {username: u}\n  bearer_token: t\n",
         "at most one of basic_auth"},
        {"scrape_configs: {a: b}\n", "expected a list"},
        {"remote_write: [{}]\n", "url for remote_write is empty"},
        {"- a\n", "must be a mapping"},
        {"scrape_configs: [{job_name: a, body_size_limit: 100}]\n", "is not a size"},
        {"scrape_configs: [{job_name: a, static_configs: [null]}]\n", "empty or null section"},
        {"scrape_configs: [{job_name: a, bearer_token: x, bearer_token_file: y}]\n",
         "at most one of bearer_token & bearer_token_file must be configured"},
        {"scrape_configs: [{job_name: a, authorization: {type: Basic}}]\n", "basic_auth\" instead"},
        {"alerting: {alertmanagers: [{api_version: v1}]}\n", "to be one of [v2] but got v1"},
        {"remote_write: [{url: a, name: n}, {url: b, name: n}]\n",
         "found multiple remote write configs with job name \"n\""},
        {"remote_write: [{url: a, protobuf_message: x}]\n",
         "unknown type for remote write protobuf message x, supported: prometheus.WriteRequest, "
         "io.prometheus.write.v2.Request"},
        {"remote_write: [{url: a, headers: {Host: x}}]\n", "Host is a reserved header"},
        {"remote_write:\n- url: a\n  sigv4: {region: b}\n",
         "p.yml:3:10: sigv4 is not supported: use a proxy that signs requests, such as vmagent"},
        {"remote_write: [{url: a, azuread: {}}]\n",
         "azuread is not supported: use oauth2 with client_id"},
        {"remote_write: [{url: a, google_iam: {}}]\n",
         "google_iam is not supported: use authorization with a credentials_file"},
        {"alerting: {alertmanagers: [{sigv4: {region: a}}]}\n", "sigv4 is not supported"},
        RELABEL("{action: labeldrop, regex: a, source_labels: [b]}",
                "labeldrop action requires only 'regex'"),
        RELABEL("{action: keepequal, target_label: a, regex: b}",
                "keepequal action requires only 'source_labels'"),
        RELABEL("{action: uppercase, target_label: a, replacement: b}",
                "'replacement' can not be set for uppercase action"),
        RELABEL("{action: hashmod, modulus: 2}",
                "relabel configuration for hashmod action requires 'target_label' value"),
        KUBERNETES("role: pod, selectors: [{role: service}]",
                   "pod role supports only pod, node selectors"),
        KUBERNETES("role: endpoints, selectors: [{role: node}]",
                   "endpoints role supports only pod, service, endpoints selectors"),
        KUBERNETES("role: pod, selectors: [{role: pod}, {role: pod}]", "duplicated selector role"),
        KUBERNETES("role: pod, api_server: x, kubeconfig_file: y",
                   "cannot use 'kubeconfig_file' and 'api_server' simultaneously"),
        KUBERNETES("role: pod, bearer_token: x", "please provide the 'api_server' URL explicitly"),
        KUBERNETES("role: pod, api_server: x, namespaces: {own_namespace: true}",
                   "cannot use 'api_server' and 'namespaces.own_namespace' simultaneously"),
        {"scrape_configs: [{job_name: a, metric_name_validation_scheme: legacy, "
         "metric_name_escaping_scheme: allow-utf-8}]\n",
         "utf8 metric names requested but validation scheme is not set to UTF8"},
        {"global: {metric_name_validation_scheme: x}\nscrape_configs: [{job_name: a}]\n",
         "unrecognized ValidationScheme: \"x\""},
        {"scrape_configs: [{job_name: a, metric_name_validation_scheme: x}]\n",
         "p.yml:1:63: unrecognized ValidationScheme: \"x\""},
        {"global: {metric_name_escaping_scheme: x}\nscrape_configs: [{job_name: a}]\n",
         "unknown global name escaping method specified, must be one of 'allow-utf-8', "
         "'underscores', 'dots', or 'values', got \"x\""},
        {"global: {metric_name_validation_scheme: legacy, external_labels: {a.b: c}}\n",
         "\"a.b\" is not a valid label name"},
        {"global: {metric_name_validation_scheme: legacy}\n"
         "alerting: {alert_relabel_configs: [{target_label: 'a.b'}]}\n",
         "\"a.b\" is invalid 'target_label' for replace action"},
        {"scrape_configs: [{job_name: a, metric_name_validation_scheme: legacy, "
         "metric_relabel_configs: [{action: labelmap, replacement: 'l.$1'}]}]\n",
         "\"l.$1\" is invalid 'replacement' for labelmap action"},
        {"scrape_configs: [{job_name: a, metric_name_escaping_scheme: x}]\n",
         "p.yml:1:61: unknown scrape config name escaping method specified"},
        {"global: {scrape_protocols: []}\n", "scrape_protocols cannot be empty for global config"},
        {"scrape_configs: [{job_name: a, scrape_protocols: [PrometheusProto, prometheusproto]}]\n",
         "duplicated protocol in scrape_protocols, got [PrometheusProto prometheusproto] for "
         "scrape config with job name \"a\""},
        {"scrape_configs: [{job_name: a, scrape_protocols: [text]}]\n",
         "scrape_protocols: unknown scrape protocol text, supported: [OpenMetricsText0.0.1"},
        {"scrape_configs: [{job_name: a, fallback_scrape_protocol: text}]\n",
         "invalid fallback_scrape_protocol for scrape config with job name \"a\": unknown scrape "
         "protocol text, supported"},
        {"scrape_configs: [{job_name: a, metric_relabel_configs: [{regex: 'DCGM_(?!FI).*', action: "
         "drop}]}]\n",
         "p.yml:1:65: error parsing regexp: invalid or unsupported Perl syntax: `(?!`"},
        {"alerting: {alert_relabel_configs: [{regex: '(?=x)y', action: drop}]}\n",
         "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"},
        {"remote_write: [{url: 'http://r', write_relabel_configs: [{regex: '(a)\\1', action: "
         "drop}]}]\n",
         "error parsing regexp: invalid escape sequence: `\\1`"},
        {"a: [\n", "p.yml:"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct engine_config *c;
        assert_error(engine_config_parse(gs_slice_of(cases[i][0]), "p.yml", ".", &c), GS_EINVAL,
                     cases[i][1]);
    }
    (void)state;
}

static void test_rules_on_labels_that_cannot_exist_are_noted(void **state)
{
    static const char *const cases[][2] = {
        // the discovery of the job, its rules, and the note; NULL: none
        {"static_configs: [{targets: [a]}], relabel_configs: [{source_labels: "
         "[__meta_kubernetes_pod_name], target_label: pod}]",
         "p.yml:1:84: the rule never matches: __meta_kubernetes_pod_name exists only with "
         "kubernetes_sd_configs"},
        {"kubernetes_sd_configs: [{role: node}], relabel_configs: [{source_labels: "
         "[__meta_kubernetes_pod_label_app], action: keep, regex: a}]",
         "__meta_kubernetes_pod_label_app exists only with role pod, endpoints, endpointslice"},
        {"kubernetes_sd_configs: [{role: pod}], relabel_configs: [{action: labelmap, regex: "
         "__meta_kubernetes_node_label_(.+)}]",
         "__meta_kubernetes_node_label_ exists only with role node, or with attach_metadata"},
        {"kubernetes_sd_configs: [{role: pod, attach_metadata: {node: true}}], relabel_configs: "
         "[{action: labelmap, regex: __meta_kubernetes_node_label_(.+)}]",
         NULL},
        {"kubernetes_sd_configs: [{role: pod}], relabel_configs: [{source_labels: "
         "[__meta_kubernetes_pod_label_app.kubernetes.io/name], target_label: a}]",
         "is written __meta_kubernetes_pod_label_app_kubernetes_io_name"},
        {"kubernetes_sd_configs: [{role: pod}], relabel_configs: [{source_labels: "
         "[__meta_kubernetes_pod_nodename], target_label: a}]",
         "did you mean \"__meta_kubernetes_pod_node_name\"?"},
        {"kubernetes_sd_configs: [{role: endpoints}], relabel_configs: [{source_labels: "
         "[__meta_kubernetes_pod_label_a, __meta_kubernetes_service_annotation_b, "
         "__meta_kubernetes_endpoint_port_name, __meta_kubernetes_namespace], target_label: a}]",
         NULL},
        {"kubernetes_sd_configs: [{role: pod}], metric_relabel_configs: [{source_labels: "
         "[__meta_kubernetes_pod_name], target_label: pod}]",
         "__meta_kubernetes_pod_name ends with relabel_configs"},
        {"kubernetes_sd_configs: [{role: pod}], relabel_configs: [{source_labels: [__tmp_a], "
         "target_label: b}, {source_labels: [__meta_kubernetes_pod_name], target_label: __tmp_a}]",
         "__tmp_a is set only by a later rule"},
        {"dns_sd_configs: [{names: [a]}], relabel_configs: [{source_labels: [__meta_dns_name, "
         "__meta_ec2_tag_a], target_label: b}]",
         "__meta_ec2_tag_a is set by no service discovery of the job"},
        {"http_sd_configs: [{url: 'http://a'}], relabel_configs: [{source_labels: [__meta_x], "
         "target_label: b}]",
         NULL},
        {"static_configs: [{targets: [a], labels: {__meta_x: y}}], relabel_configs: "
         "[{source_labels: [__meta_x], target_label: b}]",
         NULL},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *text = gs_format("scrape_configs: [{job_name: a, %s}]\n", cases[i][0]);
        struct engine_config *c = read_config(text);
        assert_int_equal(c->n_ignored, cases[i][1] != NULL);
        if (c->n_ignored && !strstr(c->ignored[0], cases[i][1]))
            fail_msg("%s: %s", cases[i][0], c->ignored[0]);
        engine_config_free(c);
    }
    (void)state;
}

static void test_queues_are_checked_as_in_prometheus(void **state)
{
    static const char *const cases[][2] = {
        {"max_shards: 0", "max_shards must be positive"},
        {"min_shards: 0", "min_shards must be positive"},
        {"min_shards: 10, max_shards: 5", "min_shards must not be greater than max_shards"},
        {"min_shards: 60", "min_shards must not be greater than max_shards"},
        {"max_samples_per_send: -1", "max_samples_per_send must be positive"},
        {"capacity: 0", "capacity must be positive"},
        {"capacity: -5", "capacity must be positive"},
        {"min_backoff: 10s, max_backoff: 1s", "max_backoff must not be less than min_backoff"},
        {"min_backoff: 10s", "max_backoff must not be less than min_backoff"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct engine_config *c;
        GS_AUTO_FREE char *text =
            gs_format("remote_write: [{url: 'http://r', queue_config: {%s}}]\n", cases[i][0]);
        GS_AUTO_FREE char *wanted = gs_format("p.yml:1:48: remote write queue %s", cases[i][1]);
        assert_error(engine_config_parse(gs_slice_of(text), "p.yml", ".", &c), GS_EINVAL, wanted);
    }
    struct engine_config *c = read_config(
        "remote_write: [{url: 'http://r', queue_config: {capacity: 7, max_samples_per_send: 3, "
        "max_shards: 1, batch_send_deadline: 0s, min_backoff: 1s, max_backoff: 1s}}]\n");
    assert_int_equal(c->remote_writes[0].capacity, 7);
    assert_int_equal(c->remote_writes[0].max_samples_per_send, 3);
    engine_config_free(c);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_short_intervals_leave_time_for_a_scrape),
        cmocka_unit_test(test_nothing_gives_the_defaults),
        cmocka_unit_test(test_what_is_not_supported_is_told),
        cmocka_unit_test(test_settings_without_effect_are_silent_at_their_defaults),
        cmocka_unit_test(test_log_level_of_the_configuration),
        cmocka_unit_test(test_nodes_select_pods),
        cmocka_unit_test(test_secrets_are_not_shown),
        cmocka_unit_test(test_limits_of_global_are_those_of_jobs_without),
        cmocka_unit_test(test_names_and_protocols_follow_global),
        cmocka_unit_test(test_external_labels_take_the_environment),
        cmocka_unit_test(test_max_exemplars),
        cmocka_unit_test(test_what_says_false_needs_no_support),
        cmocka_unit_test(test_remote_write_messages),
        cmocka_unit_test(test_sizes_are_those_of_prometheus),
        cmocka_unit_test(test_scrape_configs_come_from_files_too),
        cmocka_unit_test(test_mistakes_are_told_with_their_place),
        cmocka_unit_test(test_queues_are_checked_as_in_prometheus),
        cmocka_unit_test(test_rules_on_labels_that_cannot_exist_are_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
