// SPDX-License-Identifier: Apache-2.0
// Defaults of Jobs and CronJobs, and the labels and selector that tie pods to their Job.
#include "local/api/registry.h"

#include "kube/object.h"

static void default_job_spec(json_t *spec)
{
    bool policy = json_object_get(spec, "podFailurePolicy") != NULL;

    local_api_default_pod_spec(codec_json_get(spec, "template", "spec", NULL));
    if (!json_object_get(spec, "completions") && !json_object_get(spec, "parallelism"))
        codec_json_set_int(spec, "completions", 1);
    local_api_default_int(spec, "parallelism", 1);
    local_api_default_int(spec, "backoffLimit",
                          json_object_get(spec, "backoffLimitPerIndex") ? INT32_MAX : 6);
    local_api_default_str(spec, "completionMode", "NonIndexed");
    local_api_default_str(spec, "podReplacementPolicy", policy ? "Failed" : "TerminatingOrFailed");
    if (!json_object_get(spec, "suspend"))
        codec_json_set_bool(spec, "suspend", false);
    if (!json_object_get(spec, "manualSelector"))
        codec_json_set_bool(spec, "manualSelector", false);
}

static void generate_selector(json_t *obj, json_t *spec)
{
    const char *uid = kube_uid(obj), *name = kube_name(obj);
    const struct {
        const char *key, *value;
    } labels[] = {{"controller-uid", uid},
                  {"job-name", name},
                  {"batch.kubernetes.io/controller-uid", uid},
                  {"batch.kubernetes.io/job-name", name}};

    if (codec_json_bool(spec, false, "manualSelector", NULL) || !uid || !name)
        return;
    for (size_t i = 0; i < GS_ARRAY_LEN(labels); i++)
        if (!codec_json_get(spec, "template", "metadata", "labels", labels[i].key, NULL))
            codec_json_set(spec, json_string(labels[i].value), "template", "metadata", "labels",
                           labels[i].key, NULL);
    if (!codec_json_get(spec, "selector", "matchLabels", "batch.kubernetes.io/controller-uid",
                        NULL))
        codec_json_set(spec, json_string(uid), "selector", "matchLabels",
                       "batch.kubernetes.io/controller-uid", NULL);
}

void local_api_default_job(json_t *obj, const json_t *old)
{
    json_t *spec = json_object_get(obj, "spec");

    if (!json_is_object(spec))
        return;
    default_job_spec(spec);
    if (old)
        return;
    generate_selector(obj, spec);
    json_t *labels = codec_json_get(spec, "template", "metadata", "labels", NULL);
    if (labels && !codec_json_get(obj, "metadata", "labels", NULL))
        codec_json_set(obj, json_deep_copy(labels), "metadata", "labels", NULL);
    local_api_default_object(obj, "status");
}

void local_api_default_cronjob(json_t *obj, const json_t *old)
{
    json_t *spec = json_object_get(obj, "spec");

    if (!json_is_object(spec))
        return;
    local_api_default_pod_spec(
        codec_json_get(spec, "jobTemplate", "spec", "template", "spec", NULL));
    local_api_default_str(spec, "concurrencyPolicy", "Allow");
    if (!json_object_get(spec, "suspend"))
        codec_json_set_bool(spec, "suspend", false);
    local_api_default_int(spec, "successfulJobsHistoryLimit", 3);
    local_api_default_int(spec, "failedJobsHistoryLimit", 1);
    if (!old)
        local_api_default_object(obj, "status");
}
