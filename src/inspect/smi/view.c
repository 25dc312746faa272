// SPDX-License-Identifier: Apache-2.0
// The GPUs that are shown: in a pod of `gpuscale up`, those of NVIDIA_VISIBLE_DEVICES, numbered
// from 0, as a container sees them.
#include "base/file.h"
#include "base/mem.h"
#include "base/slice.h"
#include "smi/smi_private.h"

#include <string.h>
#include <strings.h>

enum { MAX_CMDLINE = 8 << 20 }; // the kernel allows 6 MiB

// Whether the list names the device by index, UUID or PCI address.
static bool list_has(const char *list, unsigned index, const char *uuid, const char *bus_id)
{
    char number[16];
    snprintf(number, sizeof(number), "%u", index);
    for (const char *at = list; *at;) {
        size_t len = strcspn(at, ",");
        struct gs_slice word = gs_slice_trim(gs_slice_make(at, len));
        if (gs_slice_eq_str(word, number) || gs_slice_eq_str(word, uuid) ||
            (bus_id && word.len == strlen(bus_id) && strncasecmp(word.data, bus_id, word.len) == 0))
            return true;
        at += len + (at[len] == ',');
    }
    return false;
}

static bool is_all(const char *visible)
{
    return !visible || gs_streq(visible, "all");
}

// A GPU is visible by its own name, or by a MIG device of it.
static bool select_device(struct smi_device *d, const char *visible)
{
    const struct gpu_device *gpu = d->gpu;
    bool whole = is_all(visible) || list_has(visible, gpu->index, gpu->uuid, gpu->pci_bus_id);
    bool any = whole;
    for (size_t i = 0; i < gpu->n_instances && i < GPU_MAX_INSTANCES; i++) {
        d->instances[i] = whole || list_has(visible, UINT32_MAX, gpu->instances[i].uuid, NULL);
        any = any || d->instances[i];
    }
    return any;
}

void smi_view_init(struct smi_view *v, const struct gpu_snapshot *s, const char *visible,
                   const char *id)
{
    unsigned index = 0;
    *v = (struct smi_view){.snapshot = s};
    for (size_t i = 0; i < s->n_devices && v->n < GPU_MAX_DEVICES; i++) {
        struct smi_device d = {.gpu = &s->devices[i], .index = index};
        if (!select_device(&d, visible))
            continue;
        index++;
        if (!id || list_has(id, d.index, d.gpu->uuid, d.gpu->pci_bus_id))
            v->devices[v->n++] = d;
    }
}

void smi_add_value(const struct gpu_value *v, const char *unit, struct gs_buf *out)
{
    switch (v->validity) {
    case GPU_VALID:
        if (v->is_double)
            gs_buf_addf(out, "%.2f%s", v->d, unit);
        else
            gs_buf_addf(out, "%lld%s", (long long)v->i, unit);
        break;
    case GPU_UNKNOWN:
    case GPU_NOT_SUPPORTED:
        gs_buf_add_str(out, "[N/A]");
        break;
    case GPU_NO_PERMISSION:
        gs_buf_add_str(out, "[Insufficient Permissions]");
        break;
    case GPU_LOST:
        gs_buf_add_str(out, "[GPU is lost]");
        break;
    case GPU_FAILED:
    case GPU_HUNG:
        gs_buf_add_str(out, "[Unknown Error]");
        break;
    }
}

void smi_add_process_name(uint32_t pid, struct gs_buf *out)
{
    GS_AUTO_FREE char *path = gs_format("/proc/%u/cmdline", pid);
    GS_AUTO_BUF struct gs_buf line = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, MAX_CMDLINE, &line);
    const char *name = err || !line.len ? "[Not Found]" : line.data;
    for (const char *at = name; *at; at++)
        gs_buf_add_char(out, (char)((unsigned char)*at < 0x20 || *at == ',' ? '?' : *at));
}
