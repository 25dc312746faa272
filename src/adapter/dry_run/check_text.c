// SPDX-License-Identifier: Apache-2.0
// Checks a rule and derives its metrics without its series.
#include "adapter/dry_run/dry_run_private.h"

#include "adapter/provider/provider.h"
#include "adapter/provider/rest_mapper.h"
#include "base/mem.h"

#include <stdio.h>

void dry_run_report_broken(struct dry_run_rule_check *k, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    printf("  BROKEN  %s\n", text);
    k->broken = true;
}

void dry_run_report_fix(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    printf("  fix     %s\n", text);
}

// --- faults ---

static void check_form(struct dry_run_rule_check *k)
{
    const struct adapter_config_rule *r = k->rule;
    bool one_value = r->external && !r->resources.namespaced; // a query for all requests
    if (!*r->query_text)
        dry_run_report_broken(k, "the rule has no metricsQuery: every request fails");
    else if (!one_value && !strstr(r->query_text, ".LabelMatchers") &&
             !strstr(r->query_text, "LabelValuesByName"))
        dry_run_report_doubt(k,
                             "metricsQuery does not use <<.LabelMatchers>>: series of all objects "
                             "are read for each request, and selectors have no effect");
    if (*r->query_text && !r->external && !strstr(r->query_text, ".GroupBy") &&
        r->resources.label_template)
        dry_run_report_doubt(k,
                             "metricsQuery does not use <<.GroupBy>>: an aggregation may drop the "
                             "label that names the object");
    if (!r->external && !r->resources.label_template && !r->resources.n_overrides) {
        dry_run_report_broken(k, "the rule maps its series to no resource");
        dry_run_report_fix("add resources.template (\"<<.Resource>>\") or resources.overrides");
    }
}

// --- resources of overrides ---

// Groups of custom resources contain a dot; groups without a dot are built in. A resource without a
// group, or in another group, may be a custom resource: only a cluster can decide.
static bool may_be_custom(const struct dry_run_rule_check *k,
                          const struct adapter_config_override *o)
{
    return !k->dry_run->cluster.client && strchr(o->group, '.') && !gs_ends(o->group, ".k8s.io");
}

static void check_overrides(struct dry_run_rule_check *k, const struct adapter_config_resources *r)
{
    for (size_t i = 0; i < r->n_overrides; i++) {
        const struct adapter_config_override *o = &r->overrides[i];
        GS_AUTO_FREE char *wrong = provider_override_wrong(o, k->dry_run->mapper);
        if (!wrong)
            continue;
        if (may_be_custom(k, o)) {
            dry_run_report_doubt(
                k,
                "%s: Kubernetes itself has no %s.%s; --kubeconfig looks it up in a "
                "cluster",
                o->place, o->resource, o->group);
            continue;
        }
        dry_run_report_broken(k, "%s: %s", o->place, wrong);
        if (!k->dry_run->cluster.client && !*o->group)
            dry_run_report_fix(
                "write a resource of Kubernetes, such as pod; --kubeconfig looks up custom ones");
    }
}

// --- the whole ---

static void print_fault(void *arg, const struct adapter_config_fault *f)
{
    dry_run_report_broken(arg, "%s: %s", f->place, f->text);
    if (f->fix)
        dry_run_report_fix("%s", f->fix);
}

// Caller frees. NULL: the source does not know it, or does not serve metadata.
static char *type_of(const struct dry_run_rule_check *k, struct gs_slice series)
{
    char *type = NULL;
    GS_AUTO_FREE char *name = gs_slice_dup(series);
    gs_error_free(series.len ? dry_run_type(k->dry_run, k->rule->source, name, &type) : NULL);
    return type;
}

void dry_run_check_counter(struct dry_run_rule_check *k, struct gs_slice series)
{
    GS_AUTO_FREE char *type = k->dry_run->source ? type_of(k, series) : NULL;
    GS_AUTO_FREE char *counter = adapter_config_raw_counter(k->rule, series, type);
    if (!counter)
        return;
    dry_run_report_doubt(
        k,
        "%s is a counter, and metricsQuery reads it without rate(): the value only "
        "grows, so an autoscaler goes to its maximum",
        counter);
    dry_run_report_fix("rate(<<.Series>>{<<.LabelMatchers>>}[2m])");
}

void dry_run_check_text(struct dry_run_rule_check *k)
{
    GS_AUTO_BUF struct gs_buf series = {0};
    check_form(k);
    adapter_config_rule_faults(k->rule, print_fault, k);
    check_overrides(k, &k->rule->resources);
    dry_run_check_resources(k);
    (void)adapter_config_rule_own_series(k->rule, &series);
    if (series.len || !k->dry_run->source)
        dry_run_check_counter(k, gs_buf_slice(&series));
}

// --- resource rules ---

static void check_usage_labels(struct dry_run_rule_check *k,
                               const struct adapter_config_resources *r)
{
    static const char *const kinds[] = {"namespaces", "pods", "nodes"};
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
        GS_AUTO_BUF struct gs_buf label = {0};
        const struct provider_rest_mapping *m =
            provider_rest_mapper_find_text(k->dry_run->mapper, kinds[i]);
        if (m && provider_query_label_for(r, k->dry_run->mapper, m, &label))
            continue;
        dry_run_report_broken(k, "no label is mapped to %s", kinds[i]);
        dry_run_report_fix("add it to resources.overrides, as in `pod: {resource: pod}`");
    }
}

static void check_usage(struct dry_run_rule_check *k, const char *name,
                        const struct adapter_config_resource_rule *r)
{
    printf("\nresourceRules.%s\n", name);
    const char *texts[] = {r->container_text, r->node_text, r->container_label};
    static const char *const keys[] = {"containerQuery", "nodeQuery", "containerLabel"};
    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++)
        if (!texts[i] || !*texts[i])
            dry_run_report_broken(k, "it has no %s: %s", keys[i],
                                  i == 1 ? "nodes have no metrics" : "pods have no metrics");
    check_overrides(k, &r->resources);
    check_usage_labels(k, &r->resources);
}

size_t dry_run_check_resource_rules(struct dry_run *dry_run, const struct dry_run_check_options *o,
                                    const struct adapter_config_resource_rules *r)
{
    struct dry_run_rule_check cpu = {.dry_run = dry_run}, memory = {.dry_run = dry_run};
    if (!r->present)
        return 0;
    check_usage(&cpu, "cpu", &r->cpu);
    check_usage(&memory, "memory", &r->memory);
    return (size_t)(cpu.broken || (o->strict && cpu.doubtful)) +
           (size_t)(memory.broken || (o->strict && memory.doubtful));
}
