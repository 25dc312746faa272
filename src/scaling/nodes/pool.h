// SPDX-License-Identifier: Apache-2.0
// Pools: groups of equal machines that a node autoscaler creates and deletes. A pool is read from a
// YAML file or from the text of an option; docs/nodes.md describes both. Units: milliseconds, CPU
// in thousandths of cores, memory in bytes, prices per hour.
#pragma once

#include "base/error.h"
#include "codec/yaml_reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NODES_POOL_LABEL  "gpuscale.dev/pool"  // of the nodes of a pool: its name
#define NODES_PRICE_LABEL "gpuscale.dev/price" // per hour, in the currency of the pool

// Limits.
#define NODES_MAX_POOLS      1000
#define NODES_MAX_POOL_SIZE  15000 // nodes
#define NODES_MAX_POOL_GPUS  256   // of a machine
#define NODES_MAX_POOL_ITEMS 100   // labels, taints, resources
#define NODES_MAX_POOL_FILE  ((size_t)4 << 20)

struct nodes_label {
    const char *key, *value;
};

struct nodes_taint {
    const char *key, *value, *effect; // value: "" if absent
};

struct nodes_resource {
    const char *name;
    int64_t milli;
};

struct nodes_simulation; // simulation.h

struct nodes_pool {
    const char *name;
    size_t min, max;
    // The machine.
    size_t gpus;
    const char *gpu_model;    // NULL: not given
    const char *gpu_resource; // "nvidia.com/gpu"
    const char *machine_type; // NULL: not given
    int64_t cpu_milli, memory_bytes;
    size_t max_pods;
    struct nodes_resource *resources; // further ones
    size_t n_resources;
    struct nodes_label *labels; // those of the file only
    size_t n_labels;
    struct nodes_taint *taints;
    size_t n_taints;
    const char *zone; // NULL: not given
    // Choice.
    bool has_price, spot;
    double price;
    const char *currency; // of the price: "USD"
    int64_t priority;     // higher is preferred by the policy "priority"
    // From the order of a machine until its GPUs can be used: the median and the 90th percentile.
    // 0: not given.
    int64_t startup_ms, startup_p90_ms;
    const char *where;                   // "pools.yaml:12:5", or the option
    struct nodes_simulation *simulation; // never NULL in a pool that was read
    void *extra;                         // see nodes_pools_extra; NULL: none
};

struct nodes_pools {
    struct nodes_pool *items;
    size_t len, cap;
    struct gs_arena arena; // of all texts
};

void nodes_pools_finish(struct nodes_pools *p);
const struct nodes_pool *nodes_pools_find(const struct nodes_pools *p, const char *name); // or NULL

// Further keys of a pool in the file, for a command that needs more than this header. The structure
// of `size` bytes is zeroed, belongs to the pools and becomes nodes_pool.extra.
struct nodes_pools_extra {
    const struct codec_field *fields; // ends with a NULL name
    size_t size;
    const struct codec_field *top_fields; // of the document; NULL: none
    void *top;                            // filled by top_fields
};

// Adds the pools of a file. Errors begin with "file:line:column". extra may be NULL.
struct gs_error *nodes_pools_load(struct nodes_pools *p, const char *path,
                                  const struct nodes_pools_extra *extra);
// Adds the pools of a list within another document. All texts are in the reader's arena, which must
// live as long as the pools. r->err: the list is wrong.
void nodes_pools_read(struct codec_reader *r, const json_t *list, struct nodes_pools *p,
                      const struct nodes_pools_extra *extra);
struct gs_error *nodes_pools_parse(struct nodes_pools *p, struct gs_slice yaml, const char *name,
                                   const struct nodes_pools_extra *extra);
// Adds the pool of an option: "NAME=MIN..MAXxGPUS[,KEY=VALUE…]", for example
// "t4-1=0..8x1,startup=40s,price=2.48,model=Tesla T4,taint=nvidia.com/gpu=present:NoSchedule".
// MIN..MAX may be one number. Keys: startup, p90, boot, driver, gpu, price, currency, spot, model,
// type, zone, label, taint, cpu, memory, pods, priority, resource, fail.
struct gs_error *nodes_pools_add_option(struct nodes_pools *p, const char *option);

// --- nodes of a pool ---

// The labels with which gpuscale, Karpenter and platforms name the pool of a node; NULL at the end.
extern const char *const nodes_pool_labels[];
const char *nodes_pool_label(const json_t *node); // the first that is set; NULL: none

// A v1 Node as a new machine of the pool has it: labels, taints, capacity, ready; new reference.
// name NULL: a name for simulations.
json_t *nodes_pool_template(const struct nodes_pool *pool, const char *name);
// A pool as {"name", "max", "gpus", "gpuResource", "node": nodes_pool_template()}, and an array of
// them, for those who explain why a pod waits; new references.
json_t *nodes_pool_json(const struct nodes_pool *pool);
json_t *nodes_pools_json(const struct nodes_pool *pools, size_t n);
// Whether pods without GPU requests land on the GPU machines of this pool: it has no taint that
// keeps them off. pool: an element of nodes_pools_json().
bool nodes_pool_attracts(const json_t *pool, const json_t *requests);
// Whether it has GPUs and no taint keeps pods off.
bool nodes_pool_is_open(const struct nodes_pool *pool);
// The taint of GPU nodes on GKE and AKS, which pods with GPU requests tolerate by admission.
#define NODES_GPU_TAINT "nvidia.com/gpu=present:NoSchedule"
bool nodes_is_embedded(const json_t *node); // a node of gpuscale up

char *nodes_pool_provider_id(const struct nodes_pool *pool, const char *name) GS_MUST_USE;

// --- checks of pools that are well-formed ---

enum nodes_severity { NODES_WARNING, NODES_ERROR };

struct nodes_finding {
    enum nodes_severity severity;
    char *text; // begins with the position
};
struct nodes_findings {
    struct nodes_finding *items;
    size_t len, cap;
};
void nodes_findings_finish(struct nodes_findings *f);

// needs_price: the policy compares prices. Errors: GPU labels without GPUs, prices in several
// currencies. Warnings: no price, a taint that the pods do not tolerate, GPU machines without a
// taint.
void nodes_pools_check(const struct nodes_pools *p, bool needs_price, struct nodes_findings *ret);
