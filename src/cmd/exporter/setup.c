// SPDX-License-Identifier: Apache-2.0
#include "cmd/exporter/setup.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/kubeconfig.h"

#include <stdio.h>
#include <unistd.h>

#define DEFAULT_COUNTERS "/etc/dcgm-exporter/default-counters.csv"
enum { MAX_CSV = 1024 * 1024 };

// --- families ---

static void tell_warnings(const char *source, const struct exporter_counters *c)
{
    for (size_t i = 0; i < c->n_warnings; i++)
        gs_warn("exporter", "%s: %s", source, c->warnings[i]);
}

struct gs_error *exporter_parse_counters(const char *source, struct gs_slice text,
                                         struct exporter_counters *ret)
{
    struct gs_error *err = exporter_counters_parse(text, ret);
    if (err)
        return gs_error_wrap(err, "%s", source);
    tell_warnings(source, ret);
    return NULL;
}

const char *exporter_counters_path(const char *path)
{
    return path ? path : DEFAULT_COUNTERS;
}

struct gs_error *exporter_load_counters(const char *path, struct exporter_counters *ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    const char *file = exporter_counters_path(path);
    struct gs_error *err = gs_file_read(file, MAX_CSV, &text);
    if (!err)
        return exporter_parse_counters(file, gs_buf_slice(&text), ret);
    if (gs_error_code(err) == GS_ENOTFOUND && exporter_counters_builtin(file, ret)) {
        if (path)
            gs_info("exporter", "%s is not there: the file of that name as built in", path);
        gs_error_free(err);
        return NULL;
    }
    return gs_error_wrap(err, "--collectors");
}

// --- the cluster ---

struct gs_error *exporter_connect_cluster(uv_loop_t *loop, struct http_client **ret_http,
                                          struct kube_client **ret)
{
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    struct gs_error *err = kube_config_load(NULL, NULL, &k);
    struct http_client *client = NULL;
    if (!err)
        err = kube_config_connect(&k, loop, "gpuscale-exporter/" GPUSCALE_VERSION, &client);
    if (err)
        return gs_error_wrap(err, "the Kubernetes API");
    *ret_http = client;
    *ret = kube_client_new(client);
    return NULL;
}

#define USUAL_SOCKET "/var/lib/kubelet/pod-resources/kubelet.sock"

const char *exporter_find_socket(const char *socket)
{
    static const char *const others[] = {
        "/var/lib/k0s/kubelet/pod-resources/kubelet.sock",
        "/var/snap/microk8s/common/var/lib/kubelet/pod-resources/kubelet.sock",
    };
    if (!gs_streq(socket, USUAL_SOCKET) || access(socket, F_OK) == 0)
        return socket;
    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++) {
        if (access(others[i], F_OK) == 0) {
            gs_info("exporter", "the kubelet's socket is %s", others[i]);
            return others[i];
        }
    }
    return socket;
}

// --- fields ---

static void print_field(enum gpu_field f, const struct gpu_snapshot *s, int width)
{
    const struct gpu_field_info *info = gpu_field_info(f);
    const char *state = s ? "no GPU" : "no driver";
    bool valid = false;
    for (size_t i = 0; s && i < s->n_devices && !valid; i++) {
        enum gpu_validity v = s->devices[i].fields[f].validity;
        // A rate has no value in the passes that this took, but is there.
        valid = v == GPU_VALID || v == GPU_UNKNOWN;
        state = valid ? "yes" : gpu_validity_text(v);
    }
    printf("%-4d %-*s %-8s %-22s %-52s %s\n", info->id, width, info->name, info->type, info->unit,
           info->source, state);
}

static int longest_name(void)
{
    size_t width = 0;
    for (enum gpu_field f = 0; f < GPU_F_COUNT; f++)
        if (strlen(gpu_field_name(f)) > width)
            width = strlen(gpu_field_name(f));
    return (int)width;
}

struct gs_error *exporter_list_fields(const char *library)
{
    struct gpu_backend *backend = NULL;
    struct gpu_snapshot *snapshot = NULL;
    bool wanted[GPU_F_COUNT];
    for (int f = 0; f < GPU_F_COUNT; f++)
        wanted[f] = true;
    struct gpu_backend_config cfg = {.library = library, .wanted = wanted};
    struct gs_error *err = gpu_backend_open(&cfg, &backend);
    if (!err)
        err = gpu_backend_sample(backend, &snapshot);
    if (err)
        fprintf(stderr, "gpuscale: %s; what is supported here is not known\n",
                gs_error_message(err));
    gs_error_free(err);
    int width = longest_name();
    printf("%-4s %-*s %-8s %-22s %-52s %s\n", "ID", width, "FIELD", "TYPE", "UNIT", "SOURCE",
           "SUPPORTED HERE");
    for (enum gpu_field f = 0; f < GPU_F_COUNT; f++)
        print_field(f, snapshot, width);
    static const char *const computed[][4] = {
        {"DCGM_EXP_XID_ERRORS_COUNT", "gauge", "1", "events of DCGM_FI_DEV_XID_ERRORS"},
        {"DCGM_EXP_CLOCK_EVENTS_COUNT", "gauge", "samples",
         "samples of DCGM_FI_DEV_CLOCKS_EVENT_REASONS"},
        {"DCGM_EXP_GPU_HEALTH_STATUS", "gauge", "0, 10 or 20", "errors, violations and XIDs"},
        {"DCGM_EXP_P2P_STATUS", "gauge", "enum", "nvmlDeviceGetP2PStatus"},
        {"DCGM_EXP_XID_ERRORS_TOTAL", "counter", "1", "events of DCGM_FI_DEV_XID_ERRORS"},
        {"DCGM_EXP_CLOCK_EVENTS_TOTAL", "counter", "1",
         "beginnings in DCGM_FI_DEV_CLOCKS_EVENT_REASONS"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(computed); i++)
        printf("%zu %-*s %-8s %-22s %-52s\n", 9001 + i, width, computed[i][0], computed[i][1],
               computed[i][2], computed[i][3]);
    for (size_t i = 0; gpu_dcgm_only_field(i); i++)
        printf("-    DCGM_FI_%-*s not read: only DCGM has it, or it is of no GPU\n", width - 8,
               gpu_dcgm_only_field(i));
    gpu_snapshot_free(snapshot);
    gpu_backend_close(backend);
    return NULL;
}
