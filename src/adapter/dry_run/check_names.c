// SPDX-License-Identifier: Apache-2.0
// Names and resources of the metrics of a rule: two rules for one metric, labels that are no
// objects.
#include "adapter/dry_run/dry_run_private.h"

#include "adapter/provider/provider.h"
#include "base/hmap.h"
#include "base/mem.h"

#include <stdio.h>

#define NAMESPACES "namespaces"

void dry_run_report_doubt(struct dry_run_rule_check *k, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    printf("  doubt   %s\n", text);
    k->doubtful = true;
}

// --- one metric of two rules ---

void dry_run_claim_name(struct dry_run_rule_check *k, const char *name,
                        const struct provider_rest_mapping *resource)
{
    struct gs_hmap **all = &k->dry_run->metrics;
    // Requests name a namespace as another resource, so the objects in it are compared alone.
    if (resource && gs_streq(resource->resource, NAMESPACES))
        return;
    GS_AUTO_FREE char *key =
        gs_format("%s %s %s.%s", k->rule->external ? "external" : "custom", name,
                  resource ? resource->resource : "", resource ? resource->group : "");
    if (!*all)
        *all = gs_hmap_new(NULL);
    const struct adapter_config_rule *other = gs_hmap_get_str(*all, key);
    if (other && other != k->rule)
        dry_run_report_doubt(
            k,
            "%s gives the metric %s%s%s, too: only the last rule serves it; rename "
            "one of them with name.as",
            other->place, name, resource ? " for " : "", resource ? resource->resource : "");
    gs_hmap_put_str(*all, key, (void *)(uintptr_t)k->rule);
}

// --- resources of labels ---

static const struct provider_rest_mapping *resource_of(const struct dry_run_rule_check *k,
                                                       struct gs_slice label)
{
    struct gs_slice group, resource;
    return adapter_config_label_resource(&k->rule->resources, label, &group, &resource)
               ? provider_rest_mapper_find(k->dry_run->mapper, group, resource)
               : NULL;
}

static bool is_job(const struct provider_rest_mapping *m)
{
    return gs_streq(m->resource, "jobs") && gs_streq(m->group, "batch");
}

// only: no other label names an object.
static void report_job_label(struct dry_run_rule_check *k, bool only)
{
    dry_run_report_doubt(k,
                         "%sthe label job names a resource, and it has the name of a scrape job of "
                         "Prometheus, which is no Job of Kubernetes",
                         only ? "of the labels that each series has, only " : "");
    dry_run_report_fix("map a label with the name of the object, as in `pod: {resource: pod}`");
}

// "pod: {resource: deployment}"
static void check_label_of_override(struct dry_run_rule_check *k,
                                    const struct adapter_config_override *o)
{
    const struct provider_rest_mapping *mapped = resource_of(k, gs_slice_of(o->label));
    const struct provider_rest_mapping *named =
        provider_rest_mapper_find(k->dry_run->mapper, GS_SLICE(""), gs_slice_of(o->label));
    if (!mapped)
        return;
    if (is_job(mapped) && gs_streq(o->label, "job"))
        report_job_label(k, false);
    else if (named && named != mapped && gs_streq(o->label, named->singular))
        dry_run_report_doubt(k, "%s: the label %s is mapped to %s, not to %s", o->place, o->label,
                             mapped->resource, named->resource);
}

// The API of an object in a namespace needs the label of its namespace.
static void check_namespace(struct dry_run_rule_check *k)
{
    const struct adapter_config_resources *r = &k->rule->resources;
    const struct provider_rest_mapping *namespaces =
        provider_rest_mapper_find_text(k->dry_run->mapper, NAMESPACES);
    GS_AUTO_BUF struct gs_buf label = {0};
    if (!namespaces || provider_query_label_for(r, k->dry_run->mapper, namespaces, &label))
        return;
    if (k->rule->external) {
        if (!r->namespaced)
            return;
        dry_run_report_broken(k, "the rule maps no label to namespaces: every request fails");
        dry_run_report_fix("map the label of the namespace, or set resources.namespaced: false");
        return;
    }
    for (size_t i = 0; i < r->n_overrides; i++) {
        const struct provider_rest_mapping *m = resource_of(k, gs_slice_of(r->overrides[i].label));
        if (!m || provider_rest_mapper_is_root(m))
            continue;
        dry_run_report_broken(
            k,
            "%s: %s are in a namespace, and the rule maps no label to namespaces: every request "
            "fails",
            r->overrides[i].place, m->resource);
        dry_run_report_fix(
            "add it to resources.overrides, as in `namespace: {resource: namespace}`");
        return;
    }
}

void dry_run_check_resources(struct dry_run_rule_check *k)
{
    for (size_t i = 0; i < k->rule->resources.n_overrides; i++)
        check_label_of_override(k, &k->rule->resources.overrides[i]);
    check_namespace(k);
}

void dry_run_check_job_label(struct dry_run_rule_check *k, const struct gs_slice *labels, size_t n)
{
    bool jobs = false;
    if (k->rule->external || k->rule->resources.n_overrides)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct provider_rest_mapping *m = resource_of(k, labels[i]);
        if (m && !is_job(m))
            return;
        jobs = jobs || m;
    }
    if (jobs)
        report_job_label(k, true);
}

// --- names and resources ---

static void add_resource(struct dry_run_rule_check *k, const char *name, const char *label,
                         struct gs_buf *list)
{
    const struct provider_rest_mapping *m = resource_of(k, gs_slice_of(label));
    if (!m)
        return;
    gs_buf_addf(list, "%s%s%s%s", list->len ? ", " : "", m->resource, *m->group ? "." : "",
                m->group);
    dry_run_claim_name(k, name, m);
}

// The resources of overrides and of labels that seriesQuery requires.
static void list_own_resources(struct dry_run_rule_check *k, const char *name, struct gs_buf *list)
{
    const struct adapter_config_resources *r = &k->rule->resources;
    for (size_t i = 0; i < r->n_overrides; i++)
        add_resource(k, name, r->overrides[i].label, list);
    for (size_t i = 0;; i++) {
        GS_AUTO_BUF struct gs_buf label = {0};
        bool overridden = false;
        if (!adapter_config_rule_own_label(k->rule, i, &label))
            return;
        for (size_t n = 0; n < r->n_overrides; n++)
            overridden = overridden || gs_streq(r->overrides[n].label, label.data);
        if (!overridden)
            add_resource(k, name, label.data, list);
    }
}

// Without labels in seriesQuery, the label job is the only one that every series has.
static void check_job_of_template(struct dry_run_rule_check *k)
{
    const struct gs_slice job = GS_SLICE("job");
    dry_run_check_job_label(k, &job, 1);
}

void dry_run_show_own_name(struct dry_run_rule_check *k)
{
    GS_AUTO_BUF struct gs_buf name = {0}, list = {0};
    if (!adapter_config_rule_own_name(k->rule, &name))
        return;
    if (k->rule->external)
        dry_run_claim_name(k, name.data, NULL);
    else
        list_own_resources(k, name.data, &list);
    if (!k->rule->external && !list.len)
        check_job_of_template(k);
    if (k->rule->external)
        printf("  name    %s, by the rule alone\n", name.data);
    else if (list.len)
        printf("  name    %s for %s, by the rule alone\n", name.data, list.data);
    else
        printf(
            "  name    %s, by the rule alone; its resources depend on the labels of the series\n",
            name.data);
}
