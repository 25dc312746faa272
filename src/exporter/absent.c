// SPDX-License-Identifier: Apache-2.0
#include "exporter/absent.h"

#include "base/buf.h"
#include "base/log.h"

enum { MAX_NAMES = 12 }; // in a line

// The reason that the first GPU gives; GPU_VALID: one of them has it, or may have it later.
static enum gpu_validity why(const struct gpu_snapshot *s, enum gpu_field f)
{
    enum gpu_validity first = GPU_VALID;
    for (size_t i = 0; i < s->n_devices; i++) {
        enum gpu_validity v = s->devices[i].fields[f].validity;
        if (v == GPU_VALID || v == GPU_UNKNOWN)
            return GPU_VALID;
        first = first == GPU_VALID ? v : first;
    }
    return first;
}

static enum gpu_validity why_no_processes(const struct gpu_snapshot *s)
{
    for (size_t i = 0; i < s->n_devices; i++)
        if (s->devices[i].process_util == GPU_VALID || s->devices[i].process_util == GPU_UNKNOWN)
            return GPU_VALID;
    return s->n_devices ? s->devices[0].process_util : GPU_VALID;
}

static void add_name(struct gs_buf *names, size_t *n, const char *name)
{
    if (*n < MAX_NAMES)
        gs_buf_addf(names, "%s%s", *n ? ", " : "", name);
    else if (*n == MAX_NAMES)
        gs_buf_add_str(names, " …");
    ++*n;
}

static void tell_reason(const struct counters *c, const struct gpu_snapshot *s,
                        enum gpu_validity reason)
{
    GS_AUTO_BUF struct gs_buf names = {0};
    size_t n = 0;
    for (size_t i = 0; i < c->len; i++)
        if (why(s, c->rows[i].field) == reason)
            add_name(&names, &n, c->rows[i].name);
    if (why_no_processes(s) == reason)
        add_name(&names, &n, "DCGM_CUSTOM_PROCESS_SM_UTIL");
    if (!n)
        return;
    if (reason == GPU_NOT_SUPPORTED)
        gs_info("exporter", "%zu families that no GPU here has (%s): %s; / tells it of each GPU", n,
                gpu_validity_text(reason), names.data);
    else
        gs_warn("exporter", "%zu families that no GPU here gives (%s): %s; / tells it of each GPU",
                n, gpu_validity_text(reason), names.data);
}

void absent_tell(const struct counters *counters, const struct gpu_snapshot *s)
{
    struct counters defaults = {0};
    if (!counters)
        counters_default(&defaults);
    for (enum gpu_validity v = GPU_NOT_SUPPORTED; v <= GPU_FAILED; v++)
        tell_reason(counters ? counters : &defaults, s, v);
    counters_finish(&defaults);
}
