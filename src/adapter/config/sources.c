// SPDX-License-Identifier: Apache-2.0
// Reads extra sources and assigns rules to them. prometheus-adapter rejects these keys in its file,
// so they may also be in a separate file, in Helm values (which ignore unknown keys) or in the
// entry sources.yaml of the ConfigMap.
#include "adapter/config/config_private.h"
#include "net/endpoint/read.h"

#include "base/mem.h"
#include "net/http/http.h"

enum { MAX_SOURCES = 32 };

#define AT(member) offsetof(struct adapter_config_source, member)

static void read_verb(struct codec_reader *r, const json_t *value, void *out)
{
    const char *verb = codec_read_text(r, value);
    *(bool *)out = gs_streq(verb, "POST");
    if (!gs_streq(verb, "GET") && !gs_streq(verb, "POST"))
        codec_reader_fail(r, value, "verb \"%s\": want GET or POST", verb);
}

static void read_headers(struct codec_reader *r, const json_t *value, void *out)
{
    struct adapter_config_source *s =
        GS_CONTAINER_OF((const char *const **)out, struct adapter_config_source, headers);
    const char *name;
    json_t *item;
    if (!json_is_object(value)) {
        codec_reader_fail(r, value, "headers must be a mapping of names to values");
        return;
    }
    const char **list = codec_reader_alloc(r, json_object_size(value) * sizeof(*list));
    json_object_foreach ((json_t *)(uintptr_t)value, name, item)
        list[s->n_headers++] = codec_reader_format(r, "%s=%s", name, codec_read_text(r, item));
    s->headers = list;
}

static void add_param(struct codec_reader *r, const char *name, const json_t *value,
                      struct gs_buf *out)
{
    const char *text = codec_read_text(r, value);
    gs_buf_addf(out, "%s", out->len ? "&" : "");
    http_encode(gs_slice_of(name), out);
    gs_buf_add_char(out, '=');
    http_encode(gs_slice_of(text ? text : ""), out);
}

// As in a scrape configuration: name -> values. A single value needs no list.
static void read_params(struct codec_reader *r, const json_t *value, void *out)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    const char *name;
    json_t *values, *item;
    size_t i;
    if (!json_is_object(value)) {
        codec_reader_fail(r, value, "params must be a mapping of names to values");
        return;
    }
    json_object_foreach ((json_t *)(uintptr_t)value, name, values) {
        if (!json_is_array(values))
            add_param(r, name, values, &text);
        json_array_foreach (values, i, item)
            add_param(r, name, item, &text);
    }
    *(const char **)out = codec_reader_format(r, "%s", text.data ? text.data : "");
}

static void read_pattern(struct codec_reader *r, const json_t *item, void *out)
{
    *(struct gs_regex **)out =
        adapter_config_read_regex(r, item, gs_slice_of(codec_read_text(r, item)));
}

static void read_patterns(struct codec_reader *r, const json_t *value, void *out)
{
    struct adapter_config_source *s =
        GS_CONTAINER_OF((struct gs_regex ***)out, struct adapter_config_source, patterns);
    codec_read_list(r, value, sizeof(struct gs_regex *), read_pattern, (void *)&s->patterns,
                    &s->n_patterns);
}

static bool taken(const struct adapter_config *c, const char *name)
{
    for (size_t i = 0; i < c->n_sources; i++)
        if (gs_streq(c->sources[i].name, name))
            return true;
    return gs_streq(name, "default");
}

static void read_source(struct codec_reader *r, const json_t *item, void *out)
{
    static const struct codec_field fields[] = {
        {"name", CODEC_FIELD_TEXT, AT(name), NULL},
        {"url", CODEC_FIELD_URL, AT(url), NULL},
        {"engine", CODEC_FIELD_BOOL, AT(engine), NULL},
        {"verb", CODEC_FIELD_CUSTOM, AT(post), read_verb},
        {"headers", CODEC_FIELD_CUSTOM, AT(headers), read_headers},
        {"params", CODEC_FIELD_CUSTOM, AT(params), read_params},
        {"timeout", CODEC_FIELD_DURATION, AT(timeout_ms), NULL},
        {"rules", CODEC_FIELD_CUSTOM, AT(patterns), read_patterns},
        {"resourceRules", CODEC_FIELD_BOOL, AT(resource), NULL},
        {0},
    };
    struct adapter_config_source *s = out;
    size_t ignored = r->n_ignored;
    endpoint_defaults(&s->http);
    s->place = codec_reader_line(r, item);
    endpoint_read_with(r, item, fields, "a source", s, &s->http);
    if (r->err)
        return;
    if (r->n_ignored > ignored)
        codec_reader_fail(r, item, "%s", r->ignored[ignored]);
    else if (!s->name || !*s->name)
        codec_reader_fail(r, item, "the source has no name");
    else if ((s->url && *s->url) == s->engine)
        codec_reader_fail(r, item, "the source %s needs either url or engine: true", s->name);
    else if (s->engine && s->params)
        codec_reader_fail(r, item, "the source %s has no URL, so it takes no params", s->name);
    else if (s->params && *s->params)
        s->url =
            codec_reader_format(r, "%s%c%s", s->url, strchr(s->url, '?') ? '&' : '?', s->params);
}

void adapter_config_read_sources(struct codec_reader *r, const json_t *list)
{
    struct adapter_config *c = adapter_config_reader_of(r)->out;
    struct adapter_config_source *items = NULL;
    size_t n = 0;
    codec_read_list(r, list, sizeof(*items), read_source, &items, &n);
    if (r->err || n == 0)
        return;
    if (c->n_sources + n > MAX_SOURCES) {
        codec_reader_fail(r, list, "more than %d sources", MAX_SOURCES);
        return;
    }
    struct adapter_config_source *all = codec_reader_alloc(r, (c->n_sources + n) * sizeof(*all));
    if (c->n_sources)
        memcpy(all, c->sources, c->n_sources * sizeof(*all));
    c->sources = all;
    for (size_t i = 0; i < n && !r->err; i++) {
        if (taken(c, items[i].name))
            codec_reader_fail(r, json_array_get(list, i),
                              "the name \"%s\" belongs to another source", items[i].name);
        all[c->n_sources++] = items[i];
    }
}

// --- assigning rules to sources ---

static struct gs_error *find_named_source(const struct adapter_config *c, const char *name,
                                          const char *place, size_t *ret)
{
    *ret = 0;
    if (gs_streq(name, "default"))
        return NULL;
    for (size_t i = 0; i < c->n_sources; i++)
        if (gs_streq(c->sources[i].name, name)) {
            *ret = i + 1;
            return NULL;
        }
    return gs_error_new(GS_EINVAL, "%s: source \"%s\" is not defined", place, name);
}

static size_t by_pattern(const struct adapter_config *c, const char *series_query)
{
    for (size_t i = 0; i < c->n_sources; i++)
        for (size_t k = 0; k < c->sources[i].n_patterns; k++)
            if (gs_regex_matches(c->sources[i].patterns[k], gs_slice_of(series_query)))
                return i + 1;
    return 0;
}

struct gs_error *adapter_config_choose_sources(struct adapter_config *c)
{
    struct gs_error *err = NULL;
    for (size_t i = 0; i < c->n_rules && !err; i++) {
        struct adapter_config_rule *rule = &c->rules[i];
        if (rule->source_name && *rule->source_name)
            err = find_named_source(c, rule->source_name, rule->place, &rule->source);
        else
            rule->source = by_pattern(c, rule->series_query);
    }
    const char *name = c->resource.source_name;
    if (!err && name && *name)
        return find_named_source(c, name, "resourceRules", &c->resource.source);
    for (size_t i = 0; i < c->n_sources && !err && !c->resource.source; i++)
        if (c->sources[i].resource)
            c->resource.source = i + 1;
    return err;
}
