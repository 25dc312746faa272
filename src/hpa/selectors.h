// SPDX-License-Identifier: Apache-2.0
// The pod selectors of all HPAs as last seen in their targets' scales: pods that two of them govern
// are a mistake that must not scale anything.
#pragma once

#include "kube/cache.h"
#include "kube/selector.h"

struct hpa_selectors;

struct hpa_selectors *hpa_selectors_new(void);
void hpa_selectors_free(struct hpa_selectors *s);
// key "ns/name" of the HPA. Fails when the text is not a selector, which then is forgotten.
struct gs_error *hpa_selectors_put(struct hpa_selectors *s, const char *key, const char *text);
void hpa_selectors_remove(struct hpa_selectors *s, const char *key);
// NULL when the key has none. Valid until the next put or remove of the key.
const struct kube_selector *hpa_selectors_get(const struct hpa_selectors *s, const char *key);
// The HPAs of the namespace that select any of the pods which `key` selects, as "[ns/a ns/b]"; NULL
// when it is alone. Caller frees.
char *hpa_selectors_conflict(const struct hpa_selectors *s, const char *key, const char *ns,
                             const struct kube_cache *pods);
