// SPDX-License-Identifier: Apache-2.0
// Autoscalers whose pods have GPUs, a ConfigMap with budgets, and the controller that applies them.
// Functions are static because one test program includes it.
#pragma once

#include "hpa/convert.h"
#include "hpa_controller/controller.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake_api.h"

#define TARGETS "/apis/apps/v1/namespaces/shop/deployments/"
#define CUSTOM  "/apis/custom.metrics.k8s.io"
#define MAPS    "/api/v1/namespaces/ops/configmaps?fieldSelector=metadata.name=gpuscale-budgets"

struct bench {
    struct fake_api api;
    struct kube_cache *pods;
    struct hpa_controller *controller;
    const char *name, *text;
    int want;
    int version; // of the ConfigMap
    size_t reads;
    struct http_client *engine; // NULL: none
};

// --- objects ---

static inline void put_autoscaler(struct bench *b, const char *name, const char *priority)
{
    GS_AUTO_FREE char *text = gs_format(
        "{\"apiVersion\":\"autoscaling/v2\",\"kind\":\"HorizontalPodAutoscaler\",\"metadata\":{"
        "\"namespace\":\"shop\",\"name\":\"%s\",\"uid\":\"%s\",\"annotations\":{"
        "\"gpuscale.dev/priority\":\"%s\"}},\"spec\":{\"scaleTargetRef\":{\"apiVersion\":"
        "\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"%s\"},\"minReplicas\":1,\"maxReplicas\":"
        "10,\"metrics\":[{\"type\":\"Pods\",\"pods\":{\"metric\":{\"name\":\"load\"},\"target\":{"
        "\"type\":\"AverageValue\",\"averageValue\":\"20\"}}}],\"behavior\":{\"scaleDown\":{"
        "\"stabilizationWindowSeconds\":0}}}}",
        name, name, priority, name);
    json_t *object = json_loads(text, 0, NULL);
    assert_non_null(object);
    hpa_default(object);
    fake_put(&b->api, b->api.hpas, object);
}

static inline void put_pod(struct bench *b, const char *app, int i)
{
    fake_put(&b->api, b->api.pods,
             json_pack("{s:s, s:s, s:{s:o, s:s, s:{s:s}}, s:{s:s, s:[{s:s, s:{s:{s:s}}}]}, s:{s:s, "
                       "s:s, s:[{s:s, s:s, s:s}]}}",
                       "apiVersion", "v1", "kind", "Pod", "metadata", "name",
                       codec_json_strf("%s-%d", app, i), "namespace", "shop", "labels", "app", app,
                       "spec", "nodeName", "n", "containers", "name", "app", "resources", "limits",
                       "nvidia.com/gpu", "1", "status", "phase", "Running", "startTime",
                       "2024-01-01T00:00:00Z", "conditions", "type", "Ready", "status", "True",
                       "lastTransitionTime", "2024-01-01T00:00:10Z"));
}

// Pods with a load that wants this number of replicas.
static inline void put_workload(struct bench *b, const char *name, int replicas, int wanted)
{
    GS_AUTO_FREE char *scale = gs_format(TARGETS "%s/scale", name);
    GS_AUTO_FREE char *selector = gs_format("app=%s", name);
    GS_AUTO_FREE char *target = gs_format(TARGETS "%s", name);
    GS_AUTO_FREE char *metric =
        gs_format(CUSTOM "/v1beta2/namespaces/shop/pods/%%2A/load?labelSelector=app=%s", name);
    GS_AUTO_FREE char *value = gs_format("%dm", 20000 * wanted / replicas);
    const char *values[16];
    for (int i = 0; i < replicas; i++) {
        put_pod(b, name, i);
        values[i] = value;
    }
    fake_scale(&b->api, scale, replicas, selector);
    fake_answer(&b->api, metric, 200, fake_values(name, values, (size_t)replicas));
    fake_answer(&b->api, target, 200,
                json_pack("{s:{s:{s:{s:{s:s}}, s:{s:[{s:{s:{s:s}}}]}}}}", "spec", "template",
                          "metadata", "labels", "app", name, "spec", "containers", "resources",
                          "limits", "nvidia.com/gpu", "1"));
}

// Each call is a change: the text is read when the cache lists again.
static inline void put_budgets(struct bench *b, const char *text)
{
    fake_answer(&b->api, MAPS, 200,
                json_pack("{s:s, s:{s:s}, s:[{s:{s:s, s:s, s:o}, s:{s:s}}]}", "kind",
                          "ConfigMapList", "metadata", "resourceVersion", "1", "items", "metadata",
                          "namespace", "ops", "name", "gpuscale-budgets", "resourceVersion",
                          codec_json_strf("%d", ++b->version), "data", "budgets.yaml", text));
}

// --- the controller ---

static inline int set_up(void **state)
{
    struct bench *b = gs_alloc(sizeof(*b));
    fake_init(&b->api);
    fake_answer(&b->api, CUSTOM, 200,
                json_pack("{s:s, s:s, s:{s:s}, s:[{s:s}]}", "kind", "APIGroup", "name",
                          "custom.metrics.k8s.io", "preferredVersion", "version", "v1beta2",
                          "versions", "version", "v1beta2"));
    b->pods = kube_cache_new(&b->api.loop, b->api.kube, KUBE_PODS, NULL, NULL);
    *state = b;
    return 0;
}

// Another controller evaluates those whose name begins with "other".
static inline bool is_wanted(void *arg, const json_t *hpa)
{
    (void)arg;
    return !gs_starts(kube_name(hpa), "other");
}

static inline struct http_client *engine_of(void *arg, const char **ret_why)
{
    *ret_why = "no engine in this test";
    return ((struct bench *)arg)->engine;
}

static inline void start(struct bench *b)
{
    const struct hpa_controller_config cfg = {.sync_period_ms = 20,
                                              .decide = hpa_config_default(),
                                              .wanted = is_wanted,
                                              .engine = engine_of,
                                              .engine_arg = b,
                                              .budgets_ns = "ops"};
    b->controller = hpa_controller_new(&b->api.loop, b->api.kube, b->pods, &cfg);
    hpa_controller_start(b->controller);
    kube_cache_start(b->pods);
}

static inline int tear_down(void **state)
{
    struct bench *b = *state;
    hpa_controller_free(b->controller);
    kube_cache_free(b->pods);
    http_client_free(b->engine);
    int rc = fake_finish(&b->api);
    free(b);
    return rc;
}

static inline int replicas_of(const struct bench *b, const char *name)
{
    GS_AUTO_FREE char *scale = gs_format(TARGETS "%s/scale", name);
    return fake_replicas(&b->api, scale);
}

static inline bool has_replicas(void *arg)
{
    const struct bench *b = arg;
    return replicas_of(b, b->name) == b->want;
}

static inline void assert_reaches(struct bench *b, const char *name, int replicas)
{
    b->name = name;
    b->want = replicas;
    if (!fake_wait(&b->api, has_replicas, b))
        fail_msg("%s has %d replicas, want %d", name, replicas_of(b, name), replicas);
}

static inline json_t *budget_of(const struct bench *b, const char *name)
{
    CODEC_AUTO_JSON json_t *history = hpa_controller_history(b->controller, "shop", name);
    return json_incref(json_object_get(history, "budget"));
}

static inline bool has_text(void *arg)
{
    const struct bench *b = arg;
    CODEC_AUTO_JSON json_t *budget = budget_of(b, b->name);
    const char *text = codec_json_str(budget, "text", NULL);
    return text && strstr(text, b->text);
}

static inline bool has_budget(void *arg)
{
    const struct bench *b = arg;
    CODEC_AUTO_JSON json_t *budget = budget_of(b, b->name);
    const json_t *first = json_array_get(json_object_get(budget, "budgets"), 0);
    return gs_streq(codec_json_str(first, "name", NULL), b->text);
}

static inline void assert_is_in(struct bench *b, const char *name, const char *budget)
{
    b->name = name;
    b->text = budget;
    assert_true(fake_wait(&b->api, has_budget, b));
}

static inline void assert_explains(struct bench *b, const char *name, const char *text)
{
    b->name = name;
    b->text = text;
    if (!fake_wait(&b->api, has_text, b))
        fail_msg("%s has no \"%s\"", name, text);
}

// The default behavior adds at most four pods to two.
#define BUDGET "budgets: [{name: gpus, namespaces: [shop], gpus: 4}]\n"

static inline bool has_log(void *arg)
{
    const struct bench *b = arg;
    return fake_count_log(&b->api, b->text) >= b->reads;
}

static inline bool is_evaluated(void *arg)
{
    const struct bench *b = arg;
    GS_AUTO_FREE char *scale = gs_format("GET " TARGETS "%s/scale", b->name);
    return fake_count_log(&b->api, scale) >= b->reads;
}

// The autoscaler is evaluated several times from now on.
static inline void evaluate(struct bench *b, const char *name)
{
    GS_AUTO_FREE char *scale = gs_format("GET " TARGETS "%s/scale", name);
    b->name = name;
    b->reads = fake_count_log(&b->api, scale) + 4;
    assert_true(fake_wait(&b->api, is_evaluated, b));
}
