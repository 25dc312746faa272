// SPDX-License-Identifier: Apache-2.0
// /healthz, /livez, /readyz with their checks, /version, /metrics, the index.
#include "adapter/api/api_private.h"

#include "base/mem.h"
#include "kube/status.h"
#include "net/http/routes.h"

enum { CHECKS_MAX = 4 };

struct check {
    const char *name;
    const char *wrong; // NULL: ok
};

static const char *source_wrong(const struct adapter_api *a)
{
    if (!a->generation.source)
        return "not configured yet";
    return a->o.probe ? source_probe_wrong(a->o.probe) : NULL;
}

static size_t list_checks(const struct adapter_api *a, bool ready, struct check ret[CHECKS_MAX])
{
    size_t n = 0;
    ret[n++] = (struct check){"ping", NULL};
    if (!ready)
        return n;
    ret[n++] = (struct check){"start", a->o.not_ready ? a->o.not_ready(a->o.arg) : NULL};
    ret[n++] = (struct check){"source", source_wrong(a)};
    ret[n++] = (struct check){"shutdown", a->stopping ? "the program ends" : NULL};
    return n;
}

static bool excluded(const struct http_exchange *x, const char *check)
{
    const char *name, *value;
    for (size_t i = 0; (value = http_query_nth(x, i, &name)); i++)
        if (gs_streq(name, "exclude") && gs_streq(value, check))
            return true;
    return false;
}

static void reply_checks(struct adapter_api_call *c, const char *endpoint, const char *only)
{
    struct check checks[CHECKS_MAX];
    GS_AUTO_BUF struct gs_buf text = {0};
    size_t n = list_checks(c->a, gs_streq(endpoint, "readyz"), checks), bad = 0, seen = 0;
    for (size_t i = 0; i < n; i++) {
        if (*only && !gs_streq(only, checks[i].name))
            continue;
        seen++;
        bool skip = excluded(c->x, checks[i].name);
        bad += checks[i].wrong && !skip;
        if (skip)
            gs_buf_addf(&text, "[+]%s excluded: ok\n", checks[i].name);
        else
            gs_buf_addf(&text, "[%c]%s %s%s\n", checks[i].wrong ? '-' : '+', checks[i].name,
                        checks[i].wrong ? "failed: " : "ok",
                        checks[i].wrong ? checks[i].wrong : "");
    }
    http_add_header(c->x, "X-Content-Type-Options", "nosniff");
    if (!seen)
        http_reply_text(c->x, 404, "404 page not found\n");
    else if (bad)
        http_reply_text(c->x, 500, "%s%s check failed\n", text.data, endpoint);
    else if (http_query(c->x, "verbose") && !*only)
        http_reply_text(c->x, 200, "%s%s check passed\n", text.data, endpoint);
    else
        http_reply_text(c->x, 200, "ok");
}

static bool health(struct adapter_api_call *c, const char *path)
{
    static const char *const endpoints[] = {"healthz", "livez", "readyz"};
    for (size_t i = 0; i < GS_ARRAY_LEN(endpoints); i++) {
        size_t n = strlen(endpoints[i]);
        if (strncmp(path, endpoints[i], n) != 0 || (path[n] && path[n] != '/'))
            continue;
        reply_checks(c, endpoints[i], path[n] ? path + n + 1 : "");
        return true;
    }
    return false;
}

// --- metrics ---

static void family(struct gs_buf *out, const char *name, const char *type, const char *help)
{
    gs_buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_label(struct gs_buf *out, const char *value)
{
    for (const char *p = value; *p; p++) {
        if (*p == '"' || *p == '\\')
            gs_buf_add_char(out, '\\');
        if (*p == '\n')
            gs_buf_add_str(out, "\\n");
        else
            gs_buf_add_char(out, *p);
    }
}

static struct source *nth_source(const struct adapter_api *a, size_t i, const char **ret_name)
{
    size_t others = a->generation.config ? a->generation.config->n_sources : 0;
    if (!a->generation.source || i > others)
        return NULL;
    *ret_name = i ? a->generation.config->sources[i - 1].name : "default";
    return source_pick(a->generation.source, a->generation.extra_sources, i);
}

static void add_sources(const struct adapter_api *a, struct gs_buf *out)
{
    static const struct {
        const char *name, *type, *help;
        int decimals;
    } families[] = {
        {"queries_total", "counter", "Questions sent to a source.", 0},
        {"failures_total", "counter", "Those without a good answer.", 0},
        {"shared_total", "counter", "Requests that were answered by an answer to another one.", 0},
        {"seconds_total", "counter", "Time waited for answers.", 6},
        {"last_answer_timestamp_seconds", "gauge", "When the last good answer came; 0: never.", 3},
    };
    const char *name;
    struct source *source;
    for (size_t k = 0; k < GS_ARRAY_LEN(families); k++) {
        GS_AUTO_FREE char *full = gs_format("gpuscale_adapter_source_%s", families[k].name);
        family(out, full, families[k].type, families[k].help);
        for (size_t i = 0; (source = nth_source(a, i, &name)); i++) {
            struct source_stats s = {0};
            source_stats(source, &s);
            const double values[] = {(double)s.queries, (double)s.failures, (double)s.shared,
                                     s.seconds, (double)s.last_ok_ms / 1000};
            gs_buf_addf(out, "%s{source=\"", full);
            add_label(out, name);
            gs_buf_addf(out, "\"} %.*f\n", families[k].decimals, values[k]);
        }
    }
}

static void add_rules(const struct adapter_api *a, struct gs_buf *out)
{
    struct provider_registry_rule_state s;
    size_t n = a->generation.registry ? provider_registry_rules(a->generation.registry) : 0;
    if (!n)
        return;
    family(out, "gpuscale_adapter_rule_up", "gauge",
           "1: the series of the rule were listed in the last round; 0: the request failed.");
    for (size_t i = 0; i < n; i++) {
        provider_registry_rule(a->generation.registry, i, &s);
        gs_buf_add_str(out, "gpuscale_adapter_rule_up{rule=\"");
        add_label(out, s.rule->place);
        gs_buf_addf(out, "\"} %d\n", s.last_ok_ms && !s.error);
    }
    family(out, "gpuscale_adapter_rule_metrics", "gauge", "Metrics that a rule serves.");
    for (size_t i = 0; i < n; i++) {
        provider_registry_rule(a->generation.registry, i, &s);
        gs_buf_add_str(out, "gpuscale_adapter_rule_metrics{rule=\"");
        add_label(out, s.rule->place);
        gs_buf_addf(out, "\"} %zu\n", s.metrics);
    }
}

static void add_auth(const struct adapter_api *a, struct gs_buf *out)
{
    struct adapter_api_auth_stats s = {0};
    adapter_api_auth_stats(a->o.auth, &s);
    family(out, "gpuscale_adapter_reviews_total", "counter", "Questions to the cluster.");
    gs_buf_addf(out, "gpuscale_adapter_reviews_total{kind=\"TokenReview\"} %llu\n",
                (unsigned long long)s.token_reviews);
    gs_buf_addf(out, "gpuscale_adapter_reviews_total{kind=\"SubjectAccessReview\"} %llu\n",
                (unsigned long long)s.access_reviews);
    family(out, "gpuscale_adapter_refused_total", "counter", "Requests that were refused.");
    gs_buf_addf(out, "gpuscale_adapter_refused_total{code=\"401\"} %llu\n",
                (unsigned long long)s.unauthenticated);
    gs_buf_addf(out, "gpuscale_adapter_refused_total{code=\"403\"} %llu\n",
                (unsigned long long)s.forbidden);
}

static void add_audit(const struct adapter_api *a, struct gs_buf *out)
{
    struct adapter_api_audit_stats s = {0};
    if (!a->o.audit)
        return;
    adapter_api_audit_stats(a->o.audit, &s);
    family(out, "gpuscale_adapter_audit_events_total", "counter", "Lines of the audit log.");
    gs_buf_addf(out, "gpuscale_adapter_audit_events_total %llu\n", (unsigned long long)s.events);
    family(out, "gpuscale_adapter_audit_failures_total", "counter",
           "Writes to the audit log that failed.");
    gs_buf_addf(out, "gpuscale_adapter_audit_failures_total %llu\n",
                (unsigned long long)s.failures);
}

static void add_previous(const struct adapter_api *a, struct gs_buf *out)
{
    static const struct {
        const char *name, *type, *help;
    } families[] = {
        {"requests_total", "counter", "Requests forwarded to the previous owner of a group."},
        {"failures_total", "counter", "Requests that it did not answer."},
        {"up", "gauge", "1: the last request was answered."},
    };
    static const char *const groups[] = {ADAPTER_API_CUSTOM, ADAPTER_API_EXTERNAL,
                                         ADAPTER_API_RESOURCE};
    bool any = a->o.delegate_custom || a->o.delegate_external || a->o.delegate_resource;
    for (size_t k = 0; any && k < GS_ARRAY_LEN(families); k++) {
        GS_AUTO_FREE char *full = gs_format("gpuscale_adapter_previous_owner_%s", families[k].name);
        family(out, full, families[k].type, families[k].help);
        for (size_t i = 0; i < GS_ARRAY_LEN(groups); i++) {
            const struct adapter_api_delegate *p = adapter_api_delegate(a, groups[i]);
            struct adapter_api_delegate_stats s = {0};
            if (!p)
                continue;
            adapter_api_delegate_stats(p, &s);
            const uint64_t values[] = {s.requests, s.failures, s.up};
            gs_buf_addf(out, "%s{group=\"%s\"} %llu\n", full, groups[i],
                        (unsigned long long)values[k]);
        }
    }
}

static void reply_metrics(struct adapter_api_call *c)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    family(&out, "gpuscale_adapter_requests_total", "counter", "Requests that were answered.");
    gs_buf_addf(&out, "gpuscale_adapter_requests_total %llu\n",
                (unsigned long long)c->a->counts.answered);
    add_sources(c->a, &out);
    add_rules(c->a, &out);
    add_auth(c->a, &out);
    add_audit(c->a, &out);
    add_previous(c->a, &out);
    if (c->a->changes)
        metric_changes_write_metrics(c->a->changes, &out);
    if (c->a->o.more_metrics)
        c->a->o.more_metrics(c->a->o.arg, &out);
    http_reply(c->x, 200, HTTP_TYPE_METRICS, gs_buf_slice(&out));
}

// --- dispatch ---

static void reply_version(struct adapter_api_call *c)
{
    CODEC_AUTO_JSON json_t *body =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "major", "1", "minor", "0",
                  "gitVersion", "v" GPUSCALE_VERSION "+gpuscale", "gitCommit", "", "gitTreeState",
                  "", "buildDate", "", "goVersion", "", "compiler", "", "platform", "");
    kube_reply_json(c->x, 200, body);
}

static void reply_index(struct adapter_api_call *c)
{
    static const char *const paths[] = {
        "/",        ADAPTER_API_STATUS_PATH, "/apis",       "/healthz", "/livez",
        "/metrics", "/openapi/v2",           "/openapi/v3", "/readyz",  "/version"};
    CODEC_AUTO_JSON json_t *list = json_array();
    for (size_t i = 0; i < GS_ARRAY_LEN(paths); i++)
        json_array_append_new(list, json_string(paths[i]));
    CODEC_AUTO_JSON json_t *body = json_pack("{s:O}", "paths", list);
    kube_reply_json(c->x, 200, body);
}

bool adapter_api_health(struct adapter_api_call *c)
{
    const char *path = http_path(c->x);
    if (*path == '/' && health(c, path + 1))
        return true;
    if (gs_streq(path, "/metrics"))
        reply_metrics(c);
    else if (gs_streq(path, "/version") || gs_streq(path, "/version/"))
        reply_version(c);
    else if (gs_streq(path, "/"))
        reply_index(c);
    else
        return false;
    return true;
}
