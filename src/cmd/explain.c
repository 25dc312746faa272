// SPDX-License-Identifier: Apache-2.0
// gpuscale explain: the decision of an autoscaler, the wait of a pod, or a response of the metrics
// APIs.
#include "explain/explain.h"
#include "adapter/dry_run/dry_run.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cmd/commands.h"
#include "cmd/option_rows.h"
#include "kube/engine_url.h"
#include "nodes/inspect/inspect.h"
#include "replay/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct explain_opts {
    struct explain_hpa_options hpa;
    const char *output;
    const char *config, *sources, *source; // of metric; source also of hpa --history
    struct gs_opt_list what_if;
    int64_t history, sync_period; // ns
};

static const char *const hpa_kinds[] = {"hpa", "horizontalpodautoscaler",
                                        "horizontalpodautoscalers", NULL};
static const char *const pod_kinds[] = {"pod", "pods", "po", NULL};

// Whether the first n bytes are one of the names, which NULL ends.
static bool is_kind(const char *arg, size_t n, const char *const *kinds)
{
    for (size_t i = 0; kinds[i]; i++)
        if (strlen(kinds[i]) == n && strncasecmp(arg, kinds[i], n) == 0)
            return true;
    return false;
}

// Accepts KIND/NAME and KIND.GROUP/NAME, as kubectl does.
static const char *name_of(const char *arg, const char *const *kinds)
{
    const char *slash = strchr(arg, '/');
    return slash && is_kind(arg, strcspn(arg, "./"), kinds) ? slash + 1 : NULL;
}

// The name in "KIND NAME" or "KIND/NAME". NULL: the arguments are about another kind.
static const char *named(int argc, char **argv, const char *const *kinds)
{
    if (argc == 1)
        return name_of(argv[0], kinds);
    if (!is_kind(argv[0], strlen(argv[0]), kinds))
        return NULL;
    return strchr(argv[1], '/') ? name_of(argv[1], kinds) : argv[1];
}

static struct gs_error *print_explanation(const struct explain_opts *o, const json_t *explanation,
                                          void (*text)(const json_t *explanation,
                                                       struct gs_buf *out))
{
    GS_AUTO_BUF struct gs_buf out = {0};

    cmd_print_cluster(o->hpa.kubeconfig, o->hpa.context);
    if (!gs_streq(o->output, "text")) {
        cmd_print_json(o->output, explanation, stdout);
        return NULL;
    }
    text(explanation, &out);
    (void)fwrite(out.data, 1, out.len, stdout);
    (void)fflush(stdout);
    return NULL;
}

// --- what if ---

struct what_if {
    struct hpa_setting settings[HPA_MAX_SETTINGS];
    char *names[HPA_MAX_SETTINGS];
    size_t n;
};

static void what_if_finish(struct what_if *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->names[i]);
}

// NAME=VALUE, also several with commas between them.
static struct gs_error *add_setting(struct gs_slice text, bool history, struct what_if *w)
{
    const char *equals = memchr(text.data, '=', text.len);
    if (!equals)
        return gs_error_new(GS_EINVAL, "--what-if " GS_SLICE_FMT ": write NAME=VALUE",
                            GS_SLICE_ARG(text));
    if (w->n == HPA_MAX_SETTINGS)
        return gs_error_new(GS_EINVAL, "--what-if: at most %d settings", HPA_MAX_SETTINGS);
    char *name = gs_strndup(text.data, text.len);
    name[equals - text.data] = '\0';
    w->names[w->n] = name;
    w->settings[w->n++] = (struct hpa_setting){name, name + (equals - text.data) + 1};
    if (hpa_setting_exists(name) || (history && replay_history_has_setting(name)))
        return NULL;
    if (replay_history_has_setting(name))
        return gs_error_new(GS_EINVAL, "--what-if %s: needs --history", name);
    return gs_error_new(GS_EINVAL,
                        "--what-if %s: unknown setting; want target, target.METRIC, min, max or "
                        "tolerance; with --history also slo.ttft, slo.itl or slo.p",
                        name);
}

static struct gs_error *read_what_if(const struct explain_opts *o, struct what_if *ret)
{
    struct gs_error *err = NULL;
    for (size_t i = 0; !err && i < o->what_if.len; i++) {
        struct gs_slice rest = gs_slice_of(o->what_if.items[i]);
        while (!err && rest.data)
            err = add_setting(gs_slice_cut(&rest, ','), o->history, ret);
    }
    if (!err && o->history && !ret->n)
        err = gs_error_new(GS_EINVAL, "--history needs --what-if NAME=VALUE");
    return err;
}

static struct gs_error *explain_history(const struct explain_opts *o, const char *name,
                                        const struct what_if *w)
{
    GS_CLEANUP(kube_engine_url_finish) struct kube_engine_url server = {0};
    struct gs_error *err =
        kube_engine_url_locate(o->source, o->hpa.kubeconfig, o->hpa.context, &server);
    if (err)
        return err;
    const struct replay_history_source source = {.url = server.url,
                                                 .settings_of_url =
                                                     kube_engine_url_settings(&server),
                                                 .range_ms = o->history / GS_NS_PER_MS,
                                                 .sync_ms = o->sync_period / GS_NS_PER_MS,
                                                 .settings = w->settings,
                                                 .n_settings = w->n};
    CODEC_AUTO_JSON json_t *explanation = NULL;
    CODEC_AUTO_JSON json_t *answer = NULL;
    struct hpa_config cfg;
    err = explain_hpa_config(&o->hpa, &cfg);
    if (!err)
        err = explain_hpa(&o->hpa, name, &explanation);
    if (!err)
        err = replay_history_fetch(&source, explanation, &cfg, &answer);
    if (!err)
        err = print_explanation(o, answer, replay_history_text);
    GS_AUTO_FREE char *line = err ? NULL : kube_engine_url_source(&server);
    if (line && gs_streq(o->output, "text"))
        fprintf(stderr, "%s\n", line);
    return err;
}

static struct gs_error *print_hpa(const struct explain_opts *o, const char *name)
{
    GS_CLEANUP(what_if_finish) struct what_if w = {0};
    CODEC_AUTO_JSON json_t *explanation = NULL;
    struct explain_hpa_options options = o->hpa;
    struct gs_error *err = read_what_if(o, &w);

    if (!err && o->history)
        return explain_history(o, name, &w);
    options.settings = w.settings;
    options.n_settings = w.n;
    if (!err)
        err = explain_hpa(&options, name, &explanation);
    return err ? err : print_explanation(o, explanation, explain_hpa_text);
}

static struct gs_error *print_pod(const struct explain_opts *o, const char *name)
{
    const struct explain_cluster options = {o->hpa.ns, o->hpa.kubeconfig, o->hpa.context};
    CODEC_AUTO_JSON json_t *explanation = NULL;
    struct gs_error *err = explain_pod(&options, name, &explanation);

    return err ? err : print_explanation(o, explanation, inspect_pod_text);
}

// An autoscaler, named by the workload that it scales: "deployment/web", "statefulset web".
static struct gs_error *print_hpa_of(const struct explain_opts *o, const char *kind,
                                     const char *name)
{
    const struct explain_cluster cluster = {o->hpa.ns, o->hpa.kubeconfig, o->hpa.context};
    GS_AUTO_FREE char *hpa = NULL;
    struct gs_error *err = explain_find_hpa(&cluster, kind, name, &hpa);
    return err ? err : print_hpa(o, hpa);
}

static const char *const workload_kinds[] = {
    "deployment", "deployments", "deploy", "statefulset",           "statefulsets",           "sts",
    "replicaset", "replicasets", "rs",     "replicationcontroller", "replicationcontrollers", "rc",
    NULL};

static struct gs_error *wrong_subject(int argc, char **argv)
{
    size_t n = strcspn(argv[0], "./");
    bool of_pod = is_kind(argv[0], n, pod_kinds), workload = is_kind(argv[0], n, workload_kinds);
    if (!of_pod && !workload && !is_kind(argv[0], n, hpa_kinds))
        return gs_error_new(GS_EINVAL,
                            "unknown subject \"%s\": want hpa, pod or metric, or the workload that "
                            "an autoscaler scales, such as deployment/NAME",
                            argv[0]);
    if (argc == 1 && !strchr(argv[0], '/'))
        return gs_error_new(GS_EINVAL, "explain %.*s needs one NAME",
                            of_pod || workload ? (int)n : 3, of_pod || workload ? argv[0] : "hpa");
    return gs_error_new(GS_EINVAL, "\"%s\" is not the name of %s", argv[argc - 1],
                        of_pod     ? "a pod"
                        : workload ? "a workload"
                                   : "an autoscaler");
}

static struct gs_error *print_metric(const struct explain_opts *o, const char *arg, int *ret_exit)
{
    const struct explain_cluster options = {o->hpa.ns, o->hpa.kubeconfig, o->hpa.context};
    GS_AUTO_BUF struct gs_buf out = {0};
    struct gs_error *err = explain_metric(&options, arg, &out, ret_exit);

    (void)fwrite(out.data, 1, out.len, stdout);
    (void)fflush(stdout);
    return err;
}

static struct gs_error *run_explain(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct explain_opts *o = opts;
    if (gs_streq(argv[0], "metric") && argc == 2) {
        const struct dry_run_explain_options m = {o->config, o->sources, o->source,
                                                  o->hpa.kubeconfig};
        return o->config || o->sources || o->source ? dry_run_explain(&m, argv[1], ret_exit)
                                                    : print_metric(o, argv[1], ret_exit);
    }
    if (gs_streq(argv[0], "metric"))
        return gs_error_new(GS_EINVAL, "explain metric needs one METRIC or PATH");
    const char *hpa = named(argc, argv, hpa_kinds), *pod = named(argc, argv, pod_kinds),
               *workload = named(argc, argv, workload_kinds);
    struct gs_error *err = cmd_check_output(o->output, "text");
    if (err)
        return err;
    if (hpa && *hpa)
        return print_hpa(o, hpa);
    if (pod && *pod)
        return print_pod(o, pod);
    if (workload && *workload) {
        const char *word = argc == 2 && strchr(argv[1], '/') ? argv[1] : argv[0];
        GS_AUTO_FREE char *kind = gs_strndup(word, strcspn(word, "./"));
        return print_hpa_of(o, kind, workload);
    }
    return wrong_subject(argc, argv);
}

#define AT(field)     .offset = offsetof(struct explain_opts, field)
#define HPA_AT(field) AT(hpa.field)

#define CONTROLLER_GROUP "Settings of the cluster's controller, if they differ from its defaults"

static const struct gs_opt opts[] = {
    {"namespace", GS_OPT_STRING, AT(hpa.ns), "NAME", .alias = "n",
     .help = "Namespace of the object. Default: that of the kubeconfig's context."},
    {"output", GS_OPT_STRING, AT(output), "text|json|yaml", "text", .alias = "o",
     .help = "A short text, or the same as data."},
    {"controller", GS_OPT_STRING, AT(hpa.controller), "URL",
     .help = "For hpa: URL of a `gpuscale hpa` whose history of recommendations and scale events "
             "is used, such as http://localhost:9408. Default: the history of the cluster, which "
             "gpuscale up publishes."},
    {"what-if", GS_OPT_STRINGS, AT(what_if), "NAME=VALUE",
     .help =
         "For hpa: explain the decision with another setting: target, target.METRIC, min, max "
         "or tolerance; with --history also slo.ttft and slo.itl, the targets of latency. Repeat "
         "it, or separate settings by commas. Nothing is changed in the cluster."},
    {"history", GS_OPT_DURATION, AT(history), "DURATION", .min = 1,
     .help = "With --what-if: calculate how many GPU hours and how much waiting the settings would "
             "have cost in this time until now, from the series of the autoscaler in the "
             "Prometheus of --source."},
    CMD_KUBECONFIG_ROW(HPA_AT),
    {"context", GS_OPT_STRING, AT(hpa.context), "NAME",
     .help = "Context of the kubeconfig. Default: the current context."},
    {"compat", GS_OPT_STRING, AT(hpa.compat), "RELEASE",
     .help = "Kubernetes release whose controller is followed, such as 1.29. Default: the newest."},
    CMD_AUTOSCALER_ROWS(HPA_AT, CONTROLLER_GROUP),
    CMD_SYNC_PERIOD_ROW(AT, CONTROLLER_GROUP, "15s"),
    {"config", GS_OPT_STRING, AT(config), "FILE", .group = "Flags of explain metric",
     .help =
         "The adapter's configuration, in any of its formats, to evaluate it here. Default: the "
         "running adapter of the cluster answers."},
    {"sources", GS_OPT_STRING, AT(sources), "FILE", .group = "Flags of explain metric",
     .help = "The adapter's file of additional sources."},
    {"source", GS_OPT_STRING, AT(source), "URL", .alias = "prometheus-url",
     .group = "Flags of explain metric",
     .help = "URL of the Prometheus. Default: prometheus.url of Helm values. For hpa --history: "
             "GPUSCALE_URL, then the URL in the kubeconfig, then " KUBE_ENGINE_DEFAULT_URL "."},
    {0},
};

const struct gs_command cmd_explain = {
    .name = "explain",
    .main_flags = "namespace output what-if history controller kubeconfig context config source",
    .args = "hpa NAME|deployment NAME|pod NAME|metric METRIC|PATH",
    .summary =
        "Explain the decision of an autoscaler, why a pod waits, or the response for a metric.",
    .description =
        "hpa: reads the object, the scale of its target, the pods and the metrics from the "
        "cluster's API, calculates the decision as the controller does, and explains it. The "
        "explanation contains each metric with its samples, their ages and owners; the pods that "
        "are not counted, with the reason; ratio and tolerance; what limited the result; and the "
        "nearest values at which the result changes. Differences from the status that the "
        "cluster's controller wrote are listed. Nothing is written.\n\nA controller also uses its "
        "history of recommendations and scale events. gpuscale up and gpuscale hpa (--controller) "
        "publish theirs. The history of kube-controller-manager cannot be read; the decision is "
        "then calculated without it.\n\ndeployment, statefulset …: the same for the autoscaler "
        "that "
        "scales it.\n\npod: explains why a pod waits: what the scheduler reports, "
        "the pool whose node is coming, since when and until when it is expected, which pools are "
        "in back-off after failures, and how long starts of the workload take. Reads Pods, Nodes, "
        "events, the status of the Cluster Autoscaler and the NodeClaims of Karpenter.\n\n"
        "metric: takes a metric of pods, RESOURCE/NAME/METRIC, or a path as of kubectl get --raw "
        "(/apis/custom.metrics.k8s.io/v1beta1/namespaces/NS/RESOURCE/NAME/METRIC with its query, "
        "or a path of external.metrics.k8s.io) and shows how the running adapter answers it: the "
        "rule and its series, the objects that a selector matches, the query, the samples, and the "
        "response with its cause. With --config or --source, the rules are evaluated here instead; "
        "objects are then listed only with --kubeconfig. The exit code is 1 if the response is not "
        "200.",
    .examples = "gpuscale explain hpa intent-api\n"
                "gpuscale explain hpa intent-api --what-if target=60 --history 6h\n"
                "gpuscale explain pod gpu-pod\n"
                "gpuscale explain hpa intent-api -n shop -o json | jq '.metrics[].pods'\n"
                "gpuscale explain metric queue_depth\n"
                "gpuscale explain metric deployments.apps/api/queue_depth -n shop\n"
                "gpuscale explain metric --config=values.yaml --source=http://prometheus:9090 "
                "/apis/custom.metrics.k8s.io/v1beta1/namespaces/ml/pods/web-0/gpu_util",
    .opts = opts,
    .opts_size = sizeof(struct explain_opts),
    .min_args = 1,
    .max_args = 2,
    .run = run_explain,
};
