// SPDX-License-Identifier: Apache-2.0
// Which metrics there are: the series that each rule finds, asked for again and again, named and
// given to resources. A rule whose question fails keeps what it found last and says so.
#pragma once

#include "adapter/config/config.h"
#include "adapter/provider/rest_mapper.h"
#include "adapter/source/source.h"

struct provider_registry;

struct provider_registry_metric {
    const struct adapter_config_rule *rule;
    struct gs_slice series;
    // Of custom metrics; NULL for external ones.
    const char *group, *resource; // normalised: "apps", "deployments"
    bool namespaced;
    struct gs_slice name;
    size_t order; // private
};

struct provider_registry_options {
    const struct adapter_config *config; // borrowed, as all below
    struct source *source;
    struct source *const *others; // as many as the configuration has
    const struct provider_rest_mapper *mapper;
    int64_t relist_ms, max_age_ms; // max_age 0: as relist. Sooner while nothing at all was found
    void (*on_round)(void *arg);   // a round of questions is over; may be NULL
    void *arg;
};

struct provider_registry *provider_registry_new(uv_loop_t *loop,
                                                const struct provider_registry_options *o);
void provider_registry_free(struct provider_registry *r);
void provider_registry_relist(struct provider_registry *r); // now
void provider_registry_stop(
    struct provider_registry *r); // what is known stays, nothing is asked any more
// The mapper knows other resources: names are given again from the series that are there.
void provider_registry_rebuild(struct provider_registry *r);

// NULL: no such metric for this resource.
const struct provider_registry_metric *
provider_registry_find(const struct provider_registry *r,
                       const struct provider_rest_mapping *resource, bool namespaced,
                       const char *metric);
const struct provider_registry_metric *
provider_registry_find_external(const struct provider_registry *r, const char *metric);
// Resources that the metric is known for, as "pods, namespaces"; "" for none. Caller frees.
char *provider_registry_resources_of(const struct provider_registry *r, const char *metric);
// In order of name and resource; NULL behind the last one.
const struct provider_registry_metric *provider_registry_nth(const struct provider_registry *r,
                                                             bool external, size_t i);

// How a rule's discovery went.
struct provider_registry_rule_state {
    const struct adapter_config_rule *rule;
    int64_t last_ok_ms;                 // Unix time; 0: never
    const char *error;                  // of the last question; NULL: good
    const struct source_shapes *shapes; // of the last good one; NULL: none yet
    size_t metrics;                     // that the rule serves
};
size_t provider_registry_rules(const struct provider_registry *r);
void provider_registry_rule(const struct provider_registry *r, size_t i,
                            struct provider_registry_rule_state *ret);
bool provider_registry_found(const struct provider_registry *r); // a rule has series
bool provider_registry_complete(
    const struct provider_registry *r); // each rule was answered at least once
int64_t provider_registry_rounds(const struct provider_registry *r);
