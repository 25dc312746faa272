// SPDX-License-Identifier: Apache-2.0
// Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets.
#include "base/mem.h"
#include "kube/names.h"
#include "kube/object.h"
#include "kube/selector.h"
#include "local/api/registry.h"

#include <ctype.h>
#include <stdlib.h>

// A value in an error, as JSON. Caller frees.
static char *shown(const json_t *value)
{
    return value ? codec_json_text(value) : gs_strdup("null");
}

static char *lower_kind(const json_t *obj)
{
    char *kind = gs_strdup(kube_kind(obj) ? kube_kind(obj) : "object");

    for (char *c = kind; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return kind;
}

void local_api_validate_selector_labels(const json_t *obj, const struct kube_selector *selector,
                                        struct kube_field_errors *errors)
{
    const json_t *labels = codec_json_get(obj, "spec", "template", "metadata", "labels", NULL);

    if (kube_selector_matches(selector, labels))
        return;
    GS_AUTO_FREE char *text = shown(labels);
    kube_field_error(errors, "FieldValueInvalid", "spec.template.metadata.labels", text,
                     "`selector` does not match template `labels`");
}

static void check_selector(const json_t *obj, struct kube_field_errors *errors)
{
    const json_t *selector = codec_json_get(obj, "spec", "selector", NULL);
    struct kube_selector parsed = {0};

    if (!selector) {
        local_api_required(errors, "spec.selector", "");
        return;
    }
    GS_AUTO_ERROR struct gs_error *err = kube_selector_of(obj, &parsed);
    GS_AUTO_FREE char *text = shown(selector);
    if (err) {
        kube_field_error(errors, "FieldValueInvalid", "spec.selector", text, "%s",
                         gs_error_message(err));
        return;
    }
    local_api_validate_labels(json_object_get(selector, "matchLabels"), "spec.selector.matchLabels",
                              errors);
    if (parsed.len == 0) {
        GS_AUTO_FREE char *kind = lower_kind(obj);
        kube_field_error(errors, "FieldValueInvalid", "spec.selector", text,
                         "empty selector is invalid for %s", kind);
    } else {
        local_api_validate_selector_labels(obj, &parsed, errors);
    }
    kube_selector_finish(&parsed);
}

static void check_same_selector(const json_t *obj, const json_t *old,
                                struct kube_field_errors *errors)
{
    const json_t *selector = codec_json_get(obj, "spec", "selector", NULL);

    if (!selector || json_equal(selector, codec_json_get(old, "spec", "selector", NULL)))
        return;
    GS_AUTO_FREE char *text = shown(selector);
    kube_field_error(errors, "FieldValueInvalid", "spec.selector", text, "field is immutable");
}

void local_api_validate_template(const json_t *template, const char *path,
                                 struct kube_field_errors *errors)
{
    GS_AUTO_FREE char *labels = gs_format("%s.metadata.labels", path);
    GS_AUTO_FREE char *spec = gs_format("%s.spec", path);

    local_api_validate_labels(codec_json_get(template, "metadata", "labels", NULL), labels, errors);
    local_api_validate_pod_spec(json_object_get(template, "spec"), spec, errors);
    if (json_array_size(codec_json_get(template, "spec", "ephemeralContainers", NULL))) {
        GS_AUTO_FREE char *field = gs_format("%s.ephemeralContainers", spec);
        kube_field_error(errors, "FieldValueForbidden", field, NULL,
                         "ephemeral containers not allowed in pod template");
    }
}

// The template with the volumes of a StatefulSet's claims, which containers can mount.
static json_t *template_with_claims(const json_t *obj)
{
    json_t *template = json_deep_copy(codec_json_get(obj, "spec", "template", NULL));
    json_t *volumes = codec_json_get(template, "spec", "volumes", NULL);
    size_t i, k;
    json_t *claim, *volume;

    json_array_foreach (codec_json_get(obj, "spec", "volumeClaimTemplates", NULL), i, claim) {
        const char *name = kube_name(claim);
        if (!json_is_array(volumes)) {
            volumes = json_array();
            codec_json_set(template, volumes, "spec", "volumes", NULL);
        }
        json_array_foreach (volumes, k, volume) {
            if (name && gs_streq(codec_json_str(volume, "name", NULL), name)) {
                json_array_remove(volumes, k);
                break;
            }
        }
        volume = json_object();
        codec_json_set_str(volume, "name", name);
        codec_json_set(volume, json_string(name ? name : ""), "persistentVolumeClaim", "claimName",
                       NULL);
        json_array_append_new(volumes, volume);
    }
    return template;
}

static void check_template(const json_t *obj, struct kube_field_errors *errors)
{
    CODEC_AUTO_JSON json_t *template = template_with_claims(obj);
    const char *policy = codec_json_str(template, "spec", "restartPolicy", NULL);

    local_api_validate_template(template, "spec.template", errors);
    if (policy && strcmp(policy, "Always") != 0)
        local_api_unsupported(errors, "spec.template.spec.restartPolicy", policy, "\"Always\"");
}

// --- Deployment strategy ---

static bool is_percent(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && strcmp(text + digits, "%") == 0;
}

static bool is_zero(const json_t *value)
{
    if (json_is_integer(value))
        return json_integer_value(value) == 0;
    if (!json_is_string(value))
        return value == NULL;
    const char *text = json_string_value(value);
    return !is_percent(text) || strspn(text, "0") + 1 == strlen(text);
}

void local_api_validate_share(const json_t *obj, const char *path, const char *key,
                              struct kube_field_errors *errors)
{
    const json_t *value = json_object_get(obj, key);

    local_api_validate_range(obj, key, 0, INT32_MAX, path, LOCAL_API_NOT_NEGATIVE, errors);
    if (json_is_string(value) && !is_percent(json_string_value(value))) {
        GS_AUTO_FREE char *field = gs_format("%s.%s", path, key);
        local_api_invalid(
            errors, field, json_string_value(value),
            "a valid percent string must be a numeric string followed by an ending '%%' "
            "(e.g. '1%%',  or '93%%', regex used for validation is '[0-9]+%%')");
    }
}

void local_api_validate_share_limit(const json_t *obj, const char *path, const char *key,
                                    struct kube_field_errors *errors)
{
    const char *text = codec_json_str(obj, key, NULL);

    if (!text || !is_percent(text) || strtoll(text, NULL, 10) <= 100)
        return;
    GS_AUTO_FREE char *field = gs_format("%s.%s", path, key);
    local_api_invalid(errors, field, text, "must not be greater than 100%%");
}

static void check_strategy(const json_t *obj, struct kube_field_errors *errors)
{
    static const char path[] = "spec.strategy.rollingUpdate";
    const json_t *strategy = codec_json_get(obj, "spec", "strategy", NULL);
    const char *type = codec_json_str(strategy, "type", NULL);
    const json_t *rolling = json_object_get(strategy, "rollingUpdate");

    if (gs_streq(type, "Recreate")) {
        if (rolling)
            kube_field_error(errors, "FieldValueForbidden", "spec.strategy.rollingUpdate", NULL,
                             "may not be specified when strategy `type` is 'Recreate'");
    } else if (gs_streq(type, "RollingUpdate")) {
        local_api_validate_share(rolling, path, "maxUnavailable", errors);
        local_api_validate_share(rolling, path, "maxSurge", errors);
        local_api_validate_share_limit(rolling, path, "maxUnavailable", errors);
        if (is_zero(json_object_get(rolling, "maxUnavailable")) &&
            is_zero(json_object_get(rolling, "maxSurge")))
            kube_field_error(errors, "FieldValueInvalid",
                             "spec.strategy.rollingUpdate.maxUnavailable", "0",
                             "may not be 0 when `maxSurge` is 0");
    } else {
        local_api_unsupported(errors, "spec.strategy.type", type ? type : "",
                              "\"Recreate\", \"RollingUpdate\"");
    }
}

static void check_deployment(const json_t *obj, struct kube_field_errors *errors)
{
    const json_t *spec = json_object_get(obj, "spec");
    int64_t min_ready = codec_json_int(spec, 0, "minReadySeconds", NULL);
    int64_t deadline = codec_json_int(spec, INT32_MAX, "progressDeadlineSeconds", NULL);

    check_strategy(obj, errors);
    local_api_validate_range(spec, "progressDeadlineSeconds", 0, INT32_MAX, "spec",
                             LOCAL_API_NOT_NEGATIVE, errors);
    if (deadline >= 0 && deadline <= min_ready)
        local_api_validate_range(spec, "progressDeadlineSeconds", min_ready + 1, INT32_MAX, "spec",
                                 "must be greater than minReadySeconds", errors);
}

// --- DaemonSet update strategy ---

// Go's JSON of an update strategy, as in the errors of Kubernetes.
static char *shown_strategy(const char *type, const json_t *rolling)
{
    GS_AUTO_FREE char *text = shown(rolling);
    GS_AUTO_BUF struct gs_buf quoted = {0};

    kube_quote(gs_slice_of(type), &quoted);
    return gs_format("{\"Type\":%s,\"RollingUpdate\":%s}", quoted.data, text);
}

static void check_daemon_update(const json_t *obj, struct kube_field_errors *errors)
{
    static const char path[] = "spec.updateStrategy.rollingUpdate";
    const json_t *strategy = codec_json_get(obj, "spec", "updateStrategy", NULL);
    const char *type = codec_json_str(strategy, "type", NULL);
    const json_t *rolling = json_object_get(strategy, "rollingUpdate");

    if (gs_streq(type, "OnDelete"))
        return;
    if (!gs_streq(type, "RollingUpdate")) {
        GS_AUTO_FREE char *text = shown_strategy(type ? type : "", rolling);
        kube_field_error(errors, "FieldValueNotSupported", "spec.updateStrategy", text,
                         "supported values: \"RollingUpdate\", \"OnDelete\"");
        return;
    }
    local_api_validate_share(rolling, path, "maxUnavailable", errors);
    local_api_validate_share(rolling, path, "maxSurge", errors);
    local_api_validate_share_limit(rolling, path, "maxUnavailable", errors);
    local_api_validate_share_limit(rolling, path, "maxSurge", errors);
    bool unavailable = !is_zero(json_object_get(rolling, "maxUnavailable"));
    bool surge = !is_zero(json_object_get(rolling, "maxSurge"));
    if (unavailable && surge) {
        GS_AUTO_FREE char *shown = codec_json_text(json_object_get(rolling, "maxSurge"));
        kube_field_error(errors, "FieldValueInvalid", "spec.updateStrategy.rollingUpdate.maxSurge",
                         shown, "may not be set when maxUnavailable is non-zero");
    } else if (!unavailable && !surge) {
        local_api_required(errors, "spec.updateStrategy.rollingUpdate.maxUnavailable",
                           "cannot be 0 when maxSurge is 0");
    }
}

// --- StatefulSets ---

static void check_statefulset(const json_t *obj, const json_t *old,
                              struct kube_field_errors *errors)
{
    static const char *const mutable[] = {"replicas",
                                          "ordinals",
                                          "template",
                                          "updateStrategy",
                                          "revisionHistoryLimit",
                                          "persistentVolumeClaimRetentionPolicy",
                                          "minReadySeconds"};
    static const char *const retention[] = {"whenDeleted", "whenScaled"};
    static const char path[] = "spec.updateStrategy.rollingUpdate";
    const json_t *spec = json_object_get(obj, "spec");
    const json_t *strategy = json_object_get(spec, "updateStrategy");
    const json_t *rolling = json_object_get(strategy, "rollingUpdate");
    const char *type = codec_json_str(strategy, "type", NULL);
    const char *management = codec_json_str(spec, "podManagementPolicy", NULL);

    if (!gs_streq(management, "OrderedReady") && !gs_streq(management, "Parallel"))
        local_api_invalid(errors, "spec.podManagementPolicy", management ? management : "",
                          "must be '%s' or '%s'", "OrderedReady", "Parallel");
    if (gs_streq(type, "OnDelete") && rolling) {
        GS_AUTO_FREE char *partition = shown(json_object_get(rolling, "partition"));
        GS_AUTO_FREE char *text =
            gs_format("{\"Partition\":%s,\"MaxUnavailable\":null}", partition);
        kube_field_error(errors, "FieldValueInvalid", path, text,
                         "only allowed for updateStrategy '%s'", "RollingUpdate");
    } else if (!gs_streq(type, "OnDelete") && !gs_streq(type, "RollingUpdate")) {
        GS_AUTO_FREE char *text = shown_strategy(type ? type : "", rolling);
        kube_field_error(errors, "FieldValueInvalid", "spec.updateStrategy", text,
                         "must be '%s' or '%s'", "RollingUpdate", "OnDelete");
    }
    local_api_validate_range(rolling, "partition", 0, INT32_MAX, path, LOCAL_API_NOT_NEGATIVE,
                             errors);
    for (size_t i = 0; i < GS_ARRAY_LEN(retention); i++) {
        const char *policy =
            codec_json_str(spec, "persistentVolumeClaimRetentionPolicy", retention[i], NULL);
        GS_AUTO_FREE char *field =
            gs_format("spec.persistentVolumeClaimRetentionPolicy.%s", retention[i]);
        if (!gs_streq(policy, "Retain") && !gs_streq(policy, "Delete"))
            local_api_unsupported(errors, field, policy ? policy : "", "\"Retain\", \"Delete\"");
    }
    local_api_validate_range(json_object_get(spec, "ordinals"), "start", 0, INT32_MAX,
                             "spec.ordinals", LOCAL_API_NOT_NEGATIVE, errors);
    if (!old)
        return;
    CODEC_AUTO_JSON json_t *now = json_copy((json_t *)spec);
    CODEC_AUTO_JSON json_t *before = json_copy(json_object_get(old, "spec"));
    for (size_t i = 0; i < GS_ARRAY_LEN(mutable); i++) {
        json_object_del(now, mutable[i]);
        json_object_del(before, mutable[i]);
    }
    if (!codec_json_same(now, before))
        kube_field_error(errors, "FieldValueForbidden", "spec", NULL,
                         "updates to statefulset spec for fields other than 'replicas', "
                         "'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "
                         "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are "
                         "forbidden");
}

void local_api_validate_workload(const json_t *obj, const json_t *old,
                                 struct kube_field_errors *errors)
{
    static const char *const counts[] = {"replicas", "minReadySeconds", "revisionHistoryLimit"};
    const json_t *spec = json_object_get(obj, "spec");

    for (size_t i = 0; i < GS_ARRAY_LEN(counts); i++)
        local_api_validate_range(spec, counts[i], 0, INT32_MAX, "spec", LOCAL_API_NOT_NEGATIVE,
                                 errors);
    bool daemonset = gs_streq(kube_kind(obj), "DaemonSet");
    if (old && daemonset)
        check_same_selector(obj, old, errors);
    check_selector(obj, errors);
    check_template(obj, errors);
    if (gs_streq(kube_kind(obj), "Deployment"))
        check_deployment(obj, errors);
    else if (daemonset)
        check_daemon_update(obj, errors);
    else if (gs_streq(kube_kind(obj), "StatefulSet"))
        check_statefulset(obj, old, errors);
    if (old && !daemonset && !gs_streq(kube_kind(obj), "ReplicationController") &&
        !gs_streq(kube_kind(obj), "StatefulSet"))
        check_same_selector(obj, old, errors);
}
