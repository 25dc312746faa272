// SPDX-License-Identifier: Apache-2.0
// The exporter as a child process: it alone loads NVML, and is started again when it dies.
#include "up/up_private.h"

#include "base/file.h"
#include "base/mem.h"
#include "nvmlsim/simulation/simulation.h"

#include <string.h>

enum { MAX_ARGS = 32 };

struct gs_error *up_exporter_start(uv_loop_t *loop, const struct up_exporter_config *e,
                                   struct up_child **ret)
{
    GS_AUTO_FREE char *interval = gs_format("%d", e->interval_ms);
    GS_AUTO_FREE char *sim_env = gs_format("%s=%s", NVMLSIM_ENV, e->gpus->sim_name);
    const char *argv[MAX_ARGS] = {e->self_exe,
                                  "exporter",
                                  "--address",
                                  e->address,
                                  "--kubernetes",
                                  "--pod-resources-kubelet-socket",
                                  e->podresources,
                                  "--node-name",
                                  e->node,
                                  "--pod-resources-interval",
                                  "1s",
                                  "--collect-interval",
                                  interval,
                                  "--exit-with-parent"};
    size_t n = 0;
    while (argv[n])
        n++;
    GS_AUTO_FREE char *dcgm_library =
        e->gpus->simulated ? simulation_dcgm_library(e->gpus->sim_library) : NULL;
    if (e->gpus->simulated) {
        argv[n++] = "--nvml-library";
        argv[n++] = e->gpus->sim_library;
    }
    if (dcgm_library) { // profiling values of GPUs before Hopper
        argv[n++] = "--dcgm";
        argv[n++] = SIMULATION_DCGM_ADDRESS;
        argv[n++] = "--dcgm-library";
        argv[n++] = dcgm_library;
    }
    if (e->collectors) {
        argv[n++] = "--collectors";
        argv[n++] = e->collectors;
    }
    if (e->errors_only) {
        argv[n++] = "--log-level";
        argv[n++] = "error";
    }
    const char *const env[] = {e->gpus->simulated ? sim_env : NULL, NULL};
    const struct up_child_config cfg = {.name = "exporter",
                                        .argv = argv,
                                        .extra_env = env,
                                        .restart = true,
                                        .on_line = e->on_line,
                                        .arg = e->arg};
    return up_child_start(loop, &cfg, ret);
}

struct gs_error *up_exporter_collectors(const struct up_options *o, const struct up_values *v,
                                        const char *data_dir, char **ret)
{
    GS_AUTO_FREE char *counters = gs_format("%s/counters.csv", data_dir);
    struct gs_error *err = NULL;
    if (!o->collectors && v->counters)
        err = gs_file_write_atomic(counters, 0600, gs_slice_of(v->counters));
    if (err)
        return err;
    const char *path = o->collectors ? o->collectors : v->counters ? counters : v->collectors;
    *ret = path ? gs_strdup(path) : NULL;
    return NULL;
}
