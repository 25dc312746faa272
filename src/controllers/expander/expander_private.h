// SPDX-License-Identifier: Apache-2.0
// Shared by the files of this module. A request passes through request.c (bytes), judge.c (options
// and choice) and record.c (log, metrics, JSON).
#pragma once

#include "base/arena.h"
#include "codec/json.h"
#include "expander/expander.h"
#include "kube/client.h"
#include "nodes/choice.h"
#include "nodes/pool.h"

#include <stdbool.h>
#include <stdint.h>

// --- request.c: grpcplugin.BestOptionsRequest ---

// Limits. A request beyond them is answered with all its options.
enum {
    EXPANDER_MAX_OPTIONS = 10000,
    EXPANDER_MAX_PODS = 50000,         // different ones
    EXPANDER_MAX_REFERENCES = 5000000, // from options to pods
    EXPANDER_MAX_GROUP = 1024,         // bytes of a node group's ID
};

// The Cluster Autoscaler's releases: up to 1.33 objects are messages, from 1.35 they are bytes,
// and 1.34 sends both.
enum expander_form { EXPANDER_FORM_OLD = 1, EXPANDER_FORM_NEW = 2, EXPANDER_FORM_BOTH = 3 };

struct expander_request_option {
    struct gs_slice group; // ID of the node group; borrowed from the request
    int64_t nodes;
    struct gs_slice node; // message of the template; empty: none
    size_t *pods;         // indexes into the request's pods
    size_t n_pods;
};

struct expander_request {
    struct expander_request_option *options;
    size_t n_options;
    struct gs_slice *pods; // messages; equal ones are one
    size_t n_pods;
    enum expander_form form;
    struct gs_arena arena;
};

// Everything is borrowed from the message. GS_EPROTO: malformed. GS_ELIMIT.
struct gs_error *expander_request_read(struct gs_slice message, struct expander_request *ret);
void expander_request_finish(struct expander_request *r);
// Only the options' IDs and numbers of nodes, for requests that are too large.
struct gs_error *expander_request_read_groups(struct gs_slice message,
                                              struct expander_request *ret);

void expander_answer_add(struct gs_buf *out, const struct expander_request_option *o);

// --- record.c ---

enum expander_result {
    EXPANDER_CHOSEN = 1,
    EXPANDER_ALL,     // all options are returned because of a problem
    EXPANDER_REFUSED, // the request cannot be read: the Cluster Autoscaler keeps all options
};
enum { EXPANDER_N_BUCKETS = 9 };

struct expander_record;
struct expander_record *expander_record_new(size_t kept);
void expander_record_free(struct expander_record *r); // accepts NULL
// decision: NULL if none was made. described: owned by the callee; NULL: only counted.
void expander_record_add(struct expander_record *r, enum expander_result result,
                         const struct nodes_decision *decision, json_t *described, int64_t took_ns);
// {"items": […]}, the newest first; new reference.
json_t *expander_record_json(const struct expander_record *r, size_t limit);
void expander_record_metrics(const struct expander_record *r, struct gs_buf *out);

// --- pools.c ---

// The pool of a node group: its name is the group's ID, the last part of the ID's path, or the
// value of the label with which a platform names its node pools; or it has the instance type of the
// template. NULL: none.
const struct nodes_pool *expander_pool_of(const struct nodes_pools *pools, struct gs_slice group,
                                          const json_t *node);

// --- judge.c: the decision, without sockets ---

struct expander_cluster;

struct expander {
    enum nodes_policy policy;
    const struct nodes_pools *pools;  // borrowed
    struct expander_cluster *cluster; // borrowed; NULL: none
    struct expander_record *record;   // borrowed
};

// Appends the answer to a request. Every problem but an unreadable request leads to an answer with
// all options. EXPANDER_REFUSED: *ret_why is the problem; caller frees.
enum expander_result expander_answer(struct expander *e, struct gs_slice request,
                                     struct gs_buf *out, char **ret_why);

// --- certificate.c ---

// The serving certificate, and where it comes from.
struct expander_certificate {
    char *cert_file, *key_file; // NULL: the texts are set
    char *cert_pem, *key_pem;
};
void expander_certificate_finish(struct expander_certificate *c); // wipes the key

// Finds or makes the certificate of the options. A certificate made here has its CA in
// DIR/ca.crt, or in the key ca.crt of the Secret.
struct gs_error *expander_certificate_load(const struct expander_options *o,
                                           struct expander_certificate *ret);

// --- start_times.c: what the Kubernetes API knows about node groups ---

// Learns from nodes how long machines take until they are ready and their GPUs are allocatable, and
// from events of the Cluster Autoscaler which node groups failed. client: borrowed. keep_templates:
// the template nodes of requests, for expander_cluster_next().
struct expander_cluster *expander_cluster_new(uv_loop_t *loop, struct kube_client *client,
                                              bool keep_templates);
void expander_cluster_free(struct expander_cluster *c); // accepts NULL
// Sets the learned start-up time and the failures of a group.
void expander_cluster_describe(struct expander_cluster *c, struct nodes_group *group);
// The cache of all nodes, without what this module does not read; borrowed.
struct kube_cache *expander_cluster_nodes(struct expander_cluster *c);

// A node group of requests or events. Borrowed until the next request or event.
struct expander_known_group {
    struct gs_slice id;
    const char *pool;       // in the labels of its nodes; NULL: not known
    const json_t *template; // labels, taints and amounts of its template node; NULL: not known
    struct nodes_backoff backoff;
};
// *pos starts at 0; false: no further group.
bool expander_cluster_next(struct expander_cluster *c, size_t *pos,
                           struct expander_known_group *ret);

// --- groups.c: the pools of the cluster ---

// Pools by the labels of nodes, with sizes and limits, as early cordon needs them.
struct expander_groups {
    struct nodes_group *items; // the names are values of labels
    size_t len, cap;
};
// pools may be NULL. status: the ConfigMap with the Cluster Autoscaler's status; NULL: none.
// Borrows the pools until the end.
void expander_groups_init(struct expander_groups *g, const struct nodes_pools *pools,
                          struct expander_cluster *cluster, const json_t *status);
void expander_groups_finish(struct expander_groups *g);
// Whether the Cluster Autoscaler is about to delete the node.
bool expander_is_leaving(const json_t *node);

// --- cordon.c: early cordon (nodes/packing.h) in a cluster with the Cluster Autoscaler ---

struct expander_cordons;
struct expander_cordons_config {
    bool enabled; // false: ends the cordons of a previous process
    const char *lease_ns, *lease_name;
    enum nodes_policy policy;
    const struct nodes_pools *pools;  // borrowed; NULL: none
    struct expander_cluster *cluster; // borrowed
};
// client: borrowed.
struct expander_cordons *expander_cordons_new(uv_loop_t *loop, struct kube_client *client,
                                              const struct expander_cordons_config *cfg);
// The series gpuscale_expander_early_cordon…; none if it is not enabled. c may be NULL.
void expander_cordons_metrics(const struct expander_cordons *c, struct gs_buf *out);
// Cordons stay: the next leader goes on. Accepts NULL.
void expander_cordons_free(struct expander_cordons *c);
