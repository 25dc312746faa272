// SPDX-License-Identifier: Apache-2.0
// Names of the cluster's objects that a selector picks. Only metadata is asked for, from the API
// server's own cache; equal lists are asked for once at a time and shared for a moment.
#pragma once

#include "kube/client.h"

struct objects;
struct objects *objects_new(struct kube_client *kube, int64_t max_age_ms);
void objects_free(struct objects *o);

struct object_detail {
    char *owner_kind, *owner_name; // of the controller; NULL: none
    json_t *labels;                // NULL: none
};

// Sorted; immutable, counted.
struct object_names {
    unsigned refs; // private
    char **items;
    struct object_detail *details; // of each; NULL: not asked for
    size_t n;
    int64_t until_ns; // gs_mono_ns() up to which others that ask are given it; 0: nobody is
};
struct object_names *object_names_ref(struct object_names *n);
void object_names_unref(struct object_names *n);

typedef void (*objects_fn)(void *arg, struct object_names *names, struct gs_error *err);
struct objects_op;
// ns NULL: all; selector NULL: all. cb may be called from inside, and then NULL is returned.
struct objects_op *objects_list(struct objects *o, struct kube_gvr r, const char *ns,
                                const char *selector, bool details, objects_fn cb, void *arg);
void objects_cancel(struct objects_op *op); // NULL is fine
