// SPDX-License-Identifier: Apache-2.0
// What differs from a Prometheus of its own is said once for each object, in the log and as events:
// nothing in an object is ignored silently.
#include "local/operator/operator_private.h"

#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"

static bool is_set(const json_t *value)
{
    return value && !json_is_null(value) && !json_is_false(value) &&
           !(json_is_array(value) && !json_array_size(value)) &&
           !(json_is_object(value) && !json_object_size(value));
}

static void report_retention(struct kube_recorder *recorder, const json_t *obj)
{
    const json_t *spec = json_object_get(obj, "spec");
    const char *retention = codec_json_str(spec, "retention", NULL);
    if (!retention && !json_object_get(spec, "retentionSize") && !json_object_get(spec, "storage"))
        return;
    GS_AUTO_FREE char *text = gs_format(
        "retention %s and storage are not applied: the flags --retention and --retention-size of "
        "gpuscale up set what its metrics engine keeps",
        retention ? retention : "");
    gs_info("up", "Prometheus %s/%s: %s", kube_namespace(obj), kube_name(obj), text);
    kube_event(recorder, obj, "Normal", "RetentionNotApplied", "%s", text);
}

// Fields of the spec that would change what the engine does.
static void report_ignored(struct kube_recorder *recorder, const json_t *obj)
{
    static const char *const fields[] = {"remoteWrite",
                                         "remoteRead",
                                         "thanos",
                                         "enableFeatures",
                                         "query",
                                         "enableRemoteWriteReceiver",
                                         "scrapeClasses",
                                         "enforcedSampleLimit",
                                         "enforcedNamespaceLabel",
                                         "overrideHonorLabels",
                                         "ignoreNamespaceSelectors",
                                         "arbitraryFSAccessThroughSMs",
                                         "apiserverConfig",
                                         "exemplars"};
    GS_AUTO_BUF struct gs_buf list = {0};
    for (size_t i = 0; i < GS_ARRAY_LEN(fields); i++)
        if (is_set(codec_json_get(obj, "spec", fields[i], NULL)))
            gs_buf_addf(&list, "%s%s", list.len ? ", " : "", fields[i]);
    if (!list.len)
        return;
    gs_warn("up", "Prometheus %s/%s: fields without effect: %s", kube_namespace(obj),
            kube_name(obj), list.data);
    kube_event(recorder, obj, "Warning", "NotSupported",
               "These fields have no effect on the metrics engine of gpuscale up: %s", list.data);
}

static void report_shared(struct kube_recorder *recorder, const json_t *obj, const json_t *first)
{
    GS_AUTO_FREE char *key = kube_key(obj), *oldest = kube_key(first);
    if (operator_replicas(obj) > 1 || operator_prometheus_shards(obj) > 1)
        gs_info("up", "Prometheus %s: all replicas and shards are the one metrics engine", key);
    if (gs_streq(key, oldest))
        return;
    gs_info("up", "Prometheus %s: the metrics engine of Prometheus %s serves it, too", key, oldest);
    kube_event(recorder, obj, "Normal", "SharedEngine",
               "One metrics engine serves this object and Prometheus %s: external labels and the "
               "evaluation interval are those of %s",
               oldest, oldest);
}

void operator_report(struct kube_recorder *recorder, const json_t *obj, const json_t *oldest)
{
    report_retention(recorder, obj);
    report_ignored(recorder, obj);
    report_shared(recorder, obj, oldest);
}

void operator_report_unread(struct kube_recorder *recorder, const json_t *obj)
{
    gs_warn("up", "%s %s/%s: gpuscale up does not read objects of this kind", kube_kind(obj),
            kube_namespace(obj), kube_name(obj));
    kube_event(recorder, obj, "Warning", "NotSupported",
               "gpuscale up does not read objects of the kind %s", kube_kind(obj));
}
