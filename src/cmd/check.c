// SPDX-License-Identifier: Apache-2.0
#include "cmd/check.h"

#include "adapter/dry_run/dry_run.h"
#include "base/slice.h"
#include "cmd/verbs.h"

static int check_config(const struct check_opts *o, int n_files, char **files)
{
    return engine_check_config(&o->engine, n_files, files);
}

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

static const struct {
    const char *name;
    int (*run)(const struct check_opts *o, int n_files, char **files);
} kinds[] = {
    {"adapter", check_adapter},
    {"config", check_config},
    {"rules", check_rules},
};

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const char *names[GS_ARRAY_LEN(kinds)];
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
        names[i] = kinds[i].name;
        if (!gs_streq(argv[0], kinds[i].name))
            continue;
        if (argc < 2)
            return gs_error_new(GS_EINVAL, "check %s needs at least one FILE", argv[0]);
        *ret_exit = kinds[i].run(opts, argc - 1, argv + 1);
        return NULL;
    }
    const char *near = gs_suggest(argv[0], names, GS_ARRAY_LEN(kinds));
    return gs_error_new(GS_EINVAL, "nothing called \"%s\" can be checked%s%s%s", argv[0],
                        near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

static const struct gs_opt opts[] = {
    {.name = "strict",
     .type = GS_OPT_BOOL,
     .offset = offsetof(struct check_opts, engine.strict),
     .help = "Also fail for what works but is doubtful: rules that write the same series, settings "
             "that have no effect."},
    {.name = "ignore-unknown-fields",
     .type = GS_OPT_BOOL,
     .offset = offsetof(struct check_opts, engine.ignore_unknown_fields),
     .help = "Of rule files: fields of other programs are no mistake. Rules with them are still "
             "wrong for the engine."},
    {.name = "source",
     .arg = "URL",
     .type = GS_OPT_STRING,
     .offset = offsetof(struct check_opts, source),
     .help = "Of adapter: the Prometheus whose series the rules are tried on."},
    {.name = "sources",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     .offset = offsetof(struct check_opts, sources),
     .help = "Of adapter: its file of more sources. They are asked when --source is given."},
    {.name = "kubeconfig",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     .offset = offsetof(struct check_opts, kubeconfig),
     .help = "Of adapter: the cluster whose resources labels may name. Default: those of "
             "Kubernetes itself."},
    {.name = NULL},
};

const struct gs_verb verb_check = {
    .name = "check",
    .args = "adapter|config|rules FILE…",
    .summary = "Check files without running anything.",
    .description =
        "adapter: prometheus-adapter's configuration, its Helm values or a ConfigMap. With "
        "--source, "
        "for each rule: the series that it finds, how they are named, for which resources, the "
        "query "
        "that a request would run and what it gives; where nothing comes of it, the first step "
        "that "
        "is broken and what to change.\n\n"
        "config: prometheus.yml, with the files of secrets, certificates, targets and rules "
        "that it names. What this engine knows but does not act on is a warning.\n\n"
        "rules: rule files, PrometheusRule objects, and files with several documents of "
        "either. Each wrong rule is reported with its file, line, group and the place "
        "in its expression or template. Exits with 1 when something is wrong.",
    .examples = "gpuscale check adapter values.yaml --source=http://prometheus:9090\n"
                "gpuscale check config prometheus.yml\n"
                "gpuscale check rules rules/*.yaml\n"
                "gpuscale check rules prometheus-alert-rule.yaml",
    .opts = opts,
    .opts_size = sizeof(struct check_opts),
    .min_args = 1,
    .max_args = -1,
    .run = run,
};
