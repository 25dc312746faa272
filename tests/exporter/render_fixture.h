// SPDX-License-Identifier: Apache-2.0
// Samples of two GPUs with processes, for tests of what is written about them.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "exporter/counters.h"
#include "exporter/render.h"
#include "metrics/reader.h"
#include "podresources_fixture.h"

#include <stdio.h>
#include <string.h>

static const struct exporter_render_names names = {"hostname", "n1", "node-1"};

struct fixture {
    struct exporter_sample *sample;
    struct exporter_device_map *map;
    struct exporter_device_replicas *replicas;
    struct gs_buf text;
    // The same page by one that has written others before.
    struct exporter_renderer *renderer;
    uint64_t map_version;
    struct gs_buf kept;
};

static inline struct gpu_value integer(int64_t v)
{
    return (struct gpu_value){.validity = GPU_VALID, .i = v};
}

static inline void set_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
}

static inline int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    f->sample = gs_alloc(sizeof(*f->sample));
    struct gpu_snapshot *g = f->sample->gpus = gs_alloc(sizeof(*g));
    set_text(g->driver_version, sizeof(g->driver_version), "570.1");
    g->n_devices = 2;
    g->devices = gs_alloc_array(2, sizeof(*g->devices));
    f->sample->owners = gs_alloc_array(2, sizeof(*f->sample->owners));
    for (uint32_t i = 0; i < 2; i++) {
        struct gpu_device *d = &g->devices[i];
        d->index = i;
        d->has_minor = true;
        d->minor = i;
        d->memory_total = (uint64_t)16 << 30;
        snprintf(d->uuid, sizeof(d->uuid), "GPU-%u", i + 1);
        snprintf(d->pci_bus_id, sizeof(d->pci_bus_id), "00000000:%02X:00.0", 0x3b + i);
        set_text(d->name, sizeof(d->name), "NVIDIA H100");
        for (int k = 0; k < GPU_F_COUNT; k++)
            d->fields[k].validity = GPU_NOT_SUPPORTED;
        d->fields[GPU_F_GPU_TEMP] = integer(41 + i);
        d->fields[GPU_F_POWER_USAGE] =
            (struct gpu_value){.validity = GPU_VALID, .is_double = true, .d = 70.123};
    }
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    exporter_sample_free(f->sample);
    exporter_device_map_free(f->map);
    exporter_device_replicas_free(f->replicas);
    gs_buf_finish(&f->text);
    gs_buf_finish(&f->kept);
    exporter_renderer_free(f->renderer);
    free(f);
    return 0;
}

static inline void give(struct fixture *f, const struct pod_row *rows, size_t n)
{
    GS_AUTO_BUF struct gs_buf bytes = {0};
    pack_list(rows, n, &bytes);
    exporter_device_map_free(f->map);
    f->map = NULL;
    f->map_version++;
    assert_null(exporter_device_map_parse(gs_buf_slice(&bytes), NULL, 0, NULL, &f->map));
}

static inline struct exporter_owner *add_process(struct fixture *f, size_t gpu, uint32_t pid,
                                                 uint32_t sm, uint64_t mib)
{
    struct gpu_device *d = &f->sample->gpus->devices[gpu];
    size_t n = d->n_processes++;
    d->processes_valid = true;
    d->processes = gs_realloc_array(d->processes, n + 1, sizeof(*d->processes));
    d->processes[n] = (struct gpu_process){
        .pid = pid,
        .has_memory = true,
        .has_util = true,
        .memory_bytes = mib << 20,
        .sm_util = sm,
        .gpu_instance = GPU_NO_INSTANCE,
        .compute = true,
    };
    f->sample->owners[gpu] =
        gs_realloc_array(f->sample->owners[gpu], n + 1, sizeof(**f->sample->owners));
    struct exporter_owner *o = &f->sample->owners[gpu][n];
    *o = (struct exporter_owner){.kind = EXPORTER_OWNER_HOST};
    set_text(o->process_name, sizeof(o->process_name), "python3");
    return o;
}

static inline void of_pod(struct exporter_owner *o, const char *ns, const char *pod,
                          const char *container)
{
    o->kind = EXPORTER_OWNER_POD;
    set_text(o->namespace_name, sizeof(o->namespace_name), ns);
    set_text(o->pod, sizeof(o->pod), pod);
    set_text(o->container, sizeof(o->container), container);
}

// A counters file with every field and every computed family.
static inline void all_counters(struct exporter_counters *ret)
{
    GS_AUTO_BUF struct gs_buf csv = {0};
    for (enum gpu_field f = 0; f < GPU_F_COUNT; f++)
        gs_buf_addf(&csv, "%s, %s, help\n", gpu_field_name(f), gpu_field_info(f)->type);
    gs_buf_add_str(&csv, "DCGM_EXP_XID_ERRORS_COUNT, gauge, help\n"
                         "DCGM_EXP_CLOCK_EVENTS_COUNT, gauge, help\n"
                         "DCGM_EXP_GPU_HEALTH_STATUS, gauge, help\n"
                         "DCGM_EXP_P2P_STATUS, gauge, help\n"
                         "DCGM_EXP_XID_ERRORS_TOTAL, counter, help\n"
                         "DCGM_EXP_CLOCK_EVENTS_TOTAL, counter, help\n");
    assert_null(exporter_counters_parse(gs_buf_slice(&csv), ret));
}

static inline bool count(void *arg, const struct metrics_sample *s)
{
    ++*(size_t *)arg;
    return true;
}

// Renders; what comes out must be readable by our own scraper.
static inline const char *text(struct fixture *f)
{
    gs_buf_clear(&f->text);
    exporter_render_gpus(&names, f->sample, f->map, f->replicas, &f->text);
    if (!f->renderer)
        f->renderer = exporter_renderer_new(&names);
    const struct exporter_render_input in = {
        .sample = f->sample, .map = f->map, .map_version = f->map_version, .replicas = f->replicas};
    gs_buf_clear(&f->kept);
    exporter_renderer_page(f->renderer, &in, &f->kept);
    assert_string_equal(f->text.len ? f->text.data : "", f->kept.len ? f->kept.data : "");
    size_t n = 0;
    struct gs_error *err = metrics_parse_text(gs_buf_slice(&f->text), NULL, count, &n);
    if (err)
        fail_msg("%s", gs_error_message(err));
    return f->text.data ? f->text.data : "";
}

static inline void assert_has(const char *page, const char *line)
{
    if (!strstr(page, line))
        fail_msg("\"%s\" is not in:\n%s", line, page);
}

static inline void assert_has_not(const char *page, const char *part)
{
    if (strstr(page, part))
        fail_msg("\"%s\" is in:\n%s", part, page);
}
