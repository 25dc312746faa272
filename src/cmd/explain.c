// SPDX-License-Identifier: Apache-2.0
// gpuscale explain: the decision of an autoscaler, or a response of the metrics APIs.
#include "adapter/dry_run/dry_run.h"
#include "base/mem.h"
#include "cmd/commands.h"
#include "cmd/option_rows.h"
#include "hpa/inspect.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

struct explain_opts {
    struct hpa_explain_options hpa;
    const char *output;
    const char *config, *sources, *source; // of metric
};

// Accepts NAME, hpa/NAME and horizontalpodautoscaler.autoscaling/NAME, as kubectl does.
static const char *name_of(const char *arg)
{
    static const char *const kinds[] = {"hpa", "horizontalpodautoscaler",
                                        "horizontalpodautoscalers"};
    const char *slash = strchr(arg, '/');
    size_t n = strcspn(arg, "./"); // a group may follow the kind
    for (size_t i = 0; slash && i < GS_ARRAY_LEN(kinds); i++)
        if (strlen(kinds[i]) == n && strncasecmp(arg, kinds[i], n) == 0)
            return slash + 1;
    return NULL;
}

static struct gs_error *print_explanation(const struct explain_opts *o, const char *name)
{
    CODEC_AUTO_JSON json_t *explanation = NULL;
    GS_AUTO_BUF struct gs_buf out = {0};
    struct gs_error *err = cmd_check_output(o->output, "text");
    if (!err)
        err = hpa_explain_object(&o->hpa, name, &explanation);
    if (err)
        return err;
    if (!gs_streq(o->output, "text")) {
        cmd_print_json(o->output, explanation, stdout);
        return NULL;
    }
    hpa_explanation_text(explanation, &out);
    (void)fwrite(out.data, 1, out.len, stdout);
    (void)fflush(stdout);
    return NULL;
}

static struct gs_error *run_explain(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct explain_opts *o = opts;
    if (gs_streq(argv[0], "metric") && argc == 2) {
        const struct dry_run_explain_options m = {o->config, o->sources, o->source,
                                                  o->hpa.kubeconfig};
        return dry_run_explain(&m, argv[1], ret_exit);
    }
    if (gs_streq(argv[0], "metric"))
        return gs_error_new(GS_EINVAL, "explain metric needs one PATH");
    const char *name = argc == 1 ? name_of(argv[0]) : NULL;
    if (!name && !gs_streq(argv[0], "hpa"))
        return gs_error_new(GS_EINVAL, "unknown subject \"%s\": want hpa or metric", argv[0]);
    if (!name && argc != 2)
        return gs_error_new(GS_EINVAL, "explain hpa needs one NAME");
    if (!name)
        name = strchr(argv[1], '/') ? name_of(argv[1]) : argv[1];
    if (!name || !*name)
        return gs_error_new(GS_EINVAL, "\"%s\" is not the name of an autoscaler", argv[argc - 1]);
    return print_explanation(o, name);
}

#define AT(field)     .offset = offsetof(struct explain_opts, field)
#define HPA_AT(field) AT(hpa.field)

static const struct gs_opt opts[] = {
    {.name = "namespace",
     .alias = "n",
     .arg = "NAME",
     .type = GS_OPT_STRING,
     AT(hpa.ns),
     .help = "Namespace of the object. Default: that of the kubeconfig's context."},
    {.name = "output",
     .alias = "o",
     .arg = "text|json|yaml",
     .def = "text",
     .type = GS_OPT_STRING,
     AT(output),
     .help = "A short text, or the same as data."},
    {.name = "controller",
     .arg = "URL",
     .type = GS_OPT_STRING,
     AT(hpa.controller),
     .help = "For hpa: URL of a `gpuscale hpa` whose history of recommendations and scale events "
             "is used, such as http://localhost:9408. Default: the history of the cluster, which "
             "gpuscale up publishes."},
    CMD_KUBECONFIG_ROW(HPA_AT),
    {.name = "context",
     .arg = "NAME",
     .type = GS_OPT_STRING,
     AT(hpa.context),
     .help = "Context of the kubeconfig. Default: the current context."},
    {.name = "compat",
     .arg = "RELEASE",
     .type = GS_OPT_STRING,
     AT(hpa.compat),
     .help = "Kubernetes release whose controller is followed, such as 1.29. Default: the newest."},
    CMD_AUTOSCALER_ROWS(HPA_AT,
                        "Settings of the cluster's controller, if they differ from its defaults"),
    {.name = "config",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(config),
     .group = "Flags of explain metric",
     .help = "The adapter's configuration, in any of its formats. Default: GPU metrics only."},
    {.name = "sources",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(sources),
     .group = "Flags of explain metric",
     .help = "The adapter's file of additional sources."},
    {.name = "source",
     .alias = "prometheus-url",
     .arg = "URL",
     .type = GS_OPT_STRING,
     AT(source),
     .group = "Flags of explain metric",
     .help = "URL of the Prometheus. Default: prometheus.url of Helm values."},
    {.name = NULL},
};

const struct gs_command cmd_explain = {
    .name = "explain",
    .args = "hpa NAME|hpa/NAME|metric PATH",
    .summary = "Explain the decision of an autoscaler, or the response for a metric.",
    .description =
        "hpa: reads the object, the scale of its target, the pods and the metrics from the "
        "cluster's API, calculates the decision as the controller does, and explains it. The "
        "explanation contains each metric with its samples, their ages and owners; the pods that "
        "are not counted, with the reason; ratio and tolerance; what limited the result; and the "
        "nearest values at which the result changes. Differences from the status that the "
        "cluster's controller wrote are listed. Nothing is written.\n\nA controller also uses its "
        "history of recommendations and scale events. gpuscale up and gpuscale hpa (--controller) "
        "publish theirs. The history of kube-controller-manager cannot be read; the decision is "
        "then calculated without it.\n\nmetric: takes a path as of kubectl get --raw "
        "(/apis/custom.metrics.k8s.io/v1beta1/namespaces/NS/RESOURCE/NAME/METRIC with its query, "
        "or a path of external.metrics.k8s.io) and shows how the adapter answers it: the rule and "
        "its series, the objects that a selector matches, the query, the samples, and the response "
        "with its cause. Objects are listed only with --kubeconfig. The exit code is 1 if the "
        "response is not 200.",
    .examples = "gpuscale explain hpa intent-api\n"
                "gpuscale explain hpa intent-api -n shop -o json | jq '.metrics[].pods'\n"
                "gpuscale explain metric --config=values.yaml --source=http://prometheus:9090 "
                "/apis/custom.metrics.k8s.io/v1beta1/namespaces/ml/pods/web-0/gpu_util",
    .opts = opts,
    .opts_size = sizeof(struct explain_opts),
    .min_args = 1,
    .max_args = 2,
    .run = run_explain,
};
