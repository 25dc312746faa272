// SPDX-License-Identifier: Apache-2.0
// gpuscale explain: the decision of an autoscaler, or the answer to a request of the metrics APIs.
#include "adapter/dry_run/dry_run.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cmd/verbs.h"
#include "hpa/reading.h"
#include "kube/kubeconfig.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

struct explain_opts {
    const char *ns, *kubeconfig, *context, *output, *compat, *controller;
    const char *config, *sources, *source; // of metric
    int64_t downscale_window, cpu_init_period, readiness_delay;
    double tolerance;
};

struct run {
    const struct explain_opts *o;
    uv_loop_t loop;
    uv_timer_t timer;
    struct http_client *http;
    struct kube_client *client;
    struct http_client *controller_http; // NULL: the cluster itself is asked for the memory
    struct kube_client *controller;
    struct hpa_look *look;
    struct hpa_config cfg;
    struct gs_error *err;
};

#define TIMEOUT_MS 30000

static void print(const struct run *r, const struct hpa_seen *seen)
{
    CODEC_AUTO_JSON json_t *reading = hpa_reading(seen, &r->cfg);
    GS_AUTO_BUF struct gs_buf out = {0};
    if (!gs_streq(r->o->output, "text")) {
        cmd_print_json(r->o->output, reading, stdout);
        return;
    }
    hpa_reading_text(reading, &out);
    (void)fwrite(out.data, 1, out.len, stdout);
    (void)fflush(stdout);
}

static void looked(void *arg, const struct hpa_seen *seen, struct gs_error *err)
{
    struct run *r = arg;
    // Without the memory that was asked for another decision would be explained.
    if (!err && r->o->controller && !seen->memory)
        err =
            gs_error_new(GS_EUNAVAIL, "--controller %s: %s", r->o->controller, seen->memory_error);
    r->err = err;
    if (!err)
        print(r, seen);
    uv_stop(&r->loop);
}

static void too_late(uv_timer_t *t)
{
    struct run *r = t->data;
    r->err = gs_error_new(GS_ETIMEOUT, "the cluster did not answer everything within %d s",
                          TIMEOUT_MS / 1000);
    uv_stop(&r->loop);
}

static struct gs_error *connect_cluster(struct run *r, char **ret_ns)
{
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    struct gs_error *err = kube_config_load(r->o->kubeconfig, r->o->context, &k);
    if (err)
        return gs_error_wrap(err, "kubeconfig");
    err = kube_config_connect(&k, &r->loop, "gpuscale-explain/" GPUSCALE_VERSION, &r->http);
    if (err)
        return gs_error_wrap(err, "kubeconfig");
    r->client = kube_client_new(r->http);
    *ret_ns = gs_strdup(r->o->ns ? r->o->ns : k.ns ? k.ns : "default");
    return NULL;
}

static struct gs_error *connect_controller(struct run *r)
{
    const struct http_client_config http = {.base_url = r->o->controller,
                                            .user_agent = "gpuscale-explain/" GPUSCALE_VERSION};
    if (!r->o->controller)
        return NULL;
    struct gs_error *err = http_client_new_curl(&r->loop, &http, &r->controller_http);
    if (err)
        return gs_error_wrap(err, "--controller");
    r->controller = kube_client_new(r->controller_http);
    return NULL;
}

static struct gs_error *configure(const struct explain_opts *o, struct hpa_config *ret)
{
    struct hpa_config c = hpa_config_default();
    struct gs_error *err = o->compat ? hpa_config_follow(&c, o->compat) : NULL;
    if (err)
        return gs_error_wrap(err, "--compat");
    err = cmd_check_output(o->output, "text");
    if (err)
        return err;
    c.downscale_window_ms = o->downscale_window / GS_NS_PER_MS;
    c.cpu_init_period_ms = o->cpu_init_period / GS_NS_PER_MS;
    c.readiness_delay_ms = o->readiness_delay / GS_NS_PER_MS;
    c.tolerance = o->tolerance;
    *ret = c;
    return NULL;
}

static void finish(struct run *r)
{
    hpa_look_free(r->look);
    if (r->controller)
        kube_client_free(r->controller);
    if (r->controller_http)
        http_client_free(r->controller_http);
    if (r->client)
        kube_client_free(r->client);
    if (r->http)
        http_client_free(r->http);
    uv_close((uv_handle_t *)&r->timer, NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&r->loop);
}

// The name in NAME, hpa/NAME and horizontalpodautoscaler.autoscaling/NAME, as kubectl has them.
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

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    struct run r = {.o = opts};
    GS_AUTO_FREE char *ns = NULL;
    if (gs_streq(argv[0], "metric") && argc == 2) {
        const struct dry_run_explain_options m = {r.o->config, r.o->sources, r.o->source,
                                                  r.o->kubeconfig};
        return dry_run_explain(&m, argv[1], ret_exit);
    }
    if (gs_streq(argv[0], "metric"))
        return gs_error_new(GS_EINVAL, "explain metric needs one PATH");
    const char *name = argc == 1 ? name_of(argv[0]) : NULL;
    if (!name && !gs_streq(argv[0], "hpa"))
        return gs_error_new(GS_EINVAL, "nothing called \"%s\" can be explained; hpa and metric can",
                            argv[0]);
    if (!name && argc != 2)
        return gs_error_new(GS_EINVAL, "explain hpa needs one NAME");
    if (!name)
        name = strchr(argv[1], '/') ? name_of(argv[1]) : argv[1];
    if (!name || !*name)
        return gs_error_new(GS_EINVAL, "\"%s\" is not the name of an autoscaler", argv[argc - 1]);
    struct gs_error *err = configure(r.o, &r.cfg);
    if (err)
        return err;
    uv_loop_init(&r.loop);
    uv_timer_init(&r.loop, &r.timer);
    r.timer.data = &r;
    r.err = connect_cluster(&r, &ns);
    if (!r.err)
        r.err = connect_controller(&r);
    if (!r.err) {
        r.look = hpa_look_start(&r.loop, r.client, ns, name, r.cfg.release, looked, &r);
        hpa_look_ask_memory(r.look, r.controller ? r.controller : r.client);
        uv_timer_start(&r.timer, too_late, TIMEOUT_MS, 0);
        uv_run(&r.loop, UV_RUN_DEFAULT);
    }
    finish(&r);
    return r.err;
}

#define AT(field)  .offset = offsetof(struct explain_opts, field)
#define AS_CLUSTER .group = "Settings of the cluster's controller, where they are not its defaults"

static const struct gs_opt opts[] = {
    {.name = "namespace",
     .alias = "n",
     .arg = "NAME",
     .type = GS_OPT_STRING,
     AT(ns),
     .help = "Default: that of the kubeconfig's context."},
    {.name = "output",
     .alias = "o",
     .arg = "text|json|yaml",
     .def = "text",
     .type = GS_OPT_STRING,
     AT(output),
     .help = "A short reading, or the same as data."},
    {.name = "controller",
     .arg = "URL",
     .type = GS_OPT_STRING,
     AT(controller),
     .help = "Of hpa: a `gpuscale hpa` whose memory of earlier recommendations and scale events "
             "counts, as http://localhost:9408. Default: the cluster is asked, where gpuscale up "
             "answers."},
    {.name = "kubeconfig",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(kubeconfig),
     .help = "The cluster. Default: KUBECONFIG, ~/.kube/config, or the cluster it runs in."},
    {.name = "context",
     .arg = "NAME",
     .type = GS_OPT_STRING,
     AT(context),
     .help = "Context of the kubeconfig. Default: its current one."},
    {.name = "compat",
     .arg = "RELEASE",
     .type = GS_OPT_STRING,
     AT(compat),
     .help = "The Kubernetes release whose controller is followed, such as 1.29. Default: the "
             "newest."},
    {.name = "horizontal-pod-autoscaler-tolerance",
     .arg = "RATIO",
     .def = "0.1",
     .type = GS_OPT_DOUBLE,
     AT(tolerance),
     AS_CLUSTER,
     .help = "Change of the metric ratio from 1 below which nothing scales."},
    {.name = "horizontal-pod-autoscaler-downscale-stabilization",
     .arg = "DURATION",
     .def = "5m",
     .type = GS_OPT_DURATION,
     AT(downscale_window),
     AS_CLUSTER,
     .help = "How long the highest recent recommendation holds replicas up."},
    {.name = "horizontal-pod-autoscaler-cpu-initialization-period",
     .arg = "DURATION",
     .def = "5m",
     .type = GS_OPT_DURATION,
     AT(cpu_init_period),
     AS_CLUSTER,
     .help = "Time after a pod's start in which its CPU samples may be skipped."},
    {.name = "horizontal-pod-autoscaler-initial-readiness-delay",
     .arg = "DURATION",
     .def = "30s",
     .type = GS_OPT_DURATION,
     AT(readiness_delay),
     AS_CLUSTER,
     .help = "Time after a pod's start in which changes of its readiness count as its start."},
    {.name = "config",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(config),
     .group = "Of metric",
     .help = "The adapter's configuration, in any of its forms. Default: GPU metrics only."},
    {.name = "sources",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(sources),
     .group = "Of metric",
     .help = "The adapter's file of more sources."},
    {.name = "source",
     .alias = "prometheus-url",
     .arg = "URL",
     .type = GS_OPT_STRING,
     AT(source),
     .group = "Of metric",
     .help = "The Prometheus that is asked. Default: prometheus.url of Helm values."},
    {.name = NULL},
};

const struct gs_verb verb_explain = {
    .name = "explain",
    .args = "hpa NAME|hpa/NAME|metric PATH",
    .summary = "Tell why an autoscaler wants its replicas, or how a metric is answered.",
    .description =
        "hpa reads the object, its target's scale, the pods and the metrics from the cluster's "
        "API, "
        "decides with them as the controller would, and tells how: each metric with the samples it "
        "came from, their ages and owners, the pods that were left out and why, ratio and "
        "tolerance, what held or limited the result, and the nearest values at which it would be "
        "another. Where the status that the cluster's controller wrote says something else, that "
        "is told too. Nothing is written.\n\n"
        "A controller remembers earlier recommendations and scale events. gpuscale up and gpuscale "
        "hpa (--controller) tell them; those of kube-controller-manager are not known from "
        "outside, "
        "and the reading is what would be decided without them.\n\n"
        "metric takes a path of kubectl get --raw, "
        "/apis/custom.metrics.k8s.io/v1beta1/namespaces/NS/"
        "RESOURCE/NAME/METRIC with its query or one of external.metrics.k8s.io, and shows how the "
        "adapter answers it: the rule and its series, the objects that a selector picks, the "
        "query, "
        "the samples, and the answer with its cause. Objects are listed with --kubeconfig only. "
        "Exits with 1 when the answer is not 200.",
    .examples = "gpuscale explain hpa intent-api\n"
                "gpuscale explain hpa intent-api -n shop -o json | jq '.metrics[].pods'\n"
                "gpuscale explain metric --config=values.yaml --source=http://prometheus:9090 "
                "/apis/custom.metrics.k8s.io/v1beta1/namespaces/ml/pods/web-0/gpu_util",
    .opts = opts,
    .opts_size = sizeof(struct explain_opts),
    .min_args = 1,
    .max_args = 2,
    .run = run,
};
