// SPDX-License-Identifier: Apache-2.0
// The times of a start that a pod's status has. Times of the API have whole seconds.
#include "base/slice.h"
#include "kube/object.h"
#include "startup/startup_private.h"

#include <stdio.h>
#include <string.h>

#define PRODUCT_LABEL "nvidia.com/gpu.product"

static int64_t since(const json_t *condition)
{
    return kube_time_ms(json_object_get(condition, "lastTransitionTime"), 0);
}

static bool is_failure(const char *reason)
{
    static const char *const reasons[] = {
        "CrashLoopBackOff", "ImagePullBackOff",           "ErrImagePull",
        "InvalidImageName", "CreateContainerConfigError", "CreateContainerError",
        "RunContainerError"};
    for (size_t i = 0; reason && i < GS_ARRAY_LEN(reasons); i++)
        if (strcmp(reason, reasons[i]) == 0)
            return true;
    return false;
}

// The start of the last container; 0: one does not run yet.
static int64_t last_start(const json_t *statuses, bool *failed)
{
    int64_t last = 0;
    bool all = json_array_size(statuses) > 0;
    size_t i;
    const json_t *c;
    json_array_foreach (statuses, i, c) {
        int64_t at = kube_time_ms(codec_json_get(c, "state", "running", "startedAt", NULL), 0);
        *failed = *failed || codec_json_int(c, 0, "restartCount", NULL) > 0 ||
                  is_failure(codec_json_str(c, "state", "waiting", "reason", NULL));
        all = all && at;
        last = at > last ? at : last;
    }
    return all ? last : 0;
}

static bool init_failed(const json_t *pod)
{
    size_t i;
    const json_t *c;
    json_array_foreach (codec_json_get(pod, "status", "initContainerStatuses", NULL), i, c)
        if (is_failure(codec_json_str(c, "state", "waiting", "reason", NULL)))
            return true;
    return false;
}

void startup_read_pod(const json_t *pod, struct startup_marks *ret)
{
    const json_t *scheduled = kube_condition(pod, "PodScheduled");
    const char *reason = codec_json_str(scheduled, "reason", NULL);
    *ret = (struct startup_marks){
        .created = kube_created_ms(pod, 0),
        .ended = kube_pod_has_ended(pod),
        .failed = gs_streq(kube_phase(pod), "Failed") || init_failed(pod),
        .deleting = kube_is_deleting(pod),
        .gated = gs_streq(reason, "SchedulingGated"),
    };
    if (kube_condition_true(pod, "PodScheduled"))
        ret->scheduled = since(scheduled);
    else if (gs_streq(reason, "Unschedulable"))
        ret->unschedulable = since(scheduled);
    ret->started =
        last_start(codec_json_get(pod, "status", "containerStatuses", NULL), &ret->failed);
    if (kube_condition_true(pod, "Ready"))
        ret->ready = since(kube_condition(pod, "Ready"));
}

bool startup_times_of(const json_t *pod, struct startup_times *ret)
{
    struct startup_marks m;
    startup_read_pod(pod, &m);
    if (m.failed || !m.started || !m.ready || m.created > m.scheduled || m.scheduled > m.started ||
        m.started > m.ready)
        return false;
    *ret = (struct startup_times){m.created, m.scheduled, m.started, m.ready};
    return true;
}

static bool needs_gpus(const json_t *container)
{
    const char *name;
    json_t *value;
    json_object_foreach (codec_json_get(container, "resources", "limits", NULL), name, value)
        if (gs_starts(name, "nvidia.com/"))
            return true;
    return false;
}

static void keep(const char *text, char out[STARTUP_NAME])
{
    snprintf(out, STARTUP_NAME, "%s", text ? text : "");
}

void startup_read_image(const json_t *pod, char image[STARTUP_NAME], char digest[STARTUP_NAME])
{
    const json_t *containers = codec_json_get(pod, "spec", "containers", NULL);
    const json_t *found = json_array_get(containers, 0), *c;
    size_t i;
    json_array_foreach (containers, i, c)
        if (needs_gpus(c)) {
            found = c;
            break;
        }
    keep(codec_json_str(found, "image", NULL), image);
    keep("", digest);
    json_array_foreach (codec_json_get(pod, "status", "containerStatuses", NULL), i, c)
        if (gs_streq(codec_json_str(c, "name", NULL), codec_json_str(found, "name", NULL))) {
            const char *id = codec_json_str(c, "imageID", NULL);
            const char *at = id ? strrchr(id, '@') : NULL;
            keep(at ? at + 1 : id, digest);
        }
}

const char *startup_gpu_model(const json_t *pod, const json_t *node)
{
    const char *product = node ? kube_label(node, PRODUCT_LABEL) : NULL;
    return product ? product : codec_json_str(pod, "spec", "nodeSelector", PRODUCT_LABEL, NULL);
}

void startup_read_gpu(const json_t *pod, const json_t *node, char gpu[STARTUP_NAME])
{
    keep(startup_gpu_model(pod, node), gpu);
}
