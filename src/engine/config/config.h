// SPDX-License-Identifier: Apache-2.0
// prometheus.yml: https://prometheus.io/docs/prometheus/latest/configuration/configuration/. An
// invalid file is rejected as a whole with file:line; unknown keys are errors, as in Prometheus. A
// configuration is immutable and owns everything in it.
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "codec/json.h"
#include "codec/yaml_reader.h"
#include "metrics/labels.h"
#include "metrics/write.h"
#include "net/endpoint/endpoint.h"
#include "tsdb/matcher.h"

#include <stdint.h>

enum engine_config_relabel_action {
    ENGINE_CONFIG_RELABEL_REPLACE,
    ENGINE_CONFIG_RELABEL_KEEP,
    ENGINE_CONFIG_RELABEL_DROP,
    ENGINE_CONFIG_RELABEL_KEEPEQUAL,
    ENGINE_CONFIG_RELABEL_DROPEQUAL,
    ENGINE_CONFIG_RELABEL_HASHMOD,
    ENGINE_CONFIG_RELABEL_LABELMAP,
    ENGINE_CONFIG_RELABEL_LABELDROP,
    ENGINE_CONFIG_RELABEL_LABELKEEP,
    ENGINE_CONFIG_RELABEL_LOWERCASE,
    ENGINE_CONFIG_RELABEL_UPPERCASE,
};

struct engine_config_relabel {
    const char *const *source_labels;
    size_t n_source_labels;
    const char *separator, *target_label, *replacement, *pattern;
    struct tsdb_regex *regex; // of pattern
    uint64_t modulus;
    enum engine_config_relabel_action action;
};

struct engine_config_relabels {
    const struct engine_config_relabel *items;
    size_t n;
};

struct engine_config_static_group {
    const char *const *targets;
    size_t n_targets;
    const struct metrics_label *labels;
    size_t n_labels;
};

enum engine_config_sd_role {
    ENGINE_CONFIG_SD_NODE,
    ENGINE_CONFIG_SD_POD,
    ENGINE_CONFIG_SD_SERVICE,
    ENGINE_CONFIG_SD_ENDPOINTS,
    ENGINE_CONFIG_SD_ENDPOINTSLICE,
    ENGINE_CONFIG_SD_INGRESS
};
enum { ENGINE_CONFIG_SD_N_ROLES = ENGINE_CONFIG_SD_INGRESS + 1 };

struct engine_config_selector {
    const char *label, *field; // NULL: all objects
};

// Labels of related objects that targets get, too.
struct engine_config_attach {
    bool node, namespace_; // labels and annotations
    // The name of the pod's owner.
    bool deployment, job, cronjob;
};

struct engine_config_kubernetes_sd {
    enum engine_config_sd_role role;
    const char *api_server, *kubeconfig_file; // both NULL: the cluster that the engine runs in
    struct endpoint_settings http;
    bool own_namespace;
    const char *const *namespaces;
    size_t n_namespaces;
    struct engine_config_attach attach;
    // Of objects by their role: those of the configuration's role, and related ones. With
    // attach.node, pods on other nodes are not targets.
    struct engine_config_selector selectors[ENGINE_CONFIG_SD_N_ROLES];
};

struct engine_config_file_sd {
    const char *const *files; // globs, absolute
    size_t n_files;
    int64_t refresh_ms;
};

struct engine_config_http_sd {
    const char *url;
    int64_t refresh_ms;
    struct endpoint_settings http;
};

struct engine_config_dns_sd {
    const char *const *names;
    size_t n_names;
    int type;    // of the records, by DNS number
    size_t port; // of all types except SRV
    int64_t refresh_ms;
};

// Where targets come from.
struct engine_config_sd_configs {
    const struct engine_config_static_group *statics;
    size_t n_statics;
    const struct engine_config_file_sd *files;
    size_t n_files;
    const struct engine_config_kubernetes_sd *kubernetes;
    size_t n_kubernetes;
    const struct engine_config_http_sd *http;
    size_t n_http;
    const struct engine_config_dns_sd *dns;
    size_t n_dns;
    size_t n_unsupported; // of kinds that the engine does not have; they find no targets
};

// How to parse a scrape response whose Content-Type is not an exposition format.
enum engine_config_fallback {
    ENGINE_CONFIG_FALLBACK_NONE, // not at all: the target is down
    ENGINE_CONFIG_FALLBACK_TEXT,
    ENGINE_CONFIG_FALLBACK_OPENMETRICS,
};

// The longest timeout of a scrape: the interval, as in Prometheus, but not less than a second.
// Otherwise, a machine that is busy for a moment makes targets of short intervals look failed.
static inline int64_t engine_config_max_timeout(int64_t interval_ms)
{
    return interval_ms > 1000 ? interval_ms : 1000;
}

struct engine_config_scrape_config {
    const char *job_name;
    int64_t interval_ms, timeout_ms;
    const char *metrics_path, *scheme;
    bool honor_labels, honor_timestamps, track_staleness, enable_compression;
    // Without effect on scrapes; labels of discovered targets show them.
    bool native_histograms, classic_histograms, convert_histograms;
    enum engine_config_fallback fallback;
    const char *shown; // as YAML, with defaults and without secrets
    // As written; NULL: not set. legacy_names, escaping_scheme and accept are the result after the
    // defaults of global.
    const char *validation_scheme, *escaping_scheme, *fallback_protocol;
    const char *const *protocols;
    size_t n_protocols;
    bool legacy_names;                  // only [a-zA-Z_:][a-zA-Z0-9_:]*
    const char *accept;                 // the header
    const struct metrics_label *params; // repeated names: several values
    size_t n_params;
    struct endpoint_settings http;
    struct engine_config_sd_configs sd;
    struct engine_config_relabels relabel, metric_relabel;
    size_t body_size_limit, sample_limit, target_limit, label_limit, label_name_length_limit,
        label_value_length_limit, keep_dropped_targets; // 0: none
    // A URL that another job scrapes is no target of this one. The program sets it, not a file.
    bool yields;
};

struct engine_config_alertmanager_config {
    const char *scheme, *path_prefix;
    int64_t timeout_ms;
    struct endpoint_settings http;
    struct engine_config_sd_configs sd;
    struct engine_config_relabels relabel, alert_relabel;
};

struct engine_config_remote_write_config {
    const char *url, *name;
    int64_t timeout_ms;
    struct endpoint_settings http;
    const struct metrics_label *headers;
    size_t n_headers;
    struct engine_config_relabels write_relabel;
    size_t capacity, max_samples_per_send;                     // Prometheus' defaults: 10000, 2000
    int64_t batch_deadline_ms, min_backoff_ms, max_backoff_ms; // 5 s, 30 ms, 5 s
    int64_t age_limit_ms;                                      // older samples are not sent; 0: all
    bool send_exemplars;
    bool v2;        // io.prometheus.write.v2.Request
    bool retry_429; // responses with status 429 are retried
};

// How metrics received with OTLP become series.
struct engine_config_otlp {
    bool suffixes; // names get their unit and type as suffixes
    bool escape;   // characters of names that are not of the legacy format become underscores
    bool promote_all, keep_identifying, promote_scope;
    bool sanitize_underscores, preserve_underscores; // of names of labels
    const char *const *attributes; // of a resource: promoted ones, or not promoted ones of all
    size_t n_attributes;
};

struct engine_config {
    const char *path;  // of the file; NULL: from text
    const char *text;  // as read (with secrets)
    const char *shown; // for /api/v1/status/config, with secrets as <secret>
    int64_t scrape_interval_ms, scrape_timeout_ms, evaluation_interval_ms, rule_query_offset_ms;
    struct engine_config_scrape_config
        defaults; // limits, protocols and schemes of scrape configs that set none
    const struct metrics_label *external_labels; // sorted
    size_t n_external_labels;
    const char *const *rule_files; // globs, absolute
    size_t n_rule_files;
    const char *const *scrape_config_files; // globs, absolute; their content is in scrapes
    size_t n_scrape_config_files;
    const struct engine_config_scrape_config *scrapes;
    size_t n_scrapes;
    const struct engine_config_alertmanager_config *alertmanagers;
    size_t n_alertmanagers;
    struct engine_config_relabels alert_relabel;
    const struct engine_config_remote_write_config *remote_writes;
    size_t n_remote_writes;
    struct engine_config_otlp otlp;
    size_t max_exemplars;  // 100000 by default; used if exemplars are stored at all
    const char *log_level; // "debug", "info", "warn" or "error"; NULL: that of the flags
    // Warnings about keys of Prometheus that have no effect here ("tracing", "ec2_sd_configs"), one
    // line each.
    const char *const *ignored;
    size_t n_ignored;
    void *own; // private
};

struct gs_error *engine_config_load(const char *path, struct engine_config **ret);
// Does not read scrape_config_files, unlike engine_config_load.
struct gs_error *engine_config_parse(struct gs_slice text, const char *name, const char *base_dir,
                                     struct engine_config **ret);
// Reads a generated configuration from a JSON document. Errors have no positions.
struct gs_error *engine_config_from_json(const json_t *document, const char *name,
                                         struct engine_config **ret);
// The same for a document of codec_yaml_parse_texts() or a part of one, with the positions of its
// values. base_dir: of relative paths; NULL: they stay relative.
struct gs_error *engine_config_from_document(const json_t *document, const char *name,
                                             const char *base_dir,
                                             const struct codec_yaml_marks *marks,
                                             struct engine_config **ret);
// Its jobs leave URLs that other jobs scrape to those.
void engine_config_set_yields(struct engine_config *c);
void engine_config_free(struct engine_config *c);
GS_DEFINE_CLEANUP(struct engine_config *, engine_config_free)

// --- relabelling ---
// https://prometheus.io/docs/prometheus/latest/configuration/configuration/#relabel_config

// A label set under construction: sorted by name, unique, without empty values.
struct engine_config_label_builder {
    struct gs_arena arena;
    struct metrics_label *items;
    size_t len, cap;
    size_t made;   // bytes of the texts that relabeling has made
    bool too_long; // relabeling made a longer text than its limits allow
};
void engine_config_labels_set(struct engine_config_label_builder *b, struct gs_slice name,
                              struct gs_slice value);
struct gs_slice engine_config_labels_get(const struct engine_config_label_builder *b,
                                         struct gs_slice name);
void engine_config_labels_clear(struct engine_config_label_builder *b);
void engine_config_labels_finish(struct engine_config_label_builder *b);

// Returns false if the target or series is dropped, also because of b->too_long, which is logged.
bool engine_config_relabel(const struct engine_config_relabels *r,
                           struct engine_config_label_builder *b);

#define ENGINE_CONFIG_TOO_LONG                                                                     \
    "a relabel rule makes a label of more than %zu bytes, or many of that size"

// A relabel config as an object with Prometheus' keys and defaults.
json_t *engine_config_relabel_json(const struct engine_config_relabel *l);

// Copies labels and their strings.
struct metrics_label *engine_config_labels_copy(struct gs_arena *arena,
                                                const struct metrics_label *l, size_t n);

// --- files of a pod ---

// Moves ca_file, bearer_token_file and other files of a service account's folder in pods
// (/var/run/secrets/kubernetes.io/serviceaccount) to dir, in place, at any depth of a
// configuration.
void engine_config_move_account_files(json_t *value, const char *dir);

// --- sections in files of other modules ---

// Reads a mapping of strings as labels, sorted by name.
void engine_config_labels(struct codec_reader *r, const json_t *map,
                          const struct metrics_label **ret, size_t *ret_n);
