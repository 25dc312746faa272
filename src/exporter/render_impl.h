// SPDX-License-Identifier: Apache-2.0
// Inside of the rendering of /metrics: what lines are about, and who writes which families.
#pragma once

#include "exporter/render.h"

struct render_ctx {
    const struct render_names *names;
    const struct gpu_snapshot *gpus;
};

// What one line of a device family is about: a GPU, or one of its MIG devices.
struct entity {
    const struct gpu_device *device;
    const struct gpu_instance *instance; // NULL: the GPU itself
    const struct device_holders *holders;
    const struct device_holder *exclusive;
    struct gs_buf labels;     // up to the label fields
    struct gs_buf all_labels; // and whose it is: made once, since twenty lines have the same
    // A line for each of them instead, when there are several owners to name.
    struct variant *variants;
    size_t n_variants;
};

// The same entity for one pod (of several that share it) or one HPC job.
struct variant {
    const struct device_holder *holder; // NULL: nobody
    char vgpu[16], *job;
    bool per_pod; // GPU_UTIL and FB_USED are the pod's own
    bool has_util, has_memory;
    uint64_t util, memory_mib;
    struct gs_buf labels;
};

struct entities {
    struct entity *items;
    size_t len, cap;
};

// --- labels ---
void render_add_label(struct gs_buf *b, const char *name, const char *value);
void render_add_label_u64(struct gs_buf *b, const char *name, const char *prefix, uint64_t value);
void render_add_label_if(struct gs_buf *b, const char *name, const char *value); // not ""
void render_add_entity_labels(const struct render_names *names, const struct gpu_snapshot *g,
                              struct entity *e);

// What is behind the device's labels: the pod's labels, then the rest sorted by name.
struct attributes {
    const struct device_holder *holder;
    const char *xid_code, *xid_text, *vgpu, *job;
};

void render_add_attributes(const struct render_names *names, const struct attributes *a,
                           struct gs_buf *out);

// --- entities ---
void render_list_entities(const struct render_names *names, const struct gpu_snapshot *g,
                          const struct device_map *map, struct entities *list);
void render_sum_pods(const struct sample *sample, struct entities *list);
void render_entities_finish(struct entities *list);

// --- families ---
void render_write_value(struct gpu_value v, const struct render_ctx *ctx, struct gs_buf *out);
void render_write_family(const struct render_ctx *ctx, const struct entities *list,
                         const struct counter *c, struct gs_buf *out);
void render_write_computed(const struct render_ctx *ctx, const struct entities *list,
                           const struct counter *c, struct gs_buf *out);
// Those of ACK's exporter: per process, container and device.
void render_write_custom(const struct render_ctx *ctx, const struct sample *sample,
                         const struct entities *list, bool has_map,
                         const struct device_replicas *replicas, struct gs_buf *out);
