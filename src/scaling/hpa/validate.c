// SPDX-License-Identifier: Apache-2.0
// Field errors with the texts and the order of Kubernetes' validation of autoscaling objects. The
// schema check has reported members of a wrong JSON type: they count as absent here.
#include "base/mem.h"
#include "hpa/convert.h"
#include "hpa/hpa_private.h"
#include "kube/quantity.h"

#include <stdio.h>

#define INVALID       "FieldValueInvalid"
#define REQUIRED      "FieldValueRequired"
#define NOT_SUPPORTED "FieldValueNotSupported"
#define FORBIDDEN     "FieldValueForbidden"

#define MAX_WINDOW_SECONDS 3600
#define MAX_PERIOD_SECONDS 1800
#define MAX_LABEL          63

struct path {
    char text[256];
};

// Paths consist of constants of this file and indices, so they fit.
static struct path format_path(const char *fmt, ...) GS_PRINTF(1, 2);
static struct path format_path(const char *fmt, ...)
{
    struct path p;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p.text, sizeof(p.text), fmt, ap);
    va_end(ap);
    return p;
}

static struct path child(const char *parent, const char *name)
{
    return format_path("%s.%s", parent, name);
}

static struct path indexed(const char *parent, size_t i)
{
    return format_path("%s[%zu]", parent, i);
}

// Reports an error of the member `name` of `parent`.
static void bad_number(struct kube_field_errors *e, const char *parent, const char *name,
                       int64_t value, const char *text)
{
    char shown[24];
    snprintf(shown, sizeof(shown), "%lld", (long long)value);
    kube_field_error(e, INVALID, child(parent, name).text, shown, "%s", text);
}

static void bad_text(struct kube_field_errors *e, const char *type, const char *parent,
                     const char *name, const char *value, const char *text)
{
    GS_AUTO_FREE char *shown = gs_format("\"%s\"", value);
    kube_field_error(e, type, child(parent, name).text, shown, "%s", text);
}

static void required(struct kube_field_errors *e, const char *parent, const char *name,
                     const char *text)
{
    kube_field_error(e, REQUIRED, child(parent, name).text, NULL, "%s", text);
}

static const char *text_of(const json_t *obj, const char *name)
{
    const char *s = json_string_value(json_object_get(obj, name));
    return s ? s : "";
}

static void check_segment(struct kube_field_errors *e, const char *parent, const char *name,
                          const char *value)
{
    if (strcmp(value, ".") == 0)
        bad_text(e, INVALID, parent, name, value, "may not be '.'");
    else if (strcmp(value, "..") == 0)
        bad_text(e, INVALID, parent, name, value, "may not be '..'");
    if (strchr(value, '/'))
        bad_text(e, INVALID, parent, name, value, "may not contain '/'");
    if (strchr(value, '%'))
        bad_text(e, INVALID, parent, name, value, "may not contain '%'");
}

static void check_segment_required(struct kube_field_errors *e, const char *parent,
                                   const char *name, const char *value, const char *text)
{
    if (!*value)
        required(e, parent, name, text);
    else
        check_segment(e, parent, name, value);
}

static void check_reference(struct kube_field_errors *e, const json_t *ref, const char *path,
                            bool need_group)
{
    const char *kind = text_of(ref, "kind"), *version = text_of(ref, "apiVersion");
    check_segment_required(e, path, "kind", kind, "");
    check_segment_required(e, path, "name", text_of(ref, "name"), "");
    const char *slash = strchr(version, '/');
    if (slash && strchr(slash + 1, '/')) {
        GS_AUTO_FREE char *text = gs_format("unexpected GroupVersion string: %s", version);
        bad_text(e, INVALID, path, "apiVersion", version, text);
    } else if (need_group && (!slash || slash == version) &&
               strcmp(kind, "ReplicationController") != 0) {
        bad_text(e, INVALID, path, "apiVersion", version, "apiVersion must specify API group");
    }
}

// --- metrics ---
static void check_metric_identifier(struct kube_field_errors *e, const json_t *source,
                                    const char *path)
{
    const json_t *metric = json_object_get(source, "metric");
    check_segment_required(e, child(path, "metric").text, "name", text_of(metric, "name"),
                           "must specify a metric name");
}

// False if the member is absent. Quantities are canonical strings here.
static bool get_quantity(const json_t *target, const char *name, int64_t *ret_milli,
                         const char **ret_text)
{
    const json_t *v = json_object_get(target, name);
    if (!json_is_string(v))
        return false;
    *ret_text = json_string_value(v);
    GS_AUTO_ERROR struct gs_error *err =
        kube_quantity_parse_milli(gs_slice_of(*ret_text), ret_milli);
    return !err;
}

struct target_shape {
    bool value, average_value, utilization;
    int64_t average_milli;
};

static struct target_shape check_target(struct kube_field_errors *e, const json_t *source,
                                        const char *source_path)
{
    const json_t *target = json_object_get(source, "target");
    struct path path = child(source_path, "target");
    const char *type = text_of(target, "type"), *shown = NULL;
    if (!*type)
        required(e, path.text, "type", "must specify a metric target type");
    if (strcmp(type, "Utilization") != 0 && strcmp(type, "Value") != 0 &&
        strcmp(type, "AverageValue") != 0)
        bad_text(e, INVALID, path.text, "type", type,
                 "must be either Utilization, Value, or AverageValue");
    struct target_shape shape = {0};
    int64_t milli = 0;
    shape.value = get_quantity(target, "value", &milli, &shown);
    if (shape.value && milli <= 0)
        bad_text(e, INVALID, path.text, "value", shown, "must be positive");
    shape.average_value = get_quantity(target, "averageValue", &shape.average_milli, &shown);
    if (shape.average_value && shape.average_milli <= 0)
        bad_text(e, INVALID, path.text, "averageValue", shown, "must be positive");
    const json_t *utilization = json_object_get(target, "averageUtilization");
    shape.utilization = json_is_integer(utilization);
    if (shape.utilization && json_integer_value(utilization) < 1)
        bad_number(e, path.text, "averageUtilization", json_integer_value(utilization),
                   "must be greater than 0");
    return shape;
}

static void check_object(struct kube_field_errors *e, const json_t *source, const char *path)
{
    check_reference(e, json_object_get(source, "describedObject"),
                    child(path, "describedObject").text, false);
    check_metric_identifier(e, source, path);
    struct target_shape t = check_target(e, source, path);
    if (!t.value && !t.average_value)
        required(e, child(path, "target").text, "averageValue",
                 "must set either a target value or averageValue");
}

static void check_external(struct kube_field_errors *e, const json_t *source, const char *path)
{
    check_metric_identifier(e, source, path);
    struct target_shape t = check_target(e, source, path);
    struct path target = child(path, "target");
    if (!t.value && !t.average_value)
        required(e, target.text, "averageValue",
                 "must set either a target value for metric or a per-pod target");
    if (t.value && t.average_value)
        kube_field_error(e, FORBIDDEN, child(target.text, "value").text, NULL,
                         "may not set both a target value for metric and a per-pod target");
}

static void check_pods(struct kube_field_errors *e, const json_t *source, const char *path)
{
    check_metric_identifier(e, source, path);
    struct target_shape t = check_target(e, source, path);
    if (!t.average_value)
        required(e, child(path, "target").text, "averageValue",
                 "must specify a positive target averageValue");
}

static void check_resource(struct kube_field_errors *e, const json_t *source, const char *path)
{
    if (!*text_of(source, "name"))
        required(e, path, "name", "must specify a resource name");
    struct target_shape t = check_target(e, source, path);
    struct path target = child(path, "target");
    if (!t.utilization && !t.average_value)
        required(e, target.text, "averageUtilization",
                 "must set either a target raw value or a target utilization");
    if (t.utilization && t.average_value)
        kube_field_error(e, FORBIDDEN, child(target.text, "averageValue").text, NULL,
                         "may not set both a target raw value and a target utilization");
}

static bool is_dns_label(const char *s)
{
    size_t n = strlen(s);
    if (n > MAX_LABEL || s[0] == '-' || s[n - 1] == '-')
        return false;
    return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

static void check_container_resource(struct kube_field_errors *e, const json_t *source,
                                     const char *path)
{
    const char *container = text_of(source, "container");
    if (!*text_of(source, "name"))
        required(e, path, "name", "must specify a resource name");
    if (!*container)
        required(e, path, "container", "must specify a container");
    else if (strlen(container) > MAX_LABEL)
        bad_text(e, INVALID, path, "container", container, "must be no more than 63 characters");
    else if (!is_dns_label(container))
        bad_text(e, INVALID, path, "container", container,
                 "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or "
                 "'-', and must start and end with an alphanumeric character (e.g. 'my-name',  or "
                 "'123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')");
    struct target_shape t = check_target(e, source, path);
    struct path target = child(path, "target");
    if (!t.utilization && !t.average_value)
        required(e, target.text, "averageUtilization",
                 "must set either a target raw value or a target utilization");
    if (t.utilization && t.average_value)
        kube_field_error(e, FORBIDDEN, child(target.text, "averageValue").text, NULL,
                         "may not set both a target raw value and a target utilization");
}

static void check_source(struct kube_field_errors *e, const char *member, const json_t *source,
                         const char *path)
{
    if (strcmp(member, "object") == 0)
        check_object(e, source, path);
    else if (strcmp(member, "external") == 0)
        check_external(e, source, path);
    else if (strcmp(member, "pods") == 0)
        check_pods(e, source, path);
    else if (strcmp(member, "resource") == 0)
        check_resource(e, source, path);
    else
        check_container_resource(e, source, path);
}

static void unsupported_metric_type(struct kube_field_errors *e, const char *path, const char *type)
{
    bad_text(e, NOT_SUPPORTED, path, "type", type,
             "supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", "
             "\"Resource\"");
}

static void check_metric(struct kube_field_errors *e, const json_t *metric, const char *path)
{
    const char *type = text_of(metric, "type"), *expected = NULL;
    for (size_t i = 0; i < HPA_N_SOURCES; i++)
        if (strcmp(type, hpa_sources[i].type) == 0)
            expected = hpa_sources[i].member;
    if (!*type)
        required(e, path, "type", "must specify a metric source type");
    if (!expected)
        unsupported_metric_type(e, path, type);
    size_t present = 0;
    for (size_t i = 0; i < HPA_N_SOURCES; i++) {
        const json_t *source = json_object_get(metric, hpa_sources[i].member);
        if (json_is_object(source) && ++present == 1)
            check_source(e, hpa_sources[i].member, source, child(path, hpa_sources[i].member).text);
    }
    if (!expected)
        unsupported_metric_type(e, path, type);
    else if (!json_is_object(json_object_get(metric, expected)))
        required(e, path, expected, "must populate information for the given metric source");
    for (size_t i = 0; present != 1 && i < HPA_N_SOURCES; i++) {
        const char *member = hpa_sources[i].member;
        if (json_is_object(json_object_get(metric, member)) &&
            (!expected || strcmp(member, expected) != 0))
            kube_field_error(e, FORBIDDEN, child(path, member).text, NULL,
                             "must populate the given metric source only");
    }
}

static void check_metrics(struct kube_field_errors *e, const json_t *spec)
{
    const json_t *metrics = json_object_get(spec, "metrics");
    bool from_outside = false;
    for (size_t i = 0; i < json_array_size(metrics); i++) {
        const json_t *metric = json_array_get(metrics, i);
        check_metric(e, metric, indexed("spec.metrics", i).text);
        from_outside |= gs_streq(text_of(metric, "type"), "Object") ||
                        gs_streq(text_of(metric, "type"), "External");
    }
    const json_t *min = json_object_get(spec, "minReplicas");
    if (json_is_integer(min) && json_integer_value(min) == 0 && !from_outside)
        kube_field_error(e, FORBIDDEN, "spec.metrics", NULL,
                         "must specify at least one Object or External metric to support scaling "
                         "to zero replicas");
}

// --- behavior ---
static void check_policy(struct kube_field_errors *e, const json_t *policy, const char *path)
{
    const char *type = text_of(policy, "type");
    int64_t value = codec_json_int(policy, 0, "value", NULL);
    int64_t period = codec_json_int(policy, 0, "periodSeconds", NULL);
    if (strcmp(type, "Pods") != 0 && strcmp(type, "Percent") != 0)
        bad_text(e, NOT_SUPPORTED, path, "type", type, "supported values: \"Percent\", \"Pods\"");
    if (value <= 0)
        bad_number(e, path, "value", value, "must be greater than zero");
    if (period <= 0)
        bad_number(e, path, "periodSeconds", period, "must be greater than zero");
    if (period > MAX_PERIOD_SECONDS)
        bad_number(e, path, "periodSeconds", period, "must be less than or equal to 1800");
}

static void check_rules(struct kube_field_errors *e, const json_t *rules, const char *path)
{
    if (!json_is_object(rules))
        return;
    const json_t *window = json_object_get(rules, "stabilizationWindowSeconds");
    int64_t seconds = json_is_integer(window) ? json_integer_value(window) : 0;
    if (seconds < 0)
        bad_number(e, path, "stabilizationWindowSeconds", seconds,
                   "must be greater than or equal to zero");
    if (seconds > MAX_WINDOW_SECONDS)
        bad_number(e, path, "stabilizationWindowSeconds", seconds,
                   "must be less than or equal to 3600");
    const json_t *select = json_object_get(rules, "selectPolicy");
    if (json_is_string(select)) {
        const char *s = json_string_value(select);
        if (strcmp(s, "Max") != 0 && strcmp(s, "Min") != 0 && strcmp(s, "Disabled") != 0)
            bad_text(e, NOT_SUPPORTED, path, "selectPolicy", s,
                     "supported values: \"Disabled\", \"Max\", \"Min\"");
    }
    struct path policies_path = child(path, "policies");
    const json_t *policies = json_object_get(rules, "policies");
    if (json_array_size(policies) == 0)
        kube_field_error(e, REQUIRED, policies_path.text, NULL, "must specify at least one Policy");
    for (size_t i = 0; i < json_array_size(policies); i++)
        check_policy(e, json_array_get(policies, i), indexed(policies_path.text, i).text);
    int64_t milli = 0;
    const char *shown = NULL;
    if (get_quantity(rules, "tolerance", &milli, &shown) && milli < 0)
        bad_text(e, INVALID, path, "tolerance", shown, "must be greater than or equal to 0");
}

static void check_status_count(struct kube_field_errors *e, const json_t *status, const char *name)
{
    int64_t n = codec_json_int(status, 0, name, NULL);
    if (n < 0)
        bad_number(e, "status", name, n, "must be greater than or equal to 0");
}

void hpa_validate(const json_t *v2, struct kube_field_errors *errors)
{
    const json_t *spec = json_object_get(v2, "spec");
    const json_t *min = json_object_get(spec, "minReplicas");
    int64_t max_replicas = codec_json_int(spec, 0, "maxReplicas", NULL);
    bool has_min = json_is_integer(min);
    int64_t min_replicas = has_min ? json_integer_value(min) : 1;
    if (min_replicas < 0)
        bad_number(errors, "spec", "minReplicas", min_replicas,
                   "must be greater than or equal to 0");
    if (max_replicas == 0)
        kube_field_error(errors, "FieldValueRequired", "spec.maxReplicas", NULL,
                         "must be set and greater than 0");
    else if (max_replicas < 0)
        bad_number(errors, "spec", "maxReplicas", max_replicas,
                   "must be greater than or equal to 1");
    if (has_min && max_replicas < min_replicas)
        bad_number(errors, "spec", "maxReplicas", max_replicas,
                   "must be greater than or equal to `minReplicas`");
    check_reference(errors, json_object_get(spec, "scaleTargetRef"), "spec.scaleTargetRef", true);
    check_metrics(errors, spec);
    const json_t *behavior = json_object_get(spec, "behavior");
    check_rules(errors, json_object_get(behavior, "scaleUp"), "spec.behavior.scaleUp");
    check_rules(errors, json_object_get(behavior, "scaleDown"), "spec.behavior.scaleDown");
    const json_t *status = json_object_get(v2, "status");
    check_status_count(errors, status, "currentReplicas");
    check_status_count(errors, status, "desiredReplicas");
}
