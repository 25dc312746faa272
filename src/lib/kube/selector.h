// SPDX-License-Identifier: Apache-2.0
// Label selectors ("app=x,tier in (a,b),!c", and LabelSelector objects) and field selectors
// ("metadata.name=x,status.phase!=Running"). Requirements are sorted by key, values are sorted and
// unique, as Kubernetes prints them. Keys and values are checked; error texts are Kubernetes'.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "codec/json.h"

enum kube_selector_op {
    KUBE_SEL_EQ, // also == ; one value
    KUBE_SEL_NEQ,
    KUBE_SEL_IN,
    KUBE_SEL_NOTIN,
    KUBE_SEL_EXISTS,
    KUBE_SEL_NOT_EXISTS,
    KUBE_SEL_GT, // one value, an integer; as KUBE_SEL_LT only in text selectors
    KUBE_SEL_LT,
};

struct kube_requirement {
    char *key;
    enum kube_selector_op op;
    char **values;
    size_t n_values;
};

struct kube_selector {
    struct kube_requirement *items;
    size_t len, cap;
    bool nothing; // from an absent LabelSelector: matches no labels
};

struct gs_error *kube_selector_parse(const char *text, struct kube_selector *ret); // NULL, "": all
// A metav1.LabelSelector. NULL matches nothing by Kubernetes' rule; {} matches everything.
struct gs_error *kube_selector_from_json(const json_t *label_selector, struct kube_selector *ret);
// Converts a map of labels and values (spec.selector of a Service).
void kube_selector_from_map(const json_t *map, struct kube_selector *ret);
// spec.selector of an object that owns pods: a map in Services and ReplicationControllers,
// otherwise a LabelSelector.
struct gs_error *kube_selector_of(const json_t *owner, struct kube_selector *ret);
void kube_selector_finish(struct kube_selector *s);
bool kube_selector_matches(const struct kube_selector *s,
                           const json_t *labels);                             // labels may be NULL
void kube_selector_format(const struct kube_selector *s, struct gs_buf *out); // "a=b,c in (d,e)"
// Parses a field selector. Keys are dotted paths; only EQ and NEQ are allowed.
struct gs_error *kube_field_selector_parse(const char *text, struct kube_selector *ret);
bool kube_field_selector_matches(const struct kube_selector *s, const json_t *obj);
