// SPDX-License-Identifier: Apache-2.0
// Finds values in a branch where the chart does not read them, and texts where the chart's
// templates need a boolean. Helm reports neither.
// https://github.com/prometheus-community/helm-charts/blob/main/charts/kube-prometheus-stack/values.yaml
#include "engine/chart/chart_private.h"

#include "base/mem.h"

#define SPEC         "prometheus.prometheusSpec"
#define ALERTMANAGER "alertmanager.alertmanagerSpec"
#define MAX_DEPTH    4

// Keys that have one place. Keys that several branches have, such as image, are left out.
static const struct {
    const char *key, *place;
} places[] = {
    {"additionalAlertManagerConfigs", SPEC},
    {"additionalAlertManagerConfigsSecret", SPEC},
    {"additionalAlertRelabelConfigs", SPEC},
    {"additionalAlertRelabelConfigsSecret", SPEC},
    {"additionalRemoteRead", SPEC},
    {"additionalRemoteWrite", SPEC},
    {"additionalScrapeConfigs", SPEC},
    {"additionalScrapeConfigsSecret", SPEC},
    {"alertingEndpoints", SPEC},
    {"arbitraryFSAccessThroughSMs", SPEC},
    {"enableAdminAPI", SPEC},
    {"enableRemoteWriteReceiver", SPEC},
    {"enforcedNamespaceLabel", SPEC},
    {"enforcedSampleLimit", SPEC},
    {"evaluationInterval", SPEC},
    {"externalLabels", SPEC},
    {"ignoreNamespaceSelectors", SPEC},
    {"overrideHonorLabels", SPEC},
    {"overrideHonorTimestamps", SPEC},
    {"podMonitorNamespaceSelector", SPEC},
    {"podMonitorSelector", SPEC},
    {"podMonitorSelectorNilUsesHelmValues", SPEC},
    {"probeNamespaceSelector", SPEC},
    {"probeSelector", SPEC},
    {"probeSelectorNilUsesHelmValues", SPEC},
    {"prometheusExternalLabelName", SPEC},
    {"remoteRead", SPEC},
    {"remoteWrite", SPEC},
    {"replicaExternalLabelName", SPEC},
    {"retentionSize", SPEC},
    {"ruleNamespaceSelector", SPEC},
    {"ruleSelector", SPEC},
    {"ruleSelectorNilUsesHelmValues", SPEC},
    {"scrapeClasses", SPEC},
    {"scrapeConfigNamespaceSelector", SPEC},
    {"scrapeConfigSelector", SPEC},
    {"scrapeConfigSelectorNilUsesHelmValues", SPEC},
    {"serviceMonitorNamespaceSelector", SPEC},
    {"serviceMonitorSelector", SPEC},
    {"serviceMonitorSelectorNilUsesHelmValues", SPEC},
    {"storageSpec", SPEC},
    {"walCompression", SPEC},
    {"additionalPodMonitors", "prometheus"},
    {"additionalServiceMonitors", "prometheus"},
    {"additionalRulesForClusterRole", "prometheus"},
    {"prometheusSpec", "prometheus"},
    {"alertmanagerSpec", "alertmanager"},
    {"alertmanagerConfigMatcherStrategy", ALERTMANAGER},
    {"alertmanagerConfigNamespaceSelector", ALERTMANAGER},
    {"alertmanagerConfigSelector", ALERTMANAGER},
    {"additionalPrometheusRules", ""},
    {"additionalPrometheusRulesMap", ""},
    {"defaultRules", ""},
    {"kubeControllerManager", ""},
    {"kubeScheduler", ""},
    {"prometheusOperator", ""},
};

// Keys of prometheusSpec that only concern the deployment, or have no counterpart here.
static const char *const deployment_keys[] = {"additionalArgs",
                                              "additionalConfig",
                                              "additionalConfigString",
                                              "additionalPrometheusSecretsAnnotations",
                                              "additionalRemoteRead",
                                              "affinity",
                                              "allowOverlappingBlocks",
                                              "apiserverConfig",
                                              "arbitraryFSAccessThroughSMs",
                                              "automountServiceAccountToken",
                                              "bodySizeLimit",
                                              "configMaps",
                                              "containers",
                                              "convertClassicHistogramsToNHCB",
                                              "disableAlerting",
                                              "disableCompaction",
                                              "dnsConfig",
                                              "dnsPolicy",
                                              "enableAdminAPI",
                                              "enableFeatures",
                                              "enableOTLPReceiver",
                                              "enableRemoteWriteReceiver",
                                              "enableServiceLinks",
                                              "enforcedBodySizeLimit",
                                              "enforcedKeepDroppedTargets",
                                              "enforcedLabelLimit",
                                              "enforcedLabelNameLengthLimit",
                                              "enforcedLabelValueLengthLimit",
                                              "enforcedSampleLimit",
                                              "enforcedTargetLimit",
                                              "excludedFromEnforcement",
                                              "exemplars",
                                              "externalUrl",
                                              "hostAliases",
                                              "hostNetwork",
                                              "hostUsers",
                                              "image",
                                              "initContainers",
                                              "keepDroppedTargets",
                                              "labelLimit",
                                              "labelNameLengthLimit",
                                              "labelValueLengthLimit",
                                              "listenLocal",
                                              "logFormat",
                                              "logLevel",
                                              "maximumStartupDurationSeconds",
                                              "minReadySeconds",
                                              "nameEscapingScheme",
                                              "nameValidationScheme",
                                              "nodeSelector",
                                              "otlp",
                                              "overrideHonorTimestamps",
                                              "paused",
                                              "persistentVolumeClaimRetentionPolicy",
                                              "podAntiAffinity",
                                              "podAntiAffinityTopologyKey",
                                              "podManagementPolicy",
                                              "podMetadata",
                                              "podTargetLabels",
                                              "portName",
                                              "priorityClassName",
                                              "prometheusExternalLabelName",
                                              "prometheusExternalLabelNameClear",
                                              "prometheusRulesExcludedFromEnforce",
                                              "query",
                                              "queryLogFile",
                                              "reloadStrategy",
                                              "remoteWriteDashboards",
                                              "remoteWriteReceiverMessageVersions",
                                              "replicaExternalLabelName",
                                              "replicaExternalLabelNameClear",
                                              "replicas",
                                              "resources",
                                              "retention",
                                              "retentionSize",
                                              "routePrefix",
                                              "ruleQueryOffset",
                                              "runtime",
                                              "sampleLimit",
                                              "schedulerName",
                                              "scrapeClassicHistograms",
                                              "scrapeFailureLogFile",
                                              "scrapeNativeHistograms",
                                              "scrapeProtocols",
                                              "secrets",
                                              "securityContext",
                                              "serviceDiscoveryRole",
                                              "serviceName",
                                              "shardRetentionPolicy",
                                              "shardingStrategy",
                                              "shards",
                                              "storageSpec",
                                              "targetLimit",
                                              "terminationGracePeriodSeconds",
                                              "thanos",
                                              "tolerations",
                                              "topologySpreadConstraints",
                                              "tracingConfig",
                                              "tsdb",
                                              "updateStrategy",
                                              "version",
                                              "volumeMounts",
                                              "volumes",
                                              "walCompression",
                                              "web"};

// Branches in which values are searched. Other mappings have names of users, or are subcharts whose
// keys have another meaning.
static const char *const branches[] = {
    "alertmanager",   "alertmanagerSpec", "global", "prometheus",           "prometheusOperator",
    "prometheusSpec", "server",           "spec",   "kube-prometheus-stack"};

static bool is_branch(const char *key)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(branches); i++)
        if (gs_streq(key, branches[i]))
            return true;
    return false;
}

static const char *place_of(const char *key)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(places); i++)
        if (gs_streq(places[i].key, key))
            return places[i].place;
    return NULL;
}

static void check_key(struct chart_reader *r, const char *path, const char *key, const json_t *at)
{
    const char *place = place_of(key);
    if (place && !gs_streq(place, path))
        chart_mistake(r, at, "%s%s%s has no effect: the chart reads it as %s%s%s", path,
                      *path ? "." : "", key, place, *place ? "." : "", key);
}

// A text in quotes is true in a template, also "false".
static void check_boolean(struct chart_reader *r, const char *key, const json_t *value,
                          const json_t *typed)
{
    bool boolean = gs_streq(key, "enabled") || gs_ends(key, "NilUsesHelmValues");
    const char *text = json_string_value(typed);
    if (boolean && text && *text)
        chart_mistake(r, value,
                      "%s is the text \"%s\", which the chart reads as true; write true or false "
                      "without quotes",
                      key, text);
}

static void walk(struct chart_reader *r, const char *path, const json_t *values,
                 const json_t *typed, int depth)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)values, key, value) {
        const json_t *same = json_object_get(typed, key);
        check_key(r, path, key, value);
        check_boolean(r, key, value, same);
        check_boolean(r, "enabled", json_object_get(value, "enabled"),
                      is_branch(key) ? NULL : json_object_get(same, "enabled"));
        if (depth == MAX_DEPTH || !json_is_object(value) || !is_branch(key))
            continue;
        GS_AUTO_FREE char *inner = gs_format("%s%s%s", path, *path ? "." : "", key);
        walk(r, inner, value, same, depth + 1);
    }
}

void chart_check_places(struct chart_reader *r, const json_t *values)
{
    walk(r, "", values, r->typed, 0);
}

bool chart_is_deployment_key(const char *key)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(deployment_keys); i++)
        if (gs_streq(key, deployment_keys[i]))
            return true;
    return false;
}

bool chart_has_misplaced(const json_t *doc)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)doc, key, value) {
        const char *place = place_of(key);
        if (place && *place)
            return true;
    }
    return false;
}
