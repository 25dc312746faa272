// SPDX-License-Identifier: Apache-2.0
// Shared by the files of src/adapter/dry_run only.
#pragma once

#include "adapter/config/config.h"
#include "adapter/dry_run/dry_run.h"
#include "adapter/provider/rest_mapper.h"
#include "adapter/sources.h"
#include "kube/connection.h"

// --- dry_run.c: a source that is queried one query at a time ---

struct dry_run {
    uv_loop_t loop;
    struct source *source;         // NULL: none
    struct source **extra_sources; // extra sources of the configuration; NULL without a source
    size_t n_extra;
    struct provider_rest_mapper *mapper;
    struct kube_connection cluster;
    struct gs_hmap *metrics; // API, name and resource of a metric -> the rule that has it
};

// url NULL: no source. kubeconfig NULL: no cluster, only built-in resources. c: the configuration
// whose extra sources are opened.
struct gs_error *dry_run_open(const char *url, const char *kubeconfig,
                              const struct adapter_config *c, struct dry_run *ret);
void dry_run_close(struct dry_run *l);
// Block until the response arrives. at: the index of the source (source_pick()).
struct gs_error *dry_run_query(struct dry_run *l, size_t at, const char *promql,
                               struct source_result **ret);
struct gs_error *dry_run_series(struct dry_run *l, size_t at, const char *selector,
                                struct source_shapes **ret);
// *ret: the type of the metric; NULL: unknown. Caller frees.
struct gs_error *dry_run_type(struct dry_run *l, size_t at, const char *metric, char **ret);

// --- check.c ---

struct dry_run_rule_check {
    struct dry_run *dry_run;
    const struct adapter_config_rule *rule;
    bool broken, doubtful;
};

// --- check_names.c: names and resources of metrics ---

void dry_run_report_doubt(struct dry_run_rule_check *k, const char *fmt, ...) GS_PRINTF(2, 3);
// Reports another rule that gives a metric with this name for the resource. resource NULL: an
// external metric.
void dry_run_claim_name(struct dry_run_rule_check *k, const char *name,
                        const struct provider_rest_mapping *resource);
// Reports labels that are no objects of Kubernetes, and namespaced objects without a namespace.
void dry_run_check_resources(struct dry_run_rule_check *k);
// Whether all resources that are found are jobs from the label `job`, which every series has.
// labels: those of the series.
void dry_run_check_job_label(struct dry_run_rule_check *k, const struct gs_slice *labels, size_t n);
// Prints the name and the resources of the metrics that follow from the rule alone.
void dry_run_show_own_name(struct dry_run_rule_check *k);

// --- check_text.c: checks that need no series ---

// Print a line about a rule: the fault, and the fix.
void dry_run_report_broken(struct dry_run_rule_check *k, const char *fmt, ...) GS_PRINTF(2, 3);
void dry_run_report_fix(const char *fmt, ...) GS_PRINTF(1, 2);
void dry_run_check_text(struct dry_run_rule_check *k);
// Reports a counter that the query reads without a rate. series: the metric of the rule, or empty.
void dry_run_check_counter(struct dry_run_rule_check *k, struct gs_slice series);
// Returns how many of the two resource rules are broken.
size_t dry_run_check_resource_rules(struct dry_run *d, const struct dry_run_check_options *o,
                                    const struct adapter_config_resource_rules *r);
