// SPDX-License-Identifier: Apache-2.0
// `gpuscale check`: each kind of file has a row with its function. Exit codes are those of
// promtool: 1 for a wrong file, 3 for findings of lint. `check test` and `check convert` are
// commands of their own.
#include "engine/check.h"
#include "adapter/dry_run/dry_run.h"
#include "base/slice.h"
#include "cmd/commands.h"
#include "hpa_controller/check.h"

struct check_opts {
    struct engine_check_options engine;
    const char *source;  // of adapter: URL of a Prometheus; NULL: none is queried
    const char *sources; // of adapter: file of more sources; NULL: none
    struct gs_opt_list features;
    bool extended;          // of metrics: print the number of series
    const char *kubeconfig; // of adapter: the cluster with the resources; NULL: Kubernetes' own
};

static int check_rules(const struct check_opts *o, int n_files, char **files)
{
    return engine_check_rules(&o->engine, n_files, files);
}

static int check_adapter(const struct check_opts *o, int n_files, char **files)
{
    const struct dry_run_check_options d = {.strict = o->engine.strict,
                                            .source = o->source,
                                            .sources = o->sources,
                                            .kubeconfig = o->kubeconfig};
    return dry_run_check(&d, n_files, files);
}

// A file of Helm values may be for several charts.
static int check_config(const struct check_opts *o, int n_files, char **files)
{
    int code = 0;
    for (int i = 0; i < n_files; i++) {
        bool adapter = dry_run_has_rules(files[i]);
        if (!adapter || engine_check_is_values(files[i]))
            code |= engine_check_config(&o->engine, 1, &files[i]);
        if (adapter)
            code |= check_adapter(o, 1, &files[i]);
    }
    return code;
}

static int check_exposition(const struct check_opts *o, const char *path)
{
    const struct engine_check_metrics_options m = {.lint = !gs_streq(o->engine.lint, "none"),
                                                   .extended = o->extended};
    return engine_check_metrics(gs_streq(path, "-") ? "/dev/stdin" : path, &m);
}

static int check_metrics(const struct check_opts *o, int n_files, char **files)
{
    int code = 0;
    for (int i = 0; i < n_files; i++) {
        int one = check_exposition(o, files[i]);
        code = one > code ? one : code;
    }
    return code;
}

static int check_web_config(const struct check_opts *o, int n_files, char **files)
{
    (void)o;
    return engine_check_web_config(n_files, files, false);
}

static int check_hpa(const struct check_opts *o, int n_files, char **files)
{
    return hpa_check_files(n_files, files, o->engine.strict);
}

static int check_budgets(const struct check_opts *o, int n_files, char **files)
{
    (void)o;
    return hpa_check_budgets(n_files, files);
}

static const struct {
    const char *name;
    int (*run)(const struct check_opts *o, int n_files, char **files);
} kinds[] = {
    {"adapter", check_adapter},       {"budgets", check_budgets},
    {"config", check_config},         {"hpa", check_hpa},
    {"metrics", check_metrics},       {"rules", check_rules},
    {"web-config", check_web_config},
};

static struct gs_error *unknown_kind(const char *word)
{
    const char *names[GS_ARRAY_LEN(kinds)];
    GS_AUTO_BUF struct gs_buf list = {0};
    if (cmd_find_part(&cmd_check, word))
        return gs_error_new(GS_EINVAL, "put the flags after the words \"check %s\"", word);
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
        names[i] = kinds[i].name;
        gs_buf_addf(&list, "%s, ", names[i]);
    }
    const char *near = gs_suggest(word, names, GS_ARRAY_LEN(kinds));
    if (near)
        return gs_error_new(GS_EINVAL, "\"%s\" cannot be checked; did you mean \"%s\"?", word,
                            near);
    return gs_error_new(GS_EINVAL,
                        "\"%s\" cannot be checked; want %stest or convert, and then FILE…", word,
                        list.data);
}

static struct gs_error *run_check(const void *opts, int argc, char **argv, int *ret_exit)
{
    engine_enable_features(&((const struct check_opts *)opts)->features);
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
        if (!gs_streq(argv[0], kinds[i].name))
            continue;
        if (argc < 2)
            return gs_error_new(GS_EINVAL, "check %s needs at least one FILE", argv[0]);
        *ret_exit = kinds[i].run(opts, argc - 1, argv + 1);
        return NULL;
    }
    return unknown_kind(argv[0]);
}

static const struct gs_opt opts[] = {
    {"strict", GS_OPT_BOOL, offsetof(struct check_opts, engine.strict),
     .help = "Also fail for warnings: rules that write the same series, settings without effect."},
    {"ignore-unknown-fields", GS_OPT_BOOL,
     offsetof(struct check_opts, engine.ignore_unknown_fields),
     .help =
         "For rule files: accept fields of other programs. The engine still refuses such rules."},
    {"syntax-only", GS_OPT_BOOL, offsetof(struct check_opts, engine.syntax_only),
     .help = "For config: do not read the files that the configuration names."},
    {"lint", GS_OPT_STRING, offsetof(struct check_opts, engine.lint), "CHECKS",
     .help = "For rules and config: what is searched: all, none, duplicate-rules, "
             "too-long-scrape-interval, joined with commas. Default: duplicate-rules. For metrics: "
             "all or none."},
    {"lint-fatal", GS_OPT_BOOL, offsetof(struct check_opts, engine.lint_fatal),
     .help = "Exit code 3 if lint finds something."},
    {"extended", GS_OPT_BOOL, offsetof(struct check_opts, extended),
     .help = "For metrics: also print the number of series of each metric."},
    {"enable-feature", GS_OPT_STRINGS, offsetof(struct check_opts, features), "NAMES",
     .help = "Features of the engine that expressions may use, such as "
             "promql-experimental-functions. Repeatable."},
    {"source", GS_OPT_STRING, offsetof(struct check_opts, source), "URL",
     .help = "For adapter: URL of the Prometheus on which the rules are tried."},
    {"sources", GS_OPT_STRING, offsetof(struct check_opts, sources), "FILE",
     .help = "For adapter: the file of additional sources. They are queried if --source is given."},
    {"kubeconfig", GS_OPT_STRING, offsetof(struct check_opts, kubeconfig), "FILE",
     .help = "For adapter: the cluster whose resources the labels may name. Default: the resources "
             "of Kubernetes itself."},
    {0},
};

const struct gs_command cmd_check = {
    .name = "check",
    .args = "adapter|budgets|config|hpa|metrics|rules|web-config|test|convert FILE…",
    .summary = "Check configuration and rule files, test rules, convert autoscalers.",
    .description =
        "adapter: the configuration of prometheus-adapter, its Helm values, or a ConfigMap. With "
        "--source, prints for each rule the series that it matches, their names and resources, the "
        "query that a request would run, and its result. If a rule gives no metric, prints the "
        "first step that fails and how to fix it.\n\nbudgets: the ConfigMap gpuscale-budgets, or "
        "its "
        "text.\n\nconfig: prometheus.yml, with the files of "
        "secrets, certificates, targets and rules that it names; Helm values of "
        "kube-prometheus-stack, prometheus-adapter or ACK's adapter; ServiceMonitor, PodMonitor "
        "and PrometheusRule objects. Settings without effect, relabeling rules that never match, "
        "and endpoints that scrape the same port, are warnings.\n\nhpa: HorizontalPodAutoscaler "
        "objects as the "
        "API server checks them, and their annotations gpuscale.dev/slo, credit, down-check and "
        "priority. "
        "Other objects of the file are ignored.\n\nrules: rule files, "
        "PrometheusRule objects, and files with "
        "several such documents. Each wrong rule is reported with its file, line, group and the "
        "position in its expression or template.\n\nmetrics: an exposition in the text format (- "
        "for the "
        "standard input), against the recommendations for names of metrics and labels. The exit "
        "code "
        "is 3 if there are problems.\n\nweb-config: files of --web.config.file.\n\ntest: unit "
        "tests of rules, autoscalers "
        "and nodes (gpuscale check test --help).\n\nconvert: autoscalers between API versions "
        "(gpuscale check convert --help).\n\nThe exit code "
        "is "
        "1 if a file is wrong, empty, or of another program, which is named.",
    .examples = "gpuscale check adapter values.yaml --source=http://prometheus:9090\n"
                "gpuscale check config prometheus.yml\n"
                "gpuscale check rules rules/*.yaml\n"
                "gpuscale check rules prometheus-alert-rule.yaml",
    .opts = opts,
    .opts_size = sizeof(struct check_opts),
    .min_args = 1,
    .max_args = -1,
    .run = run_check,
};
