// SPDX-License-Identifier: Apache-2.0
// Which metrics there are: the series that each rule finds, asked for again and again, named and
// given to resources. A rule whose question fails keeps what it found last and says so.
#pragma once

#include "adapter/config/config.h"
#include "adapter/provider/mapper.h"
#include "adapter/source/source.h"

struct registry;

struct registry_metric {
    const struct adapter_rule *rule;
    struct gs_slice series;
    // Of custom metrics; NULL for external ones.
    const char *group, *resource; // normalised: "apps", "deployments"
    bool namespaced;
    struct gs_slice name;
    size_t order; // private
};

struct registry_options {
    const struct adapter_config *config; // borrowed, as all below
    struct source *source;
    struct source *const *others; // as many as the configuration has
    const struct mapper *mapper;
    int64_t relist_ms, max_age_ms; // max_age 0: as relist. Sooner while nothing at all was found
    void (*on_round)(void *arg);   // a round of questions is over; may be NULL
    void *arg;
};

struct registry *registry_new(uv_loop_t *loop, const struct registry_options *o);
void registry_free(struct registry *r);
void registry_relist(struct registry *r); // now
void registry_stop(struct registry *r);   // what is known stays, nothing is asked any more
// The mapper knows other resources: names are given again from the series that are there.
void registry_rebuild(struct registry *r);

// NULL: no such metric for this resource.
const struct registry_metric *registry_find(const struct registry *r, const struct mapped *resource,
                                            bool namespaced, const char *metric);
const struct registry_metric *registry_find_external(const struct registry *r, const char *metric);
// Resources that the metric is known for, as "pods, namespaces"; "" for none. Caller frees.
char *registry_resources_of(const struct registry *r, const char *metric);
// In order of name and resource; NULL behind the last one.
const struct registry_metric *registry_nth(const struct registry *r, bool external, size_t i);

// How a rule's discovery went.
struct registry_rule_state {
    const struct adapter_rule *rule;
    int64_t last_ok_ms;                 // Unix time; 0: never
    const char *error;                  // of the last question; NULL: good
    const struct source_shapes *shapes; // of the last good one; NULL: none yet
    size_t metrics;                     // that the rule serves
};
size_t registry_rules(const struct registry *r);
void registry_rule(const struct registry *r, size_t i, struct registry_rule_state *ret);
bool registry_found(const struct registry *r);    // a rule has series
bool registry_complete(const struct registry *r); // each rule was answered at least once
int64_t registry_rounds(const struct registry *r);
