// SPDX-License-Identifier: Apache-2.0
// `gpuscale query`: queries an engine or a Prometheus, and formats expressions.
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "kube/engine_url.h"
#include "kube/up_dir.h"
#include "net/http/client.h"
#include "promql/ast.h"
#include "query/query_private.h"

#include <limits.h>
#include <unistd.h>

#define DEFAULT_RANGE INT64_C(300000) // ms, as in promtool
#define MAX_EXPR      ((size_t)1 << 20)

enum what { INSTANT, RANGE, SERIES, LABELS, METADATA };
static const char *const commands[] = {"instant", "range", "series", "labels", "metadata"};

struct query_request {
    enum what what;
    const char *url;   // the URL before the expression, as in promtool; NULL: absent
    char *const *args; // expression, matchers, or a name
    size_t n_args;
};

// --- the command line ---

static bool is_url(const char *s)
{
    return gs_starts(s, "http://") || gs_starts(s, "https://");
}

static struct gs_error *check_args(const struct query_request *q)
{
    static const struct {
        size_t min, max;
        const char *wants;
    } counts[] = {
        [INSTANT] = {1, 1, "one expression"},
        [RANGE] = {1, 1, "one expression"},
        [SERIES] = {0, 1000, "selectors"},
        [LABELS] = {0, 1, "at most one label name"},
        [METADATA] = {0, 1, "at most one metric name"},
    };
    if (q->n_args < counts[q->what].min || q->n_args > counts[q->what].max)
        return gs_error_new(GS_EINVAL, "query %s takes %s, not %zu; is it quoted?",
                            commands[q->what], counts[q->what].wants, q->n_args);
    return NULL;
}

// `query EXPR` is an instant query, or a range query with --start, --end or --step. The words
// series, labels and metadata can be used as commands.
static struct gs_error *parse_arguments(const struct query_options *o, int argc, char **argv,
                                        struct query_request *ret)
{
    size_t at = 0, n = (size_t)argc;
    ret->what = o->start || o->end || o->step ? RANGE : INSTANT;
    for (size_t i = 0; i < GS_ARRAY_LEN(commands); i++)
        if (gs_streq(argv[0], commands[i]) && (argc > 1 || i >= SERIES)) {
            ret->what = (enum what)i;
            at = 1;
        }
    if (at < n && is_url(argv[at]) && (n - at > 1 || ret->what >= SERIES))
        ret->url = argv[at++];
    ret->args = argv + at;
    ret->n_args = n - at;
    return check_args(ret);
}

static struct gs_error *read_format(const char *name, enum query_format *ret)
{
    static const char *const names[] = {"table", "json", "csv", "promql"};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (gs_streq(name, names[i])) {
            *ret = (enum query_format)i;
            return NULL;
        }
    return gs_error_new(GS_EINVAL, "--output \"%s\": want table, json, csv or promql", name);
}

// "-" reads standard input.
static struct gs_error *read_expr(const char *arg, struct gs_buf *ret)
{
    if (!gs_streq(arg, "-")) {
        gs_buf_add_str(ret, arg);
        return NULL;
    }
    struct gs_error *err = gs_file_read("/dev/stdin", MAX_EXPR, ret);
    while (!err && ret->len && strchr(" \r\n\t", ret->data[ret->len - 1]))
        ret->data[--ret->len] = '\0';
    if (!err && !ret->data)
        gs_buf_add_str(ret, "");
    return err;
}

// --- parameters ---

void query_add_param(struct gs_buf *out, const char *name, struct gs_slice value)
{
    gs_buf_addf(out, "%s%s=", out->len ? "&" : "", name);
    http_encode(value, out);
}

static void add_time_param(struct gs_buf *out, const char *name, int64_t ms)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    query_add_seconds(&text, ms);
    query_add_param(out, name, gs_buf_slice(&text));
}

static struct gs_error *add_optional_time(struct gs_buf *out, const char *name, const char *text,
                                          int64_t now_ms)
{
    int64_t ms = 0;
    struct gs_error *err = text ? query_parse_time(text, now_ms, &ms) : NULL;
    if (err)
        return gs_error_wrap(err, "--%s", name);
    if (text)
        add_time_param(out, name, ms);
    return NULL;
}

static struct gs_error *add_range(const struct query_options *o, int64_t now_ms, struct gs_buf *out)
{
    int64_t start = 0, end = now_ms, step = 0;
    struct gs_error *err = o->end ? query_parse_time(o->end, now_ms, &end) : NULL;
    if (err)
        return gs_error_wrap(err, "--end");
    start = end - DEFAULT_RANGE;
    if (o->start && (err = query_parse_time(o->start, now_ms, &start)))
        return gs_error_wrap(err, "--start");
    if (start > end)
        return gs_error_new(GS_EINVAL, "--start is after --end");
    // As in promtool: at most 251 steps of at least one second.
    step = (end - start) / 1000 / 250 * 1000;
    step = step < 1000 ? 1000 : step;
    if (o->step && (err = query_parse_step(o->step, &step)))
        return gs_error_wrap(err, "--step");
    add_time_param(out, "start", start);
    add_time_param(out, "end", end);
    add_time_param(out, "step", step);
    return NULL;
}

static struct gs_error *values_params(const struct query_options *o, const struct query_request *q,
                                      const char *expr, struct gs_buf *out)
{
    int64_t now = gs_unix_ms();
    query_add_param(out, "query", gs_slice_of(expr));
    if (q->what == RANGE && o->time)
        return gs_error_new(GS_EINVAL, "--time is for instant queries; a range has --start, --end "
                                       "and --step");
    if (q->what == INSTANT && (o->start || o->end || o->step))
        return gs_error_new(GS_EINVAL, "--start, --end and --step are for ranges; an instant query "
                                       "has --time");
    return q->what == RANGE ? add_range(o, now, out) : add_optional_time(out, "time", o->time, now);
}

static struct gs_error *names_params(const struct query_options *o, const struct query_request *q,
                                     struct gs_buf *out)
{
    int64_t now = gs_unix_ms();
    for (size_t i = 0; i < o->match.len; i++)
        query_add_param(out, "match[]", gs_slice_of(o->match.items[i]));
    for (size_t i = 0; q->what == SERIES && i < q->n_args; i++)
        query_add_param(out, "match[]", gs_slice_of(q->args[i]));
    if (q->what == SERIES && !out->len)
        return gs_error_new(GS_EINVAL, "query series needs a selector, such as up or "
                                       "'{job=\"gpu\"}'");
    struct gs_error *err = add_optional_time(out, "start", o->start, now);
    return err ? err : add_optional_time(out, "end", o->end, now);
}

// --- requests and responses ---

static void print_notes(const json_t *answer, const char *key, const char *word)
{
    const json_t *list = json_object_get(answer, key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        GS_AUTO_BUF struct gs_buf text = {0};
        query_add_visible(&text, gs_slice_of(json_string_value(json_array_get(list, i))));
        fprintf(stderr, "%s: %s\n", word, text.data ? text.data : "");
    }
}

// Errors of the request are usage errors. Others are errors of the server.
static struct gs_error *name_server(struct gs_error *err, const struct kube_engine_url *server)
{
    const char *reason = kube_engine_url_reason(server);
    if (gs_error_code(err) == GS_EINVAL || !reason)
        return err;
    if (server->origin == KUBE_ENGINE_OF_SERVICE) // the error has its long URL
        return gs_error_wrap(err, "server %s", reason);
    GS_AUTO_FREE char *hint =
        server->origin == KUBE_ENGINE_OF_DEFAULT ? kube_up_hint() : gs_strdup("");
    return gs_error_wrap(err, "server %s (%s%s)", server->url, reason, hint);
}

// The server that the user did not name, and why a table is empty.
static void print_source(const struct query_peer *peer, const struct kube_engine_url *server,
                         const char *absent, const char *expr)
{
    GS_AUTO_FREE char *source = kube_engine_url_source(server);
    GS_AUTO_FREE char *names = absent && expr ? query_absent_names(peer, expr) : NULL;
    if (absent)
        fprintf(stderr, "no %s at %s%s%s\n", absent, peer->url, names ? "; " : "",
                names ? names : "");
    if (source)
        fprintf(stderr, "%s\n", source);
}

static struct gs_error *send_query(const struct query_options *o, const struct query_request *q,
                                   const struct query_print *print, const char *path,
                                   const struct gs_buf *params)
{
    int64_t timeout = o->timeout_ns / GS_NS_PER_MS;
    GS_CLEANUP(kube_engine_url_finish) struct kube_engine_url server = {0};
    struct gs_error *err = kube_engine_url_locate(q->url ? q->url : o->url, NULL, NULL, &server);
    if (err)
        return err;
    const struct query_peer peer = {
        .url = server.url,
        .settings = kube_engine_url_settings(&server),
        .http_config_file = o->http_config_file,
        .headers = o->headers.items,
        .n_headers = o->headers.len,
        .timeout_ms = timeout < 1         ? 1
                      : timeout > INT_MAX ? INT_MAX
                                          : timeout,
    };
    static const char *const nouns[] = {"series", "series", "labels", "metadata"};
    CODEC_AUTO_JSON json_t *answer = NULL;
    bool any = false;
    err = query_fetch(&peer, path, gs_buf_slice(params), &answer);
    if (err)
        return name_server(err, &server);
    err = query_print(print, json_object_get(answer, "data"), stdout, &any);
    (void)fflush(stdout);
    print_notes(answer, "warnings", "warning");
    print_notes(answer, "infos", "info");
    if (!err && print->format == QUERY_TABLE)
        print_source(&peer, &server, any ? NULL : nouns[print->kind], print->absent_of);
    return err;
}

static struct gs_error *query_values(const struct query_options *o, const struct query_request *q,
                                     struct query_print *print)
{
    GS_AUTO_BUF struct gs_buf expr = {0}, params = {0};
    struct gs_error *err = read_expr(q->args[0], &expr);
    if (!err)
        err = values_params(o, q, expr.data ? expr.data : "", &params);
    print->kind = QUERY_VALUES;
    print->absent_of = expr.data;
    if (!err)
        err = send_query(o, q, print, q->what == RANGE ? "/api/v1/query_range" : "/api/v1/query",
                         &params);
    return err ? query_point_at(err, expr.data ? expr.data : "") : NULL;
}

static struct gs_error *query_names(const struct query_options *o, const struct query_request *q,
                                    struct query_print *print)
{
    GS_AUTO_BUF struct gs_buf path = {0}, params = {0};
    struct gs_error *err = NULL;
    gs_buf_addf(&path, "/api/v1/%s", commands[q->what]);
    print->kind = q->what == SERIES ? QUERY_SERIES : QUERY_LABELS;
    if (q->what == METADATA) {
        print->kind = QUERY_METADATA;
        if (q->n_args)
            query_add_param(&params, "metric", gs_slice_of(q->args[0]));
        return send_query(o, q, print, path.data, &params);
    }
    if (q->what == LABELS && q->n_args) {
        gs_buf_clear(&path);
        gs_buf_add_str(&path, "/api/v1/label/");
        http_encode(gs_slice_of(q->args[0]), &path);
        gs_buf_add_str(&path, "/values");
    }
    err = names_params(o, q, &params);
    return err ? err : send_query(o, q, print, path.data, &params);
}

static struct gs_error *format_expr(int argc, char **argv)
{
    struct promql_expr *x = NULL;
    GS_AUTO_BUF struct gs_buf expr = {0}, out = {0};
    if (argc != 1)
        return gs_error_new(GS_EINVAL, "query --format takes one expression, not %d; is it quoted?",
                            argc);
    struct gs_error *err = read_expr(argv[0], &expr);
    if (!err)
        err = promql_parse(gs_buf_slice(&expr), &x);
    if (err)
        return query_point_at(err, expr.data ? expr.data : "");
    promql_print_pretty(promql_expr_root(x), &out);
    printf("%s\n", out.data);
    promql_expr_free(x);
    return NULL;
}

struct gs_error *query_run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct query_options *o = opts;
    struct query_request q = {0};
    const char *no_color = getenv("NO_COLOR");
    struct query_print print = {.bold = isatty(STDOUT_FILENO) && !(no_color && *no_color)};
    *ret_exit = 0;
    if (o->format)
        return format_expr(argc, argv);
    struct gs_error *err = read_format(o->output, &print.format);
    if (!err)
        err = parse_arguments(o, argc, argv, &q);
    if (err)
        return err;
    return q.what == INSTANT || q.what == RANGE ? query_values(o, &q, &print)
                                                : query_names(o, &q, &print);
}
