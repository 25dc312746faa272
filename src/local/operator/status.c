// SPDX-License-Identifier: Apache-2.0
// The status of Prometheus and Alertmanager objects: the counts of their StatefulSets and the
// conditions Available and Reconciled, from which kubectl prints its columns.
#include "local/operator/operator_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"

static int64_t sum_of(const json_t *const *sets, size_t n, const char *key)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += codec_json_int(sets[i], 0, "status", key, NULL);
    return sum;
}

static void set_condition(json_t *status, const json_t *obj, const char *type, const char *value,
                          const char *reason, const char *message)
{
    json_t *all = json_object_get(status, "conditions");
    kube_set_condition(all, type, value, reason, message, gs_unix_ms());
    codec_json_set_int((json_t *)(uintptr_t)kube_condition(all, type), "observedGeneration",
                       codec_json_int(obj, 1, "metadata", "generation", NULL));
}

static void set_available(json_t *status, const json_t *obj, int64_t wanted, int64_t available)
{
    GS_AUTO_FREE char *text =
        gs_format("%lld of %lld pods are available", (long long)available, (long long)wanted);
    if (available >= wanted)
        set_condition(status, obj, "Available", "True", "", "");
    else
        set_condition(status, obj, "Available", available ? "Degraded" : "False",
                      available ? "SomePodsNotReady" : "NoPodReady", text);
}

json_t *operator_status(const json_t *obj, const json_t *const *sets, size_t n, int64_t shards,
                        const char *failure)
{
    const json_t *before = json_object_get(obj, "status");
    json_t *status = json_is_object(before) ? json_deep_copy(before) : json_object();
    int64_t wanted = operator_replicas(obj) * shards,
            available = sum_of(sets, n, "availableReplicas");
    codec_json_set_bool(status, "paused", codec_json_bool(obj, false, "spec", "paused", NULL));
    codec_json_set_int(status, "replicas", sum_of(sets, n, "replicas"));
    codec_json_set_int(status, "updatedReplicas", sum_of(sets, n, "updatedReplicas"));
    codec_json_set_int(status, "availableReplicas", available);
    codec_json_set_int(status, "unavailableReplicas", wanted > available ? wanted - available : 0);
    if (!json_is_array(json_object_get(status, "conditions")))
        json_object_set_new(status, "conditions", json_array());
    set_available(status, obj, wanted, available);
    set_condition(status, obj, "Reconciled", failure ? "False" : "True",
                  failure ? "ReconciliationFailed" : "", failure ? failure : "");
    return status;
}
