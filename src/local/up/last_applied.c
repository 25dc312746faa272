// SPDX-License-Identifier: Apache-2.0
// The annotation in which kubectl apply keeps the object as the user wrote it, so that kubectl
// apply after `gpuscale up -f` does not warn, and fields that the file no longer has are removed.
// https://kubernetes.io/docs/tasks/manage-kubernetes-objects/declarative-config/
#include "up/up_private.h"

#include "base/mem.h"
#include "codec/json.h"

#define LAST_APPLIED "kubectl.kubernetes.io/last-applied-configuration"
#define MAX_BYTES    200000 // all annotations of an object have 256 KiB

// As kubectl writes it: sorted, with the namespace, without the annotation itself.
static char *text_of(const json_t *object, const char *ns)
{
    CODEC_AUTO_JSON json_t *copy = json_deep_copy(object);
    json_t *metadata = json_object_get(copy, "metadata");
    if (!json_is_object(json_object_get(metadata, "annotations")))
        json_object_set_new(metadata, "annotations", json_object());
    json_object_del(json_object_get(metadata, "annotations"), LAST_APPLIED);
    if (ns)
        codec_json_set_str(metadata, "namespace", ns);
    GS_AUTO_FREE char *text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    return text ? gs_format("%s\n", text) : NULL;
}

json_t *up_last_applied_add(const json_t *object, const char *ns)
{
    json_t *out = json_deep_copy(object);
    GS_AUTO_FREE char *text = text_of(object, ns);
    if (text && strlen(text) <= MAX_BYTES)
        codec_json_set(out, json_string(text), "metadata", "annotations", LAST_APPLIED, NULL);
    return out;
}

// Others add to these, too.
static bool is_shared(const char *key)
{
    return gs_streq(key, "annotations") || gs_streq(key, "labels");
}

// Sets what `before` has and `now` lacks to null in the patch.
static void remove_dropped(const json_t *before, const json_t *now, json_t *patch)
{
    const char *key;
    json_t *old;
    json_object_foreach ((json_t *)(uintptr_t)before, key, old) {
        const json_t *kept = json_object_get(now, key);
        if (!kept && is_shared(key))
            json_object_set_new(patch, key, json_object());
        else if (!kept)
            json_object_set_new(patch, key, json_null());
        if (json_is_object(old) && (!kept || json_is_object(kept)))
            remove_dropped(old, kept, json_object_get(patch, key));
    }
}

json_t *up_last_applied_patch(const json_t *object, const json_t *existing)
{
    json_t *patch = json_deep_copy(object);
    const char *text = codec_json_str(existing, "metadata", "annotations", LAST_APPLIED, NULL);
    CODEC_AUTO_JSON json_t *before = NULL;
    struct gs_error *err =
        text ? codec_json_parse(gs_slice_of(text), false, &before) : NULL; // not kubectl's: ignored
    gs_error_free(err);
    if (!json_is_object(before))
        return patch;
    // The identity and the annotations of others stay.
    json_object_del(json_object_get(before, "metadata"), "namespace");
    json_object_del(json_object_get(before, "metadata"), "name");
    remove_dropped(before, object, patch);
    return patch;
}
