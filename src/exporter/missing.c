// SPDX-License-Identifier: Apache-2.0
#include "exporter/missing.h"

#include "base/slice.h"

#include <stdio.h>
#include <string.h>

const char *missing_name(enum missing_reason r)
{
    static const char *const names[MISSING_COUNT] = {
        "flag_not_set",          "socket_not_mounted", "no_permission",         "no_answer",
        "resource_name_unknown", "id_mismatch",        "processes_not_visible", "pod_names_unknown",
        "annotation_missing",    "claim_unknown",      "api_no_permission",     "api_no_answer",
    };
    return names[r];
}

struct seen {
    size_t processes, of_pods, gone;
    size_t held;                   // devices with a holder
    size_t unheld;                 // processes of pods on devices without one
    const struct owner *anonymous; // one that only its name would tell apart; NULL: none
};

static void look_at_processes(const struct sample *s, const struct device_map *map, size_t at,
                              struct seen *seen)
{
    const struct gpu_device *d = &s->gpus->devices[at];
    const struct device_holders *holders = device_map_find(map, d, NULL);
    bool needs_names = !d->n_instances && !device_holders_exclusive(holders);
    for (size_t k = 0; k < d->n_processes; k++) {
        const struct owner *o = &s->owners[at][k];
        seen->processes++;
        seen->of_pods += o->kind == OWNER_POD;
        seen->gone += o->kind == OWNER_GONE;
        seen->unheld += o->kind == OWNER_POD && !d->n_instances && !holders;
        if (needs_names && o->kind == OWNER_POD && !o->pod[0])
            seen->anonymous = o;
    }
}

static struct seen look(const struct sample *s, const struct device_map *map)
{
    struct seen seen = {0};
    for (size_t i = 0; i < s->gpus->n_devices; i++) {
        const struct gpu_device *d = &s->gpus->devices[i];
        seen.held += device_map_find(map, d, NULL) != NULL;
        for (size_t k = 0; k < d->n_instances; k++)
            seen.held += device_map_find(map, d, &d->instances[k]) != NULL;
        look_at_processes(s, map, i, &seen);
    }
    return seen;
}

static unsigned bit(bool holds, enum missing_reason r)
{
    return holds ? 1u << r : 0;
}

static unsigned of_kubelet(const struct attribution_status *a)
{
    if (a->up || !a->problem[0]) // or not asked yet
        return 0;
    if (strstr(a->problem, "no such file"))
        return bit(true, MISSING_SOCKET);
    bool refused = strstr(a->problem, "permission denied") || strstr(a->problem, "not permitted");
    return bit(true, refused ? MISSING_PERMISSION : MISSING_ANSWER);
}

static unsigned of_cluster(const struct cluster *c)
{
    struct cluster_problem p = c ? cluster_problem(c) : (struct cluster_problem){0};
    return bit(p.text != NULL, p.denied ? MISSING_API_REFUSED : MISSING_API);
}

static unsigned of_map(const struct device_map *map, const struct seen *seen, size_t n_gpus)
{
    const struct device_gaps *gaps = device_map_gaps(map);
    size_t len = device_map_len(map);
    bool suspicious = gaps->resource[0] && (len == 0 || seen->unheld);
    return bit(suspicious || (gaps->nvidia[0] && seen->unheld), MISSING_RESOURCE) |
           bit(len > 0 && !seen->held && n_gpus, MISSING_IDS) |
           bit(gaps->pods > 0, MISSING_ANNOTATION) | bit(gaps->claims > 0, MISSING_CLAIM);
}

unsigned missing_find(const struct missing_facts *f)
{
    const struct device_map *map = attribution_map(f->attribution);
    struct seen seen = look(f->sample, map);
    unsigned unseen = bit(seen.processes && seen.gone == seen.processes, MISSING_PROCESSES);
    if (!f->attribution)
        return bit(seen.of_pods > 0, MISSING_FLAG) | unseen;
    struct attribution_status status = attribution_status(f->attribution);
    unsigned found = of_kubelet(&status) | of_cluster(f->cluster) | unseen;
    if (!map)
        return found;
    return found | of_map(map, &seen, f->sample->gpus->n_devices) |
           bit(seen.anonymous != NULL, MISSING_NAMES);
}

// --- in words ---

static void kubelet_text(const struct missing_facts *f, enum missing_reason r, char *ret,
                         size_t size)
{
    struct attribution_status status = attribution_status(f->attribution);
    const char *meanwhile = attribution_map(f->attribution) ? "; its last answer is used" : "";
    if (r == MISSING_SOCKET)
        snprintf(ret, size,
                 "there is no kubelet socket at %s: mount its folder as a hostPath volume, or name "
                 "the right path by --pod-resources-kubelet-socket%s",
                 f->socket, meanwhile);
    else if (r == MISSING_PERMISSION)
        snprintf(ret, size, "no permission to connect to %s: the exporter must run as root%s",
                 f->socket, meanwhile);
    else
        snprintf(ret, size, "the kubelet does not answer on %s: %.300s%s", f->socket,
                 status.problem, meanwhile);
}

static void map_text(const struct missing_facts *f, enum missing_reason r, char *ret, size_t size)
{
    const struct device_map *map = attribution_map(f->attribution);
    const struct device_gaps *gaps = device_map_gaps(map);
    if (r == MISSING_RESOURCE)
        snprintf(ret, size,
                 "pods have the resource %s, which does not count as a GPU: name it by "
                 "--nvidia-resource-names",
                 gaps->resource[0] ? gaps->resource : gaps->nvidia);
    else if (r == MISSING_IDS)
        snprintf(ret, size, "pods hold %zu devices, but under ids that no GPU here has",
                 device_map_len(map));
    else if (r == MISSING_ANNOTATION)
        snprintf(ret, size,
                 "%u pods have a share of a GPU by %s, and no annotation was to be had that says "
                 "of which GPU; %.300s is one",
                 gaps->pods, sharing_name(gaps->pod_sharing), gaps->pod);
    else
        snprintf(ret, size,
                 "the devices of %u claims cannot be told: no ResourceSlice of " DEVICE_CLAIM_DRIVER
                 " that names the GPU was to be had; %.400s is one",
                 gaps->claims, gaps->claim);
}

static void process_text(const struct missing_facts *f, enum missing_reason r, char *ret,
                         size_t size)
{
    struct seen seen = look(f->sample, attribution_map(f->attribution));
    if (r == MISSING_PROCESSES)
        snprintf(ret, size,
                 "none of the %zu processes on the GPUs is to be seen in /proc: the exporter needs "
                 "hostPID, or the host's /proc by --host-proc",
                 seen.processes);
    else
        snprintf(ret, size,
                 "the pod with the UID %s uses a GPU and its name is not known: mount "
                 "/var/log/containers and /var/log/pods of the host, or allow the exporter to list "
                 "and watch pods",
                 seen.anonymous ? seen.anonymous->pod_uid : "?");
}

static void cluster_text(const struct missing_facts *f, enum missing_reason r, char *ret,
                         size_t size)
{
    struct cluster_problem p = cluster_problem(f->cluster);
    snprintf(ret, size, "%.300s%s", p.text ? p.text : "",
             r == MISSING_API_REFUSED
                 ? "; it needs list and watch of pods, and of resourceslices where claims are used"
                 : "; labels of pods, shares of GPUs and claims need the API server");
}

void missing_text(const struct missing_facts *f, enum missing_reason r, char *ret, size_t size)
{
    switch (r) {
    case MISSING_FLAG:
        snprintf(ret, size,
                 "pods use the GPUs, but --kubernetes (DCGM_EXPORTER_KUBERNETES=true) is not set");
        break;
    case MISSING_SOCKET:
    case MISSING_PERMISSION:
    case MISSING_ANSWER:
        kubelet_text(f, r, ret, size);
        break;
    case MISSING_PROCESSES:
    case MISSING_NAMES:
        process_text(f, r, ret, size);
        break;
    case MISSING_API_REFUSED:
    case MISSING_API:
        cluster_text(f, r, ret, size);
        break;
    default:
        map_text(f, r, ret, size);
    }
}
