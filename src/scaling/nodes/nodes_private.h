// SPDX-License-Identifier: Apache-2.0
// Shared by the files that simulate scheduling. Texts of objects become numbers and quantities
// become thousandths, and pods with equal requirements share a form, so that each filter runs once
// per form and class of nodes.
#pragma once

#include "base/buf.h"
#include "base/hmap.h"
#include "nodes/choice.h"

// --- requests ---

// A request for a resource. name: its number in the snapshot.
struct nodes_amount {
    uint32_t name;
    int64_t milli;
};

// Adds up quantities of resources by their name, without allocation for a few names.
#define NODES_SUM_INLINE 16
struct nodes_sum_item {
    const char *name; // of the object
    int64_t milli;
};
struct nodes_sum {
    struct nodes_sum_item *items, inline_items[NODES_SUM_INLINE];
    size_t len, cap;
};
void nodes_sum_init(struct nodes_sum *sum);
void nodes_sum_finish(struct nodes_sum *sum);
void nodes_sum_of_pod(struct nodes_sum *sum, const json_t *pod); // requests of the pod

// --- interned texts ---

struct nodes_names {
    char **items;
    size_t len, cap;
    struct gs_hmap *numbers; // -> number + 1
};
uint32_t nodes_intern(struct nodes_names *n, struct gs_slice text);
void nodes_names_clear(struct nodes_names *n); // frees the memory, too

// --- forms: what pods with equal requirements share ---

#define NODES_FIT_UNKNOWN 0 // of a verdict
#define NODES_FIT_OK      1 // others: 2 + number of the reason

struct nodes_rules; // rules between pods (topology.c)

struct nodes_form {
    const json_t *pod;             // a pod of this form
    struct nodes_amount *requests; // not 0; ordered by name
    size_t n_requests;
    uint32_t *verdicts; // by class of nodes: NODES_FIT_…
    size_t n_verdicts;
    uint64_t generation;       // of the classes
    bool by_name;              // the node affinity depends on the node's name or hostname
    bool inspected;            // by_name and the label keys are known
    struct nodes_rules *rules; // NULL: none
    char **ports;              // host ports: "TCP/80"
    size_t n_ports;
};

struct nodes_pod {
    const json_t *object;
    uint32_t form;
    uint32_t node; // UINT32_MAX: not placed
};

struct nodes_node {
    const json_t *object;
    const char *name;
    int64_t free_pods, max_pods;
    uint32_t class;
    uint64_t generation; // of the class
    uint32_t n_pods;
    bool template, excluded, parking;
    json_t *own;           // a copy of the object with another name; NULL: object is the caller's
    struct gs_hmap *ports; // host ports in use; NULL: none
};

enum nodes_step_kind {
    NODES_STEP_PLACE,
    NODES_STEP_UNPLACE,
    NODES_STEP_ADD_NODE,
    NODES_STEP_EXCLUDE
};
struct nodes_step {
    enum nodes_step_kind kind;
    uint32_t pod, node;
};

struct nodes_topology; // counters of pods by domain (topology.c)

struct nodes_snapshot {
    struct nodes_node *nodes;
    size_t n_nodes, nodes_cap;
    struct nodes_pod *pods;
    size_t n_pods, pods_cap;
    struct gs_hmap *by_name; // of nodes -> index + 1

    // Resources: each name has a number, those of nodes a column.
    struct nodes_names resources;
    int16_t *columns; // by number; -1: no node has it
    size_t columns_cap;
    uint32_t column_names[NODES_MAX_RESOURCES];
    size_t n_columns, stride;
    int64_t *allocatable, *free; // nodes_cap * stride

    struct nodes_form **forms;
    size_t n_forms, forms_cap;
    struct gs_hmap *form_numbers; // requirements -> number + 1
    struct gs_buf scratch;

    // Classes of nodes: nodes that differ only in labels that no form names are equal.
    struct nodes_names keys; // labels that forms name
    struct nodes_names classes;
    uint64_t generation;         // of the classes
    struct nodes_names verdicts; // reasons of nodes_static_reason()

    struct nodes_topology *topology; // NULL: no form has rules between pods

    struct nodes_step *steps;
    size_t n_steps, steps_cap, n_checkpoints;
};

// The pods of each node: those of node i are at [(*ret_first)[i], (*ret_first)[i + 1]) of
// *ret_pods, in ascending order. The caller frees both.
void nodes_pods_by_node(const struct nodes_snapshot *s, size_t **ret_first, size_t **ret_pods);

// --- parts ---

uint32_t nodes_resource_number(struct nodes_snapshot *s, const char *name);
int nodes_column(const struct nodes_snapshot *s, const char *name); // -1: no node has it
// The verdict of the filters that depend only on the node's and the pod's objects. NULL: it fits.
const char *nodes_static_reason(struct nodes_snapshot *s, struct nodes_form *f, size_t node);

size_t nodes_form_of(struct nodes_snapshot *s, const json_t *pod);
void nodes_form_free(struct nodes_form *f);

// Rules between pods (topology.c).
// NULL: none. The pod is borrowed.
struct nodes_rules *nodes_rules_new(struct nodes_snapshot *s, const json_t *pod);
void nodes_rules_free(struct nodes_rules *r);
void nodes_topology_add_node(struct nodes_snapshot *s, size_t node);
void nodes_topology_drop_node(struct nodes_snapshot *s, size_t node);
void nodes_topology_count(struct nodes_snapshot *s, size_t pod, size_t node, int sign);
// NULL: the rules between pods allow the pod on the node.
const char *nodes_topology_reason(struct nodes_snapshot *s, size_t pod, size_t node);
void nodes_topology_free(struct nodes_topology *t);

bool nodes_tolerates(const json_t *pod, const char *key, const char *value, const char *effect);
bool nodes_expression_matches(const json_t *expr, const char *value);

// --- pools ---

// What the file and the option share. Each check fails the reader with a text for people; value is
// the position.
void nodes_pool_init(struct codec_reader *r, struct nodes_pool *p);
void nodes_pool_add_label(struct codec_reader *r, const json_t *value, struct nodes_pool *p,
                          const char *key, const char *text);
void nodes_pool_add_taint(struct codec_reader *r, const json_t *value, struct nodes_pool *p,
                          const char *text); // "KEY=VALUE:EFFECT"
void nodes_pool_add_resource(struct codec_reader *r, const json_t *value, struct nodes_pool *p,
                             const char *name, const char *text);
void nodes_pool_set_failure(struct codec_reader *r, const json_t *value, struct nodes_pool *p,
                            const char *text); // "capacity", "never-ready:2", "capacity:30%"
// The last checks and the defaults that depend on other values.
void nodes_pool_complete(struct codec_reader *r, const json_t *value, struct nodes_pool *p);
void nodes_pools_append(struct codec_reader *r, const json_t *value, struct nodes_pools *pools,
                        const struct nodes_pool *p); // fails if the name exists

// Readers of scalars (codec_read_fn). out: int64_t, size_t, double.
void nodes_read_milli(struct codec_reader *r, const json_t *value, void *out);
void nodes_read_bytes(struct codec_reader *r, const json_t *value, void *out);
void nodes_read_price(struct codec_reader *r, const json_t *value, void *pool);

// --- choice ---

struct nodes_share { // pods of one form
    size_t form, n;
};

// An option while it is judged.
struct nodes_bid {
    struct nodes_option *option;
    size_t node;             // a new node of the group in the snapshot; NODES_NONE: unusable
    double weight;           // of a node, in the unit of the policy
    struct nodes_share *mix; // of its pods
    size_t n_mix;
    // By slot: the share of a node of this group that one pod needs at least; INFINITY: it fits on
    // no node of the group.
    double *alternatives;
};

#define NODES_UNITS 3 // GPUs, cores, GiB

struct nodes_contest {
    struct nodes_snapshot *s;
    const struct nodes_choice_settings *settings;
    struct nodes_decision *d;
    struct nodes_bid *bids; // one for each option
    size_t *pending;        // by form: pods that the decision is for
    uint32_t *slots;        // by form: a number of the forms with pending pods
    size_t *slot_forms, n_slots;
    double *best;              // by slot: the lowest alternative of all groups
    double units[NODES_UNITS]; // the value of a GPU, a core and a GiB, in the unit of the policy
    double cheapest_gpu;       // the lowest price of a GPU with its machine
    double *needs;             // by slot: the smallest share of a node, if it is full of such pods
    bool any_price, all_priced;
    int64_t slowest_ms;
};

// The weight of nodes without a price is this many times their size: they are the last choice.
#define NODES_NO_PRICE 1e9

void nodes_contest_init(struct nodes_contest *c, struct nodes_snapshot *s, size_t n,
                        const struct nodes_choice_settings *settings, struct nodes_decision *ret);
void nodes_contest_finish(struct nodes_contest *c);
// The weights of the nodes and the alternatives of each form. After the nodes are known.
void nodes_contest_weigh(struct nodes_contest *c);
// Whether other groups serve these pods better than a node of this group.
bool nodes_contest_outbid(const struct nodes_contest *c, size_t bid, const struct nodes_share *mix,
                          size_t n_mix);
// How many pods have each form; *ret belongs to the caller. Returns its length.
size_t nodes_count_forms(const struct nodes_snapshot *s, const size_t *pods, size_t n,
                         struct nodes_share **ret);
// Finds the units of values (value.c). x: amounts of nodes, divided by their prices.
void nodes_contest_value(struct nodes_contest *c);
double nodes_form_value(const struct nodes_contest *c, size_t form);
void nodes_fit_units(const double (*x)[NODES_UNITS], size_t n, double ret[NODES_UNITS]);
// Scores, the choice and the texts.
void nodes_contest_judge(struct nodes_contest *c);
void nodes_contest_explain(struct nodes_contest *c);
json_t *nodes_group_node(const struct nodes_group *g,
                         const struct nodes_choice_settings *settings); // new reference
int64_t nodes_group_startup_ms(const struct nodes_group *g);
