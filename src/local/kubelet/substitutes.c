// SPDX-License-Identifier: Apache-2.0
// The built-in table of images: what runs in place of images that guides for GPUs use. Images are
// never pulled. An entry of --image takes precedence.
#include "local/kubelet/images.h"

#include "base/mem.h"
#include "codec/json.h"

#include <fnmatch.h>

// A driver installer checks the driver that is installed. As an init container it ends, so that the
// pod goes on.
#define CHECK_DRIVER                                                                               \
    "sh -c 'echo \"[INFO] The driver of this machine is used, nothing is installed.\"; "           \
    "NVIDIA_VISIBLE_DEVICES=all nvidia-smi; "                                                      \
    "if [ -n \"$GPUSCALE_INIT_CONTAINER\" ]; then exit 0; fi; exec sleep infinity'"

#define TOOLS "the tools of this machine"

#define STANDIN(role) "gpuscale " KUBELET_STANDIN_COMMAND " " role
#define ENGINE        "the metrics engine of gpuscale up"
#define ALERTMANAGER  "prometheus-alertmanager of this machine"
#define NODE_EXPORTER "prometheus-node-exporter of this machine"
#define GRAFANA       "Grafana of this machine or, without it, the web interface of gpuscale up"
#define ADAPTER       "the metrics adapter of gpuscale up"
#define DEVICE_PLUGIN "the device plugin of gpuscale up"
#define OPERAND       "a process that does nothing (GPU support is built in)"
#define RELOADER      "the configuration reload of gpuscale up"
#define ROUTER        "the Ingress router of gpuscale up"
#define VLLM          "vllm of this machine or, without it, a SIMULATED engine"
#define SGLANG        "sglang of this machine or, without it, a SIMULATED engine"

static const struct kubelet_substitute table[] = {
    {"dcgm-exporter", "gpuscale exporter", "gpuscale exporter", .gpu = true},
    // Stand-ins: roles of src/local/standin.
    {"*webhook-certgen*", STANDIN("certgen"), "the certificate generator of gpuscale up",
     .programs = "kube-webhook-certgen"},
    {"*/prometheus-operator", STANDIN("prometheus-operator"),
     "the controller of Prometheus objects in gpuscale up",
     .programs = "operator, prometheus-operator"},
    {"prometheus-operator/admission-webhook", STANDIN("prometheus-operator"),
     "the validation of gpuscale up", .programs = "admission-webhook"},
    {"prometheus-config-reloader", STANDIN("config-reloader"), RELOADER,
     .programs = "prometheus-config-reloader"},
    {"configmap-reload", STANDIN("config-reloader"), RELOADER, .programs = "configmap-reload"},
    {"prometheus/prometheus", STANDIN("prometheus"), ENGINE, .programs = "prometheus"},
    {"prom/prometheus", STANDIN("prometheus"), ENGINE, .programs = "prometheus"},
    {"bitnami*/prometheus", STANDIN("prometheus"), ENGINE, .programs = "prometheus"},
    {"prometheus/alertmanager", STANDIN("alertmanager"), ALERTMANAGER, .programs = "alertmanager"},
    {"prom/alertmanager", STANDIN("alertmanager"), ALERTMANAGER, .programs = "alertmanager"},
    {"bitnami*/alertmanager", STANDIN("alertmanager"), ALERTMANAGER, .programs = "alertmanager"},
    {"prometheus/node-exporter", STANDIN("node-exporter"), NODE_EXPORTER,
     .programs = "node_exporter"},
    {"prom/node-exporter", STANDIN("node-exporter"), NODE_EXPORTER, .programs = "node_exporter"},
    {"bitnami*/node-exporter", STANDIN("node-exporter"), NODE_EXPORTER,
     .programs = "node_exporter"},
    {"kube-state-metrics*", STANDIN("kube-state-metrics"), "the state metrics of gpuscale up",
     .programs = "kube-state-metrics"},
    {"grafana/grafana", STANDIN("grafana"), GRAFANA, .programs = "grafana, grafana-server, run.sh"},
    {"grafana/grafana-oss", STANDIN("grafana"), GRAFANA,
     .programs = "grafana, grafana-server, run.sh"},
    {"grafana/grafana-enterprise", STANDIN("grafana"), GRAFANA,
     .programs = "grafana, grafana-server, run.sh"},
    {"bitnami*/grafana", STANDIN("grafana"), GRAFANA,
     .programs = "grafana, grafana-server, run.sh"},
    {"k8s-sidecar", STANDIN("k8s-sidecar"), "the sidecar of gpuscale up"},
    {"prometheus-adapter", STANDIN("prometheus-adapter"), ADAPTER, .programs = "adapter"},
    {"k8s-prometheus-adapter*", STANDIN("prometheus-adapter"), ADAPTER, .programs = "adapter"},
    {"alibaba-cloud-metrics-adapter*", STANDIN("prometheus-adapter"), ADAPTER,
     .programs = "alibaba-cloud-metrics-adapter, adapter"},
    {"metrics-server", STANDIN("metrics-server"), "the resource metrics API of gpuscale up",
     .programs = "metrics-server"},
    {"metrics-server-a*64", STANDIN("metrics-server"), "the resource metrics API of gpuscale up",
     .programs = "metrics-server"},
    {"kube-rbac-proxy", STANDIN("kube-rbac-proxy"), "a proxy of gpuscale up",
     .programs = "kube-rbac-proxy"},
    {"addon-resizer*", STANDIN("sleep"), "a process that does nothing (containers are not resized)",
     .programs = "pod_nanny"},
    {"k8s-device-plugin", STANDIN("device-plugin"), DEVICE_PLUGIN,
     .programs = "nvidia-device-plugin, mps-control-daemon, config-manager, gpu-feature-discovery"},
    {"nvidia-gpu-device-plugin*", STANDIN("device-plugin"), DEVICE_PLUGIN,
     .programs = "nvidia-gpu-device-plugin"},
    {"gpu-feature-discovery", STANDIN("gpu-feature-discovery"), "the node labels of gpuscale up",
     .programs = "gpu-feature-discovery"},
    {"nvidia/gpu-operator", STANDIN("gpu-operator"), "the GPU support of gpuscale up",
     .programs = "gpu-operator, manage-crds"},
    {"gpu-operator-validator", STANDIN("sleep"), OPERAND, .programs = "*"},
    {"nvidia/driver", STANDIN("sleep"), OPERAND, .programs = "*"},
    {"k8s-driver-manager", STANDIN("sleep"), OPERAND, .programs = "*"},
    {"container-toolkit", STANDIN("sleep"), OPERAND, .programs = "*"},
    {"k8s-mig-manager", STANDIN("sleep"), OPERAND, .programs = "*"},
    {"cuda-validator", STANDIN("sleep"), OPERAND, .programs = "*"},
    {"node-feature-discovery*", STANDIN("nfd"), "the node labels of gpuscale up",
     .programs = "nfd-master, nfd-worker, nfd-gc, nfd-topology-updater"},
    {"cluster-autoscaler*", STANDIN("cluster-autoscaler"), "the node autoscaler of gpuscale up",
     .programs = "cluster-autoscaler"},
    {"ingress-nginx/controller", STANDIN("ingress-nginx"), ROUTER,
     .programs = "nginx-ingress-controller"},
    {"nginx-ingress-controller*", STANDIN("ingress-nginx"), ROUTER,
     .programs = "nginx-ingress-controller"},
    {"aws-load-balancer-controller", STANDIN("ingress-nginx"), ROUTER, .programs = "controller"},
    {"vllm-openai*", STANDIN("vllm"), VLLM, .gpu = true, .programs = "vllm", .scripts = "vllm"},
    {"vllm", STANDIN("vllm"), VLLM, .gpu = true, .programs = "vllm", .scripts = "vllm"},
    {"llm-d-cuda*", STANDIN("vllm"), VLLM, .gpu = true, .programs = "vllm", .scripts = "vllm"},
    {"lmsysorg/sglang", STANDIN("sglang"), SGLANG, .gpu = true, .programs = "sglang",
     .scripts = "sglang"},
    {"*vectoradd*", "gpu-load vectorAdd", "gpu-load, which loads its GPU", .gpu = true,
     .cmd_only = true, .link = "vectorAdd"},
    {"*vector-add*", "gpu-load vectorAdd", "gpu-load, which loads its GPU", .gpu = true,
     .cmd_only = true, .link = "vectorAdd"},
    {"*:vectoradd*", "gpu-load vectorAdd", "gpu-load, which loads its GPU", .gpu = true,
     .cmd_only = true, .link = "vectorAdd"},
    {"*:nbody*", "gpu-load burn", "gpu-load, which loads its GPU", .gpu = true, .cmd_only = true},
    {"*dcgmproftester*", "gpu-load dcgmproftester", "gpu-load, which loads its GPU", .gpu = true},
    {"*:dcgmproftester*", "gpu-load dcgmproftester", "gpu-load, which loads its GPU", .gpu = true},
    {"gpu-burn", "gpu-load burn", "gpu-load, which loads its GPU", .gpu = true, .cmd_only = true,
     .link = "gpu_burn"},
    {"nvidia/cuda", "sh", TOOLS " and an nvidia-smi", .gpu = true, .cmd_only = true},
    {"cuda", "sh", TOOLS " and an nvidia-smi", .gpu = true, .cmd_only = true},
    {"cos-nvidia-installer", CHECK_DRIVER, "a check of the driver", .gpu = true, .programs = "*"},
    {"*nvidia-driver-installer*", CHECK_DRIVER, "a check of the driver", .gpu = true,
     .programs = "*"},
    {"cos-gpu-installer", CHECK_DRIVER, "a check of the driver", .gpu = true, .programs = "*"},
    {"nvidia-partition-gpu", "true", "nothing: GPUs are not partitioned", .gpu = true},
    {"bert-intent-detection", "intent-api", "the example service intent-api", .gpu = true,
     .cmd_only = true, .port = true},
    {"gpu-cuda-api", "intent-api", "the example service intent-api", .gpu = true, .cmd_only = true,
     .port = true},
    {"torchvision", "intent-api", "the example service intent-api", .gpu = true, .cmd_only = true,
     .port = true},
    {"pause*", "sleep infinity", "sleep", .cmd_only = true},
    {"curl", "curl", TOOLS},
    {"busybox", "sh", TOOLS, .cmd_only = true},
    {"alpine", "sh", TOOLS, .cmd_only = true},
    {"debian", "bash", TOOLS, .cmd_only = true},
    {"ubuntu", "bash", TOOLS, .cmd_only = true},
    {"bash", "bash", TOOLS, .cmd_only = true},
};

// "registry:5000/team/name:tag@digest" -> "team/name" and "tag" ("" without a tag).
static void split_image(const char *image, char **ret_path, char **ret_tag)
{
    size_t len = strcspn(image, "@");
    GS_AUTO_FREE char *text = gs_strndup(image, len);
    char *slash = strchr(text, '/');
    char *start = text;
    if (slash) {
        *slash = '\0';
        bool host = strpbrk(text, ".:") || gs_streq(text, "localhost");
        *slash = '/';
        start = host ? slash + 1 : text;
    }
    char *tag = strchr(start, ':');
    if (tag)
        *tag++ = '\0';
    *ret_path = gs_strdup(start);
    *ret_tag = gs_strdup(tag ? tag : "");
}

// The end of the path with as many parts as the pattern has.
static const char *last_parts(const char *path, const char *pattern)
{
    size_t slashes = 0;
    for (const char *c = pattern; *c; c++)
        slashes += *c == '/';
    for (const char *at = path + strlen(path); at > path; at--)
        if (at[-1] == '/' && slashes-- == 0)
            return at;
    return path;
}

// "*:tag" matches tags, "a/b" the end of the path, and "name" the last part of the path.
static bool matches(const char *pattern, const char *path, const char *tag)
{
    const char *name = strrchr(path, '/');
    if (gs_starts(pattern, "*:"))
        return fnmatch(pattern + 2, tag, 0) == 0;
    if (strchr(pattern, '/'))
        return fnmatch(pattern, last_parts(path, pattern), FNM_PATHNAME) == 0;
    return fnmatch(pattern, name ? name + 1 : path, 0) == 0;
}

const struct kubelet_substitute *kubelet_substitute(size_t i)
{
    return i < GS_ARRAY_LEN(table) ? &table[i] : NULL;
}

size_t kubelet_substitute_index(const char *image)
{
    GS_AUTO_FREE char *path = NULL, *tag = NULL;
    split_image(image, &path, &tag);
    for (size_t i = 0; i < GS_ARRAY_LEN(table); i++)
        if (matches(table[i].image, path, tag))
            return i;
    return GS_ARRAY_LEN(table);
}

static bool lists_program(const char *programs, const char *program)
{
    const char *slash = strrchr(program, '/');
    return gs_streq(programs, "*") || gs_lists_word(programs, slash ? slash + 1 : program);
}

static bool has_word(const json_t *words, const char *scripts)
{
    size_t i;
    json_t *word;
    json_array_foreach (words, i, word) {
        const char *text = json_string_value(word);
        if (text && strstr(text, scripts))
            return true;
    }
    return false;
}

// `sh -c "vllm serve …"`, `python3 -m vllm.entrypoints.openai.api_server`.
static bool runs_script(const char *scripts, const char *program, const json_t *container)
{
    return lists_program("sh, bash, python, python3", program) &&
           (has_word(codec_json_get(container, "command", NULL), scripts) ||
            has_word(codec_json_get(container, "args", NULL), scripts));
}

bool kubelet_substitute_replaces(const struct kubelet_substitute *s, const json_t *container)
{
    const json_t *command = codec_json_get(container, "command", NULL);
    const char *program = json_string_value(json_array_get(command, 0));
    if (!s || !s->programs || !program)
        return false;
    return lists_program(s->programs, program) ||
           (s->scripts && runs_script(s->scripts, program, container));
}

bool kubelet_substitute_is_standin(const struct kubelet_substitute *s)
{
    return s && gs_starts(s->command, STANDIN(""));
}

const char *kubelet_absent_hint(const char *image)
{
    static const struct {
        const char *image, *hint;
    } hints[] = {
        {"kedacore/keda*", "; the HorizontalPodAutoscaler of gpuscale up reads Prometheus metrics: "
                           "docs/adapter.md"},
        {"karpenter/controller", "; --pool gives gpuscale up pools of nodes: docs/nodes.md"},
    };
    GS_AUTO_FREE char *path = NULL, *tag = NULL;
    split_image(image, &path, &tag);
    for (size_t i = 0; i < GS_ARRAY_LEN(hints); i++)
        if (matches(hints[i].image, path, tag))
            return hints[i].hint;
    return "";
}

const char *kubelet_substitute_hostname_label(const char *image)
{
    static const unsigned last[] = {4, 5, 3};
    GS_AUTO_FREE char *path = NULL, *tag = NULL;
    split_image(image, &path, &tag);
    if (!gs_streq(path, "dcgm-exporter") && !gs_ends(path, "/dcgm-exporter"))
        return NULL;
    const char *at = tag;
    for (size_t i = 0; i < GS_ARRAY_LEN(last); i++) {
        char *end;
        unsigned long part = strtoul(at, &end, 10);
        if (end == at || *at < '0' || *at > '9')
            return NULL;
        if (part != last[i])
            return part < last[i] ? "Hostname" : NULL;
        at = *end == '.' ? end + 1 : end;
    }
    return "Hostname";
}
