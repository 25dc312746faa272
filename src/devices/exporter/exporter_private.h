// SPDX-License-Identifier: Apache-2.0
// Private parts of the rendering of /metrics: entities, labels and families.
#pragma once

#include "exporter/render.h"

// Labels that contain the last XID: they change with the value.
struct exporter_xid_labels {
    bool made;
    int64_t xid;
    struct gs_buf text;
};

// What one line of a device family describes: a GPU, or one of its MIG devices. Reused for the next
// page; only `device` and `instance` belong to the page's sample.
struct exporter_entity {
    size_t device_at, instance_at; // in the sample; EXPORTER_NO_INSTANCE_AT: the GPU itself
    const struct gpu_device *device;
    const struct gpu_instance *instance; // NULL: the GPU itself
    const struct exporter_device_holders *holders;
    const struct exporter_device_holder *exclusive;
    // The holder in the labels of the device's lines: the exclusive holder, or the only holder of a
    // shared device if all processes on it belong to that holder.
    const struct exporter_device_holder *lone;
    struct gs_buf labels;     // without the fields that are labels
    struct gs_buf all_labels; // the same with the holder
    struct exporter_xid_labels xid;
    struct gs_buf custom; // labels of the DCGM_CUSTOM_* families of devices
    struct gs_buf *held;  // labels of the container families, one for each of `holders`
    size_t n_held;
    // If there are several owners: one line for each of them instead.
    struct exporter_variant *variants;
    size_t n_variants;
};
#define EXPORTER_NO_INSTANCE_AT SIZE_MAX

// The same entity for one pod (of several that share it) or for one HPC job.
struct exporter_variant {
    const struct exporter_device_holder *holder; // NULL: nobody
    char vgpu[16], *job;
    bool per_pod; // utilization and FB_USED are values of the pod
    bool has_util, has_memory;
    bool idle; // the pod certainly has no process here
    uint64_t util, mem_util, enc_util, dec_util, memory_mib;
    struct gs_buf labels;
    struct exporter_xid_labels xid;
};

struct exporter_entities {
    struct exporter_entity *items;
    size_t len, cap;
};

// How a pod's values on a device were determined; the least exact kind counts.
enum exporter_attribution_kind {
    EXPORTER_ATTRIBUTION_EXCLUSIVE, // the pod has the device to itself: the device's values
    EXPORTER_ATTRIBUTION_PROCESSES, // the driver's values of its processes
    // parts of the device's values, or the owner of a process is uncertain
    EXPORTER_ATTRIBUTION_ESTIMATE,
};

// A process of the page, and its labels while the same process is at this position.
struct exporter_process_line {
    const struct gpu_process *process;
    const struct exporter_entity *entity; // where it runs; NULL: not an entity of the page
    uint64_t hash;                        // of everything that the labels depend on
    bool shown;                           // false: its owner cannot be determined
    bool foreign;                         // of a pod that does not hold the device
    bool of_exclusive;                    // of the pod that has the device to itself
    enum exporter_attribution_kind kind;
    struct gs_buf labels;
    struct gs_buf pod_labels; // only device and pod; empty: not of a pod
};

struct exporter_process_lines {
    struct exporter_process_line *items;
    size_t len, cap;
    size_t used; // number of processes of this page
};

enum { EXPORTER_RENDER_CUSTOM_FAMILIES = 20 };

// Labels of what is neither a GPU nor a MIG device, by index in dcgm_latest.entities; empty if it
// has no lines. Made for each page, in the same memory.
struct exporter_dcgm_labels {
    struct gs_buf *items;
    size_t n;
};

struct exporter_renderer {
    const struct exporter_render_names *names;
    const struct exporter_counters *counters;
    struct exporter_counters defaults;
    struct exporter_render_input in; // of the current page
    // What the entities depend on.
    struct gs_buf key, next_key;
    struct exporter_entities entities;
    uint64_t entities_version;
    struct exporter_process_lines processes;
    uint64_t attributions_of;   // hash of what they depend on
    struct gs_buf attributions; // gpuscale_exporter_pod_attribution
    struct gs_buf *headers;     // one for each of the counters' families
    struct exporter_dcgm_labels dcgm;
    struct gs_buf custom_headers[EXPORTER_RENDER_CUSTOM_FAMILIES];
};

// --- selectors ---
// Whether a valid selector contains number n of a kind, 'g' or 'i'.
bool exporter_selection_has(const char *selector, char letter, unsigned n);
// The next range of a part such as "g:0,2-4". *at: NULL for the first one, then where to continue.
bool exporter_selection_next(const char *part, const char **at, unsigned *ret_first,
                             unsigned *ret_last);

// --- labels ---
void exporter_render_add_label(struct gs_buf *b, const char *name, const char *value);
void exporter_render_add_label_u64(struct gs_buf *b, const char *name, const char *prefix,
                                   uint64_t value);
void exporter_render_add_label_if(struct gs_buf *b, const char *name, const char *value); // not ""
// Whether a process runs on the GPU (NULL) or MIG device.
bool exporter_render_is_on(const struct gpu_process *p, const struct gpu_instance *i);
// GPU_CI_ID, if the GPU instance has several compute instances.
void exporter_render_add_compute_instance(struct gs_buf *b, const struct gpu_instance *i);
void exporter_render_add_entity_labels(const struct exporter_renderer *r,
                                       struct exporter_entity *e);
// The value of a row of type "label". NULL: none. number: buffer for numeric values.
const char *exporter_render_label_field(const struct gpu_snapshot *g, const struct gpu_device *d,
                                        const struct exporter_counter *c, char number[static 32]);

// The labels after those of the device: the pod's labels, then the others sorted by name.
struct exporter_attributes {
    const struct exporter_device_holder *holder;
    const char *xid_code, *xid_text, *vgpu, *job;
};
void exporter_render_add_attributes(const struct exporter_render_names *names,
                                    const struct exporter_attributes *a, struct gs_buf *out);

// --- entities ---
// Returns the holder that a pod's process belongs to. NULL: the pod does not hold the device, or
// the container of the pod is unknown.
const struct exporter_device_holder *
exporter_render_find_holder(const struct exporter_device_holders *holders,
                            const struct exporter_owner *o);
const struct exporter_device_holder *
exporter_render_sole_holder(const struct exporter_sample *sample, size_t device_at,
                            const struct gpu_instance *instance,
                            const struct exporter_device_holders *holders);
void exporter_render_list_entities(const struct exporter_renderer *r,
                                   struct exporter_entities *list);
void exporter_render_sum_pods(const struct exporter_sample *sample, struct exporter_entities *list);
void exporter_render_entities_finish(struct exporter_entities *list);

// --- lines ---
// Writes the header in `cache`; creates it first if it is empty.
void exporter_render_write_header(struct gs_buf *cache, const char *name, const char *type,
                                  const char *help, struct gs_buf *out);
void exporter_render_write_line(const struct exporter_renderer *r, const char *name,
                                const struct gs_buf *labels, struct gpu_value v,
                                struct gs_buf *out);

// --- families ---
void exporter_render_write_family(struct exporter_renderer *r, size_t row, struct gs_buf *out);
void exporter_render_write_computed(struct exporter_renderer *r, size_t row, struct gs_buf *out);

// --- entities that only DCGM has ---
void exporter_render_list_dcgm(struct exporter_renderer *r); // their labels
void exporter_render_dcgm_finish(struct exporter_renderer *r);
// A family of the kind EXPORTER_COUNTER_DCGM.
void exporter_render_write_dcgm(struct exporter_renderer *r, size_t row, struct gs_buf *out);
// The families of ACK's exporter: per process, container and device.
void exporter_render_write_custom(struct exporter_renderer *r, struct gs_buf *out);
void exporter_render_custom_finish(struct exporter_renderer *r);
// gpuscale_exporter_pod_attribution: how the values of the pods were determined.
void exporter_render_pod_labels(const struct exporter_entity *e, const char *ns, const char *pod,
                                const char *container, struct gs_buf *ret);
void exporter_render_write_attributions(struct exporter_renderer *r, struct gs_buf *out);
