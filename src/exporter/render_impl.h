// SPDX-License-Identifier: Apache-2.0
// Inside of the rendering of /metrics: what lines are about, and who writes which families.
#pragma once

#include "exporter/render.h"

// Labels with the last XID in them: they change with the value.
struct xid_labels {
    bool made;
    int64_t xid;
    struct gs_buf text;
};

// What one line of a device family is about: a GPU, or one of its MIG devices. Kept from page to
// page; only `device` and `instance` are of the page's sample.
struct entity {
    size_t device_at, instance_at; // in the sample; NO_INSTANCE_AT: the GPU itself
    const struct gpu_device *device;
    const struct gpu_instance *instance; // NULL: the GPU itself
    const struct device_holders *holders;
    const struct device_holder *exclusive;
    // Whose labels the device's lines have: who has it exclusively, or the only holder of a shared
    // device if all processes on it are its.
    const struct device_holder *lone;
    struct gs_buf labels;     // up to the label fields
    struct gs_buf all_labels; // and whose it is
    struct xid_labels xid;
    struct gs_buf custom; // labels of the DCGM_CUSTOM_* families of devices
    struct gs_buf *held;  // those of the families of containers, one for each of `holders`
    size_t n_held;
    // A line for each of them instead, when there are several owners to name.
    struct variant *variants;
    size_t n_variants;
};
#define NO_INSTANCE_AT SIZE_MAX

// The same entity for one pod (of several that share it) or one HPC job.
struct variant {
    const struct device_holder *holder; // NULL: nobody
    char vgpu[16], *job;
    bool per_pod; // utilisation and FB_USED are the pod's own
    bool has_util, has_memory;
    bool idle; // it is a fact that it has no process here
    uint64_t util, mem_util, enc_util, dec_util, memory_mib;
    struct gs_buf labels;
    struct xid_labels xid;
};

struct entities {
    struct entity *items;
    size_t len, cap;
};

// How a pod comes to its figures on a device; the worst one counts.
enum attribution_kind {
    ATTRIBUTION_EXCLUSIVE, // it has the device to itself: the device's figures
    ATTRIBUTION_PROCESSES, // the driver's readings of its processes
    ATTRIBUTION_ESTIMATE,  // parts of the device's figures, or a guess whose the process is
};

// A process of the page, and its labels as long as the same one is at this place.
struct process_line {
    const struct gpu_process *process;
    const struct entity *entity; // that it is on; NULL: none of the page
    uint64_t hash;               // of all that the labels are made of
    bool shown;                  // false: nothing can be said about whose it is
    bool foreign;                // of a pod that has not been given the device
    bool of_exclusive;           // of the pod that has the device to itself
    enum attribution_kind kind;
    struct gs_buf labels;
    struct gs_buf pod_labels; // device and pod alone; empty: of no pod
};

struct process_lines {
    struct process_line *items;
    size_t len, cap;
    size_t used; // of this page
};

enum { RENDER_CUSTOM_FAMILIES = 20 };

struct renderer {
    const struct render_names *names;
    const struct counters *counters;
    struct counters defaults;
    struct render_input in; // of the page being written
    // What the entities were made of.
    struct gs_buf key, next_key;
    struct entities entities;
    uint64_t entities_version;
    struct process_lines processes;
    uint64_t attributions_of;   // hash of what they were made of
    struct gs_buf attributions; // gpuscale_exporter_pod_attribution
    struct gs_buf *headers;     // one for each of the counters' families
    struct gs_buf custom_headers[RENDER_CUSTOM_FAMILIES];
};

// --- labels ---
void render_add_label(struct gs_buf *b, const char *name, const char *value);
void render_add_label_u64(struct gs_buf *b, const char *name, const char *prefix, uint64_t value);
void render_add_label_if(struct gs_buf *b, const char *name, const char *value); // not ""
// Of a process on the device of an entity.
bool render_is_on(const struct gpu_process *p, const struct gpu_instance *i);
// GPU_CI_ID, where the GPU instance has several compute instances.
void render_add_compute_instance(struct gs_buf *b, const struct gpu_instance *i);
void render_add_entity_labels(const struct renderer *r, struct entity *e);
// The value of a row of type "label"; NULL: none. number: room for the text of one.
const char *render_label_field(const struct gpu_snapshot *g, const struct gpu_device *d,
                               const struct counter *c, char number[static 32]);

// What is behind the device's labels: the pod's labels, then the rest sorted by name.
struct attributes {
    const struct device_holder *holder;
    const char *xid_code, *xid_text, *vgpu, *job;
};
void render_add_attributes(const struct render_names *names, const struct attributes *a,
                           struct gs_buf *out);

// --- entities ---
// The holder that a pod's process belongs to; NULL: it was not given the device, or it cannot be
// told which of the pod's containers it is.
const struct device_holder *render_find_holder(const struct device_holders *holders,
                                               const struct owner *o);
const struct device_holder *render_lone_holder(const struct sample *sample, size_t device_at,
                                               const struct gpu_instance *instance,
                                               const struct device_holders *holders);
void render_list_entities(const struct renderer *r, struct entities *list);
void render_sum_pods(const struct sample *sample, struct entities *list);
void render_entities_finish(struct entities *list);

// --- lines ---
// Writes the header that `cache` holds, after making it when it is empty.
void render_write_header(struct gs_buf *cache, const char *name, const char *type, const char *help,
                         struct gs_buf *out);
void render_write_line(const struct renderer *r, const char *name, const struct gs_buf *labels,
                       struct gpu_value v, struct gs_buf *out);

// --- families ---
void render_write_family(struct renderer *r, size_t row, struct gs_buf *out);
void render_write_computed(struct renderer *r, size_t row, struct gs_buf *out);
// Those of ACK's exporter: per process, container and device.
void render_write_custom(struct renderer *r, struct gs_buf *out);
void render_custom_finish(struct renderer *r);
// How the pods come to their figures.
void render_pod_labels(const struct entity *e, const char *ns, const char *pod,
                       const char *container, struct gs_buf *ret);
void render_write_attributions(struct renderer *r, struct gs_buf *out);
