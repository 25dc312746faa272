// SPDX-License-Identifier: Apache-2.0
// Access to the members that all Kubernetes objects have. Returned texts belong to the object.
// Conditions follow meta.SetStatusCondition: the transition time changes only with the status.
#include "kube/object.h"

#include "base/clock.h"
#include "base/mem.h"

#include <ctype.h>

static const char *object_metadata(const json_t *obj, const char *member)
{
    return json_string_value(json_object_get(json_object_get(obj, "metadata"), member));
}

const char *kube_name(const json_t *obj)
{
    return object_metadata(obj, "name");
}

const char *kube_namespace(const json_t *obj)
{
    const char *ns = object_metadata(obj, "namespace");
    return ns && *ns ? ns : NULL;
}

const char *kube_uid(const json_t *obj)
{
    return object_metadata(obj, "uid");
}

const char *kube_kind(const json_t *obj)
{
    return json_string_value(json_object_get(obj, "kind"));
}

const char *kube_api_version(const json_t *obj)
{
    return json_string_value(json_object_get(obj, "apiVersion"));
}

const char *kube_resource_version(const json_t *obj)
{
    return object_metadata(obj, "resourceVersion");
}

const char *kube_label(const json_t *obj, const char *name)
{
    const json_t *labels = json_object_get(json_object_get(obj, "metadata"), "labels");
    return json_string_value(json_object_get(labels, name));
}

const char *kube_annotation(const json_t *obj, const char *name)
{
    const json_t *annotations = json_object_get(json_object_get(obj, "metadata"), "annotations");
    return json_string_value(json_object_get(annotations, name));
}

bool kube_is_deleting(const json_t *obj)
{
    const char *at = object_metadata(obj, "deletionTimestamp");
    return at && *at;
}

const char *kube_created(const json_t *obj)
{
    return object_metadata(obj, "creationTimestamp");
}

int64_t kube_created_ms(const json_t *obj, int64_t fallback)
{
    return kube_time_ms(codec_json_get(obj, "metadata", "creationTimestamp", NULL), fallback);
}

const char *kube_phase(const json_t *obj)
{
    return json_string_value(json_object_get(json_object_get(obj, "status"), "phase"));
}

const char *kube_pod_node(const json_t *pod)
{
    const char *node = json_string_value(json_object_get(json_object_get(pod, "spec"), "nodeName"));
    return node && *node ? node : NULL;
}

bool kube_pod_has_ended(const json_t *pod)
{
    const char *phase = kube_phase(pod);
    return gs_streq(phase, "Succeeded") || gs_streq(phase, "Failed");
}

bool kube_pod_is_mirror(const json_t *pod)
{
    return kube_annotation(pod, KUBE_ANN_MIRROR) != NULL;
}

char *kube_key(const json_t *obj)
{
    const char *ns = kube_namespace(obj);
    const char *name = kube_name(obj);
    return gs_format("%s%s%s", ns ? ns : "", ns ? "/" : "", name ? name : "");
}

const json_t *kube_controller_ref(const json_t *obj)
{
    const json_t *refs = json_object_get(json_object_get(obj, "metadata"), "ownerReferences");
    size_t i;
    json_t *ref;
    json_array_foreach (refs, i, ref)
        if (json_is_true(json_object_get(ref, "controller")))
            return ref;
    return NULL;
}

bool kube_is_controlled_by(const json_t *obj, const char *kind)
{
    return gs_streq(kube_kind(kube_controller_ref(obj)), kind);
}

static void set_str(json_t *obj, const char *key, const char *value)
{
    json_object_set_new(obj, key, json_string(value ? value : ""));
}

json_t *kube_make_controller_ref(const json_t *owner)
{
    json_t *ref = json_object();
    set_str(ref, "apiVersion", kube_api_version(owner));
    set_str(ref, "kind", kube_kind(owner));
    set_str(ref, "name", kube_name(owner));
    set_str(ref, "uid", kube_uid(owner));
    json_object_set_new(ref, "controller", json_true());
    json_object_set_new(ref, "blockOwnerDeletion", json_true());
    return ref;
}

static json_t *find_condition(const json_t *conditions, const char *type)
{
    size_t i;
    json_t *c;
    json_array_foreach (conditions, i, c)
        if (gs_streq(json_string_value(json_object_get(c, "type")), type))
            return c;
    return NULL;
}

const json_t *kube_condition(const json_t *obj, const char *type)
{
    const json_t *list =
        json_is_array(obj) ? obj : json_object_get(json_object_get(obj, "status"), "conditions");
    return find_condition(list, type);
}

bool kube_condition_true(const json_t *obj, const char *type)
{
    const json_t *c = kube_condition(obj, type);
    return gs_streq(json_string_value(json_object_get(c, "status")), "True");
}

void kube_set_condition(json_t *conditions, const char *type, const char *status,
                        const char *reason, const char *message, int64_t now_ms)
{
    json_t *c = find_condition(conditions, type);
    bool changed = !c || !gs_streq(json_string_value(json_object_get(c, "status")), status);
    if (!c) {
        c = json_object();
        set_str(c, "type", type);
        json_array_append_new(conditions, c);
    }
    set_str(c, "status", status);
    if (changed || !json_object_get(c, "lastTransitionTime")) {
        char now[GS_RFC3339_SIZE];
        set_str(c, "lastTransitionTime", gs_format_rfc3339(now_ms, now));
    }
    set_str(c, "reason", reason);
    set_str(c, "message", message);
}

int64_t kube_time_ms(const json_t *rfc3339, int64_t fallback)
{
    struct gs_slice text = {json_string_value(rfc3339), json_string_length(rfc3339)};
    int64_t ms;
    if (!text.data)
        return fallback;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_rfc3339(text, &ms);
    return err || ms <= 0 ? fallback : ms;
}

void kube_set_time(json_t *obj, const char *key, int64_t unix_ms)
{
    char text[GS_RFC3339_SIZE];
    if (unix_ms)
        codec_json_set_str(obj, key, gs_format_rfc3339(unix_ms, text));
}

// --- workloads and events ---

// The length of "-28374650", which the CronJob controller appends to the names of its Jobs; 0: the
// name has another form.
static size_t scheduled_suffix(const char *name)
{
    const char *dash = strrchr(name, '-');
    size_t digits = dash ? strspn(dash + 1, "0123456789") : 0;

    return digits >= 8 && dash > name && dash[1 + digits] == '\0' ? digits + 1 : 0;
}

char *kube_workload(const json_t *pod)
{
    const json_t *ref = kube_controller_ref(pod);
    const char *kind = codec_json_str(ref, "kind", NULL);
    const char *name = codec_json_str(ref, "name", NULL);
    const char *hash = kube_label(pod, "pod-template-hash");

    if (!kind || !name)
        return gs_format("pod/%s", kube_name(pod) ? kube_name(pod) : "");
    size_t len = strlen(name), suffix = hash ? strlen(hash) + 1 : 0;
    if (strcmp(kind, "ReplicaSet") == 0 && suffix && len > suffix && name[len - suffix] == '-' &&
        strcmp(name + len - suffix + 1, hash) == 0)
        return gs_format("deployment/%.*s", (int)(len - suffix), name);
    if (strcmp(kind, "Job") == 0 && (suffix = scheduled_suffix(name)) > 0)
        return gs_format("cronjob/%.*s", (int)(len - suffix), name);
    char *text = gs_format("%s/%s", kind, name);
    for (char *c = text; *c && *c != '/'; c++)
        *c = (char)tolower((unsigned char)*c);
    return text;
}

int64_t kube_event_ms(const json_t *event)
{
    static const char *const keys[] = {"lastTimestamp", "eventTime", "firstTimestamp"};
    int64_t ms = kube_time_ms(codec_json_get(event, "series", "lastObservedTime", NULL), 0);

    for (size_t i = 0; !ms && i < GS_ARRAY_LEN(keys); i++)
        ms = kube_time_ms(json_object_get(event, keys[i]), 0);
    return ms ? ms : kube_created_ms(event, 0);
}
