// SPDX-License-Identifier: Apache-2.0
// Service discovery: providers give groups of targets, each a label set; a group replaces the
// earlier one with the same source.
// https://prometheus.io/docs/prometheus/latest/configuration/configuration/
#pragma once

#include "engine/config/config.h"
#include "kube/client.h"

#include <uv.h>

struct sd_group {
    const char *source;                 // "static/0", "/etc/targets.json:0", "pod/default/web-0"
    const struct metrics_label *labels; // of the group
    size_t n_labels;
    const struct metrics_label *const *targets; // each with __address__
    const size_t *n_target_labels;
    size_t n_targets; // 0: the group is gone
};

// Groups are borrowed during the call. Called from the loop, never from inside sd_*_new; the first
// time when everything was looked at once, even if that found nothing.
typedef void (*sd_update_fn)(void *arg, const struct sd_group *groups, size_t n);

struct sd_files;
struct sd_files *sd_files_new(uv_loop_t *loop, const struct engine_file_sd *cfg, sd_update_fn fn,
                              void *arg);
void sd_files_free(struct sd_files *s);
// A file of target groups, refused as a whole when something is wrong with it.
struct gs_yaml_docs;
struct gs_error *sd_files_load(const char *path, struct gs_yaml_docs *ret);

// Asks at each refresh interval. cfg is borrowed until the next reconfigure or free.
struct sd_stats;
struct sd_http;
struct sd_http *sd_http_new(uv_loop_t *loop, const struct engine_http_sd *cfg,
                            struct sd_stats *stats, sd_update_fn fn, void *arg);
// Other settings for the same list: it is asked for at once.
void sd_http_reconfigure(struct sd_http *s, const struct engine_http_sd *cfg);
void sd_http_free(struct sd_http *s);
// An answer of such a server; n_before: the groups of the one before.
struct http_answer;
struct sd_group_list;
struct gs_error *sd_http_read(const struct http_answer *answer, const char *url, size_t n_before,
                              struct sd_group_list *ret, size_t *ret_n);

// servers: NULL: as the system says. cfg is borrowed until the next reconfigure or free; it has the
// same names then.
struct dns_config;
struct sd_dns;
struct sd_dns *sd_dns_new(uv_loop_t *loop, const struct engine_dns_sd *cfg,
                          const struct dns_config *servers, struct sd_stats *stats, sd_update_fn fn,
                          void *arg);
void sd_dns_reconfigure(struct sd_dns *s, const struct engine_dns_sd *cfg);
void sd_dns_free(struct sd_dns *s);

// Caches are shared by all providers of one hub (one list+watch per resource and namespace).
struct sd_kubernetes_hub;
struct sd_kubernetes_hub *sd_kubernetes_hub_new(uv_loop_t *loop, struct kube_client *own_cluster);
void sd_kubernetes_hub_free(struct sd_kubernetes_hub *h);

struct sd_kubernetes;
struct gs_error *sd_kubernetes_new(struct sd_kubernetes_hub *hub,
                                   const struct engine_kubernetes_sd *cfg, sd_update_fn fn,
                                   void *arg, struct sd_kubernetes **ret);
void sd_kubernetes_free(struct sd_kubernetes *s);
