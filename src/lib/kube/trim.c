// SPDX-License-Identifier: Apache-2.0
// What no part of gpuscale reads of the objects of a cluster. A pod of a model server loses two
// thirds of its members.
#include "kube/trim.h"

#include "base/slice.h"
#include "kube/kube_private.h"

#define FIELDS "\"managedFields\":["

// Half of the text of a pod. An API server writes it without spaces, with the manager first; a text
// that is written otherwise stays. In strings the quote has a backslash before it.
bool kube_cut_managed_fields(struct gs_slice text, struct gs_buf *out)
{
    const char *end = text.data + text.len, *from = text.data, *at = text.data;
    while (at && (at = memmem(at, (size_t)(end - at), FIELDS, strlen(FIELDS)))) {
        struct codec_json_pull j = codec_json_pull_of(
            gs_slice_make(at + strlen(FIELDS) - 1, (size_t)(end - at) - strlen(FIELDS) + 1));
        struct gs_slice value;
        const char *start = at;
        at += strlen(FIELDS);
        if (start == text.data || start[-1] == '\\' ||
            !gs_slice_starts(gs_slice_make(at, (size_t)(end - at)), "{\"manager\":") ||
            !codec_json_pull_skip(&j, &value))
            continue;
        at = value.data + value.len;
        if (start[-1] == ',')
            start--;
        else if (at < end && *at == ',')
            at++;
        gs_buf_add(out, from, (size_t)(start - from));
        from = at;
    }
    if (from == text.data)
        return false;
    gs_buf_add(out, from, (size_t)(end - from));
    return true;
}

static void drop(json_t *object, const char *const *keys)
{
    for (size_t i = 0; keys[i]; i++)
        json_object_del(object, keys[i]);
}

static void drop_of_each(json_t *array, const char *const *keys)
{
    size_t i;
    json_t *item;
    json_array_foreach (array, i, item)
        drop(item, keys);
}

void kube_trim_object(json_t *object)
{
    codec_json_del(object, "metadata", "managedFields", NULL);
}

// Of the kubelet's own steps before Ready.
static void drop_conditions(json_t *conditions)
{
    static const char *const types[] = {"PodReadyToStartContainers", "Initialized",
                                        "ContainersReady"};
    for (size_t i = json_array_size(conditions); i-- > 0;) {
        const char *type = codec_json_str(json_array_get(conditions, i), "type", NULL);
        for (size_t k = 0; k < GS_ARRAY_LEN(types); k++)
            if (gs_streq(type, types[k])) {
                json_array_remove(conditions, i);
                break;
            }
    }
}

void kube_trim_pod(json_t *pod)
{
    static const char *const of_metadata[] = {"generateName", "generation", NULL};
    static const char *const of_spec[] = {"dnsConfig",
                                          "dnsPolicy",
                                          "enableServiceLinks",
                                          "hostAliases",
                                          "imagePullSecrets",
                                          "preemptionPolicy",
                                          "readinessGates",
                                          "securityContext",
                                          "serviceAccount",
                                          "serviceAccountName",
                                          "terminationGracePeriodSeconds",
                                          "volumes",
                                          NULL};
    static const char *const of_container[] = {"args",
                                               "command",
                                               "env",
                                               "envFrom",
                                               "imagePullPolicy",
                                               "lifecycle",
                                               "livenessProbe",
                                               "readinessProbe",
                                               "startupProbe",
                                               "securityContext",
                                               "terminationMessagePath",
                                               "terminationMessagePolicy",
                                               "volumeDevices",
                                               "volumeMounts",
                                               "workingDir",
                                               NULL};
    static const char *const of_status[] = {"hostIPs", "observedGeneration", "podIPs", "qosClass",
                                            NULL};
    static const char *const of_container_status[] = {"allocatedResources", "resources", "user",
                                                      "volumeMounts", NULL};
    static const char *const of_condition[] = {"lastProbeTime", "observedGeneration", NULL};
    static const char *const containers[] = {"containers", "initContainers", "ephemeralContainers"};
    static const char *const statuses[] = {"containerStatuses", "initContainerStatuses",
                                           "ephemeralContainerStatuses"};
    json_t *spec = json_object_get(pod, "spec"), *status = json_object_get(pod, "status");
    kube_trim_object(pod);
    drop(json_object_get(pod, "metadata"), of_metadata);
    drop(spec, of_spec);
    drop(status, of_status);
    drop_conditions(json_object_get(status, "conditions"));
    for (size_t i = 0; i < GS_ARRAY_LEN(containers); i++) {
        drop_of_each(json_object_get(spec, containers[i]), of_container);
        drop_of_each(json_object_get(status, statuses[i]), of_container_status);
    }
    drop_of_each(json_object_get(status, "conditions"), of_condition);
}

void kube_trim_node(json_t *node)
{
    static const char *const of_status[] = {"images",          "volumesInUse", "volumesAttached",
                                            "runtimeHandlers", "features",     NULL};
    kube_trim_object(node);
    drop(json_object_get(node, "status"), of_status);
}
