// SPDX-License-Identifier: Apache-2.0
// What the API refuses of workloads. The texts are those of kube-apiserver 1.36.
#include "api_setup.h"
#include "codec/yaml.h"
#include "unit.h"

struct mistake {
    const char *kind, *name;
    const char *spec;           // members of the spec, in YAML
    const char *restart_policy; // of the pod template
    const char *message;
};

// The object without the mistake, in the kind's form.
static char *object_of(const struct mistake *m)
{
    GS_AUTO_FREE char *pod =
        gs_format("{restartPolicy: %s, containers: [{name: c, image: x}]}", m->restart_policy);
    GS_AUTO_FREE char *spec = NULL;
    struct codec_yaml_docs docs = {0};
    if (strcmp(m->kind, "CronJob") == 0)
        spec = gs_format("%s, jobTemplate: {spec: {template: {spec: %s}}}", m->spec, pod);
    else if (strcmp(m->kind, "Job") == 0)
        spec = gs_format("%s, template: {spec: %s}", m->spec, pod);
    else if (strcmp(m->kind, "ReplicationController") == 0)
        spec = gs_format("%s, template: {metadata: {labels: {a: b}}, spec: %s}", m->spec, pod);
    else
        spec = gs_format("%s%sselector: {matchLabels: {a: b}}, "
                         "template: {metadata: {labels: {a: b}}, spec: %s}",
                         m->spec, *m->spec ? ", " : "", pod);
    GS_AUTO_FREE char *yaml =
        gs_format("{metadata: {name: %s}, spec: {%s}}", m->name, *spec == ',' ? spec + 2 : spec);
    assert_ok(codec_yaml_parse(gs_slice_of(yaml), "test.yaml", &docs));
    char *text = codec_json_text(docs.items[0].value);
    codec_yaml_docs_finish(&docs);
    return text;
}

static const char *path_of(const char *kind)
{
    static const char *const paths[][2] = {
        {"DaemonSet", "/apis/apps/v1/namespaces/default/daemonsets"},
        {"StatefulSet", "/apis/apps/v1/namespaces/default/statefulsets"},
        {"Job", "/apis/batch/v1/namespaces/default/jobs"},
        {"CronJob", "/apis/batch/v1/namespaces/default/cronjobs"},
        {"ReplicationController", "/api/v1/namespaces/default/replicationcontrollers"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(paths); i++)
        if (strcmp(paths[i][0], kind) == 0)
            return paths[i][1];
    return NULL;
}

static void test_mistakes_are_named_as_in_kubernetes(void **state)
{
    static const struct mistake cases[] = {
        {"DaemonSet", "x", "'updateStrategy': {'type': 'Never'}", "Always",
         "spec.updateStrategy: Unsupported value: {\"Type\":\"Never\",\"RollingUpdate\":null}: "
         "supported values: \"RollingUpdate\", \"OnDelete\""},
        {"DaemonSet", "x", "'updateStrategy': {'rollingUpdate': {'maxUnavailable': 0}}", "Always",
         "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when "
         "maxSurge is 0"},
        {"DaemonSet", "x", "'updateStrategy': {'rollingUpdate': {'maxSurge': 1}}", "Always",
         "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when "
         "maxUnavailable is non-zero"},
        {"DaemonSet", "x", "'updateStrategy': {'rollingUpdate': {'maxUnavailable': -1}}", "Always",
         "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: -1: must be greater "
         "than or equal to 0"},
        {"DaemonSet", "x", "'updateStrategy': {'rollingUpdate': {'maxUnavailable': 'x'}}", "Always",
         "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: \"x\": a valid percent "
         "string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
         "used for validation is '[0-9]+%')"},
        {"DaemonSet", "x", "'updateStrategy': {'rollingUpdate': {'maxUnavailable': 'x'}}", "Always",
         "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when "
         "maxSurge is 0"},
        {"DaemonSet", "x", "'updateStrategy': {'rollingUpdate': {'maxUnavailable': '150%'}}",
         "Always",
         "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: \"150%\": must not be "
         "greater than 100%"},
        {"DaemonSet", "x", "", "Never",
         "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: "
         "\"Always\""},
        {"DaemonSet", "x", "'minReadySeconds': -1", "Always",
         "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"},
        {"StatefulSet", "x", "'podManagementPolicy': 'x'", "Always",
         "spec.podManagementPolicy: Invalid value: \"x\": must be 'OrderedReady' or 'Parallel'"},
        {"StatefulSet", "x", "'updateStrategy': {'type': 'x'}", "Always",
         "spec.updateStrategy: Invalid value: {\"Type\":\"x\",\"RollingUpdate\":null}: must be "
         "'RollingUpdate' or 'OnDelete'"},
        {"StatefulSet", "x", "'updateStrategy': {'rollingUpdate': {'partition': -1}}", "Always",
         "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or "
         "equal to 0"},
        {"StatefulSet", "x",
         "'updateStrategy': {'type': 'OnDelete', 'rollingUpdate': {'partition': 1}}", "Always",
         "spec.updateStrategy.rollingUpdate: Invalid value: "
         "{\"Partition\":1,\"MaxUnavailable\":null}: only allowed for updateStrategy "
         "'RollingUpdate'"},
        {"StatefulSet", "x", "'ordinals': {'start': -1}", "Always",
         "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"},
        {"StatefulSet", "x", "'replicas': -1", "Always",
         "spec.replicas: Invalid value: -1: must be greater than or equal to 0"},
        {"StatefulSet", "x", "'persistentVolumeClaimRetentionPolicy': {'whenDeleted': 'x'}",
         "Always",
         "spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: \"x\": "
         "supported values: \"Retain\", \"Delete\""},
        {"Job", "x", "'parallelism': -1", "Never",
         "spec.parallelism: Invalid value: -1: must be greater than or equal to 0"},
        {"Job", "x", "'completionMode': 'x'", "Never",
         "spec.completionMode: Unsupported value: \"x\": supported values: \"NonIndexed\", "
         "\"Indexed\""},
        {"Job", "x", "", "Always",
         "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", "
         "\"Never\""},
        {"Job", "x", "'completionMode': 'Indexed', 'completions': 5, 'parallelism': 200000",
         "Never",
         "spec.parallelism: Invalid value: 200000: must be less than or equal to 100000 when "
         "completion mode is Indexed"},
        {"Job", "x", "'backoffLimitPerIndex': 1", "Never",
         "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"},
        {"Job", "x", "'selector': {'matchLabels': {'a': 'b'}}", "Never",
         "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\","},
        {"Job", "x", "'selector': {'matchLabels': {'a': 'b'}}", "Never",
         "spec.template.metadata.labels: Invalid value: "},
        {"Job", "x",
         "'podFailurePolicy': {'rules': [{'action': 'x', 'onExitCodes': {'operator': 'In', "
         "'values': [1]}}]}",
         "Never",
         "spec.podFailurePolicy.rules[0].action: Unsupported value: \"x\": supported values: "
         "\"Count\", \"FailIndex\", \"FailJob\", \"Ignore\""},
        {"Job", "x", "'podFailurePolicy': {'rules': [{'action': 'Ignore'}]}", "Never",
         "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and "
         "OnPodConditions is required"},
        {"Job", "x",
         "'podFailurePolicy': {'rules': [{'action': 'Ignore', 'onExitCodes': {'operator': 'Is', "
         "'values': []}}]}",
         "Never",
         "spec.podFailurePolicy.rules[0].onExitCodes.operator: Unsupported value: \"Is\": "
         "supported values: \"In\", \"NotIn\""},
        {"Job", "x",
         "'podFailurePolicy': {'rules': [{'action': 'Ignore', 'onExitCodes': {'operator': 'Is', "
         "'values': []}}]}",
         "Never",
         "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: []: at least one value "
         "is required"},
        {"Job", "x",
         "'podFailurePolicy': {'rules': [{'action': 'Ignore', 'onExitCodes': {'operator': 'In', "
         "'values': [0]}}]}",
         "Never",
         "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 "
         "for the In operator"},
        {"Job", "x",
         "'podFailurePolicy': {'rules': [{'action': 'FailIndex', 'onExitCodes': {'operator': 'In', "
         "'values': [1]}}]}",
         "Never",
         "spec.podFailurePolicy.rules[0].action: Invalid value: \"FailIndex\": requires the "
         "backoffLimitPerIndex to be set"},
        {"Job", "x",
         "'podFailurePolicy': {'rules': [{'action': 'Ignore', 'onExitCodes': {'operator': 'In', "
         "'values': [1]}}]}",
         "OnFailure",
         "spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is "
         "supported when podFailurePolicy is specified"},
        {"Job", "x", "'successPolicy': {'rules': [{'succeededCount': 1}]}", "Never",
         "spec.successPolicy: Invalid value: "},
        {"Job", "x", "'ttlSecondsAfterFinished': -1", "Never",
         "spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0"},
        {"Job", "x", "'activeDeadlineSeconds': -1", "Never",
         "spec.activeDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0"},
        {"Job", "x", "'podReplacementPolicy': 'x'", "Never",
         "spec.podReplacementPolicy: Unsupported value: \"x\": supported values: \"Failed\", "
         "\"TerminatingOrFailed\""},
        {"Job", "x", "'manualSelector': true", "Never", "spec.selector: Required value"},
        {"Job", "x", "'manualSelector': true", "Never",
         "spec.template.metadata.labels: Invalid value: null: `selector` does not match template "
         "`labels`"},
        {"CronJob", "x", "'schedule': 'x'", "Never",
         "spec.schedule: Invalid value: \"x\": expected exactly 5 fields, found 1: [x]"},
        {"CronJob", "x", "'schedule': '* * * * 7'", "Never",
         "spec.schedule: Invalid value: \"* * * * 7\": end of range (7) above maximum (6): 7"},
        {"CronJob", "x", "'schedule': '@never'", "Never",
         "spec.schedule: Invalid value: \"@never\": unrecognized descriptor: @never"},
        {"CronJob", "x", "'schedule': 'TZ=UTC * * * * *'", "Never",
         "spec.schedule: Invalid value: \"TZ=UTC * * * * *\": cannot use TZ or CRON_TZ in "
         "schedule, use timeZone field instead"},
        {"CronJob", "x", "'schedule': '* * * * *', 'timeZone': 'Nowhere'", "Never",
         "spec.timeZone: Invalid value: \"Nowhere\": unknown time zone Nowhere"},
        {"CronJob", "x", "'schedule': '* * * * *', 'timeZone': 'Local'", "Never",
         "spec.timeZone: Invalid value: \"Local\": timeZone must be an explicit time zone as "
         "defined in https://www.iana.org/time-zones"},
        {"CronJob", "x", "'schedule': '* * * * *', 'timeZone': ''", "Never",
         "spec.timeZone: Invalid value: \"\": timeZone must be nil or non-empty string"},
        {"CronJob", "x", "'schedule': '* * * * *', 'concurrencyPolicy': 'x'", "Never",
         "spec.concurrencyPolicy: Unsupported value: \"x\": supported values: \"Allow\", "
         "\"Forbid\", \"Replace\""},
        {"CronJob", "x", "'schedule': '* * * * *', 'startingDeadlineSeconds': -1", "Never",
         "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0"},
        {"CronJob", "x", "'schedule': '* * * * *'", "Always",
         "spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "
         "\"OnFailure\", \"Never\""},
        {"CronJob", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "'schedule': '* * * * *'", "Never",
         "metadata.name: Invalid value: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\": "
         "must be no more than 52 characters"},
        {"CronJob", "x", "'schedule': ''", "Never", "spec.schedule: Required value"},
        {"CronJob", "x", "'schedule': '1-2-3 * * * *'", "Never",
         "spec.schedule: Invalid value: \"1-2-3 * * * *\": too many hyphens: 1-2-3"},
        {"CronJob", "x", "'schedule': 'x * * * *'", "Never",
         "spec.schedule: Invalid value: \"x * * * *\": failed to parse int from x: strconv.Atoi: "
         "parsing \"x\": invalid syntax"},
        {"CronJob", "x", "'schedule': '*/0 * * * *'", "Never",
         "spec.schedule: Invalid value: \"*/0 * * * *\": step of range should be a positive "
         "number: */0"},
        {"CronJob", "x", "'schedule': '@every x'", "Never",
         "spec.schedule: Invalid value: \"@every x\": failed to parse duration @every x: time: "
         "invalid duration \"x\""},
        {"CronJob", "x", "'schedule': '1/2/3 * * * *'", "Never",
         "spec.schedule: Invalid value: \"1/2/3 * * * *\": too many slashes: 1/2/3"},
        {"ReplicationController", "x", "'selector': {'c': 'd'}", "Always",
         "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match "
         "template `labels`"},
        {"ReplicationController", "x", "'replicas': -1", "Always",
         "spec.replicas: Invalid value: -1: must be greater than or equal to 0"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *body = object_of(&cases[i]);
        AUTO_REPLY struct reply r = request(*state, "POST", path_of(cases[i].kind), body);
        assert_status(r, 422);
        assert_message(r, cases[i].message);
    }
}

static void test_selectors_and_templates_of_jobs_are_fixed(void **state)
{
    static const char path[] = "/apis/batch/v1/namespaces/default/jobs";
    static const char merge[] = "application/merge-patch+json";
    const struct mistake valid = {"Job", "j", "completions: 2, completionMode: Indexed", "Never",
                                  ""};
    GS_AUTO_FREE char *body = object_of(&valid);
    AUTO_REPLY struct reply made = request(*state, "POST", path, body);
    assert_status(made, 201);
    assert_member(made, "TerminatingOrFailed", "spec", "podReplacementPolicy");
    const char *uid = codec_json_str(made.body, "metadata", "uid", NULL);
    assert_member(made, uid, "spec", "selector", "matchLabels",
                  "batch.kubernetes.io/controller-uid");
    assert_member(made, "j", "spec", "template", "metadata", "labels", "job-name");
    AUTO_REPLY struct reply template =
        request_with(*state, "PATCH", "/apis/batch/v1/namespaces/default/jobs/j", merge, NULL,
                     "{\"spec\":{\"template\":{\"spec\":{\"hostNetwork\":true}}}}");
    assert_status(template, 422);
    assert_message(template, "spec.template: Invalid value: {");
    assert_message(template, "field is immutable");
    AUTO_REPLY struct reply completions =
        request_with(*state, "PATCH", "/apis/batch/v1/namespaces/default/jobs/j", merge, NULL,
                     "{\"spec\":{\"completions\":3}}");
    assert_status(completions, 422);
    assert_message(completions,
                   "spec.completions: Invalid value: 3: can only be modified in tandem "
                   "with spec.parallelism");
    AUTO_REPLY struct reply both =
        request_with(*state, "PATCH", "/apis/batch/v1/namespaces/default/jobs/j", merge, NULL,
                     "{\"spec\":{\"completions\":3,\"parallelism\":3}}");
    assert_status(both, 200);
}

static void test_few_fields_of_statefulsets_can_change(void **state)
{
    static const char path[] = "/apis/apps/v1/namespaces/default/statefulsets/s";
    static const char merge[] = "application/merge-patch+json";
    const struct mistake valid = {
        "StatefulSet", "s", "serviceName: s, updateStrategy: {rollingUpdate: {maxUnavailable: 2}}",
        "Always", ""};
    GS_AUTO_FREE char *body = object_of(&valid);
    AUTO_REPLY struct reply made =
        request(*state, "POST", "/apis/apps/v1/namespaces/default/statefulsets", body);
    assert_status(made, 201);
    assert_member(made, "Retain", "spec", "persistentVolumeClaimRetentionPolicy", "whenScaled");
    assert_null(codec_json_get(made.body, "spec", "updateStrategy", "rollingUpdate",
                               "maxUnavailable", NULL));
    AUTO_REPLY struct reply service =
        request_with(*state, "PATCH", path, merge, NULL, "{\"spec\":{\"serviceName\":\"t\"}}");
    assert_status(service, 422);
    assert_message(service, "spec: Forbidden: updates to statefulset spec for fields other than "
                            "'replicas', 'ordinals', 'template', 'updateStrategy', "
                            "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
                            "'minReadySeconds' are forbidden");
    AUTO_REPLY struct reply replicas =
        request_with(*state, "PATCH", path, merge, NULL, "{\"spec\":{\"replicas\":2}}");
    assert_status(replicas, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mistakes_are_named_as_in_kubernetes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_selectors_and_templates_of_jobs_are_fixed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_few_fields_of_statefulsets_can_change, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
