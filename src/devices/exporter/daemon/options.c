// SPDX-License-Identifier: Apache-2.0
// Checks of the flags, and what they name: the cluster, and the kubelet's socket, which some
// distributions have at another path.
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "exporter/daemon/daemon_private.h"

#include <unistd.h>

const char *daemon_configmap_name(const struct daemon_options *o)
{
    return gs_streq(o->configmap, "none") ? NULL : o->configmap;
}

enum exporter_names daemon_metric_names(const struct daemon_options *o)
{
    enum exporter_names names = EXPORTER_NAMES_OF_FILE;
    if (o->metric_names)
        exporter_names_parse(o->metric_names, &names);
    return names;
}

static bool is_namespaced(const char *text)
{
    const char *colon = strchr(text, ':');
    return colon && colon > text && colon[1] && !strchr(colon + 1, ':');
}

static struct gs_error *check_selector(const char *flag, const char *selector)
{
    if (!selector || exporter_selection_valid(selector))
        return NULL;
    return gs_error_new(GS_EINVAL,
                        "%s \"%s\": want f, or g and i, each with or without a list, such as "
                        "g:0,2-4+i",
                        flag, selector);
}

// --dcgm wins over -r and its variable, which the manifests of dcgm-exporter set.
static struct gs_error *read_endpoint(const struct daemon_options *o,
                                      struct dcgm_source_endpoint *ret)
{
    const char *remote =
        o->remote_hostengine && *o->remote_hostengine ? o->remote_hostengine : NULL;
    bool from_remote = gs_streq(o->dcgm, "auto") && remote;
    struct gs_error *err = dcgm_source_parse(from_remote ? remote : o->dcgm, ret);
    return err ? gs_error_wrap(err, from_remote ? "--remote-hostengine-info" : "--dcgm") : NULL;
}

struct gs_error *daemon_check_options(const struct daemon_options *o)
{
    struct dcgm_source_endpoint endpoint;
    if (!gs_streq(o->gpu_id_type, "uid") && !gs_streq(o->gpu_id_type, "device-name"))
        return gs_error_new(GS_EINVAL, "--kubernetes-gpu-id-type \"%s\": want uid or device-name",
                            o->gpu_id_type);
    if (!gs_streq(o->hostname_label, "hostname") && !gs_streq(o->hostname_label, "Hostname"))
        return gs_error_new(GS_EINVAL, "--hostname-label \"%s\": want hostname or Hostname",
                            o->hostname_label);
    enum exporter_names names;
    if (o->metric_names && !exporter_names_parse(o->metric_names, &names))
        return gs_error_new(GS_EINVAL, "--metric-names \"%s\": want 4.8, 4.9 or both",
                            o->metric_names);
    if (!exporter_render_devices_valid(o->devices))
        return gs_error_new(GS_EINVAL,
                            "--devices \"%s\": want f, g, i, g+i, or g: or i: with a list such as "
                            "g:0,2-4",
                            o->devices);
    struct gs_error *err = check_selector("--switch-devices", o->switch_devices);
    err = err ? err : check_selector("--cpu-devices", o->cpu_devices);
    err = err ? err : read_endpoint(o, &endpoint);
    if (err)
        return err;
    if (daemon_configmap_name(o) && !is_namespaced(o->configmap))
        return gs_error_new(GS_EINVAL, "--configmap-data \"%s\": want NAMESPACE:NAME",
                            o->configmap);
    if (o->podresources_interval_ns < GS_NS_PER_SEC / 10)
        return gs_error_new(GS_EINVAL, "--pod-resources-interval: want at least 100ms");
    if (o->driver_timeout_ns < GS_NS_PER_SEC / 10)
        return gs_error_new(GS_EINVAL, "--driver-timeout: want at least 100ms");
    return NULL;
}

struct gs_error *daemon_open_dcgm(const struct daemon_options *o, struct dcgm_source **ret)
{
    struct dcgm_source_config cfg = {
        .library = o->dcgm_library && *o->dcgm_library ? o->dcgm_library : NULL,
        .memory_limit = (uint64_t)o->dcgm_memory_limit_mb << 20};
    struct gs_error *err = read_endpoint(o, &cfg.endpoint);
    if (err)
        return err;
    *ret = cfg.endpoint.mode == DCGM_SOURCE_OFF ? NULL : dcgm_source_open(&cfg);
    return NULL;
}

#define USUAL_SOCKET "/var/lib/kubelet/pod-resources/kubelet.sock"

const char *daemon_find_socket(const char *socket)
{
    static const char *const alternatives[] = {
        "/var/lib/k0s/kubelet/pod-resources/kubelet.sock",
        "/var/snap/microk8s/common/var/lib/kubelet/pod-resources/kubelet.sock",
    };
    if (!gs_streq(socket, USUAL_SOCKET) || access(socket, F_OK) == 0)
        return socket;
    for (size_t i = 0; i < GS_ARRAY_LEN(alternatives); i++) {
        if (access(alternatives[i], F_OK) == 0) {
            gs_info("exporter", "the kubelet's socket is %s", alternatives[i]);
            return alternatives[i];
        }
    }
    return socket;
}
