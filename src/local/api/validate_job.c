// SPDX-License-Identifier: Apache-2.0
// Jobs and CronJobs.
#include "base/mem.h"
#include "kube/object.h"
#include "kube/selector.h"
#include "local/api/registry.h"
#include "local/cron.h"

#define MAX_INDEXES       100000
#define MAX_POLICY_RULES  20
#define MAX_POLICY_VALUES 255

static void immutable(const json_t *spec, const json_t *old_spec, const char *path, const char *key,
                      struct kube_field_errors *errors)
{
    const json_t *value = json_object_get(spec, key);

    if (codec_json_same(value, json_object_get(old_spec, key)))
        return;
    GS_AUTO_FREE char *field = gs_format("%s.%s", path, key);
    GS_AUTO_FREE char *shown = value ? codec_json_text(value) : gs_strdup("null");
    kube_field_error(errors, "FieldValueInvalid", field, shown, "field is immutable");
}

static void check_codes(const json_t *codes, const char *path, struct kube_field_errors *errors)
{
    const char *op = codec_json_str(codes, "operator", NULL);
    const json_t *values = json_object_get(codes, "values");
    bool in = gs_streq(op, "In");
    GS_AUTO_FREE char *field = gs_format("%s.values", path);
    size_t i;
    json_t *v;

    if (!in && !gs_streq(op, "NotIn")) {
        GS_AUTO_FREE char *at = gs_format("%s.operator", path);
        local_api_unsupported(errors, at, op ? op : "", "\"In\", \"NotIn\"");
    }
    if (json_array_size(values) == 0)
        kube_field_error(errors, "FieldValueInvalid", field, "[]",
                         "at least one value is required");
    if (json_array_size(values) > MAX_POLICY_VALUES)
        kube_field_error(errors, "FieldValueTooMany", field, NULL, "must have at most %d items",
                         MAX_POLICY_VALUES);
    json_array_foreach ((json_t *)values, i, v)
        if (in && json_integer_value(v) == 0) {
            GS_AUTO_FREE char *at = gs_format("%s[%zu]", field, i);
            kube_field_error(errors, "FieldValueInvalid", at, "0",
                             "must not be 0 for the In operator");
        }
}

static void check_rule(const json_t *spec, const json_t *rule, const char *path,
                       struct kube_field_errors *errors)
{
    static const char *const actions[] = {"Count", "FailIndex", "FailJob", "Ignore"};
    const char *action = codec_json_str(rule, "action", NULL);
    const json_t *codes = json_object_get(rule, "onExitCodes");
    const json_t *conditions = json_object_get(rule, "onPodConditions");
    GS_AUTO_FREE char *at = gs_format("%s.action", path);
    bool known = false;

    for (size_t i = 0; i < GS_ARRAY_LEN(actions); i++)
        known = known || gs_streq(action, actions[i]);
    if (!action || !*action)
        local_api_required(errors, at,
                           "valid values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"");
    else if (!known)
        local_api_unsupported(errors, at, action,
                              "\"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"");
    else if (gs_streq(action, "FailIndex") && !json_object_get(spec, "backoffLimitPerIndex"))
        local_api_invalid(errors, at, action, "requires the backoffLimitPerIndex to be set");
    if (codes && json_array_size(conditions) > 0)
        kube_field_error(errors, "FieldValueInvalid", path, NULL,
                         "specifying both OnExitCodes and OnPodConditions is not supported");
    else if (!codes && json_array_size(conditions) == 0)
        kube_field_error(errors, "FieldValueInvalid", path, NULL,
                         "specifying one of OnExitCodes and OnPodConditions is required");
    if (codes) {
        GS_AUTO_FREE char *below = gs_format("%s.onExitCodes", path);
        check_codes(codes, below, errors);
    }
}

static void check_failure_policy(const json_t *spec, const char *path,
                                 struct kube_field_errors *errors)
{
    const json_t *rules = codec_json_get(spec, "podFailurePolicy", "rules", NULL);
    const char *restart = codec_json_str(spec, "template", "spec", "restartPolicy", NULL);
    size_t i;
    json_t *rule;

    if (!json_object_get(spec, "podFailurePolicy"))
        return;
    if (!gs_streq(restart, "Never")) {
        GS_AUTO_FREE char *field = gs_format("%s.template.spec.restartPolicy", path);
        local_api_invalid(errors, field, restart ? restart : "",
                          "only \"Never\" is supported when podFailurePolicy is specified");
    }
    GS_AUTO_FREE char *list = gs_format("%s.podFailurePolicy.rules", path);
    if (json_array_size(rules) > MAX_POLICY_RULES)
        kube_field_error(errors, "FieldValueTooMany", list, NULL, "must have at most %d items",
                         MAX_POLICY_RULES);
    json_array_foreach ((json_t *)rules, i, rule) {
        GS_AUTO_FREE char *at = gs_format("%s[%zu]", list, i);
        check_rule(spec, rule, at, errors);
    }
}

static void check_mode(const json_t *spec, const char *path, struct kube_field_errors *errors)
{
    static const char *const limited[] = {"completions", "parallelism"};
    const char *mode = codec_json_str(spec, "completionMode", NULL);
    bool indexed = gs_streq(mode, "Indexed");

    if (mode && !indexed && !gs_streq(mode, "NonIndexed")) {
        GS_AUTO_FREE char *field = gs_format("%s.completionMode", path);
        local_api_unsupported(errors, field, mode, "\"NonIndexed\", \"Indexed\"");
    }
    if (indexed && !json_object_get(spec, "completions")) {
        GS_AUTO_FREE char *field = gs_format("%s.completions", path);
        local_api_required(errors, field, "when completion mode is Indexed");
    }
    for (size_t i = 0; indexed && i < GS_ARRAY_LEN(limited); i++)
        local_api_validate_range(
            spec, limited[i], INT64_MIN, MAX_INDEXES, path,
            "must be less than or equal to 100000 when completion mode is Indexed", errors);
    if (!indexed && json_object_get(spec, "backoffLimitPerIndex")) {
        GS_AUTO_FREE char *field = gs_format("%s.backoffLimitPerIndex", path);
        GS_AUTO_FREE char *shown = codec_json_text(json_object_get(spec, "backoffLimitPerIndex"));
        kube_field_error(errors, "FieldValueInvalid", field, shown,
                         "requires indexed completion mode");
    }
    if (!indexed && json_object_get(spec, "successPolicy")) {
        GS_AUTO_FREE char *field = gs_format("%s.successPolicy", path);
        kube_field_error(errors, "FieldValueInvalid", field, "null",
                         "requires indexed completion mode");
    }
}

static void check_replacement(const json_t *spec, const char *path,
                              struct kube_field_errors *errors)
{
    const char *policy = codec_json_str(spec, "podReplacementPolicy", NULL);
    bool only_failed = json_object_get(spec, "podFailurePolicy") != NULL;
    GS_AUTO_FREE char *field = gs_format("%s.podReplacementPolicy", path);

    if (policy && !gs_streq(policy, "Failed") &&
        (only_failed || !gs_streq(policy, "TerminatingOrFailed")))
        local_api_unsupported(errors, field, policy,
                              only_failed ? "\"Failed\"" : "\"Failed\", \"TerminatingOrFailed\"");
}

void local_api_validate_job_spec(const json_t *spec, const char *path,
                                 struct kube_field_errors *errors)
{
    static const char *const counts[] = {"parallelism",
                                         "completions",
                                         "backoffLimit",
                                         "backoffLimitPerIndex",
                                         "maxFailedIndexes",
                                         "activeDeadlineSeconds",
                                         "ttlSecondsAfterFinished"};
    const json_t *template = json_object_get(spec, "template");
    const char *policy = codec_json_str(template, "spec", "restartPolicy", NULL);
    GS_AUTO_FREE char *at = gs_format("%s.template", path);
    GS_AUTO_FREE char *field = gs_format("%s.spec.restartPolicy", at);

    for (size_t i = 0; i < GS_ARRAY_LEN(counts); i++)
        local_api_validate_range(spec, counts[i], 0,
                                 gs_starts(counts[i], "active") ? INT64_MAX : INT32_MAX, path,
                                 LOCAL_API_NOT_NEGATIVE, errors);
    check_mode(spec, path, errors);
    local_api_validate_template(template, at, errors);
    if (!policy || gs_streq(policy, "Always"))
        local_api_required(errors, field, "valid values: \"OnFailure\", \"Never\"");
    else if (!gs_streq(policy, "OnFailure") && !gs_streq(policy, "Never"))
        local_api_unsupported(errors, field, policy, "\"OnFailure\", \"Never\"");
    check_failure_policy(spec, path, errors);
    check_replacement(spec, path, errors);
}

static void check_selector(const json_t *obj, struct kube_field_errors *errors)
{
    const json_t *spec = json_object_get(obj, "spec");
    const json_t *selector = json_object_get(spec, "selector");
    const json_t *labels = json_object_get(selector, "matchLabels");
    struct kube_selector parsed = {0};
    const char *uid = codec_json_str(labels, "batch.kubernetes.io/controller-uid", NULL);
    if (!uid)
        uid = codec_json_str(labels, "controller-uid", NULL);
    bool generated = json_object_size(selector) == 1 && json_object_size(labels) == 1 &&
                     gs_streq(uid, kube_uid(obj));

    if (!selector) {
        local_api_required(errors, "spec.selector", "");
    } else if (!codec_json_bool(spec, false, "manualSelector", NULL) && !generated) {
        GS_AUTO_FREE char *shown = codec_json_text(selector);
        kube_field_error(errors, "FieldValueInvalid", "spec.selector", shown,
                         "`selector` not auto-generated");
    }
    GS_AUTO_ERROR struct gs_error *err = kube_selector_from_json(selector, &parsed);
    if (!err)
        local_api_validate_selector_labels(obj, &parsed, errors);
    kube_selector_finish(&parsed);
}

void local_api_validate_job(const json_t *obj, const json_t *old, struct kube_field_errors *errors)
{
    static const char *const fixed[] = {"completionMode",      "selector",      "template",
                                        "managedBy",           "successPolicy", "podFailurePolicy",
                                        "backoffLimitPerIndex"};
    const json_t *spec = json_object_get(obj, "spec"), *old_spec = json_object_get(old, "spec");

    local_api_validate_job_spec(spec, "spec", errors);
    check_selector(obj, errors);
    if (!old)
        return;
    for (size_t i = 0; i < GS_ARRAY_LEN(fixed); i++)
        immutable(spec, old_spec, "spec", fixed[i], errors);
    if (!gs_streq(codec_json_str(spec, "completionMode", NULL), "Indexed")) {
        immutable(spec, old_spec, "spec", "completions", errors);
    } else if (json_object_get(spec, "completions") &&
               !codec_json_same(json_object_get(spec, "completions"),
                                json_object_get(old_spec, "completions")) &&
               !codec_json_same(json_object_get(spec, "completions"),
                                json_object_get(spec, "parallelism"))) {
        GS_AUTO_FREE char *shown = codec_json_text(json_object_get(spec, "completions"));
        kube_field_error(errors, "FieldValueInvalid", "spec.completions", shown,
                         "can only be modified in tandem with spec.parallelism");
    }
}

// --- CronJobs ---

#define MAX_CRONJOB_NAME 52 // the names of its Jobs add the time

static void check_zone(const json_t *spec, struct kube_field_errors *errors)
{
    const char *zone = codec_json_str(spec, "timeZone", NULL);
    struct local_timezone *loaded = NULL;

    if (!zone)
        return;
    if (!*zone) {
        local_api_invalid(errors, "spec.timeZone", zone,
                          "timeZone must be nil or non-empty string");
        return;
    }
    if (gs_streq(zone, "Local")) {
        local_api_invalid(errors, "spec.timeZone", zone,
                          "timeZone must be an explicit time zone as defined in "
                          "https://www.iana.org/time-zones");
        return;
    }
    GS_AUTO_ERROR struct gs_error *err = local_timezone_load(zone, &loaded);
    if (err)
        local_api_invalid(errors, "spec.timeZone", zone, "%s", gs_error_message(err));
    local_timezone_free(loaded);
}

static void check_schedule(const json_t *spec, struct kube_field_errors *errors)
{
    const char *schedule = codec_json_str(spec, "schedule", NULL);
    struct local_cron parsed;

    if (!schedule || !*schedule) {
        local_api_required(errors, "spec.schedule", "");
        return;
    }
    if (strstr(schedule, "TZ")) {
        local_api_invalid(errors, "spec.schedule", schedule,
                          "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
        return;
    }
    GS_AUTO_ERROR struct gs_error *err = local_cron_parse(gs_slice_of(schedule), &parsed);
    if (err)
        local_api_invalid(errors, "spec.schedule", schedule, "%s", gs_error_message(err));
}

void local_api_validate_cronjob(const json_t *obj, const json_t *old,
                                struct kube_field_errors *errors)
{
    static const char *const counts[] = {"startingDeadlineSeconds", "successfulJobsHistoryLimit",
                                         "failedJobsHistoryLimit"};
    const json_t *spec = json_object_get(obj, "spec");
    const char *policy = codec_json_str(spec, "concurrencyPolicy", NULL);
    const char *name = kube_name(obj);

    if (name && strlen(name) > MAX_CRONJOB_NAME)
        local_api_invalid(errors, "metadata.name", name, "must be no more than %d characters",
                          MAX_CRONJOB_NAME);
    check_schedule(spec, errors);
    check_zone(spec, errors);
    for (size_t i = 0; i < GS_ARRAY_LEN(counts); i++)
        local_api_validate_range(spec, counts[i], 0, i == 0 ? INT64_MAX : INT32_MAX, "spec",
                                 LOCAL_API_NOT_NEGATIVE, errors);
    if (!gs_streq(policy, "Allow") && !gs_streq(policy, "Forbid") && !gs_streq(policy, "Replace"))
        local_api_unsupported(errors, "spec.concurrencyPolicy", policy ? policy : "",
                              "\"Allow\", \"Forbid\", \"Replace\"");
    local_api_validate_job_spec(codec_json_get(spec, "jobTemplate", "spec", NULL),
                                "spec.jobTemplate.spec", errors);
}
