// SPDX-License-Identifier: Apache-2.0
// `gpuscale check adapter`: applies each rule of a configuration to the existing series, step by
// step, and prints the cause and the fix at the first step without a result.
#include "adapter/dry_run/dry_run_private.h"
#include "codec/yaml.h"

#include "adapter/provider/provider.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "promql/ast.h"
#include "recognize/recognize.h"

#include <stdio.h>

#define MAX_FILE ((size_t)16 * 1024 * 1024)

enum { MAX_SHOWN = 5 };

// --- labels ---

static bool has_label(const struct source_shapes *s, struct gs_slice name)
{
    for (size_t i = 0; i < s->n; i++)
        for (size_t l = 0; l < s->items[i].n_labels; l++)
            if (gs_slice_eq(s->items[i].labels[l], name))
                return true;
    return false;
}

// Guesses the name of a label in these series: with or without "exported_", or the exporter's names
// for pods and namespaces. Caller frees; NULL: no guess.
static char *other_name(const struct source_shapes *s, struct gs_slice name)
{
    static const char *const kinds[][5] = {
        {"exported_pod", "PodName", "pod", "pod_name", "kubernetes_pod_name"},
        {"exported_namespace", "NamespaceName", "namespace", "pod_namespace",
         "kubernetes_namespace"},
        {"exported_container", "ContainerName", "container", "container_name",
         "kubernetes_container_name"},
        {"NodeName", "exported_node", "node", "Hostname", "kubernetes_node"},
        {"exported_service", "service", "kubernetes_service", "job", "app"},
    };
    for (size_t k = 0; k < GS_ARRAY_LEN(kinds); k++) {
        bool mine = false;
        for (size_t i = 0; i < GS_ARRAY_LEN(kinds[k]); i++)
            mine = mine || gs_slice_eq_str(name, kinds[k][i]);
        for (size_t i = 0; mine && i < GS_ARRAY_LEN(kinds[k]); i++)
            if (!gs_slice_eq_str(name, kinds[k][i]) && has_label(s, gs_slice_of(kinds[k][i])))
                return gs_strdup(kinds[k][i]);
    }
    GS_AUTO_FREE char *exported = gs_format("exported_" GS_SLICE_FMT, GS_SLICE_ARG(name));
    if (has_label(s, gs_slice_of(exported)))
        return GS_TAKE(exported);
    return NULL;
}

static void print_labels(const struct source_shape *s)
{
    printf("  labels  ");
    for (size_t i = 0; i < s->n_labels; i++)
        printf("%s" GS_SLICE_FMT, i ? ", " : "", GS_SLICE_ARG(s->labels[i]));
    printf("\n");
}

// --- no series ---

// Returns the metric of the selector without its matchers. NULL: the selector names no metric.
static char *bare_metric(const struct promql_node *n)
{
    if (n->u.selector.name.len)
        return gs_slice_dup(n->u.selector.name);
    for (size_t i = 0; i < n->u.selector.n_matchers; i++) {
        const struct tsdb_matcher *m = &n->u.selector.matchers[i];
        if (!gs_slice_eq_str(m->name, "__name__") || (m->op != TSDB_EQ && m->op != TSDB_RE))
            continue;
        return gs_format("{__name__%s\"" GS_SLICE_FMT "\"}", m->op == TSDB_EQ ? "=" : "=~",
                         GS_SLICE_ARG(m->value));
    }
    return NULL;
}

static void explain_matchers(const struct promql_node *n, const struct source_shapes *s)
{
    for (size_t i = 0; i < n->u.selector.n_matchers; i++) {
        const struct tsdb_matcher *m = &n->u.selector.matchers[i];
        if (gs_slice_eq_str(m->name, "__name__") || has_label(s, m->name))
            continue;
        bool wants = tsdb_matcher_matches(m, GS_SLICE("")) == false;
        if (!wants)
            continue;
        GS_AUTO_FREE char *other = other_name(s, m->name);
        if (other)
            dry_run_report_fix("the name of the label is `%s`, not `" GS_SLICE_FMT
                               "`: change it in seriesQuery and "
                               "resources",
                               other, GS_SLICE_ARG(m->name));
        else
            dry_run_report_fix("no such series has the label `" GS_SLICE_FMT
                               "`, which seriesQuery wants",
                               GS_SLICE_ARG(m->name));
    }
    if (s->n)
        print_labels(&s->items[0]);
}

static void explain_no_series(struct dry_run_rule_check *k)
{
    struct promql_expr *x = NULL;
    struct source_shapes *s = NULL;
    dry_run_show_own_name(k);
    dry_run_report_broken(k, "seriesQuery matches no series of the last hour");
    struct gs_error *err = promql_parse_selector(gs_slice_of(k->rule->series_query), &x);
    if (err) {
        dry_run_report_fix("it is not a series selector: %s", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    const struct promql_node *n = promql_expr_root(x);
    GS_AUTO_FREE char *bare = bare_metric(n);
    err = bare ? dry_run_series(k->dry_run, k->rule->source, bare, &s) : NULL;
    if (s && s->n) {
        printf("  note    %s alone matches %zu series\n", bare, s->series);
        explain_matchers(n, s);
    } else if (bare && !err) {
        dry_run_report_fix("no series has the name %s: is it scraped?", bare);
    }
    gs_error_free(err);
    source_shapes_free(s);
    promql_expr_free(x);
}

// --- one request ---

static struct gs_slice label_value(const struct source_sample *s, struct gs_slice name)
{
    for (size_t i = 0; i < s->n_labels; i++)
        if (gs_slice_eq(s->labels[i].name, name))
            return s->labels[i].value;
    return GS_SLICE("");
}

struct sample_request {
    const struct provider_rest_mapping *resource; // NULL: external
    char *ns, *name;
};

static char *text_of_label(struct dry_run_rule_check *k, const struct source_sample *s,
                           const char *resource)
{
    GS_AUTO_BUF struct gs_buf label = {0};
    const struct provider_rest_mapping *m =
        provider_rest_mapper_find_text(k->dry_run->mapper, resource);
    if (!m || !provider_query_label_for(&k->rule->resources, k->dry_run->mapper, m, &label))
        return NULL;
    struct gs_slice v = label_value(s, gs_buf_slice(&label));
    return v.len ? gs_slice_dup(v) : NULL;
}

static void show_result(struct dry_run_rule_check *k, const struct source_result *r,
                        struct gs_slice label, const struct sample_request *q)
{
    char text[GS_DOUBLE_SIZE];
    bool vector = r->type == SOURCE_VECTOR;
    printf("  result  %zu %s\n", r->n, vector ? "samples" : "values, no instant vector");
    if (!vector && !(k->rule->external && r->type == SOURCE_SCALAR)) {
        dry_run_report_broken(k, "the result must be an instant vector");
        dry_run_report_fix(
            "a range such as [5m] needs a function around it: rate, avg_over_time …");
        return;
    }
    if (k->rule->external || r->n == 0) {
        if (r->n == 0)
            dry_run_report_broken(k, "the query gives nothing for this object");
        return;
    }
    for (size_t i = 0; i < r->n; i++)
        if (gs_slice_eq_str(label_value(&r->samples[i], label), q->name)) {
            printf("  value   %s of %s\n", gs_format_double(r->samples[i].value, text), q->name);
            return;
        }
    dry_run_report_broken(k, "no sample of the result has %.*s=\"%s\"", GS_SLICE_ARG(label),
                          q->name);
    dry_run_report_fix(
        "the query drops the label that names the object: aggregate by (<<.GroupBy>>)");
}

static void try_query(struct dry_run_rule_check *k, struct gs_slice series,
                      const struct sample_request *q)
{
    GS_AUTO_BUF struct gs_buf query = {0}, label = {0};
    const char *names[] = {q->name};
    const struct provider_query_request rq = {
        .mapper = k->dry_run->mapper,
        .resources = &k->rule->resources,
        .template_ = k->rule->query,
        .series = series,
        .ns = k->rule->external && !k->rule->resources.namespaced ? NULL : q->ns,
        .resource = q->resource,
        .names = names,
        .n_names = 1,
    };
    struct gs_error *err = provider_query_build(&rq, &query, &label);
    if (err) {
        dry_run_report_broken(k, "the query of a request cannot be built: %s",
                              gs_error_message(err));
        if (strstr(gs_error_message(err), "namespaces"))
            dry_run_report_fix("add the label of the namespace to resources.overrides%s",
                               k->rule->external ? ", or namespaced: false" : "");
        gs_error_free(err);
        return;
    }
    printf("  query   %s\n", query.data);
    struct source_result *r = NULL;
    err = dry_run_query(k->dry_run, k->rule->source, query.data, &r);
    if (err) {
        dry_run_report_broken(k, "%s", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    show_result(k, r, gs_buf_slice(&label), q);
    source_result_unref(r);
}

// Takes the object's name from a current sample of the series.
static void try_request(struct dry_run_rule_check *k, struct gs_slice series,
                        const struct provider_rest_mapping *resource)
{
    struct source_result *r = NULL;
    struct gs_error *err = dry_run_query(k->dry_run, k->rule->source, k->rule->series_query, &r);
    const struct source_sample *s = NULL;
    for (size_t i = 0; r && i < r->n && !s; i++)
        if (gs_slice_eq(label_value(&r->samples[i], GS_SLICE("__name__")), series))
            s = &r->samples[i];
    if (err || !s) {
        dry_run_report_broken(k, "the series has no sample now%s%s", err ? ": " : "",
                              err ? gs_error_message(err) : "");
        gs_error_free(err);
        source_result_unref(r);
        return;
    }
    struct sample_request q = {.resource = resource,
                               .ns = text_of_label(k, s, "namespaces"),
                               .name = resource ? text_of_label(k, s, resource->resource) : NULL};
    bool root = resource && provider_rest_mapper_is_root(resource);
    GS_AUTO_FREE char *own_ns = root ? GS_TAKE(q.ns) : NULL;
    printf("  request %s%s%s%s%s\n", q.ns ? "namespaces/" : "", q.ns ? q.ns : "", q.ns ? "/" : "",
           resource ? resource->resource : "external", "");
    if (resource && !q.name)
        dry_run_report_broken(k, "the series' label of %s is empty", resource->resource);
    else
        try_query(k, series, &q);
    source_result_unref(r);
    free(q.ns);
    free(q.name);
}

// --- names and resources ---

static const struct provider_rest_mapping *first_resource(struct dry_run_rule_check *k,
                                                          const struct source_shape *s,
                                                          const char *name, struct gs_buf *ret_list)
{
    const struct provider_rest_mapping *found = NULL;
    for (size_t i = 0; i < s->n_labels; i++) {
        struct gs_slice group, resource;
        if (!adapter_config_label_resource(&k->rule->resources, s->labels[i], &group, &resource))
            continue;
        const struct provider_rest_mapping *m =
            provider_rest_mapper_find(k->dry_run->mapper, group, resource);
        if (!m)
            continue;
        gs_buf_addf(ret_list, "%s%s", ret_list->len ? ", " : "", m->resource);
        dry_run_claim_name(k, name, m);
        // Prefer a namespaced object: its query has more matchers.
        if (!found || provider_rest_mapper_is_root(found))
            found = m;
    }
    return found;
}

static void explain_no_resource(struct dry_run_rule_check *k, const struct source_shapes *all,
                                const struct source_shape *s)
{
    dry_run_report_broken(k, "no label of " GS_SLICE_FMT " names a resource",
                          GS_SLICE_ARG(s->name));
    print_labels(s);
    for (size_t i = 0; i < k->rule->resources.n_overrides; i++) {
        const struct adapter_config_override *o = &k->rule->resources.overrides[i];
        GS_AUTO_FREE char *other = other_name(all, gs_slice_of(o->label));
        if (!has_label(all, gs_slice_of(o->label)) && other)
            dry_run_report_fix("the name of the label is `%s`, not `%s`", other, o->label);
    }
}

// What shows in the series that a request reads.
static void check_metric(struct dry_run_rule_check *k, const struct source_shape *s)
{
    const struct adapter_config_filter *filter;
    GS_AUTO_BUF struct gs_buf name = {0}, own = {0};
    if (adapter_config_rule_name(k->rule, s->name, &name, &filter) && !name.len)
        dry_run_report_broken(k, "the name of the metric is empty for the series " GS_SLICE_FMT,
                              GS_SLICE_ARG(s->name));
    dry_run_check_job_label(k, s->labels, s->n_labels);
    if (!adapter_config_rule_own_series(k->rule, &own))
        dry_run_check_counter(k, s->name);
}

static void check_shapes(struct dry_run_rule_check *k, const struct source_shapes *s)
{
    size_t shown = 0, named = 0;
    const struct source_shape *last = NULL;
    const struct adapter_config_filter *filter = NULL;
    GS_AUTO_BUF struct gs_buf resources = {0};
    const struct provider_rest_mapping *resource = NULL;
    for (size_t i = 0; i < s->n; i++) {
        GS_AUTO_BUF struct gs_buf name = {0};
        if (!adapter_config_rule_name(k->rule, s->items[i].name, &name, &filter))
            continue;
        named++;
        GS_AUTO_BUF struct gs_buf list = {0};
        const struct provider_rest_mapping *m =
            first_resource(k, &s->items[i], name.data ? name.data : "", &list);
        if (shown++ < MAX_SHOWN)
            printf("  name    " GS_SLICE_FMT " -> %s%s%s\n", GS_SLICE_ARG(s->items[i].name),
                   name.data ? name.data : "", k->rule->external ? "" : " for ",
                   k->rule->external ? "" : (list.len ? list.data : "nothing"));
        if (!last || (m && !resource)) {
            last = &s->items[i];
            resource = m;
        }
    }
    if (shown > MAX_SHOWN)
        printf("  name    … and %zu more\n", shown - MAX_SHOWN);
    if (!named) {
        dry_run_report_broken(k, "%s drops all of them, such as " GS_SLICE_FMT,
                              filter ? "a series filter" : "name.matches",
                              GS_SLICE_ARG(s->items[0].name));
        dry_run_report_fix(filter ? "%s: `%s`" : "%s `%s`",
                           filter ? (filter->negate ? "isNot" : "is") : "the expression is",
                           filter ? filter->text : k->rule->matches_text);
    } else if (!k->rule->external && !resource) {
        explain_no_resource(k, s, last);
    } else {
        check_metric(k, last);
        try_request(k, last->name, k->rule->external ? NULL : resource);
    }
}

static void check_source(struct dry_run_rule_check *k)
{
    struct source_shapes *s = NULL;
    struct gs_error *err = dry_run_series(k->dry_run, k->rule->source, k->rule->series_query, &s);
    if (err) {
        dry_run_report_broken(k, "the series cannot be listed: %s", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    printf("  series  %zu, %zu different by name and labels\n", s->series, s->n);
    if (s->n)
        check_shapes(k, s);
    else
        explain_no_series(k);
    source_shapes_free(s);
}

// --- files ---

static bool check_rule(struct dry_run *dry_run, const struct dry_run_check_options *o,
                       const struct adapter_config *c, const struct adapter_config_rule *r,
                       size_t *doubtful)
{
    struct dry_run_rule_check k = {.dry_run = dry_run, .rule = r};
    printf("\n%s: %s\n", r->place, r->series_query);
    if (r->source)
        printf("  source  %s\n", c->sources[r->source - 1].name);
    dry_run_check_text(&k);
    if (dry_run->source)
        check_source(&k);
    else
        dry_run_show_own_name(&k);
    *doubtful += k.doubtful;
    return !k.broken && !(o->strict && k.doubtful);
}

// A file without rules is an error, and that of another program gets the program's name. Takes err.
static struct gs_error *check_kind_of_file(const char *path, const struct adapter_config *c,
                                           struct gs_error *err)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (!err && (c->n_rules || c->resource.present))
        return NULL;
    GS_AUTO_ERROR struct gs_error *unread = gs_file_read(path, MAX_FILE, &text);
    GS_AUTO_FREE char *foreign =
        unread ? NULL
               : recognize_foreign(gs_buf_slice(&text), RECOGNIZE_ADAPTER,
                                   "rules of prometheus-adapter in its file, its Helm values or a "
                                   "ConfigMap");
    if (err && (!foreign || strstr(foreign, "ConfigMap object")))
        return err;
    gs_error_free(err);
    return gs_error_new(GS_EINVAL, "%s: %s", path, foreign ? foreign : "the file has no rules");
}

static bool check_file(const struct dry_run_check_options *o, const char *path)
{
    GS_CLEANUP(adapter_config_freep) struct adapter_config *c = NULL;
    struct dry_run *dry_run = gs_alloc(sizeof(*dry_run));
    size_t bad = 0, doubtful = 0;
    printf("Checking %s\n", path);
    (void)fflush(stdout);
    GS_AUTO_ERROR struct gs_error *err = adapter_config_load(path, o->sources, &c);
    err = check_kind_of_file(path, c, err);
    if (!err)
        err = dry_run_open(o->source, o->kubeconfig, c, dry_run);
    if (err) {
        fprintf(stderr, "  FAILED: %s\n", gs_error_message(err));
        free(dry_run);
        return false;
    }
    for (size_t i = 0; i < c->n_rules; i++)
        bad += !check_rule(dry_run, o, c, &c->rules[i], &doubtful);
    bad += dry_run_check_resource_rules(dry_run, o, &c->resource);
    printf("\n  %s: %zu rules for custom and %zu for external metrics%s, %zu broken",
           bad ? "FAILED" : "SUCCESS", c->n_custom, c->n_rules - c->n_custom,
           c->resource.present ? ", resource rules" : "", bad);
    printf(doubtful ? ", %zu doubtful\n" : "\n", doubtful);
    if (!o->source)
        printf("  --source=URL shows what they would do with the series of a Prometheus\n");
    dry_run_close(dry_run);
    free(dry_run);
    return bad == 0;
}

int dry_run_check(const struct dry_run_check_options *o, int n_files, char **files)
{
    bool ok = true;
    for (int i = 0; i < n_files; i++)
        ok = check_file(o, files[i]) && ok;
    return ok ? 0 : 1;
}

bool dry_run_has_rules(const char *path)
{
    struct codec_yaml_docs docs = {0};
    bool found = false;
    GS_AUTO_ERROR struct gs_error *err = codec_yaml_load_file(path, &docs);
    for (size_t i = 0; i < docs.len && !err && !found; i++)
        found = adapter_config_has_rules(docs.items[i].value);
    codec_yaml_docs_finish(&docs);
    return found;
}
