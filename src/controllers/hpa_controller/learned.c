// SPDX-License-Identifier: Apache-2.0
// The document {"version": 1, "services": {"ns/name": slo_memory_json() with "savedMs"},
// "starts": startup_learner_json()}.
#include "hpa_controller/learned.h"

#include "base/log.h"
#include "base/mem.h"

#define VERSION 1
#define KEEP_MS (INT64_C(7) * 24 * 3600 * 1000) // without an autoscaler

enum { MAX_SERVICES = 400, MAX_FORECASTS = 100 };

struct hpa_learned {
    json_t *services; // that nobody has claimed
    json_t *starts;   // NULL: none
};

struct hpa_learned *hpa_learned_new(void)
{
    struct hpa_learned *l = gs_alloc(sizeof(*l));
    l->services = json_object();
    return l;
}

void hpa_learned_free(struct hpa_learned *l)
{
    if (!l)
        return;
    json_decref(l->services);
    json_decref(l->starts);
    free(l);
}

static bool is_kept(const json_t *service, int64_t now_ms)
{
    int64_t saved_ms = codec_json_int(service, 0, "savedMs", NULL);
    return saved_ms > 0 && saved_ms <= now_ms && now_ms - saved_ms <= KEEP_MS;
}

struct gs_error *hpa_learned_read(struct hpa_learned *l, const json_t *document, int64_t now_ms)
{
    const json_t *services = json_object_get(document, HPA_LEARNED_SERVICES);
    const char *key;
    json_t *service;
    if (codec_json_int(document, 0, "version", NULL) != VERSION || !json_is_object(services))
        return gs_error_new(GS_EINVAL, "not a document of version %d with what was learned",
                            VERSION);
    json_object_foreach ((json_t *)services, key, service)
        if (is_kept(service, now_ms) && json_object_size(l->services) < MAX_SERVICES)
            json_object_set(l->services, key, service);
    json_decref(l->starts);
    l->starts = json_incref(json_object_get(document, HPA_LEARNED_STARTS));
    return NULL;
}

void hpa_learned_claim(struct hpa_learned *l, const char *key, struct hpa_latency *latency,
                       int64_t now_ms)
{
    const json_t *service = json_object_get(l->services, key);
    if (!service || !hpa_latency_has_target(latency))
        return;
    GS_AUTO_ERROR struct gs_error *err = hpa_latency_restore(latency, service, now_ms);
    if (err)
        gs_warn("hpa", "%s: what was learned is not used: %s", key, gs_error_message(err));
    json_object_del(l->services, key);
}

const json_t *hpa_learned_starts(const struct hpa_learned *l)
{
    return l->starts;
}

json_t *hpa_learned_begin(void)
{
    json_t *out = json_object();
    codec_json_set_int(out, "version", VERSION);
    json_object_set_new(out, HPA_LEARNED_SERVICES, json_object());
    return out;
}

void hpa_learned_add(json_t *document, const char *key, const struct hpa_latency *latency,
                     int64_t now_ms)
{
    json_t *services = json_object_get(document, HPA_LEARNED_SERVICES);
    size_t n = json_object_size(services);
    json_t *service =
        n < MAX_SERVICES ? hpa_latency_learned(latency, n < MAX_FORECASTS, now_ms) : NULL;
    if (!service)
        return;
    codec_json_set_int(service, "savedMs", now_ms);
    json_object_set_new(services, key, service);
}

void hpa_learned_end(json_t *document, const struct hpa_learned *l, const struct hpa_starts *starts,
                     int64_t now_ms)
{
    json_t *services = json_object_get(document, HPA_LEARNED_SERVICES), *service;
    const struct startup_learner *learner = hpa_starts_learner(starts);
    const char *key;
    json_object_foreach (l->services, key, service)
        if (is_kept(service, now_ms) && json_object_size(services) < MAX_SERVICES &&
            !json_object_get(services, key))
            json_object_set(services, key, service);
    if (learner)
        json_object_set_new(document, HPA_LEARNED_STARTS, startup_learner_json(learner, now_ms));
    else if (l->starts)
        json_object_set(document, HPA_LEARNED_STARTS, l->starts);
}
