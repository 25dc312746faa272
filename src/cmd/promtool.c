// SPDX-License-Identifier: Apache-2.0
// A link named promtool runs this command: the commands of promtool that gpuscale has, with
// promtool's flags.
#include "base/clock.h"
#include "cmd/commands.h"
#include "codec/test_report.h"
#include "engine/check.h"
#include "engine/remote/push.h"
#include "engine/rules/unit_test.h"
#include "kube/engine_url.h"
#include "query/query.h"

#include <limits.h>

#define QUERY_TIMEOUT (120 * GS_NS_PER_SEC)
#define SHORT_TIMEOUT (30 * GS_NS_PER_SEC)

struct promtool_opts {
    struct query_options query;
    struct engine_check_options check;
    struct codec_test_options test;
    struct query_analysis analysis;
    bool ignore_unknown_fields, extended;
    int64_t lookback_ns, timeout_ns; // timeout_ns 0: the default of the command
    const char *server, *type;
    const char *protobuf_message, *write_path;
    struct gs_opt_list labels;
    bool agent, experimental; // without effect
    struct gs_opt_list features;
};

#define AT(member) .offset = offsetof(struct promtool_opts, member)
#define IGNORED    "Accepted without effect"

static const struct gs_opt opts[] = {
    {"lint-fatal", GS_OPT_BOOL, AT(check.lint_fatal), .group = "check",
     .help = "Exit code 3 if lint finds something."},
    {"lint", GS_OPT_STRING, AT(check.lint), "CHECKS", .group = "check",
     .help = "What is searched: all, none, duplicate-rules, too-long-scrape-interval, joined with "
             "commas. Default: duplicate-rules; of check metrics: all."},
    {"query.lookback-delta", GS_OPT_DURATION, AT(lookback_ns), "DURATION", "5m", .group = "check",
     .help = "Look-back of queries, for too-long-scrape-interval."},
    {"extended", GS_OPT_BOOL, AT(extended), .group = "check",
     .help = "With check metrics: also print the number of series of each metric."},
    {"url", GS_OPT_STRING, AT(query.url), "URL", KUBE_ENGINE_DEFAULT_URL, .group = "check",
     .help = "Server of check healthy and check ready."},
    {"syntax-only", GS_OPT_BOOL, AT(check.syntax_only), .group = "check",
     .help = "Do not read the files that a configuration names."},
    {"ignore-unknown-fields", GS_OPT_BOOL, AT(ignore_unknown_fields), .group = "check",
     .help = "Accept fields of other programs in rule files."},
    {"time", GS_OPT_STRING, AT(query.time), "TIME", .group = "query",
     .help = "Evaluation time: RFC 3339 or Unix seconds."},
    {"start", GS_OPT_STRING, AT(query.start), "TIME", .group = "query",
     .help = "Start of the range. Default: 5 minutes before its end."},
    {"end", GS_OPT_STRING, AT(query.end), "TIME", .group = "query",
     .help = "End of the range. Default: now."},
    {"step", GS_OPT_STRING, AT(query.step), "DURATION", .group = "query",
     .help = "Step of the range. Default: 1/250 of the range, at least 1s."},
    {"match", GS_OPT_STRINGS, AT(query.match), "SELECTOR", .group = "query",
     .help = "Series of query series, query labels and query analyze. Repeatable."},
    {"server", GS_OPT_STRING, AT(server), "URL", .group = "query",
     .help = "Server of query analyze."},
    {"type", GS_OPT_STRING, AT(type), "TYPE", .alias = "t", .group = "query",
     .help = "Of query analyze: histogram. Of promql label-matchers set: =, !=, =~ or !~."},
    {"duration", GS_OPT_DURATION, AT(analysis.duration_ns), "DURATION", "1h", .group = "query",
     .help = "Time that query analyze covers."},
    {"format", GS_OPT_STRING, AT(query.output), "promql|json", "promql", .alias = "o",
     .group = "query", .help = "Output format."},
    {"http.config.file", GS_OPT_STRING, AT(query.http_config_file), "FILE", .group = "query",
     .help = "TLS, users, tokens and proxy of the connection."},
    {"header", GS_OPT_STRINGS, AT(query.headers), "NAME=VALUE", .group = "query",
     .help = "Header of the request. Repeatable."},
    {"timeout", GS_OPT_DURATION, AT(timeout_ns), "DURATION", .group = "query",
     .help = "How long to wait for the response. Default: 2m; of check service-discovery and push "
             "metrics: 30s."},
    {"run", GS_OPT_STRINGS, AT(test.run), "REGEX", .group = "test",
     .help = "Only tests whose name it matches. Repeatable."},
    {"diff", GS_OPT_BOOL, AT(test.diff), .group = "test", .help = "Print the lines that differ."},
    {"junit", GS_OPT_STRING, AT(test.junit), "FILE", .group = "test",
     .help = "Also write the results as JUnit XML."},
    {"debug", GS_OPT_BOOL, AT(test.debug), .group = "test",
     .help = "Print all samples of each test to stderr."},
    {"label", GS_OPT_STRINGS, AT(labels), "NAME=VALUE", .group = "push",
     .help = "Label of the pushed series. Repeatable. Default: job=promtool."},
    {"protobuf_message", GS_OPT_STRING, AT(protobuf_message), "NAME", "prometheus.WriteRequest",
     .group = "push", .help = "Only prometheus.WriteRequest (remote write 1.0) is supported."},
    {"remote-write.path", GS_OPT_STRING, AT(write_path), "PATH", "/api/v1/write", .group = "push",
     .help = "Path of the receiver, after the URL."},
    {"enable-feature", GS_OPT_STRINGS, AT(features), "NAME",
     .help = "Features that expressions may use, such as promql-experimental-functions."},
    {"agent", GS_OPT_BOOL, AT(agent), .group = IGNORED, .help = "The agent mode does not exist."},
    {"experimental", GS_OPT_BOOL, AT(experimental), .group = IGNORED,
     .help = "The commands of promql need no flag."},
    {0},
};

static struct engine_check_options check_options(const struct promtool_opts *o)
{
    struct engine_check_options check = o->check;
    check.ignore_unknown_fields = o->ignore_unknown_fields;
    check.lookback_ms = o->lookback_ns / GS_NS_PER_MS;
    check.promtool_texts = true;
    return check;
}

static struct gs_error *check_config(const struct promtool_opts *o, int n, char **args, int *exit)
{
    struct engine_check_options check = check_options(o);
    *exit = engine_check_config(&check, n, args);
    return NULL;
}

static struct gs_error *check_rules(const struct promtool_opts *o, int n, char **args, int *exit)
{
    struct engine_check_options check = check_options(o);
    *exit = engine_check_rules(&check, n, args);
    return NULL;
}

static struct gs_error *check_metrics(const struct promtool_opts *o, int n, char **args, int *exit)
{
    (void)n, (void)args;
    bool lint = !gs_streq(o->check.lint, "none");
    if (!lint && !o->extended)
        return gs_error_new(GS_EIO, "at least one of --extended or linting must be enabled. Use "
                                    "--extended for cardinality analysis, or remove --lint=none to "
                                    "enable linting");
    const struct engine_check_metrics_options m = {lint, o->extended, true};
    *exit = engine_check_metrics("/dev/stdin", &m);
    return NULL;
}

static struct query_peer peer_of(const struct promtool_opts *o, const char *url, int64_t timeout_ns)
{
    int64_t ms = (o->timeout_ns ? o->timeout_ns : timeout_ns) / GS_NS_PER_MS;
    return (struct query_peer){.url = url,
                               .http_config_file = o->query.http_config_file,
                               .headers = o->query.headers.items,
                               .n_headers = o->query.headers.len,
                               .timeout_ms = ms < 1         ? 1
                                             : ms > INT_MAX ? INT_MAX
                                                            : ms};
}

static struct gs_error *check_page(const struct promtool_opts *o, const char *path, int *exit)
{
    struct query_peer peer = peer_of(o, o->query.url, 10 * GS_NS_PER_SEC);
    struct gs_error *err = query_check_page(&peer, path);
    *exit = err != NULL;
    return err;
}

static struct gs_error *check_discovery(const struct promtool_opts *o, int n, char **args,
                                        int *exit)
{
    (void)n;
    *exit = engine_check_discovery(args[0], args[1], o->timeout_ns ? o->timeout_ns : SHORT_TIMEOUT);
    return NULL;
}

static struct gs_error *push_metrics(const struct promtool_opts *o, int n, char **args, int *exit)
{
    static const char *const job[] = {"job=promtool"};
    if (!gs_streq(o->protobuf_message, "prometheus.WriteRequest"))
        return gs_error_new(GS_EINVAL,
                            "--protobuf_message \"%s\": only prometheus.WriteRequest is supported",
                            o->protobuf_message);
    const struct remote_push_options push = {
        .url = args[0],
        .path = o->write_path,
        .http_config_file = o->query.http_config_file,
        .labels = o->labels.len ? o->labels.items : job,
        .n_labels = o->labels.len ? o->labels.len : 1,
        .headers = o->query.headers.items,
        .n_headers = o->query.headers.len,
        .timeout_ms = (o->timeout_ns ? o->timeout_ns : SHORT_TIMEOUT) / GS_NS_PER_MS};
    *exit = remote_push_files(&push, n - 1, args + 1);
    return NULL;
}

static struct gs_error *check_healthy(const struct promtool_opts *o, int n, char **args, int *exit)
{
    (void)n, (void)args;
    return check_page(o, "/-/healthy", exit);
}

static struct gs_error *check_ready(const struct promtool_opts *o, int n, char **args, int *exit)
{
    (void)n, (void)args;
    return check_page(o, "/-/ready", exit);
}

static struct gs_error *check_web_config(const struct promtool_opts *o, int n, char **args,
                                         int *exit)
{
    (void)o;
    *exit = engine_check_web_config(n, args, true);
    return NULL;
}

static struct gs_error *test_rules(const struct promtool_opts *o, int n, char **args, int *exit)
{
    struct codec_test_options test = o->test;
    test.ignore_unknown_fields = o->ignore_unknown_fields;
    return rules_tests_run_files(&test, n, args, exit);
}

// The first of args is the server.
static struct gs_error *query(const struct promtool_opts *o, const char *what, int n, char **args,
                              int *exit)
{
    struct query_options options = o->query;
    options.url = args[0];
    options.timeout_ns = o->timeout_ns ? o->timeout_ns : QUERY_TIMEOUT;
    args[0] = (char *)(uintptr_t)what; // query_run() does not write to it
    return query_run(&options, n, args, exit);
}

static struct gs_error *query_instant(const struct promtool_opts *o, int n, char **args, int *exit)
{
    return query(o, "instant", n, args, exit);
}
static struct gs_error *query_range(const struct promtool_opts *o, int n, char **args, int *exit)
{
    return query(o, "range", n, args, exit);
}
static struct gs_error *query_series(const struct promtool_opts *o, int n, char **args, int *exit)
{
    return query(o, "series", n, args, exit);
}
static struct gs_error *query_labels(const struct promtool_opts *o, int n, char **args, int *exit)
{
    return query(o, "labels", n, args, exit);
}
static struct gs_error *query_analyze_buckets(const struct promtool_opts *o, int n, char **args,
                                              int *exit)
{
    (void)n, (void)args;
    struct query_analysis analysis = o->analysis;
    analysis.time = o->query.time;
    analysis.type = o->type;
    analysis.match = &o->query.match;
    if (!o->server || !o->type || !o->query.match.len)
        return gs_error_new(GS_EINVAL, "required flag --%s not provided",
                            !o->server ? "server"
                            : !o->type ? "type"
                                       : "match");
    struct query_peer peer = peer_of(o, o->server, QUERY_TIMEOUT);
    *exit = 0;
    return query_analyze(&peer, &analysis);
}

// args: set QUERY NAME VALUE, or delete QUERY NAME.
static struct gs_error *edit_label_matchers(const struct promtool_opts *o, int n, char **args,
                                            int *exit)
{
    bool set = gs_streq(args[0], "set");
    *exit = 0;
    if (n != (set ? 4 : 3) || (!set && !gs_streq(args[0], "delete")))
        return gs_error_new(GS_EINVAL,
                            "usage: promtool promql label-matchers set QUERY NAME VALUE, "
                            "or delete QUERY NAME");
    const char *op = !o->type ? "=" : gs_streq(o->type, "~") ? "=~" : o->type; // -t=~
    return query_edit_matchers(args[1], args[2], set ? op : NULL, set ? args[3] : NULL);
}

static struct gs_error *format_promql(const struct promtool_opts *o, int n, char **args, int *exit)
{
    struct query_options options = o->query;
    options.format = true;
    options.output = "table";
    return query_run(&options, n, args, exit);
}

static const struct {
    const char *group, *name, *args;
    int min_args, max_args; // max_args -1: any number
    struct gs_error *(*run)(const struct promtool_opts *o, int n, char **args, int *ret_exit);
} commands[] = {
    {"check", "config", "FILE…", 1, -1, check_config},
    {"check", "rules", "[FILE]…", 0, -1, check_rules},
    {"check", "metrics", "<FILE", 0, 0, check_metrics},
    {"check", "web-config", "FILE…", 1, -1, check_web_config},
    {"check", "service-discovery", "CONFIG-FILE JOB", 2, 2, check_discovery},
    {"check", "healthy", "[--url=URL]", 0, 0, check_healthy},
    {"check", "ready", "[--url=URL]", 0, 0, check_ready},
    {"query", "instant", "SERVER EXPR", 2, 2, query_instant},
    {"query", "range", "SERVER EXPR", 2, 2, query_range},
    {"query", "series", "--match=SELECTOR SERVER", 1, 1, query_series},
    {"query", "labels", "SERVER NAME", 2, 2, query_labels},
    {"query", "analyze", "--server=URL --type=histogram --match=SELECTOR", 0, 0,
     query_analyze_buckets},
    {"push", "metrics", "URL [FILE]…", 1, -1, push_metrics},
    {"test", "rules", "FILE…", 1, -1, test_rules},
    {"promql", "format", "EXPR", 1, 1, format_promql},
    {"promql", "label-matchers", "set QUERY NAME VALUE | delete QUERY NAME", 3, 4,
     edit_label_matchers},
};

#define NO_BLOCKS "the engine has no blocks; "

// Commands of promtool that gpuscale does not have, and what to use instead.
static const struct {
    const char *group, *name, *instead;
} absent[] = {
    {"tsdb", "analyze",
     NO_BLOCKS "/api/v1/status/tsdb of the engine has the metrics and labels with the most series"},
    {"tsdb", "list",
     NO_BLOCKS "/api/v1/status/tsdb of the engine has the time range and the number of series"},
    {"tsdb", "dump", NO_BLOCKS "query the samples: promtool query instant SERVER 'SELECTOR[2h]'"},
    {"tsdb", "dump-openmetrics",
     NO_BLOCKS "query the samples: promtool query instant SERVER 'SELECTOR[2h]'"},
    {"tsdb", "create-blocks-from",
     NO_BLOCKS
     "send samples with remote write to gpuscale engine --web.enable-remote-write-receiver"},
    {"tsdb", "bench", NO_BLOCKS "use the promtool of Prometheus"},
    {"debug", "metrics", "the metrics about the engine are at /metrics of the server"},
    {"debug", "pprof",
     "the engine has no profiles of Go; its metrics are at /metrics of the server"},
    {"debug", "all", "the engine has no profiles of Go; its metrics are at /metrics of the server"},
};

static struct gs_error *run_promtool(const void *options, int argc, char **argv, int *ret_exit)
{
    engine_enable_features(&((const struct promtool_opts *)options)->features);
    for (size_t i = 0; i < GS_ARRAY_LEN(commands); i++) {
        if (!gs_streq(argv[0], commands[i].group) || !gs_streq(argv[1], commands[i].name))
            continue;
        if (argc - 2 < commands[i].min_args ||
            (commands[i].max_args >= 0 && argc - 2 > commands[i].max_args))
            return gs_error_new(GS_EINVAL, "usage: promtool %s %s %s", argv[0], argv[1],
                                commands[i].args);
        return commands[i].run(options, argc - 2, argv + 2, ret_exit);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(absent); i++)
        if (gs_streq(argv[0], absent[i].group) && gs_streq(argv[1], absent[i].name))
            return gs_error_new(GS_ENOTSUP, "promtool %s %s does not exist in gpuscale: %s",
                                argv[0], argv[1], absent[i].instead);
    return gs_error_new(GS_EINVAL, "promtool %s %s does not exist in gpuscale; see promtool --help",
                        argv[0], argv[1]);
}

static void print_commands(FILE *out)
{
    fputs("\nCommands:\n", out);
    for (size_t i = 0; i < GS_ARRAY_LEN(commands); i++)
        fprintf(out, "  %s %s %s\n", commands[i].group, commands[i].name, commands[i].args);
}

const struct gs_command cmd_promtool = {
    .name = "promtool",
    .args = "check|query|push|test|promql COMMAND [ARG]…",
    .summary = "Run the commands of promtool that gpuscale has.",
    .description =
        "For scripts that call promtool. They are the commands gpuscale check, gpuscale query and "
        "gpuscale test, with promtool's arguments and flags. Other commands of promtool, such as "
        "those of tsdb, do not exist.",
    .opts = opts,
    .opts_size = sizeof(struct promtool_opts),
    .min_args = 2,
    .max_args = -1,
    .print_more = print_commands,
    .run = run_promtool,
};
