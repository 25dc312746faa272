// SPDX-License-Identifier: Apache-2.0
#include "exporter/missing.h"

#include "base/slice.h"

#include <stdio.h>
#include <string.h>

const char *missing_name(enum missing_reason r)
{
    static const char *const names[MISSING_COUNT] = {
        "",          "flag_not_set",          "socket_not_mounted", "no_permission",
        "no_answer", "resource_name_unknown", "id_mismatch",        "processes_not_visible",
    };
    return names[r];
}

struct seen {
    size_t processes, of_pods, gone;
    size_t held; // devices with a holder
};

static struct seen look(const struct sample *s, const struct device_map *map)
{
    struct seen seen = {0};
    for (size_t i = 0; i < s->gpus->n_devices; i++) {
        const struct gpu_device *d = &s->gpus->devices[i];
        seen.held += device_map_find(map, d, NULL) != NULL;
        for (size_t k = 0; k < d->n_instances; k++)
            seen.held += device_map_find(map, d, &d->instances[k]) != NULL;
        for (size_t k = 0; k < d->n_processes; k++) {
            seen.processes++;
            seen.of_pods += s->owners[i][k].kind == OWNER_POD;
            seen.gone += s->owners[i][k].kind == OWNER_GONE;
        }
    }
    return seen;
}

static struct missing is(enum missing_reason reason)
{
    return (struct missing){.reason = reason};
}

static struct missing no_map(const struct attribution_status *a, const char *socket)
{
    struct missing m = {0};
    if (!a->problem[0]) // not asked yet
        return m;
    if (strstr(a->problem, "no such file")) {
        m = is(MISSING_SOCKET);
        snprintf(m.text, sizeof(m.text),
                 "there is no kubelet socket at %s: mount its folder as a hostPath volume, or name "
                 "the right path by --pod-resources-kubelet-socket",
                 socket);
    } else if (strstr(a->problem, "permission denied") || strstr(a->problem, "not permitted")) {
        m = is(MISSING_PERMISSION);
        snprintf(m.text, sizeof(m.text),
                 "no permission to connect to %s: the exporter must run as root there", socket);
    } else {
        m = is(MISSING_ANSWER);
        snprintf(m.text, sizeof(m.text), "the kubelet does not answer on %s: %.300s", socket,
                 a->problem);
    }
    return m;
}

struct missing missing_find(const struct sample *sample, const struct attribution *attribution,
                            const char *socket)
{
    struct missing m = {0};
    const struct device_map *map = attribution_map(attribution);
    struct seen seen = look(sample, map);
    if (!attribution) {
        if (!seen.of_pods)
            return m;
        m = is(MISSING_FLAG);
        snprintf(m.text, sizeof(m.text),
                 "pods use the GPUs, but --kubernetes (DCGM_EXPORTER_KUBERNETES=true) is not set");
        return m;
    }
    struct attribution_status status = attribution_status(attribution);
    if (!map || !status.up)
        return no_map(&status, socket);
    if (device_map_len(map) == 0 && device_map_ignored(map)[0]) {
        m = is(MISSING_RESOURCE);
        snprintf(m.text, sizeof(m.text),
                 "pods have the resource %s, which does not count as a GPU: name it by "
                 "--nvidia-resource-names",
                 device_map_ignored(map));
    } else if (device_map_len(map) > 0 && seen.held == 0 && sample->gpus->n_devices > 0) {
        m = is(MISSING_IDS);
        snprintf(m.text, sizeof(m.text),
                 "pods hold %zu devices, but under ids that no GPU here has", device_map_len(map));
    } else if (seen.processes > 0 && seen.gone == seen.processes) {
        m = is(MISSING_PROCESSES);
        snprintf(m.text, sizeof(m.text),
                 "none of the %zu processes on the GPUs is to be seen in /proc: the exporter needs "
                 "hostPID, or the host's /proc",
                 seen.processes);
    }
    return m;
}
