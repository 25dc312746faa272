// SPDX-License-Identifier: Apache-2.0
// Sources that flags name and that may be missing: the exporter runs without them, logs it once,
// and exports their state as a metric.
#include "exporter/render.h"

#include "base/log.h"
#include "base/mem.h"
#include "metrics/write.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *without;
} kinds[EXPORTER_SOURCE_COUNT] = {
    {"configmap", "the default metrics are exported until it can be read"},
    {"hpc_job_mapping", "no line has hpc_job"},
    {"host_proc", "the owners of processes on the GPUs are unknown: mount the host's /proc there"},
    {"dcgm", "profiling, NVSwitch, NVLink and CPU metrics are missing"},
};

void exporter_sources_set(struct exporter_sources *s, enum exporter_source_kind k,
                          const char *problem)
{
    unsigned bit = 1u << k;
    s->configured |= bit;
    if (problem && !(s->missing & bit))
        gs_warn("exporter", "%s; %s", problem, kinds[k].without);
    else if (!problem && (s->missing & bit))
        gs_info("exporter", "available again: %s", kinds[k].name);
    s->missing = problem ? s->missing | bit : s->missing & ~bit;
}

static void check_source(struct exporter_sources *s, enum exporter_source_kind k, const char *flag,
                         const char *dir, const char *path, int mode)
{
    GS_AUTO_FREE char *problem = NULL;
    if (access(path, mode) < 0)
        problem = gs_format("%s %s: %s", flag, dir, strerror(errno));
    exporter_sources_set(s, k, problem);
}

void exporter_sources_check(struct exporter_sources *s)
{
    if (s->hpc_dir)
        check_source(s, EXPORTER_SOURCE_HPC_JOBS, "--hpc-job-mapping-dir", s->hpc_dir, s->hpc_dir,
                     R_OK | X_OK);
    // "self" cannot be used if /proc belongs to another PID namespace.
    const char *proc = s->proc ? s->proc : "/proc";
    GS_AUTO_FREE char *first = gs_format("%s/1", proc);
    check_source(s, EXPORTER_SOURCE_PROC, "--host-proc", proc, first, F_OK);
}

void exporter_sources_render(const struct exporter_sources *s, struct gs_buf *out)
{
    static const char name[] = "gpuscale_exporter_source_up";
    metrics_write_family(out, name, METRICS_GAUGE,
                         "1 if the object that a flag names is available, otherwise 0.");
    for (enum exporter_source_kind k = 0; k < EXPORTER_SOURCE_COUNT; k++) {
        struct metrics_label l = {gs_slice_of("source"), gs_slice_of(kinds[k].name)};
        if (s->configured >> k & 1)
            metrics_write_sample(out, name, &l, 1, !(s->missing >> k & 1));
    }
}
