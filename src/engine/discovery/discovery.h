// SPDX-License-Identifier: Apache-2.0
// Service discovery: providers report groups of targets, each a label set.
// https://prometheus.io/docs/prometheus/latest/configuration/configuration/ All functions are
// called on the thread of the loop.
#pragma once

#include "base/buf.h"
#include "engine/config/config.h"
#include "kube/client.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

// --- statistics ---
// Counters of discovery that polls, for /metrics. Shared by all providers of a process.

enum { DISCOVERY_N_BOUNDS = 4 };

struct discovery_refreshes {
    uint64_t count, failures;
    uint64_t within[DISCOVERY_N_BOUNDS]; // refreshes within 0.01, 0.1, 1 and 10 s
    double seconds;
};

struct discovery_counter;

struct discovery_stats {
    struct discovery_refreshes http, dns; // of all configurations
    struct discovery_counter *counters;   // those of each configuration with such a discovery
    uint64_t dns_lookups, dns_lookup_failures;
};

// The counter of a mechanism ("http") and a configuration, such as the name of a job. Discoveries
// of one configuration share it; it goes when the last of them closes it. stats NULL: returns NULL.
struct discovery_counter *discovery_stats_open(struct discovery_stats *stats, const char *mechanism,
                                               const char *config);
void discovery_stats_close(struct discovery_counter *c);
// NULL: nothing is counted.
void discovery_stats_refreshed(struct discovery_counter *c, int64_t begun_ns, bool failed);
void discovery_stats_write(const struct discovery_stats *s, struct gs_buf *out);

// --- kinds of discovery ---
// A group replaces the earlier group with the same source.

struct discovery_group {
    const char *source;                 // "static/0", "/etc/targets.json:0", "pod/default/web-0"
    const struct metrics_label *labels; // of the group
    size_t n_labels;
    const struct metrics_label *const *targets; // each with __address__
    const size_t *n_target_labels;
    size_t n_targets; // 0: the group was removed
};

// Groups are borrowed during the call. Called from the loop, never from a _new function. The first
// call comes after the first complete lookup, even if it found nothing.
typedef void (*discovery_update_fn)(void *arg, const struct discovery_group *groups, size_t n);

struct discovery_files;
struct discovery_files *discovery_files_new(uv_loop_t *loop,
                                            const struct engine_config_file_sd *cfg,
                                            discovery_update_fn fn, void *arg);
void discovery_files_free(struct discovery_files *s);
// Reads a file of target groups. An error rejects the whole file.
struct codec_yaml_docs;
struct gs_error *discovery_files_load(const char *path, struct codec_yaml_docs *ret);

// Sends a request at each refresh interval. cfg is borrowed until the next reconfigure or free.
// counter is closed at free.
struct discovery_http;
struct discovery_http *discovery_http_new(uv_loop_t *loop, const struct engine_config_http_sd *cfg,
                                          struct discovery_counter *counter, discovery_update_fn fn,
                                          void *arg);
// Applies other settings for the same list and requests it immediately.
void discovery_http_reconfigure(struct discovery_http *s, const struct engine_config_http_sd *cfg);
void discovery_http_free(struct discovery_http *s);
// Reads a response. n_before: number of groups in the previous response.
struct http_response;
struct discovery_group_list;
struct gs_error *discovery_http_read(const struct http_response *response, const char *url,
                                     size_t n_before, struct discovery_group_list *ret,
                                     size_t *ret_n);

// servers NULL: the system's configuration. cfg is borrowed until the next reconfigure, which must
// have the same names, or free. stats NULL: nothing is counted. counter is closed at free.
struct dns_config;
struct discovery_dns;
struct discovery_dns *discovery_dns_new(uv_loop_t *loop, const struct engine_config_dns_sd *cfg,
                                        const struct dns_config *servers,
                                        struct discovery_stats *stats,
                                        struct discovery_counter *counter, discovery_update_fn fn,
                                        void *arg);
void discovery_dns_reconfigure(struct discovery_dns *s, const struct engine_config_dns_sd *cfg);
void discovery_dns_free(struct discovery_dns *s);

// Shared informers: all providers share one list and watch per cluster, resource, namespace and
// selector.
struct discovery_informers;
struct discovery_informers *discovery_informers_new(uv_loop_t *loop,
                                                    struct kube_client *own_cluster);
void discovery_informers_free(struct discovery_informers *h);

struct discovery_kubernetes;
struct gs_error *discovery_kubernetes_new(struct discovery_informers *informers,
                                          const struct engine_config_kubernetes_sd *cfg,
                                          discovery_update_fn fn, void *arg,
                                          struct discovery_kubernetes **ret);
void discovery_kubernetes_free(struct discovery_kubernetes *s);

// --- providers ---
// A discovery of any kind.

enum discovery_kind {
    DISCOVERY_KIND_FILE,
    DISCOVERY_KIND_KUBERNETES,
    DISCOVERY_KIND_HTTP,
    DISCOVERY_KIND_DNS
};

struct discovery_source {
    enum discovery_kind kind;
    const void *cfg; // struct engine_config_file_sd, engine_config_kubernetes_sd …
};

// Counts all discoveries except static ones.
size_t discovery_source_count(const struct engine_config_sd_configs *c);
struct discovery_source discovery_source_at(const struct engine_config_sd_configs *c, size_t i);
// Returns a string that is equal for equal discoveries.
char *discovery_source_id(struct discovery_source s) GS_MUST_USE;

struct discovery_context {
    uv_loop_t *loop;
    struct discovery_informers *informers;
    struct discovery_stats *stats; // NULL: nothing is counted
    const char *config;            // whose discoveries they are, for stats; borrowed by the call
    const struct dns_config *dns;  // name servers; NULL: the system's configuration
};

struct discovery_provider;
// The source's cfg is borrowed until the next reconfigure or free.
struct gs_error *discovery_provider_new(const struct discovery_context *ctx,
                                        struct discovery_source s, discovery_update_fn fn,
                                        void *arg, struct discovery_provider **ret);
// Applies a source with the same id and other connection settings. The groups stay.
void discovery_provider_reconfigure(struct discovery_provider *p, struct discovery_source s);
void discovery_provider_free(struct discovery_provider *p);
