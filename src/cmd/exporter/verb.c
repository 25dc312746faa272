// SPDX-License-Identifier: Apache-2.0
// gpuscale exporter: dcgm-exporter's flags as far as what they ask for is there, and our own.
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/exporter/options.h"
#include "cmd/exporter/serve.h"
#include "cmd/exporter/setup.h"
#include "cmd/exporter/simulated.h"
#include "cmd/verbs.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

static void set_log(const struct exporter_opts *o)
{
    const char *format = getenv("DCGM_EXPORTER_LOG_FORMAT");
    if (format && *format && !getenv("GPUSCALE_LOG_FORMAT"))
        gs_log_configure(gs_log_level(), gs_streq(format, "json") ? GS_LOG_JSON : GS_LOG_TEXT);
    else if (!o->debug)
        return;
    if (o->debug)
        gs_log_configure(GS_LOG_DEBUG, gs_streq(format, "json") ? GS_LOG_JSON : GS_LOG_TEXT);
}

// Splits at commas; the names point into *copy.
static void split_names(char *copy, struct gs_opt_list *ret)
{
    char *rest = copy;
    for (char *name = strsep(&rest, ","); name; name = strsep(&rest, ",")) {
        if (!*name)
            continue;
        gs_grow(&ret->items, &ret->cap, ret->len, sizeof(*ret->items));
        ret->items[ret->len++] = name;
    }
}

// The death signal only tells of later deaths, so the parent is checked after asking for it.
static struct gs_error *tie_to_parent(const struct exporter_opts *o)
{
    if (!o->exit_with_parent && !o->parent_pid)
        return NULL;
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0)
        return gs_error_errno(errno, "--exit-with-parent");
    if (o->parent_pid && getppid() != (pid_t)o->parent_pid)
        return gs_error_new(GS_EUNAVAIL, "the parent process %d is gone", (int)o->parent_pid);
    return NULL;
}

static void tell_without_node(const struct exporter_opts *o)
{
    if (o->kubernetes && getenv("KUBERNETES_SERVICE_HOST") && !(o->node_name && *o->node_name))
        gs_warn("exporter",
                "NODE_NAME is not set: the host's labels and NodeName are this host name, "
                "which is the pod's own unless it uses the host's network, and pods "
                "of all nodes are asked for; set it from the field spec.nodeName");
}

static struct gs_error *run_with(const struct exporter_opts *o, const struct simulation *s,
                                 bool *ret_ended)
{
    GS_AUTO_FREE char *host = NULL;
    uint16_t port = 0;
    struct gs_error *err = exporter_parse_address(o->address, &host, &port);
    if (err)
        return err;
    char hostname[256] = "";
    gethostname(hostname, sizeof(hostname) - 1);
    const char *node = o->node_name && *o->node_name ? o->node_name : hostname;
    GS_AUTO_FREE char *names = gs_strdup(o->resource_names ? o->resource_names : "");
    struct gs_opt_list extra = {0};
    split_names(names, &extra);
    struct exporter_config cfg = {
        .address = host,
        .port = port,
        .backend.library = s->library ? s->library : o->nvml_library,
        .backend.simulated_only = s->library != NULL,
        .backend.sys = o->host_sys,
        .wait_for_driver = o->wait_for_driver == GS_SWITCH_ON ||
                           (o->wait_for_driver == GS_SWITCH_UNSET && o->kubernetes),
        .driver_wait_limit_ns = o->driver_wait_limit_ns,
        .stuck_after_ns = o->driver_timeout_ns,
        .names =
            {
                .hostname_label = o->no_hostname ? NULL : o->hostname_label,
                .hostname = node,
                .node_name = node,
                .old_namespace = o->old_namespace,
                .replace_blanks = o->replace_blanks,
                .virtual_gpus = o->virtual_gpus,
                .dra = o->dra,
                .devices = o->devices,
                .hpc_dir = o->hpc_dir,
                .xid_window_ms = (uint64_t)o->xid_window_ms,
                .clock_window_ms = (uint64_t)o->clock_window_ms,
                .timestamps = o->timestamps,
            },
        .backend.max_util = o->max_util,
        .podresources_socket = o->kubernetes ? exporter_find_socket(o->socket) : NULL,
        .podresources_interval_ns = o->podresources_interval_ns,
        .extra_resources = extra.items,
        .n_extra_resources = extra.len,
        .proc = o->host_proc,
        .node_name = o->node_name && *o->node_name ? o->node_name : NULL,
        .pod_labels = o->pod_labels,
        .pod_uid = o->pod_uid,
        .label_allowlist = o->label_regex,
    };
    err = exporter_serve(o, &cfg, ret_ended);
    free(extra.items);
    return err;
}

static struct gs_error *run(const void *arg, int argc, char **argv, int *ret_exit)
{
    const struct exporter_opts *o = arg;
    (void)argc, (void)argv, (void)ret_exit;
    struct gs_error *err = exporter_check_opts(o);
    if (!err)
        err = tie_to_parent(o);
    if (err)
        return err;
    set_log(o);
    mallopt(M_ARENA_MAX, 2); // the threads of the GPUs allocate little, and seldom at once
    struct simulation sim = {0};
    bool ended = true;
    err = simulation_start(o->simulate, &sim);
    if (!err && o->list_fields) {
        err = exporter_list_fields(sim.library ? sim.library : o->nvml_library);
        simulation_finish(&sim);
        return err;
    }
    exporter_tell_without_effect(o);
    tell_without_node(o);
    if (!err)
        err = run_with(o, &sim, &ended);
    simulation_finish(&sim);
    if (!ended) {
        // The driver holds the sampler's thread: exit() would wait for it in library destructors.
        gs_warn("exporter", "ending although a driver call has not returned");
        if (err)
            fprintf(stderr, "gpuscale: %s\n", gs_error_message(err));
        (void)fflush(NULL);
        _exit(err ? 1 : 0);
    }
    return err;
}

const struct gs_verb verb_exporter = {
    .name = "exporter",
    .summary = "Serve what the GPUs of this machine do, in dcgm-exporter's format.",
    .description =
        "Samples the GPUs through the driver's NVML library, finds out which pod each GPU and each "
        "process on it belongs to, and serves the result as Prometheus text on /metrics. /health "
        "answers 200 while samples arrive. A value that the driver does not give has no line. "
        "Without "
        "a driver it ends, or with --kubernetes or --wait-for-driver waits for it.",
    .examples = "gpuscale exporter\n"
                "gpuscale exporter -k --address 127.0.0.1:9400\n"
                "gpuscale exporter --simulate 2xTesla-T4",
    .opts = exporter_opts,
    .opts_size = sizeof(struct exporter_opts),
    .run = run,
};
