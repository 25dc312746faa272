// SPDX-License-Identifier: Apache-2.0
// Evaluates the filters, names and templates of a rule.
#include "adapter/config/config.h"

#include "base/mem.h"
#include "promql/ast.h"
#include "promql/promql.h"

#define MAX_QUERY ((size_t)32 * 1024 * 1024) // room for the names of many pods, several times

bool adapter_config_rule_name(const struct adapter_config_rule *r, struct gs_slice series,
                              struct gs_buf *out, const struct adapter_config_filter **ret_filter)
{
    for (size_t i = 0; i < r->n_filters; i++)
        if (gs_regex_matches(r->filters[i].regex, series) == r->filters[i].negate) {
            *ret_filter = &r->filters[i];
            return false;
        }
    *ret_filter = NULL;
    return gs_regex_expand(r->matches, series, gs_slice_of(r->as), out);
}

// NULL: seriesQuery is not a selector. Caller frees.
static struct promql_expr *parse_selector(const struct adapter_config_rule *r)
{
    struct promql_expr *x = NULL;
    gs_error_free(promql_parse_selector(gs_slice_of(r->series_query), &x));
    return x;
}

static struct gs_slice selected_name(const struct promql_node *n)
{
    if (n->u.selector.name.len)
        return n->u.selector.name;
    for (size_t i = 0; i < n->u.selector.n_matchers; i++) {
        const struct tsdb_matcher *m = &n->u.selector.matchers[i];
        if (gs_slice_eq_str(m->name, "__name__") && m->op == TSDB_EQ)
            return m->value;
    }
    return GS_SLICE("");
}

bool adapter_config_rule_own_series(const struct adapter_config_rule *r, struct gs_buf *out)
{
    struct promql_expr *x = parse_selector(r);
    struct gs_slice series = x ? selected_name(promql_expr_root(x)) : GS_SLICE("");
    gs_buf_add_slice(out, series);
    promql_expr_free(x);
    return out->len > 0;
}

bool adapter_config_rule_own_name(const struct adapter_config_rule *r, struct gs_buf *out)
{
    const struct adapter_config_filter *filter;
    if (r->as && !strchr(r->as, '$')) {
        gs_buf_add_str(out, r->as);
        return true;
    }
    GS_AUTO_BUF struct gs_buf series = {0};
    return adapter_config_rule_own_series(r, &series) &&
           adapter_config_rule_name(r, gs_buf_slice(&series), out, &filter) && out->len;
}

bool adapter_config_rule_own_label(const struct adapter_config_rule *r, size_t i,
                                   struct gs_buf *out)
{
    struct promql_expr *x = parse_selector(r);
    const struct promql_node *n = x ? promql_expr_root(x) : NULL;
    bool found = false;
    for (size_t k = 0; n && k < n->u.selector.n_matchers && !found; k++) {
        const struct tsdb_matcher *m = &n->u.selector.matchers[k];
        bool there =
            !gs_slice_eq_str(m->name, "__name__") && !tsdb_matcher_matches(m, GS_SLICE(""));
        found = there && i-- == 0;
        if (found)
            gs_buf_add_slice(out, m->name);
    }
    promql_expr_free(x);
    return found;
}

bool adapter_config_label_resource(const struct adapter_config_resources *r, struct gs_slice label,
                                   struct gs_slice *ret_group, struct gs_slice *ret_resource)
{
    for (size_t i = 0; i < r->n_overrides; i++)
        if (gs_slice_eq_str(label, r->overrides[i].label)) {
            *ret_group = gs_slice_of(r->overrides[i].group);
            *ret_resource = gs_slice_of(r->overrides[i].resource);
            return true;
        }
    if (!r->label_pattern || !gs_regex_group(r->label_pattern, label, "resource", ret_resource))
        return false;
    if (!gs_regex_group(r->label_pattern, label, "group", ret_group))
        *ret_group = GS_SLICE("");
    return true;
}

static struct gs_error *expand_template(const struct template_program *t,
                                        const struct template_field *fields, size_t n,
                                        struct gs_buf *out)
{
    const struct template_data data = {.fields = fields, .n_fields = n, .max_output = MAX_QUERY};
    return template_expand(t, &data, out);
}

struct gs_error *adapter_config_query_expand(const struct template_program *t,
                                             const struct adapter_config_query_data *d,
                                             struct gs_buf *out)
{
    const struct template_field fields[] = {
        {.name = "Series", .kind = TEMPLATE_FIELD_TEXT, .text = d->series},
        {.name = "LabelMatchers", .kind = TEMPLATE_FIELD_TEXT, .text = d->matchers},
        {.name = "LabelValuesByName",
         .kind = TEMPLATE_FIELD_MAP,
         .map = d->values,
         .n = d->n_values},
        {.name = "GroupBy", .kind = TEMPLATE_FIELD_TEXT, .text = d->group_by},
        {.name = "GroupBySlice",
         .kind = TEMPLATE_FIELD_LIST,
         .list = d->group_by_list,
         .n = d->n_group_by},
    };
    return expand_template(t, fields, GS_ARRAY_LEN(fields), out);
}

struct gs_error *adapter_config_label_expand(const struct template_program *t,
                                             struct gs_slice group, struct gs_slice resource,
                                             struct gs_buf *out)
{
    const struct template_field fields[] = {
        {.name = "Group", .kind = TEMPLATE_FIELD_TEXT, .text = group},
        {.name = "Resource", .kind = TEMPLATE_FIELD_TEXT, .text = resource},
    };
    return expand_template(t, fields, GS_ARRAY_LEN(fields), out);
}
