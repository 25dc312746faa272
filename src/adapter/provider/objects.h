// SPDX-License-Identifier: Apache-2.0
// Names of the cluster's objects that a selector picks. Only metadata is asked for, from the API
// server's own cache; equal lists are asked for once at a time and shared for a moment.
#pragma once

#include "kube/client.h"

struct provider_objects;
struct provider_objects *provider_objects_new(struct kube_client *kube, int64_t max_age_ms);
void provider_objects_free(struct provider_objects *o);

struct provider_object_detail {
    char *owner_kind, *owner_name; // of the controller; NULL: none
    json_t *labels;                // NULL: none
};

// Sorted; immutable, counted.
struct provider_object_names {
    unsigned refs; // private
    char **items;
    struct provider_object_detail *details; // of each; NULL: not asked for
    size_t n;
    int64_t until_ns; // gs_mono_ns() up to which others that ask are given it; 0: nobody is
};
struct provider_object_names *provider_object_names_ref(struct provider_object_names *n);
void provider_object_names_unref(struct provider_object_names *n);

typedef void (*provider_objects_fn)(void *arg, struct provider_object_names *names,
                                    struct gs_error *err);
struct provider_objects_op;
// ns NULL: all; selector NULL: all. cb may be called from inside, and then NULL is returned.
struct provider_objects_op *provider_objects_list(struct provider_objects *o, struct kube_gvr r,
                                                  const char *ns, const char *selector,
                                                  bool details, provider_objects_fn cb, void *arg);
void provider_objects_cancel(struct provider_objects_op *op); // NULL is fine
