// SPDX-License-Identifier: Apache-2.0
// Why GPUs are not attributed to pods, as facts that can be counted, and a text with the remedy
// for each. A bit per problem; the exporter logs changes and exports the bits as a metric.
#include "exporter/attribution.h"

#include "base/slice.h"

#include <stdio.h>
#include <string.h>

const char *exporter_attribution_problem_name(enum exporter_attribution_problem r)
{
    static const char *const names[EXPORTER_PROBLEM_COUNT] = {
        "flag_not_set",          "socket_not_mounted", "no_permission",         "no_answer",
        "resource_name_unknown", "id_mismatch",        "processes_not_visible", "pod_names_unknown",
        "annotation_missing",    "claim_unknown",      "api_no_permission",     "api_no_answer",
    };
    return names[r];
}

struct seen {
    size_t processes, of_pods, gone;
    size_t held;                            // devices with a holder
    size_t unheld;                          // processes of pods on devices without a holder
    const struct exporter_owner *anonymous; // a process whose pod name is needed; NULL: none
};

static void inspect_processes(const struct exporter_sample *s,
                              const struct exporter_device_map *map, size_t at, struct seen *seen)
{
    const struct gpu_device *d = &s->gpus->devices[at];
    const struct exporter_device_holders *holders = exporter_device_map_find(map, d, NULL);
    bool needs_names = !d->n_instances && !exporter_device_holders_exclusive(holders);
    for (size_t k = 0; k < d->n_processes; k++) {
        const struct exporter_owner *o = &s->owners[at][k];
        seen->processes++;
        seen->of_pods += o->kind == EXPORTER_OWNER_POD;
        seen->gone += o->kind == EXPORTER_OWNER_GONE;
        seen->unheld += o->kind == EXPORTER_OWNER_POD && !d->n_instances && !holders;
        if (needs_names && o->kind == EXPORTER_OWNER_POD && !o->pod[0])
            seen->anonymous = o;
    }
}

static struct seen inspect_owners(const struct exporter_sample *s,
                                  const struct exporter_device_map *map)
{
    struct seen seen = {0};
    for (size_t i = 0; i < s->gpus->n_devices; i++) {
        const struct gpu_device *d = &s->gpus->devices[i];
        seen.held += exporter_device_map_find(map, d, NULL) != NULL;
        for (size_t k = 0; k < d->n_instances; k++)
            seen.held += exporter_device_map_find(map, d, &d->instances[k]) != NULL;
        inspect_processes(s, map, i, &seen);
    }
    return seen;
}

static unsigned bit(bool holds, enum exporter_attribution_problem r)
{
    return holds ? 1u << r : 0;
}

static unsigned of_kubelet(const struct exporter_attribution_status *a)
{
    if (a->up || !a->problem[0]) // or before the first call
        return 0;
    if (strstr(a->problem, "no such file"))
        return bit(true, EXPORTER_PROBLEM_SOCKET);
    bool refused = strstr(a->problem, "permission denied") || strstr(a->problem, "not permitted");
    return bit(true, refused ? EXPORTER_PROBLEM_PERMISSION : EXPORTER_PROBLEM_RESPONSE);
}

static unsigned of_cluster(const struct exporter_cluster *c)
{
    struct exporter_cluster_problem p =
        c ? exporter_cluster_problem(c) : (struct exporter_cluster_problem){0};
    return bit(p.text != NULL, p.denied ? EXPORTER_PROBLEM_API_FORBIDDEN : EXPORTER_PROBLEM_API);
}

static unsigned of_map(const struct exporter_device_map *map, const struct seen *seen,
                       size_t n_gpus)
{
    const struct exporter_device_gaps *gaps = exporter_device_map_gaps(map);
    size_t len = exporter_device_map_len(map);
    bool suspicious = gaps->resource[0] && (len == 0 || seen->unheld);
    return bit(suspicious || (gaps->nvidia[0] && seen->unheld), EXPORTER_PROBLEM_RESOURCE) |
           bit(len > 0 && !seen->held && n_gpus, EXPORTER_PROBLEM_IDS) |
           bit(gaps->pods > 0, EXPORTER_PROBLEM_ANNOTATION) |
           bit(gaps->claims > 0, EXPORTER_PROBLEM_CLAIM);
}

unsigned exporter_attribution_problems(const struct exporter_attribution_facts *f)
{
    const struct exporter_device_map *map = exporter_attribution_map(f->attribution);
    struct seen seen = inspect_owners(f->sample, map);
    unsigned unseen =
        bit(seen.processes && seen.gone == seen.processes, EXPORTER_PROBLEM_PROCESSES);
    if (!f->attribution)
        return bit(seen.of_pods > 0, EXPORTER_PROBLEM_FLAG) | unseen;
    struct exporter_attribution_status status = exporter_attribution_status(f->attribution);
    unsigned found = of_kubelet(&status) | of_cluster(f->cluster) | unseen;
    if (!map)
        return found;
    return found | of_map(map, &seen, f->sample->gpus->n_devices) |
           bit(seen.anonymous != NULL, EXPORTER_PROBLEM_NAMES);
}

// --- texts ---

static void text_about_kubelet(const struct exporter_attribution_facts *f,
                               enum exporter_attribution_problem r, char *ret, size_t size)
{
    struct exporter_attribution_status status = exporter_attribution_status(f->attribution);
    const char *meanwhile =
        exporter_attribution_map(f->attribution) ? "; its last response is used" : "";
    if (r == EXPORTER_PROBLEM_SOCKET)
        snprintf(
            ret, size,
            "the kubelet's socket %s does not exist: mount its folder as a hostPath volume, or set "
            "its path with --pod-resources-kubelet-socket%s",
            f->socket, meanwhile);
    else if (r == EXPORTER_PROBLEM_PERMISSION)
        snprintf(ret, size, "no permission to connect to %s: the exporter must run as root%s",
                 f->socket, meanwhile);
    else
        snprintf(ret, size, "the kubelet does not respond on %s: %.300s%s", f->socket,
                 status.problem, meanwhile);
}

static void map_text(const struct exporter_attribution_facts *f,
                     enum exporter_attribution_problem r, char *ret, size_t size)
{
    const struct exporter_device_map *map = exporter_attribution_map(f->attribution);
    const struct exporter_device_gaps *gaps = exporter_device_map_gaps(map);
    if (r == EXPORTER_PROBLEM_RESOURCE)
        snprintf(ret, size,
                 "pods have the resource %s, which does not count as a GPU: add it to "
                 "--nvidia-resource-names",
                 gaps->resource[0] ? gaps->resource : gaps->nvidia);
    else if (r == EXPORTER_PROBLEM_IDS)
        snprintf(ret, size, "pods hold %zu devices, but their IDs match no GPU of this machine",
                 exporter_device_map_len(map));
    else if (r == EXPORTER_PROBLEM_ANNOTATION)
        snprintf(ret, size,
                 "%u pods have a share of a GPU by %s, but the GPU of a pod such as %.300s is "
                 "unknown: it has no annotation",
                 gaps->pods, exporter_sharing_name(gaps->pod_sharing), gaps->pod);
    else
        snprintf(ret, size,
                 "the devices of %u claims are unknown: no ResourceSlice "
                 "of " EXPORTER_DEVICE_CLAIM_DRIVER " names the GPU of a claim such as %.400s",
                 gaps->claims, gaps->claim);
}

static void process_text(const struct exporter_attribution_facts *f,
                         enum exporter_attribution_problem r, char *ret, size_t size)
{
    struct seen seen = inspect_owners(f->sample, exporter_attribution_map(f->attribution));
    if (r == EXPORTER_PROBLEM_PROCESSES)
        snprintf(ret, size,
                 "none of the %zu processes on the GPUs is visible in /proc: the exporter needs "
                 "hostPID, or the host's /proc with --host-proc",
                 seen.processes);
    else
        snprintf(ret, size,
                 "the pod with the UID %s uses a GPU, but its name is unknown: mount "
                 "/var/log/containers and /var/log/pods of the host, or allow the exporter to list "
                 "and watch pods",
                 seen.anonymous ? seen.anonymous->pod_uid : "?");
}

static void cluster_text(const struct exporter_attribution_facts *f,
                         enum exporter_attribution_problem r, char *ret, size_t size)
{
    struct exporter_cluster_problem p = exporter_cluster_problem(f->cluster);
    snprintf(
        ret, size, "%.300s%s", p.text ? p.text : "",
        r == EXPORTER_PROBLEM_API_FORBIDDEN
            ? "; allow the exporter to list and watch pods, and resourceslices if claims are used"
            : "; labels of pods, shares of GPUs and claims need the API server");
}

void exporter_attribution_problem_text(const struct exporter_attribution_facts *f,
                                       enum exporter_attribution_problem r, char *ret, size_t size)
{
    switch (r) {
    case EXPORTER_PROBLEM_FLAG:
        snprintf(ret, size,
                 "pods use the GPUs, but --kubernetes (DCGM_EXPORTER_KUBERNETES=true) is not set");
        break;
    case EXPORTER_PROBLEM_SOCKET:
    case EXPORTER_PROBLEM_PERMISSION:
    case EXPORTER_PROBLEM_RESPONSE:
        text_about_kubelet(f, r, ret, size);
        break;
    case EXPORTER_PROBLEM_PROCESSES:
    case EXPORTER_PROBLEM_NAMES:
        process_text(f, r, ret, size);
        break;
    case EXPORTER_PROBLEM_API_FORBIDDEN:
    case EXPORTER_PROBLEM_API:
        cluster_text(f, r, ret, size);
        break;
    default:
        map_text(f, r, ret, size);
    }
}
