// SPDX-License-Identifier: Apache-2.0
// Defaults of pods and pod templates, as kube-apiserver sets them on creation
// (pkg/apis/core/v1/defaults.go), and the quality-of-service class.
#include "kube/object.h"
#include "kube/quantity.h"
#include "local/api/registry.h"

void local_api_default_str(json_t *obj, const char *key, const char *value)
{
    if (!json_object_get(obj, key))
        codec_json_set_str(obj, key, value);
}

void local_api_default_int(json_t *obj, const char *key, int64_t value)
{
    if (!json_object_get(obj, key))
        codec_json_set_int(obj, key, value);
}

json_t *local_api_default_object(json_t *obj, const char *key)
{
    json_t *member = json_object_get(obj, key);

    if (!member) {
        member = json_object();
        json_object_set_new(obj, key, member);
    }
    return json_is_object(member) ? member : NULL;
}

// --- containers ---

// Untagged and :latest images may change under their name.
static const char *pull_policy(const char *image)
{
    const char *slash = strrchr(image, '/');
    const char *tag = strrchr(slash ? slash : image, ':');

    if (strchr(image, '@'))
        return "IfNotPresent";
    return !tag || strcmp(tag, ":latest") == 0 ? "Always" : "IfNotPresent";
}

static void default_http_get(json_t *handler)
{
    json_t *http = json_object_get(handler, "httpGet");
    json_t *grpc = json_object_get(handler, "grpc");

    if (http) {
        local_api_default_str(http, "path", "/");
        local_api_default_str(http, "scheme", "HTTP");
    }
    if (grpc)
        local_api_default_str(grpc, "service", "");
}

static void default_probe(json_t *probe)
{
    if (!probe)
        return;
    default_http_get(probe);
    local_api_default_int(probe, "timeoutSeconds", 1);
    local_api_default_int(probe, "periodSeconds", 10);
    local_api_default_int(probe, "successThreshold", 1);
    local_api_default_int(probe, "failureThreshold", 3);
}

static void default_env(json_t *env)
{
    size_t i;
    json_t *entry;

    json_array_foreach (env, i, entry) {
        json_t *ref = codec_json_get(entry, "valueFrom", "fieldRef", NULL);
        if (ref)
            local_api_default_str(ref, "apiVersion", "v1");
    }
}

static void default_container_ports(json_t *container, bool host_network)
{
    size_t i;
    json_t *port;

    json_array_foreach (json_object_get(container, "ports"), i, port) {
        local_api_default_str(port, "protocol", "TCP");
        if (host_network)
            local_api_default_int(port, "hostPort", codec_json_int(port, 0, "containerPort", NULL));
    }
}

static void default_container(json_t *container, bool host_network)
{
    const char *image = codec_json_str(container, "image", NULL);
    json_t *lifecycle = json_object_get(container, "lifecycle");

    local_api_default_str(container, "terminationMessagePath", "/dev/termination-log");
    local_api_default_str(container, "terminationMessagePolicy", "File");
    if (image)
        local_api_default_str(container, "imagePullPolicy", pull_policy(image));
    local_api_default_object(container, "resources");
    default_container_ports(container, host_network);
    default_env(json_object_get(container, "env"));
    default_probe(json_object_get(container, "livenessProbe"));
    default_probe(json_object_get(container, "readinessProbe"));
    default_probe(json_object_get(container, "startupProbe"));
    default_http_get(json_object_get(lifecycle, "postStart"));
    default_http_get(json_object_get(lifecycle, "preStop"));
}

// --- volumes ---

#define VOLUME_FILE_MODE 0644

static void default_volume(json_t *volume)
{
    static const char *const with_mode[] = {"secret", "configMap", "projected", "downwardAPI"};
    json_t *host_path = json_object_get(volume, "hostPath");
    bool only_name = json_object_size(volume) == 1;

    for (size_t i = 0; i < GS_ARRAY_LEN(with_mode); i++) {
        json_t *source = json_object_get(volume, with_mode[i]);
        if (source)
            local_api_default_int(source, "defaultMode", VOLUME_FILE_MODE);
    }
    if (host_path)
        local_api_default_str(host_path, "type", "");
    if (only_name)
        json_object_set_new(volume, "emptyDir", json_object());
}

// --- pods ---

void local_api_default_pod_spec(json_t *spec)
{
    static const char *const lists[] = {"initContainers", "containers", "ephemeralContainers"};
    bool host_network = codec_json_bool(spec, false, "hostNetwork", NULL);
    size_t i;
    json_t *item;

    if (!json_is_object(spec))
        return;
    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
        json_array_foreach (json_object_get(spec, lists[l]), i, item)
            default_container(item, host_network);
    json_array_foreach (json_object_get(spec, "volumes"), i, item)
        default_volume(item);
    local_api_default_str(spec, "restartPolicy", "Always");
    local_api_default_int(spec, "terminationGracePeriodSeconds", 30);
    local_api_default_str(spec, "dnsPolicy", "ClusterFirst");
    local_api_default_object(spec, "securityContext");
    local_api_default_str(spec, "schedulerName", "default-scheduler");
}

// A limit without a request is the request too: only in pods, not in templates.
static void default_requests(json_t *spec)
{
    static const char *const lists[] = {"initContainers", "containers"};
    size_t i;
    json_t *container, *value;
    const char *key;

    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
        json_array_foreach (json_object_get(spec, lists[l]), i, container) {
            json_t *resources = json_object_get(container, "resources");
            json_t *limits = json_object_get(resources, "limits");
            json_t *requests = json_object_size(limits) > 0
                                   ? local_api_default_object(resources, "requests")
                                   : NULL;
            json_object_foreach (limits, key, value)
                if (requests && !json_object_get(requests, key))
                    json_object_set(requests, key, value);
        }
}

// Quality of service: every container has equal limits and requests of cpu and memory, none has
// any, or something between.
static const char *qos_class(const json_t *spec)
{
    static const char *const kinds[] = {"cpu", "memory"};
    bool any = false, all = true;
    size_t i;
    json_t *container;

    json_array_foreach (json_object_get(spec, "containers"), i, container)
        for (size_t k = 0; k < GS_ARRAY_LEN(kinds); k++) {
            const json_t *limit = codec_json_get(container, "resources", "limits", kinds[k], NULL);
            const json_t *request =
                codec_json_get(container, "resources", "requests", kinds[k], NULL);
            any |= limit || request;
            all &= limit && request && json_equal(limit, request);
        }
    if (!any)
        return "BestEffort";
    return all ? "Guaranteed" : "Burstable";
}

void local_api_set_qos(json_t *pod)
{
    codec_json_set(pod, json_string(qos_class(json_object_get(pod, "spec"))), "status", "qosClass",
                   NULL);
}

void local_api_default_pod(json_t *obj, const json_t *old)
{
    json_t *spec = json_object_get(obj, "spec");

    if (!json_is_object(spec))
        return;
    local_api_default_pod_spec(spec);
    default_requests(spec);
    if (!json_object_get(spec, "enableServiceLinks"))
        codec_json_set_bool(spec, "enableServiceLinks", true);
    local_api_default_str(spec, "serviceAccountName", "default");
    local_api_default_str(spec, "serviceAccount", codec_json_str(spec, "serviceAccountName", NULL));
    if (old)
        return;
    codec_json_set(obj, json_string("Pending"), "status", "phase", NULL);
    local_api_set_qos(obj);
}
