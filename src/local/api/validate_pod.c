// SPDX-License-Identifier: Apache-2.0
// Validation of pods, with the rules and error texts of Kubernetes (pkg/apis/core/validation), for
// the fields that have an effect here.
#include "base/mem.h"
#include "kube/names.h"
#include "kube/object.h"
#include "local/api/registry.h"

#include <inttypes.h>

#define NOT_EPHEMERAL "cannot be set for an Ephemeral Container"
#define MAX_EPHEMERAL 100 // they stay in the pod until it is deleted

// --- small checks ---

void local_api_validate_range(const json_t *obj, const char *key, int64_t min, int64_t max,
                              const char *path, const char *text, struct kube_field_errors *errors)
{
    const json_t *value = json_object_get(obj, key);
    char shown[24];

    if (!json_is_integer(value))
        return;
    int64_t n = json_integer_value(value);
    if (n >= min && n <= max)
        return;
    GS_AUTO_FREE char *field = gs_format("%s.%s", path, key);
    snprintf(shown, sizeof shown, "%" PRId64, n);
    kube_field_error(errors, "FieldValueInvalid", field, shown, "%s", text);
}

void local_api_validate_port_ref(const json_t *port, const char *path,
                                 struct kube_field_errors *errors)
{
    char shown[24];

    if (json_is_integer(port)) {
        int64_t n = json_integer_value(port);
        snprintf(shown, sizeof shown, "%" PRId64, n);
        if (n < 1 || n > 65535)
            kube_field_error(errors, "FieldValueInvalid", path, shown, LOCAL_API_PORT_RANGE);
    } else if (json_is_string(port)) {
        const char *problem = local_api_port_name_problem(json_string_value(port));
        if (problem)
            local_api_invalid(errors, path, json_string_value(port), "%s", problem);
    }
}

// One of the allowed words, when given.
static void check_choice(const json_t *obj, const char *key, const char *const *allowed, size_t n,
                         const char *choices, const char *path, struct kube_field_errors *errors)
{
    const char *value = codec_json_str(obj, key, NULL);

    if (!value)
        return;
    for (size_t i = 0; i < n; i++)
        if (strcmp(allowed[i], value) == 0)
            return;
    GS_AUTO_FREE char *field = gs_format("%s.%s", path, key);
    local_api_unsupported(errors, field, value, choices);
}

// Whether an earlier item of the list has the same string member.
static bool seen_before(const json_t *list, size_t i, const char *key)
{
    const char *value = codec_json_str(json_array_get(list, i), key, NULL);

    for (size_t k = 0; value && k < i; k++)
        if (gs_streq(codec_json_str(json_array_get(list, k), key, NULL), value))
            return true;
    return false;
}

// --- containers ---

static void check_name(const json_t *list, size_t i, const char *path,
                       struct kube_field_errors *errors)
{
    const char *name = codec_json_str(json_array_get(list, i), "name", NULL);
    GS_AUTO_FREE char *field = gs_format("%s.name", path);
    GS_AUTO_BUF struct gs_buf why = {0};

    if (!name || !*name)
        local_api_required(errors, field, "");
    else if (!kube_check_dns_label(gs_slice_of(name), &why))
        local_api_invalid(errors, field, name, "%s", why.data);
    else if (seen_before(list, i, "name"))
        local_api_duplicate(errors, field, name);
}

static void check_image(const json_t *container, const char *path, struct kube_field_errors *errors)
{
    const char *image = codec_json_str(container, "image", NULL);
    struct gs_slice whole = gs_slice_of(image);
    GS_AUTO_FREE char *field = gs_format("%s.image", path);

    if (!image || !*image)
        local_api_required(errors, field, "");
    else if (gs_slice_trim(whole).len != whole.len)
        local_api_invalid(errors, field, image, "must not have leading or trailing whitespace");
}

static void check_ports(const json_t *ports, const char *path, struct kube_field_errors *errors)
{
    static const char *const protocols[] = {"SCTP", "TCP", "UDP"};
    size_t i;
    json_t *port;

    json_array_foreach ((json_t *)ports, i, port) {
        GS_AUTO_FREE char *at = gs_format("%s.ports[%zu]", path, i);
        const char *name = codec_json_str(port, "name", NULL);
        if (name && *name) {
            GS_AUTO_FREE char *field = gs_format("%s.name", at);
            const char *problem = local_api_port_name_problem(name);
            if (problem)
                local_api_invalid(errors, field, name, "%s", problem);
            else if (seen_before(ports, i, "name"))
                local_api_duplicate(errors, field, name);
        }
        if (!json_object_get(port, "containerPort")) {
            GS_AUTO_FREE char *field = gs_format("%s.containerPort", at);
            local_api_required(errors, field, "");
        }
        local_api_validate_range(port, "containerPort", 1, 65535, at, LOCAL_API_PORT_RANGE, errors);
        local_api_validate_range(port, "hostPort", 0, 65535, at, LOCAL_API_PORT_RANGE, errors);
        check_choice(port, "protocol", protocols, GS_ARRAY_LEN(protocols),
                     "\"SCTP\", \"TCP\", \"UDP\"", at, errors);
    }
}

static void check_env(const json_t *env, const char *path, struct kube_field_errors *errors)
{
    size_t i;
    json_t *entry;

    json_array_foreach ((json_t *)env, i, entry) {
        GS_AUTO_FREE char *field = gs_format("%s.env[%zu].name", path, i);
        const char *name = codec_json_str(entry, "name", NULL);
        const char *value = codec_json_str(entry, "value", NULL);
        GS_AUTO_BUF struct gs_buf why = {0};
        if (!name || !*name)
            local_api_required(errors, field, "");
        else if (!kube_check_env_name(gs_slice_of(name), &why))
            local_api_invalid(errors, field, name, "%s", why.data);
        if (value && *value && json_object_get(entry, "valueFrom")) {
            GS_AUTO_FREE char *from = gs_format("%s.env[%zu].valueFrom", path, i);
            local_api_invalid(errors, from, "", "may not be specified when `value` is not empty");
        }
    }
}

static const json_t *find_named(const json_t *list, const char *name)
{
    size_t i;
    json_t *item;

    json_array_foreach ((json_t *)list, i, item)
        if (gs_streq(codec_json_str(item, "name", NULL), name))
            return item;
    return NULL;
}

static void check_mounts(const json_t *container, const json_t *volumes, const char *path,
                         struct kube_field_errors *errors)
{
    size_t i;
    json_t *mount;

    json_array_foreach (json_object_get(container, "volumeMounts"), i, mount) {
        GS_AUTO_FREE char *at = gs_format("%s.volumeMounts[%zu]", path, i);
        GS_AUTO_FREE char *name_field = gs_format("%s.name", at);
        GS_AUTO_FREE char *path_field = gs_format("%s.mountPath", at);
        const char *name = codec_json_str(mount, "name", NULL);
        const char *mount_path = codec_json_str(mount, "mountPath", NULL);
        GS_AUTO_BUF struct gs_buf quoted = {0};
        if (!name || !*name) {
            local_api_required(errors, name_field, "");
        } else if (!find_named(volumes, name)) {
            kube_quote(gs_slice_of(name), &quoted);
            kube_field_error(errors, "FieldValueNotFound", name_field, quoted.data, "%s", "");
        }
        if (!mount_path || !*mount_path)
            local_api_required(errors, path_field, "");
    }
}

static void check_probe(const json_t *container, const char *which, const char *path,
                        struct kube_field_errors *errors)
{
    static const char *const handlers[] = {"exec", "httpGet", "tcpSocket", "grpc"};
    static const char *const counts[] = {"initialDelaySeconds", "timeoutSeconds", "periodSeconds",
                                         "successThreshold", "failureThreshold"};
    const json_t *probe = json_object_get(container, which);
    GS_AUTO_FREE char *at = gs_format("%s.%s", path, which);
    size_t n = 0;

    if (!probe)
        return;
    for (size_t i = 0; i < GS_ARRAY_LEN(handlers); i++) {
        const json_t *handler = json_object_get(probe, handlers[i]);
        GS_AUTO_FREE char *port_field = gs_format("%s.%s.port", at, handlers[i]);
        if (!handler)
            continue;
        n++;
        if (strcmp(handlers[i], "exec") != 0 && !json_object_get(handler, "port"))
            local_api_required(errors, port_field, "");
        local_api_validate_port_ref(json_object_get(handler, "port"), port_field, errors);
    }
    if (n == 0)
        local_api_required(errors, at, "must specify a handler type");
    else if (n > 1)
        kube_field_error(errors, "FieldValueForbidden", at, NULL,
                         "may not specify more than 1 handler type");
    for (size_t i = 0; i < GS_ARRAY_LEN(counts); i++)
        local_api_validate_range(probe, counts[i], 0, INT32_MAX, at, LOCAL_API_NOT_NEGATIVE,
                                 errors);
}

static void check_container(const json_t *list, size_t i, const json_t *volumes, const char *path,
                            struct kube_field_errors *errors)
{
    static const char *const policies[] = {"Always", "IfNotPresent", "Never"};
    const json_t *container = json_array_get(list, i);

    check_name(list, i, path, errors);
    check_image(container, path, errors);
    check_choice(container, "imagePullPolicy", policies, GS_ARRAY_LEN(policies),
                 "\"Always\", \"IfNotPresent\", \"Never\"", path, errors);
    check_ports(json_object_get(container, "ports"), path, errors);
    check_env(json_object_get(container, "env"), path, errors);
    check_mounts(container, volumes, path, errors);
    check_probe(container, "livenessProbe", path, errors);
    check_probe(container, "readinessProbe", path, errors);
    check_probe(container, "startupProbe", path, errors);
    GS_AUTO_FREE char *resources = gs_format("%s.resources", path);
    local_api_validate_resources(json_object_get(container, "resources"), resources, errors);
}

static void check_containers(const json_t *spec, const char *key, const char *path,
                             struct kube_field_errors *errors)
{
    const json_t *list = json_object_get(spec, key);

    for (size_t i = 0; i < json_array_size(list); i++) {
        GS_AUTO_FREE char *at = gs_format("%s.%s[%zu]", path, key, i);
        check_container(list, i, json_object_get(spec, "volumes"), at, errors);
    }
}

// --- ephemeral containers ---

static bool has_container(const json_t *spec, const char *name)
{
    return find_named(json_object_get(spec, "containers"), name) ||
           find_named(json_object_get(spec, "initContainers"), name);
}

static void check_ephemeral_mounts(const json_t *container, const char *path,
                                   struct kube_field_errors *errors)
{
    static const char *const members[] = {"subPath", "subPathExpr"};
    size_t i;
    json_t *mount;

    json_array_foreach (json_object_get(container, "volumeMounts"), i, mount)
        for (size_t m = 0; m < GS_ARRAY_LEN(members); m++) {
            const char *value = codec_json_str(mount, members[m], NULL);
            GS_AUTO_FREE char *field = gs_format("%s.volumeMounts[%zu].%s", path, i, members[m]);
            if (value && *value)
                kube_field_error(errors, "FieldValueForbidden", field, NULL, NOT_EPHEMERAL);
        }
}

static void check_ephemeral(const json_t *spec, const json_t *container, const char *path,
                            struct kube_field_errors *errors)
{
    static const char *const members[] = {
        "ports",        "resources",          "resizePolicy",  "restartPolicy",  "lifecycle",
        "startupProbe", "restartPolicyRules", "livenessProbe", "readinessProbe",
    };
    const char *name = codec_json_str(container, "name", NULL);
    const char *target = codec_json_str(container, "targetContainerName", NULL);
    GS_AUTO_FREE char *name_field = gs_format("%s.name", path);
    GS_AUTO_FREE char *target_field = gs_format("%s.targetContainerName", path);
    GS_AUTO_BUF struct gs_buf quoted = {0};

    if (name && has_container(spec, name))
        local_api_duplicate(errors, name_field, name);
    if (target && *target && !has_container(spec, target)) {
        kube_quote(gs_slice_of(target), &quoted);
        kube_field_error(errors, "FieldValueNotFound", target_field, quoted.data, "%s", "");
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(members); i++) {
        const json_t *value = json_object_get(container, members[i]);
        GS_AUTO_FREE char *field = gs_format("%s.%s", path, members[i]);
        if (json_object_size(value) || json_array_size(value) || json_is_string(value))
            kube_field_error(errors, "FieldValueForbidden", field, NULL, NOT_EPHEMERAL);
    }
    check_ephemeral_mounts(container, path, errors);
}

static void check_all_ephemeral(const json_t *spec, const char *path,
                                struct kube_field_errors *errors)
{
    const json_t *list = json_object_get(spec, "ephemeralContainers");
    GS_AUTO_FREE char *field = gs_format("%s.ephemeralContainers", path);

    if (json_array_size(list) > MAX_EPHEMERAL) {
        kube_field_error(errors, "FieldValueTooMany", field, NULL, "must have at most %d items",
                         MAX_EPHEMERAL);
        return;
    }
    check_containers(spec, "ephemeralContainers", path, errors);
    for (size_t i = 0; i < json_array_size(list); i++) {
        GS_AUTO_FREE char *at = gs_format("%s[%zu]", field, i);
        check_ephemeral(spec, json_array_get(list, i), at, errors);
    }
}

void local_api_validate_ephemeral_update(const json_t *obj, const json_t *old,
                                         struct kube_field_errors *errors)
{
    static const char list[] = "ephemeralContainers";
    const json_t *now = codec_json_get(obj, "spec", list, NULL);
    size_t i;
    json_t *before;

    if (kube_pod_is_mirror(old)) {
        kube_field_error(errors, "FieldValueForbidden", "", NULL,
                         "static pods do not support ephemeral containers");
        return;
    }
    local_api_validate_pod_spec(json_object_get(obj, "spec"), "spec", errors);
    json_array_foreach (codec_json_get(old, "spec", list, NULL), i, before) {
        const char *name = codec_json_str(before, "name", NULL);
        const json_t *after = find_named(now, name);
        if (!after || !json_equal(before, after))
            kube_field_error(errors, "FieldValueForbidden", "spec.ephemeralContainers", NULL,
                             "existing ephemeral containers \"%s\" may not be %s\n", name,
                             after ? "changed" : "removed");
    }
}

// --- pods ---

void local_api_validate_pod_spec(const json_t *spec, const char *path,
                                 struct kube_field_errors *errors)
{
    static const char *const restart[] = {"Always", "OnFailure", "Never"};
    static const char *const dns[] = {"ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"};
    const json_t *volumes = json_object_get(spec, "volumes");

    if (json_array_size(json_object_get(spec, "containers")) == 0) {
        GS_AUTO_FREE char *field = gs_format("%s.containers", path);
        local_api_required(errors, field, "");
    }
    for (size_t i = 0; i < json_array_size(volumes); i++) {
        GS_AUTO_FREE char *at = gs_format("%s.volumes[%zu]", path, i);
        check_name(volumes, i, at, errors);
    }
    check_containers(spec, "initContainers", path, errors);
    check_containers(spec, "containers", path, errors);
    check_all_ephemeral(spec, path, errors);
    check_choice(spec, "restartPolicy", restart, GS_ARRAY_LEN(restart),
                 "\"Always\", \"OnFailure\", \"Never\"", path, errors);
    check_choice(spec, "dnsPolicy", dns, GS_ARRAY_LEN(dns),
                 "\"ClusterFirst\", \"ClusterFirstWithHostNet\", \"Default\", \"None\"", path,
                 errors);
    local_api_validate_range(spec, "terminationGracePeriodSeconds", 0, INT64_MAX, path,
                             LOCAL_API_NOT_NEGATIVE, errors);
    local_api_validate_range(spec, "activeDeadlineSeconds", 1, INT32_MAX, path,
                             "must be between 1 and 2147483647, inclusive", errors);
    GS_AUTO_FREE char *selector = gs_format("%s.nodeSelector", path);
    local_api_validate_labels(json_object_get(spec, "nodeSelector"), selector, errors);
}

// The old spec with all that may change taken from the new one.
static json_t *with_mutable_parts(const json_t *old_spec, const json_t *spec)
{
    static const char *const lists[] = {"initContainers", "containers"};
    static const char *const members[] = {"activeDeadlineSeconds", "tolerations",
                                          "terminationGracePeriodSeconds"};
    json_t *merged = json_deep_copy(old_spec);
    size_t i;
    json_t *container;

    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
        json_array_foreach (json_object_get(merged, lists[l]), i, container) {
            json_t *image =
                json_object_get(json_array_get(json_object_get(spec, lists[l]), i), "image");
            if (image)
                json_object_set(container, "image", image);
        }
    for (size_t i_member = 0; i_member < GS_ARRAY_LEN(members); i_member++) {
        json_t *value = json_object_get(spec, members[i_member]);
        if (value)
            json_object_set(merged, members[i_member], value);
        else
            json_object_del(merged, members[i_member]);
    }
    // A scheduler may bind by update, too.
    const char *node = codec_json_str(old_spec, "nodeName", NULL);
    if ((!node || !*node) && json_object_get(spec, "nodeName"))
        json_object_set(merged, "nodeName", json_object_get(spec, "nodeName"));
    return merged;
}

void local_api_validate_pod(const json_t *obj, const json_t *old, struct kube_field_errors *errors)
{
    const json_t *spec = json_object_get(obj, "spec");

    local_api_validate_pod_spec(spec, "spec", errors);
    if (!old && json_array_size(json_object_get(spec, "ephemeralContainers")))
        kube_field_error(errors, "FieldValueForbidden", "spec.ephemeralContainers", NULL,
                         "cannot be set on create");
    if (!old || json_equal(spec, json_object_get(old, "spec")))
        return;
    CODEC_AUTO_JSON json_t *allowed = with_mutable_parts(json_object_get(old, "spec"), spec);
    if (!json_equal(allowed, spec))
        kube_field_error(errors, "FieldValueForbidden", "spec", NULL,
                         "pod updates may not change fields other than "
                         "`spec.containers[*].image`,`spec.initContainers[*].image`,"
                         "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
                         "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to "
                         "be set to 1 if it was previously negative)");
}
