// SPDX-License-Identifier: Apache-2.0
// Alerts to Alertmanagers: POST /api/v2/alerts in batches, to all of them at once, through a
// bounded queue. https://prometheus.io/docs/alerting/latest/clients/ Private to the room.
#pragma once

#include "codec/json.h"
#include "engine/config/config.h"
#include "engine/discovery/provider.h"
#include "engine/rules/rules.h"
#include "net/http_client.h"

#include <uv.h>

struct notifier;
struct http_tokens;
struct kube_client;

struct notifier *notifier_new(uv_loop_t *loop, const char *external_url);
// kube: the cluster of kubernetes_sd_configs without an api_server; NULL: none. stats: counted
// into; NULL: nowhere. Before the first apply.
void notifier_set_discovery(struct notifier *n, struct kube_client *kube, struct sd_stats *stats);
void notifier_free(struct notifier *n);
// cfg lives until the next apply. Alerts that wait stay.
void notifier_apply(struct notifier *n, const struct engine_config *cfg);
// Queues; nothing leaves before notifier_flush.
void notifier_add(struct notifier *n, const struct rule_alert *a, int64_t valid_until_ms);
void notifier_flush(struct notifier *n);
json_t *notifier_json(const struct notifier *n); // of /api/v1/alertmanagers
void notifier_write_metrics(const struct notifier *n, struct gs_buf *out);

// --- targets (notify_targets.c) ---

struct am_target {
    struct am_set *set;
    char *url; // "http://am:9093/api/v2/alerts"
    char *path;
    struct http_client *client;
    struct http_op *op;
    struct notifier *notifier;
    uint64_t sent, errors, answers;
    double seconds; // of all answers
    int64_t begun_ns;
    size_t n_alerts; // of the request under way
    bool retried;
    struct gs_buf body;
    bool keep; // during a rebuild of the set
};

// One alertmanager_config.
struct am_set {
    struct notifier *notifier;
    const struct engine_alertmanager_config *cfg;
    struct http_tokens *tokens; // of all clients; NULL: none are needed
    struct am_target **targets;
    size_t n, cap;
    char **dropped;
    size_t n_dropped, cap_dropped;
    struct am_discovery *discoveries; // one per source
    size_t n_discoveries;
    bool attempted, delivered; // of the batch under way
};

struct am_set *am_set_new(struct notifier *n, const struct sd_context *ctx,
                          const struct engine_alertmanager_config *cfg);
// Some discovery has not told its first targets yet.
bool am_set_looking(const struct am_set *s);
void am_set_free(struct am_set *s);
