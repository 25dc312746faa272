// SPDX-License-Identifier: Apache-2.0
// Alerts to Alertmanagers: POST /api/v2/alerts in batches, to all of them at once, through a
// bounded queue. https://prometheus.io/docs/alerting/latest/clients/ Private to the room.
#pragma once

#include "codec/json.h"
#include "engine/config/config.h"
#include "engine/discovery/provider.h"
#include "engine/rules/rules.h"
#include "net/http/client.h"

#include <uv.h>

struct rules_notifier;
struct endpoint_tokens;
struct kube_client;

struct rules_notifier *rules_notifier_new(uv_loop_t *loop, const char *external_url);
// kube: the cluster of kubernetes_sd_configs without an api_server; NULL: none. stats: counted
// into; NULL: nowhere. Before the first apply.
void rules_notifier_set_discovery(struct rules_notifier *n, struct kube_client *kube,
                                  struct discovery_stats *stats);
void rules_notifier_free(struct rules_notifier *n);
// cfg lives until the next apply. Alerts that wait stay.
void rules_notifier_apply(struct rules_notifier *n, const struct engine_config *cfg);
// Queues; nothing leaves before rules_notifier_flush.
void rules_notifier_add(struct rules_notifier *n, const struct rules_alert *a,
                        int64_t valid_until_ms);
void rules_notifier_flush(struct rules_notifier *n);
json_t *rules_notifier_json(const struct rules_notifier *n); // of /api/v1/alertmanagers
void rules_notifier_write_metrics(const struct rules_notifier *n, struct gs_buf *out);

// --- targets (notify_targets.c) ---

struct rules_am_target {
    struct rules_am_set *set;
    char *url; // "http://am:9093/api/v2/alerts"
    char *path;
    struct http_client *client;
    struct http_op *op;
    struct rules_notifier *notifier;
    uint64_t sent, errors, answers;
    double seconds; // of all answers
    int64_t begun_ns;
    size_t n_alerts; // of the request under way
    bool retried;
    struct gs_buf body;
    bool keep; // during a rebuild of the set
};

// One alertmanager_config.
struct rules_am_set {
    struct rules_notifier *notifier;
    const struct engine_config_alertmanager_config *cfg;
    struct endpoint_tokens *tokens; // of all clients; NULL: none are needed
    struct rules_am_target **targets;
    size_t n, cap;
    char **dropped;
    size_t n_dropped, cap_dropped;
    struct rules_am_discovery *discoveries; // one per source
    size_t n_discoveries;
    bool attempted, delivered; // of the batch under way
};

struct rules_am_set *rules_am_set_new(struct rules_notifier *n, const struct discovery_context *ctx,
                                      const struct engine_config_alertmanager_config *cfg);
// Some discovery has not told its first targets yet.
bool rules_am_set_looking(const struct rules_am_set *s);
void rules_am_set_free(struct rules_am_set *s);
