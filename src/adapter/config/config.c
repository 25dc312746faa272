// SPDX-License-Identifier: Apache-2.0
// Reads rules from YAML. forms.c detects the form of a file.
#include "adapter/config/config_private.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#define RULE(member) offsetof(struct adapter_config_rule, member)

struct adapter_config_reader *adapter_config_reader_of(struct codec_reader *r)
{
    return (struct adapter_config_reader *)(void *)((char *)r -
                                                    offsetof(struct adapter_config_reader, base));
}

struct gs_regex *adapter_config_read_regex(struct codec_reader *r, const json_t *at,
                                           struct gs_slice pattern)
{
    struct adapter_config *c = adapter_config_reader_of(r)->out;
    struct gs_regex *regex = NULL;
    struct gs_error *err = gs_regex_new(pattern, NULL, &regex);
    if (err) {
        codec_reader_fail(r, at, "`" GS_SLICE_FMT "`: %s", GS_SLICE_ARG(pattern),
                          gs_error_message(err));
        gs_error_free(err);
        return NULL;
    }
    gs_grow(&c->regexes, &c->regexes_cap, c->n_regexes, sizeof(struct gs_regex *));
    c->regexes[c->n_regexes++] = regex;
    return regex;
}

static struct template_program *read_template(struct codec_reader *r, const json_t *at,
                                              const char *text, const char *name)
{
    static const struct template_syntax form = {"<<", ">>", ""};
    struct adapter_config *c = adapter_config_reader_of(r)->out;
    struct template_program *t = NULL;
    struct gs_error *err = template_parse_with(gs_slice_of(text), name, &form, &t);
    if (err) {
        codec_reader_fail(r, at, "%s", gs_error_message(err));
        gs_error_free(err);
        return NULL;
    }
    gs_grow(&c->templates, &c->templates_cap, c->n_templates, sizeof(struct template_program *));
    c->templates[c->n_templates++] = t;
    return t;
}

// --- series filters ---

static void read_filter(struct codec_reader *r, const json_t *item, void *out)
{
    struct {
        const char *is, *is_not;
    } texts = {NULL, NULL};
    const struct codec_field fields[] = {
        {"is", CODEC_FIELD_TEXT, 0, NULL},
        {"isNot", CODEC_FIELD_TEXT, sizeof(const char *), NULL},
        {0},
    };
    struct adapter_config_filter *f = out;
    codec_read_mapping(r, item, fields, "a series filter", &texts);
    bool is = texts.is && *texts.is, is_not = texts.is_not && *texts.is_not;
    if (is == is_not) {
        codec_reader_fail(r, item, "a series filter needs either is or isNot");
        return;
    }
    f->negate = is_not;
    f->text = is ? texts.is : texts.is_not;
    f->regex = adapter_config_read_regex(r, item, gs_slice_of(f->text));
}

static void read_filters(struct codec_reader *r, const json_t *value, void *out)
{
    struct adapter_config_rule *rule = (void *)((char *)out - RULE(filters));
    codec_read_list(r, value, sizeof(struct adapter_config_filter), read_filter, &rule->filters,
                    &rule->n_filters);
}

// --- resources ---

static void read_overrides(struct codec_reader *r, const json_t *value, void *out)
{
    struct adapter_config_resources *res =
        (void *)((char *)out - offsetof(struct adapter_config_resources, overrides));
    const struct codec_field fields[] = {
        {"group", CODEC_FIELD_TEXT, offsetof(struct adapter_config_override, group), NULL},
        {"resource", CODEC_FIELD_TEXT, offsetof(struct adapter_config_override, resource), NULL},
        {0},
    };
    const char *label;
    json_t *item;
    if (!json_is_object(value)) {
        codec_reader_fail(r, value, "overrides must be a mapping of label names");
        return;
    }
    res->overrides = codec_reader_alloc(r, json_object_size(value) * sizeof(*res->overrides));
    json_object_foreach ((json_t *)value, label, item) {
        struct adapter_config_override *o = &res->overrides[res->n_overrides++];
        codec_read_mapping(r, item, fields, "a resource", o);
        o->label = codec_reader_format(r, "%s", label);
        o->group = o->group ? o->group : "";
        o->place = codec_reader_line(r, item);
        if (!o->resource || !*o->resource)
            codec_reader_fail(r, item, "the override of label %s names no resource", label);
    }
}

static void read_label_template(struct codec_reader *r, const json_t *value, void *out)
{
    struct adapter_config_resources *res =
        (void *)((char *)out - offsetof(struct adapter_config_resources, template_text));
    const char *text = codec_read_text(r, value);
    if (!*text)
        return;
    res->template_text = text;
    res->label_template = read_template(r, value, text, "resource-query");
    if (!res->label_template)
        return;
    GS_AUTO_BUF struct gs_buf pattern = {0};
    gs_buf_add_char(&pattern, '^');
    struct gs_error *err = adapter_config_label_expand(
        res->label_template, GS_SLICE("(?P<group>.+?)"), GS_SLICE("(?P<resource>.+?)"), &pattern);
    gs_buf_add_char(&pattern, '$');
    if (err)
        codec_reader_fail(r, value, "%s", gs_error_message(err));
    else if (!strstr(pattern.data, "(?P<resource>"))
        codec_reader_fail(r, value, "the template \"%s\" must use <<.Resource>>", text);
    else
        res->label_pattern = adapter_config_read_regex(r, value, gs_buf_slice(&pattern));
    gs_error_free(err);
}

static void read_resources(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"template", CODEC_FIELD_CUSTOM, offsetof(struct adapter_config_resources, template_text),
         read_label_template},
        {"overrides", CODEC_FIELD_CUSTOM, offsetof(struct adapter_config_resources, overrides),
         read_overrides},
        {"namespaced", CODEC_FIELD_BOOL, offsetof(struct adapter_config_resources, namespaced),
         NULL},
        {0},
    };
    codec_read_mapping(r, value, fields, "resources", out);
}

// --- names ---

static void read_name(struct codec_reader *r, const json_t *value, void *out)
{
    struct adapter_config_rule *rule = (void *)((char *)out - RULE(matches_text));
    const struct codec_field fields[] = {
        {"matches", CODEC_FIELD_TEXT, RULE(matches_text), NULL},
        {"as", CODEC_FIELD_TEXT, RULE(as), NULL},
        {0},
    };
    rule->name_place = codec_reader_line(r, value);
    codec_read_mapping(r, value, fields, "name", rule);
}

static void finish_name(struct codec_reader *r, const json_t *item,
                        struct adapter_config_rule *rule)
{
    const json_t *at = json_object_get(item, "name");
    bool named = rule->matches_text && *rule->matches_text;
    rule->matches = adapter_config_read_regex(r, at ? at : item,
                                              gs_slice_of(named ? rule->matches_text : ".*"));
    if (!rule->matches || (rule->as && *rule->as))
        return;
    unsigned groups = gs_regex_groups(rule->matches);
    if (groups > 1)
        codec_reader_fail(r, at, "name.as is required: `%s` has %u groups", rule->matches_text,
                          groups);
    rule->as = groups ? "$1" : "$0";
}

// --- rules ---

// Returns the longest range: 5 minutes for "rate(x{a=\"[1m]\"}[5m])". Brackets in quotes do not
// count.
static int64_t longest_range(const char *query)
{
    int64_t longest = 0, ms;
    char quote = 0;
    for (const char *p = query; *p; p++) {
        if (quote) {
            p += *p == '\\' && p[1] && quote != '`';
            if (*p == quote)
                quote = 0;
            continue;
        }
        if (*p == '"' || *p == '\'' || *p == '`')
            quote = *p;
        if (*p != '[')
            continue;
        GS_AUTO_FREE char *text = gs_strndup(p + 1, strcspn(p + 1, "]:"));
        if (codec_parse_duration(text, &ms) && ms > longest)
            longest = ms;
    }
    return longest;
}

static void read_query(struct codec_reader *r, const json_t *value, void *out)
{
    struct adapter_config_rule *rule = (void *)((char *)out - RULE(query_text));
    rule->query_place = codec_reader_line(r, value);
    rule->query_text = codec_read_text(r, value);
    rule->window_ms = longest_range(rule->query_text);
    rule->query = read_template(r, value, rule->query_text, "metrics-query");
}

static void read_rule(struct codec_reader *r, const json_t *item, void *out)
{
    static const struct codec_field fields[] = {
        {"seriesQuery", CODEC_FIELD_TEXT, RULE(series_query), NULL},
        {"seriesFilters", CODEC_FIELD_CUSTOM, RULE(filters), read_filters},
        {"resources", CODEC_FIELD_CUSTOM, RULE(resources), read_resources},
        {"name", CODEC_FIELD_CUSTOM, RULE(matches_text), read_name},
        {"metricsQuery", CODEC_FIELD_CUSTOM, RULE(query_text), read_query},
        {"source", CODEC_FIELD_TEXT, RULE(source_name), NULL},
        {0},
    };
    struct adapter_config_rule *rule = out;
    rule->place = codec_reader_line(r, item);
    rule->series_query = "";
    rule->resources.namespaced = true;
    rule->series_place = codec_reader_line(r, json_object_get(item, "seriesQuery"));
    codec_read_mapping(r, item, fields, "a rule", rule);
    if (r->err)
        return;
    finish_name(r, item, rule);
    if (!r->err && !rule->query) {
        rule->query_text = "";
        rule->query = read_template(r, item, "", "metrics-query");
    }
}

void adapter_config_read_rules(struct codec_reader *r, const json_t *list, bool external)
{
    struct adapter_config *c = adapter_config_reader_of(r)->out;
    struct adapter_config_rule *items = NULL;
    size_t n = 0;
    codec_read_list(r, list, sizeof(*items), read_rule, &items, &n);
    if (r->err || n == 0)
        return;
    struct adapter_config_rule *all = codec_reader_alloc(r, (c->n_rules + n) * sizeof(*all));
    // Custom rules come before external ones.
    size_t at = external ? c->n_rules : c->n_custom;
    if (at)
        memcpy(all, c->rules, at * sizeof(*all));
    for (size_t i = 0; i < n; i++) {
        items[i].external = external;
        all[at + i] = items[i];
    }
    if (c->n_rules > at)
        memcpy(all + at + n, c->rules + at, (c->n_rules - at) * sizeof(*all));
    c->rules = all;
    c->n_rules += n;
    if (!external)
        c->n_custom += n;
}

// --- resource rules ---

static void read_container_query(struct codec_reader *r, const json_t *value, void *out)
{
    struct adapter_config_resource_rule *rule =
        (void *)((char *)out - offsetof(struct adapter_config_resource_rule, container_text));
    rule->container_text = codec_read_text(r, value);
    rule->container_query = read_template(r, value, rule->container_text, "container-query");
}

static void read_node_query(struct codec_reader *r, const json_t *value, void *out)
{
    struct adapter_config_resource_rule *rule =
        (void *)((char *)out - offsetof(struct adapter_config_resource_rule, node_text));
    rule->node_text = codec_read_text(r, value);
    rule->node_query = read_template(r, value, rule->node_text, "node-query");
}

static void read_resource_rule(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"containerQuery", CODEC_FIELD_CUSTOM,
         offsetof(struct adapter_config_resource_rule, container_text), read_container_query},
        {"nodeQuery", CODEC_FIELD_CUSTOM, offsetof(struct adapter_config_resource_rule, node_text),
         read_node_query},
        {"resources", CODEC_FIELD_CUSTOM, offsetof(struct adapter_config_resource_rule, resources),
         read_resources},
        {"containerLabel", CODEC_FIELD_TEXT,
         offsetof(struct adapter_config_resource_rule, container_label), NULL},
        {0},
    };
    codec_read_mapping(r, value, fields, "a resource rule", out);
}

static void read_window(struct codec_reader *r, const json_t *value, void *out)
{
    *(int64_t *)out = codec_read_duration(r, value) * GS_NS_PER_MS;
}

void adapter_config_read_resource_rules(struct codec_reader *r, const json_t *value)
{
    static const struct codec_field fields[] = {
        {"cpu", CODEC_FIELD_CUSTOM, offsetof(struct adapter_config_resource_rules, cpu),
         read_resource_rule},
        {"memory", CODEC_FIELD_CUSTOM, offsetof(struct adapter_config_resource_rules, memory),
         read_resource_rule},
        {"window", CODEC_FIELD_CUSTOM, offsetof(struct adapter_config_resource_rules, window_ns),
         read_window},
        {"source", CODEC_FIELD_TEXT, offsetof(struct adapter_config_resource_rules, source_name),
         NULL},
        {0},
    };
    struct adapter_config *c = adapter_config_reader_of(r)->out;
    if (!value || json_is_null(value))
        return;
    c->resource.present = true;
    codec_read_mapping(r, value, fields, "resourceRules", &c->resource);
}

// --- the file ---

static struct gs_error *finish_config(struct adapter_config *c, struct gs_error *err,
                                      struct adapter_config **ret)
{
    if (!err)
        err = adapter_config_choose_sources(c);
    if (err)
        adapter_config_free(c);
    else
        *ret = c;
    return err;
}

struct gs_error *adapter_config_parse(struct gs_slice text, const char *name,
                                      struct adapter_config **ret)
{
    struct adapter_config *c = gs_alloc(sizeof(*c));
    return finish_config(c, adapter_config_read_form(text, name, 0, c), ret);
}

static struct gs_error *add_file(const char *path, struct adapter_config *c)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (!path || !*path)
        return NULL;
    struct gs_error *err = gs_file_read(path, ADAPTER_CONFIG_MAX_FILE, &text);
    return err ? err : adapter_config_read_form(gs_buf_slice(&text), path, 0, c);
}

struct gs_error *adapter_config_load(const char *path, const char *sources_path,
                                     struct adapter_config **ret)
{
    struct adapter_config *c = gs_alloc(sizeof(*c));
    struct gs_error *err = add_file(path, c);
    if (!err)
        err = add_file(sources_path, c);
    return finish_config(c, err, ret);
}

void adapter_config_free(struct adapter_config *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n_regexes; i++)
        gs_regex_free(c->regexes[i]);
    for (size_t i = 0; i < c->n_templates; i++)
        template_free(c->templates[i]);
    free(c->regexes);
    free(c->templates);
    gs_arena_finish(&c->arena);
    free(c);
}
