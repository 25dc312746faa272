// SPDX-License-Identifier: Apache-2.0
// Targets, metadata, rules and alerts, filtered by the parameters.
#include "engine/api/api_private.h"

#include "base/mem.h"
#include "base/num.h"

#include <ctype.h>
#include <strings.h>

// --- targets ---

static struct gs_slice url_part(const char *start, size_t len)
{
    return gs_slice_make(start, len);
}

struct url_parts {
    struct gs_slice scheme, host, port, rest; // port: with the colon, or empty
};

static bool split_url(const char *url, struct url_parts *ret)
{
    const char *sep = strstr(url, "://");
    if (!sep)
        return false;
    const char *host = sep + 3, *end = host + strcspn(host, "/?#");
    const char *colon = memrchr(host, ':', (size_t)(end - host));
    if (!colon || memchr(colon, ']', (size_t)(end - colon)))
        colon = end;
    *ret = (struct url_parts){url_part(url, (size_t)(sep - url)),
                              url_part(host, (size_t)(colon - host)),
                              url_part(colon, (size_t)(end - colon)), url_part(end, strlen(end))};
    return true;
}

static const char *own_port(const struct engine_api *a)
{
    const struct http_header *f = a->cfg.flags;
    while (f && f->name && !gs_streq(f->name, "web.listen-address"))
        f++;
    const char *colon = f && f->name && f->value ? strrchr(f->value, ':') : NULL;
    return colon ? colon : "";
}

// The URL of a local target as other hosts reach it: with the host of the external URL, or, for the
// engine itself, with the complete external URL. NULL: unchanged.
static char *global_url(const struct engine_api *a, const char *url)
{
    struct url_parts u, external;
    if (!a->cfg.external_url || !split_url(url, &u) || !split_url(a->cfg.external_url, &external) ||
        !(gs_slice_eq_str(u.host, "127.0.0.1") || gs_slice_eq_str(u.host, "localhost") ||
          gs_slice_eq_str(u.host, "[::1]")))
        return NULL;
    if (gs_slice_eq_str(u.port, own_port(a))) {
        u.scheme = external.scheme;
        u.port = external.port;
    }
    return gs_format(GS_SLICE_FMT "://" GS_SLICE_FMT GS_SLICE_FMT GS_SLICE_FMT,
                     GS_SLICE_ARG(u.scheme), GS_SLICE_ARG(external.host), GS_SLICE_ARG(u.port),
                     GS_SLICE_ARG(u.rest));
}

static void set_global_urls(const struct engine_api *a, const json_t *targets)
{
    size_t i;
    json_t *t;
    json_array_foreach (targets, i, t) {
        GS_AUTO_FREE char *url = global_url(a, codec_json_str(t, "globalUrl", NULL));
        if (url)
            codec_json_set_str(t, "globalUrl", url);
    }
}

void engine_api_targets(struct engine_api_request *r)
{
    GS_AUTO_FREE char *state = gs_strdup(engine_api_param(r, "state"));
    const char *pool = engine_api_param(r, "scrapePool");
    for (char *c = state; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (!r->api->cfg.scrapes) {
        engine_api_reply_json(r, json_pack("{s:[],s:[],s:{}}", "activeTargets", "droppedTargets",
                                           "droppedTargetCounts"));
        return;
    }
    json_t *data =
        scrape_targets_json(r->api->cfg.scrapes, *state ? state : "any", *pool ? pool : NULL);
    set_global_urls(r->api, json_object_get(data, "activeTargets"));
    engine_api_reply_json(r, data);
}

void engine_api_targets_metadata(struct engine_api_request *r)
{
    int64_t limit;
    const char *match = engine_api_param(r, "match_target"),
               *metric = engine_api_param(r, "metric");
    if (!engine_api_int(r, "limit", "limit must be a number", -1, &limit))
        return;
    struct promql_expr *expr = NULL;
    struct gs_error *err = *match ? promql_parse_selector(gs_slice_of(match), &expr) : NULL;
    if (err) {
        engine_api_fail_param(r, "match_target", err);
        return;
    }
    const struct promql_node *selector = expr ? promql_expr_root(expr) : NULL;
    engine_api_reply_json(
        r, r->api->cfg.scrapes
               ? scrape_targets_metadata_json(
                     r->api->cfg.scrapes, selector ? selector->u.selector.matchers : NULL,
                     selector ? selector->u.selector.n_matchers : 0, *metric ? metric : NULL, limit)
               : json_array());
    promql_expr_free(expr);
}

void engine_api_metadata(struct engine_api_request *r)
{
    int64_t limit, per_metric;
    const char *metric = engine_api_param(r, "metric");
    if (!engine_api_int(r, "limit", "limit must be a number", -1, &limit) ||
        !engine_api_int(r, "limit_per_metric", "limit_per_metric must be a number", -1,
                        &per_metric))
        return;
    engine_api_reply_json(r, r->api->cfg.scrapes
                                 ? scrape_metadata_json(r->api->cfg.scrapes,
                                                        *metric ? metric : NULL, limit, per_metric)
                                 : json_object());
}

// --- rules ---

struct rule_filter {
    const struct engine_api_request *r;
    struct engine_api_matches matches;
    bool exclude_alerts;
    int64_t max_groups; // 0: no pagination
    const char *token;
};

// True if the parameter is absent or has this value.
static bool among(const struct engine_api_request *r, const char *param, const char *value)
{
    const char *name, *v;
    bool any = false;
    for (size_t i = 0; (v = http_query_nth(r->x, i, &name)); i++) {
        if (!gs_streq(name, param))
            continue;
        any = true;
        if (gs_streq(v, value))
            return true;
    }
    return !any;
}

static bool labels_match(const struct promql_expr *e, const json_t *labels)
{
    size_t n;
    const struct tsdb_matcher *m = engine_api_matchers(e, &n);
    for (size_t i = 0; i < n; i++) {
        GS_AUTO_FREE char *name = gs_slice_dup(m[i].name);
        if (!tsdb_matcher_matches(&m[i], gs_slice_of(codec_json_str(labels, name, NULL))))
            return false;
    }
    return true;
}

static bool rule_wanted(const struct rule_filter *f, const json_t *rule)
{
    if (!among(f->r, "rule_name[]", codec_json_str(rule, "name", NULL)))
        return false;
    for (size_t i = 0; i < f->matches.len; i++)
        if (labels_match(f->matches.items[i], codec_json_get(rule, "labels", NULL)))
            return true;
    return f->matches.len == 0;
}

static void filter_rules(const struct rule_filter *f, json_t *rules)
{
    for (size_t i = 0; i < json_array_size(rules);) {
        json_t *rule = json_array_get(rules, i);
        if (!rule_wanted(f, rule)) {
            json_array_remove(rules, i);
            continue;
        }
        if (f->exclude_alerts && json_object_get(rule, "alerts"))
            json_object_set_new(rule, "alerts", json_null());
        i++;
    }
}

// The token of the group with which the next page begins.
static char *group_token(const json_t *group)
{
    return gs_format("%s;%s", codec_json_str(group, "file", NULL),
                     codec_json_str(group, "name", NULL));
}

static char *hex_of(const char *text)
{
    size_t len = strlen(text);
    char *hex = gs_alloc(2 * len + 1);
    *gs_put_hex(hex, text, len) = '\0';
    return hex;
}

// Returns false if no group has the token.
static bool page_groups(const struct rule_filter *f, json_t *data, json_t *groups)
{
    bool found = !*f->token;
    for (size_t i = 0; f->max_groups && i < json_array_size(groups);) {
        GS_AUTO_FREE char *text = group_token(json_array_get(groups, i));
        GS_AUTO_FREE char *token = hex_of(text);
        found = found || gs_streq(token, f->token);
        if (!found) {
            json_array_remove(groups, i);
            continue;
        }
        if (i == (size_t)f->max_groups) {
            codec_json_set_str(data, "groupNextToken", token);
            while (json_array_size(groups) > i)
                json_array_remove(groups, i);
            break;
        }
        i++;
    }
    return found || !f->max_groups;
}

static void filter_groups(const struct rule_filter *f, json_t *groups)
{
    for (size_t i = 0; i < json_array_size(groups);) {
        json_t *group = json_array_get(groups, i), *rules = json_object_get(group, "rules");
        bool wanted = among(f->r, "rule_group[]", codec_json_str(group, "name", NULL)) &&
                      among(f->r, "file[]", codec_json_str(group, "file", NULL));
        if (wanted)
            filter_rules(f, rules);
        if (wanted && json_array_size(rules))
            i++;
        else
            json_array_remove(groups, i);
    }
}

static bool read_bool(const char *text, bool *ret)
{
    static const char *const yes[] = {"1", "t", "true"}, *const no[] = {"", "0", "f", "false"};
    for (size_t i = 0; i < GS_ARRAY_LEN(yes); i++)
        if (strcasecmp(text, yes[i]) == 0)
            return *ret = true;
    *ret = false;
    for (size_t i = 0; i < GS_ARRAY_LEN(no); i++)
        if (strcasecmp(text, no[i]) == 0)
            return true;
    return false;
}

static bool read_paging(struct engine_api_request *r, struct rule_filter *f)
{
    const char *limit = engine_api_param(r, "group_limit");
    f->token = engine_api_param(r, "group_next_token");
    if (*f->token && !*limit) {
        engine_api_fail(
            r, ENGINE_API_BAD_DATA,
            "invalid parameter \"group_next_token\": group_limit needs to be present in order "
            "to paginate over the groups");
        return false;
    }
    if (!*limit)
        return true;
    struct gs_error *err = gs_parse_i64(gs_slice_of(limit), INT32_MIN, INT32_MAX, &f->max_groups);
    if (err) {
        gs_error_free(err);
        engine_api_fail(
            r, ENGINE_API_BAD_DATA,
            "invalid parameter \"group_limit\": group_limit needs to be a valid number: "
            "strconv.ParseInt: parsing \"%s\": invalid syntax",
            limit);
        return false;
    }
    if (f->max_groups > 0)
        return true;
    engine_api_fail(r, ENGINE_API_BAD_DATA,
                    "invalid parameter \"group_limit\": group_limit needs to be greater than 0");
    return false;
}

static bool read_filter(struct engine_api_request *r, struct rule_filter *f, const char *type)
{
    struct gs_error *err = engine_api_parse_strict_matches(r, &f->matches);
    if (err) {
        engine_api_fail(r, ENGINE_API_BAD_DATA, "%s", gs_error_message(err));
        gs_error_free(err);
        return false;
    }
    if (*type && strcasecmp(type, "alert") != 0 && strcasecmp(type, "record") != 0) {
        engine_api_fail(r, ENGINE_API_BAD_DATA,
                        "invalid parameter \"type\": not supported value \"%s\"", type);
        return false;
    }
    const char *exclude = engine_api_param(r, "exclude_alerts");
    if (!read_bool(exclude, &f->exclude_alerts)) {
        engine_api_fail(r, ENGINE_API_BAD_DATA,
                        "invalid parameter \"exclude_alerts\": error converting exclude_alerts: "
                        "strconv.ParseBool: parsing \"%s\": invalid syntax",
                        exclude);
        return false;
    }
    return read_paging(r, f);
}

static void reply_rules(struct engine_api_request *r, const struct rule_filter *f, const char *type)
{
    const char *want = strcasecmp(type, "alert") == 0 ? "alert" : *type ? "record" : NULL;
    json_t *data =
        r->api->cfg.rules ? rules_json(r->api->cfg.rules, want) : json_pack("{s:[]}", "groups");
    json_t *groups = json_object_get(data, "groups");
    filter_groups(f, groups);
    if (page_groups(f, data, groups)) {
        engine_api_reply_json(r, data);
        return;
    }
    json_decref(data);
    engine_api_fail(
        r, ENGINE_API_BAD_DATA,
        "invalid parameter \"group_next_token\": invalid group_next_token '%s'. were rule "
        "groups changed?",
        f->token);
}

void engine_api_rules(struct engine_api_request *r)
{
    struct rule_filter f = {.r = r};
    const char *type = engine_api_param(r, "type");
    if (read_filter(r, &f, type))
        reply_rules(r, &f, type);
    engine_api_matches_finish(&f.matches);
}

void engine_api_alerts(struct engine_api_request *r)
{
    engine_api_reply_json(r, r->api->cfg.rules ? rules_alerts_json(r->api->cfg.rules)
                                               : json_pack("{s:[]}", "alerts"));
}

void engine_api_alertmanagers(struct engine_api_request *r)
{
    engine_api_reply_json(r, r->api->cfg.rules ? rules_alertmanagers_json(r->api->cfg.rules)
                                               : json_pack("{s:[],s:[]}", "activeAlertmanagers",
                                                           "droppedAlertmanagers"));
}
