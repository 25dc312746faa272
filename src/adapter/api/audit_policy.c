// SPDX-License-Identifier: Apache-2.0
// Audit policies (audit.k8s.io/v1, Policy) and their evaluation. The first rule that matches
// decides; without one, nothing is logged. Source: apiserver's audit/policy package.
#include "adapter/api/audit.h"

#include "base/file.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "codec/yaml_reader.h"

#define MAX_FILE ((size_t)4 * 1024 * 1024)

struct texts {
    const char *const *items;
    size_t n;
};

struct group_resources {
    const char *group;
    struct texts resources, names;
};

struct rule {
    const char *level_text;
    enum adapter_api_audit_level level;
    struct texts users, groups, verbs, namespaces, urls, stage_texts;
    struct group_resources *resources;
    size_t n_resources;
    bool omit_managed;
    unsigned omitted;
};

struct adapter_api_audit_policy {
    struct gs_arena arena;
    struct rule *rules;
    size_t n;
    struct texts stage_texts;
    bool omit_managed;
    unsigned omitted;
};

static const char *const level_names[] = {"None", "Metadata", "Request", "RequestResponse"};
static const struct {
    const char *name;
    enum adapter_api_audit_stage stage;
} stages[] = {{"RequestReceived", ADAPTER_API_AUDIT_RECEIVED},
              {"ResponseStarted", ADAPTER_API_AUDIT_STARTED},
              {"ResponseComplete", ADAPTER_API_AUDIT_COMPLETE},
              {"Panic", ADAPTER_API_AUDIT_PANIC}};

const char *adapter_api_audit_level_name(enum adapter_api_audit_level level)
{
    return level_names[level];
}

// --- reading ---

static void read_texts(struct codec_reader *r, const json_t *value, void *out)
{
    struct texts *t = out;
    codec_read_texts(r, value, &t->items, &t->n);
}

static unsigned read_stages(struct codec_reader *r, const json_t *at, const struct texts *t)
{
    unsigned bits = 0;
    for (size_t i = 0; i < t->n; i++) {
        unsigned bit = 0;
        for (size_t k = 0; k < GS_ARRAY_LEN(stages); k++)
            bit |= gs_streq(t->items[i], stages[k].name) ? stages[k].stage : 0;
        if (!bit)
            codec_reader_fail(r, at,
                              "omitStages: unknown stage \"%s\": want RequestReceived, "
                              "ResponseStarted, ResponseComplete or Panic",
                              t->items[i]);
        bits |= bit;
    }
    return bits;
}

static void read_group(struct codec_reader *r, const json_t *item, void *out)
{
    static const struct codec_field fields[] = {
        {"group", CODEC_FIELD_TEXT, offsetof(struct group_resources, group), NULL},
        {"resources", CODEC_FIELD_CUSTOM, offsetof(struct group_resources, resources), read_texts},
        {"resourceNames", CODEC_FIELD_CUSTOM, offsetof(struct group_resources, names), read_texts},
        {0},
    };
    struct group_resources *g = out;
    codec_read_mapping(r, item, fields, "resources of an audit rule", g);
    g->group = g->group ? g->group : "";
    if (strchr(g->group, '/'))
        codec_reader_fail(r, item, "group \"%s\": want the group without its version", g->group);
    if (g->names.n && !g->resources.n)
        codec_reader_fail(r, item, "resourceNames requires resources");
}

static void read_groups(struct codec_reader *r, const json_t *value, void *out)
{
    struct rule *rule = GS_CONTAINER_OF((struct group_resources **)out, struct rule, resources);
    codec_read_list(r, value, sizeof(struct group_resources), read_group, &rule->resources,
                    &rule->n_resources);
}

static void check_urls(struct codec_reader *r, const json_t *item, const struct rule *rule)
{
    for (size_t i = 0; i < rule->urls.n; i++) {
        const char *url = rule->urls.items[i], *star = strchr(url, '*');
        if (!gs_streq(url, "*") && *url != '/')
            codec_reader_fail(r, item, "nonResourceURLs: \"%s\" does not begin with a slash", url);
        if (star && star[1])
            codec_reader_fail(r, item, "nonResourceURLs: * in \"%s\" is not at its end", url);
    }
    if (rule->urls.n && (rule->n_resources || rule->namespaces.n))
        codec_reader_fail(r, item, "a rule must not have both resources and nonResourceURLs");
}

static void read_rule(struct codec_reader *r, const json_t *item, void *out)
{
    static const struct codec_field fields[] = {
        {"level", CODEC_FIELD_TEXT, offsetof(struct rule, level_text), NULL},
        {"users", CODEC_FIELD_CUSTOM, offsetof(struct rule, users), read_texts},
        {"userGroups", CODEC_FIELD_CUSTOM, offsetof(struct rule, groups), read_texts},
        {"verbs", CODEC_FIELD_CUSTOM, offsetof(struct rule, verbs), read_texts},
        {"resources", CODEC_FIELD_CUSTOM, offsetof(struct rule, resources), read_groups},
        {"namespaces", CODEC_FIELD_CUSTOM, offsetof(struct rule, namespaces), read_texts},
        {"nonResourceURLs", CODEC_FIELD_CUSTOM, offsetof(struct rule, urls), read_texts},
        {"omitStages", CODEC_FIELD_CUSTOM, offsetof(struct rule, stage_texts), read_texts},
        {"omitManagedFields", CODEC_FIELD_BOOL, offsetof(struct rule, omit_managed), NULL},
        {0},
    };
    struct rule *rule = out;
    bool known = false;
    codec_read_mapping(r, item, fields, "an audit rule", rule);
    for (size_t i = 0; i < GS_ARRAY_LEN(level_names); i++)
        if (gs_streq(rule->level_text, level_names[i])) {
            rule->level = (enum adapter_api_audit_level)i;
            known = true;
        }
    if (!known)
        codec_reader_fail(r, item,
                          "unknown level \"%s\": want None, Metadata, Request or RequestResponse",
                          rule->level_text ? rule->level_text : "");
    rule->omitted = read_stages(r, item, &rule->stage_texts);
    check_urls(r, item, rule);
}

static void read_rules(struct codec_reader *r, const json_t *value, void *out)
{
    struct adapter_api_audit_policy *p =
        GS_CONTAINER_OF((struct rule **)out, struct adapter_api_audit_policy, rules);
    codec_read_list(r, value, sizeof(struct rule), read_rule, &p->rules, &p->n);
}

static void read_policy(struct codec_reader *r, const json_t *doc,
                        struct adapter_api_audit_policy *p)
{
    static const struct codec_field fields[] = {
        {"apiVersion", CODEC_FIELD_UNUSED, 0, NULL},
        {"kind", CODEC_FIELD_UNUSED, 0, NULL},
        {"metadata", CODEC_FIELD_UNUSED, 0, NULL},
        {"rules", CODEC_FIELD_CUSTOM, offsetof(struct adapter_api_audit_policy, rules), read_rules},
        {"omitStages", CODEC_FIELD_CUSTOM, offsetof(struct adapter_api_audit_policy, stage_texts),
         read_texts},
        {"omitManagedFields", CODEC_FIELD_BOOL,
         offsetof(struct adapter_api_audit_policy, omit_managed), NULL},
        {0},
    };
    const char *kind = codec_json_str(doc, "kind", NULL);
    const char *version = codec_json_str(doc, "apiVersion", NULL);
    if (!gs_streq(kind, "Policy") || !gs_streq(version, "audit.k8s.io/v1"))
        codec_reader_fail(r, doc, "want kind Policy of audit.k8s.io/v1");
    else
        codec_read_mapping(r, doc, fields, "an audit policy", p);
    p->omitted = read_stages(r, doc, &p->stage_texts);
    for (size_t i = 0; i < p->n; i++)
        p->rules[i].omitted |= p->omitted;
    if (!p->n)
        codec_reader_fail(r, doc, "the audit policy has no rules");
}

struct gs_error *adapter_api_audit_policy_parse(struct gs_slice text, const char *name,
                                                struct adapter_api_audit_policy **ret)
{
    struct codec_yaml_docs docs = {0};
    GS_CLEANUP(codec_yaml_marks_freep) struct codec_yaml_marks *marks = NULL;
    struct adapter_api_audit_policy *p = gs_alloc(sizeof(*p));
    struct codec_reader r = {.name = name, .arena = &p->arena};
    struct gs_error *err = codec_yaml_parse_texts(text, name, &docs, &marks);
    r.marks = marks;
    if (!err && docs.len != 1)
        err = gs_error_new(GS_EINVAL, "%s: want one document with an audit policy", name);
    if (!err) {
        read_policy(&r, docs.items[0].value, p);
        err = r.err;
    }
    codec_yaml_docs_finish(&docs);
    free(r.ignored);
    if (err)
        adapter_api_audit_policy_free(p);
    else
        *ret = p;
    return err;
}

struct gs_error *adapter_api_audit_policy_load(const char *path,
                                               struct adapter_api_audit_policy **ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    return err ? err : adapter_api_audit_policy_parse(gs_buf_slice(&text), path, ret);
}

void adapter_api_audit_policy_free(struct adapter_api_audit_policy *p)
{
    if (!p)
        return;
    gs_arena_finish(&p->arena);
    free(p);
}

// --- matching rules ---

static bool contains_text(const struct texts *t, const char *s)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->items[i], s ? s : "") == 0)
            return true;
    return false;
}

static bool has_group(const struct texts *t, const json_t *groups)
{
    size_t i;
    json_t *g;
    json_array_foreach ((json_t *)(uintptr_t)groups, i, g)
        if (contains_text(t, json_string_value(g)))
            return true;
    return false;
}

// "*", "pods", "pods/log", "*/log", "pods/*"
static bool matches_resource(const char *spec, const struct adapter_api_auth_attributes *attributes)
{
    const char *slash = strchr(spec, '/');
    const char *sub = attributes->subresource;
    if (gs_streq(spec, "*"))
        return true;
    if (!slash)
        return !sub && gs_streq(spec, attributes->resource);
    size_t n = (size_t)(slash - spec);
    bool same = strlen(attributes->resource) == n && memcmp(spec, attributes->resource, n) == 0;
    if (gs_streq(slash, "/*"))
        return same;
    return sub && gs_streq(slash + 1, sub) && (same || (n == 1 && *spec == '*'));
}

static bool matches_group(const struct group_resources *g,
                          const struct adapter_api_auth_attributes *attributes)
{
    if (!gs_streq(g->group, "*") && !gs_streq(g->group, attributes->group ? attributes->group : ""))
        return false;
    if (!g->resources.n)
        return true;
    if (g->names.n && !contains_text(&g->names, attributes->name))
        return false;
    for (size_t i = 0; i < g->resources.n; i++)
        if (matches_resource(g->resources.items[i], attributes))
            return true;
    return false;
}

static bool matches_url(const struct rule *r, const char *path)
{
    for (size_t i = 0; i < r->urls.n; i++) {
        const char *spec = r->urls.items[i];
        size_t n = strlen(spec);
        bool prefix = n && spec[n - 1] == '*';
        if (prefix ? strncmp(path, spec, n - 1) == 0 : strcmp(path, spec) == 0)
            return true;
    }
    return false;
}

static bool rule_matches(const struct rule *r, const struct adapter_api_auth_user *user,
                         const struct adapter_api_auth_attributes *attributes)
{
    if ((r->users.n && !(user->name && contains_text(&r->users, user->name))) ||
        (r->groups.n && !has_group(&r->groups, user->groups)) ||
        (r->verbs.n && !contains_text(&r->verbs, attributes->verb)))
        return false;
    if (r->urls.n)
        return !attributes->is_resource && matches_url(r, attributes->path);
    if (!r->namespaces.n && !r->n_resources)
        return true;
    if (!attributes->is_resource ||
        (r->namespaces.n && !contains_text(&r->namespaces, attributes->ns)))
        return false;
    bool any = r->n_resources == 0;
    for (size_t i = 0; i < r->n_resources && !any; i++)
        any = matches_group(&r->resources[i], attributes);
    return any;
}

enum adapter_api_audit_level adapter_api_audit_policy_level(
    const struct adapter_api_audit_policy *p, const struct adapter_api_auth_user *user,
    const struct adapter_api_auth_attributes *attributes, unsigned *ret_omitted)
{
    for (size_t i = 0; i < p->n; i++)
        if (rule_matches(&p->rules[i], user, attributes)) {
            *ret_omitted = p->rules[i].omitted;
            return p->rules[i].level;
        }
    *ret_omitted = p->omitted;
    return ADAPTER_API_AUDIT_NONE;
}
