// SPDX-License-Identifier: Apache-2.0
// Time from a step in the load of a GPU, or in the queue of an inference engine, to the changed
// value in the custom metrics API and to the changed spec.replicas, on a whole `gpuscale up` seen
// from outside, through its API.
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/option.h"
#include "bench.h"
#include "codec/json.h"
#include "kube/cache.h"
#include "kube/kubeconfig.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "queue_load.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GPU_METRIC   "DCGM_CUSTOM_PROCESS_SM_UTIL"
#define QUEUE_METRIC "gpuscale_inference_waiting"
#define VALUES(metric, app)                                                                        \
    "/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/pods/*/" metric                        \
    "?labelSelector=app%3D" app
#define STEP_PERCENT        90
#define RUNNING_REQUESTS    "4" // of the engine; the others wait
#define REQUESTS            40
#define POLL_MS             10
#define START_WAIT_NS       (60 * GS_NS_PER_SEC)
#define STEP_WAIT_NS        (30 * GS_NS_PER_SEC)
#define EXPORTER_RESTART_NS (3 * GS_NS_PER_SEC)
#define TARGET_S            0.7

// What is stepped. Each is a Deployment of this name with an HPA on the metric, whose target is
// half of the step at most, so that it does not scale before the value has visibly changed. Its
// behavior holds nothing back: each step starts from one replica without any wait.
enum kind { GPU_LOAD, QUEUE, KINDS };
static const struct service {
    const char *name, *metric, *values, *title;
    int target; // of the HPA, and what the value exceeds after a step
} services[KINDS] = {
    {"bench", GPU_METRIC, VALUES(GPU_METRIC, "bench"), "GPU load from 0 to 90 %", 45},
    {"queue", QUEUE_METRIC, VALUES(QUEUE_METRIC, "queue"), "queue from 0 to 36 requests", 18},
};

static const char manifest[] =
    "apiVersion: apps/v1\n"
    "kind: Deployment\n"
    "metadata: {name: %s}\n"
    "spec:\n"
    "  replicas: 1\n"
    "  selector: {matchLabels: {app: %s}}\n"
    "  template:\n"
    "    metadata: {labels: {app: %s}}\n"
    "    spec:\n"
    "      terminationGracePeriodSeconds: 1\n"
    "      containers:\n"
    "      - name: load\n"
    "        image: %s:1\n"
    "        ports: [{containerPort: 8000}]\n"
    "        resources: {limits: {nvidia.com/gpu: 1}}\n"
    "---\n"
    "apiVersion: autoscaling/v2\n"
    "kind: HorizontalPodAutoscaler\n"
    "metadata: {name: %s}\n"
    "spec:\n"
    "  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %s}\n"
    "  minReplicas: 1\n"
    "  maxReplicas: 4\n"
    "  metrics:\n"
    "  - type: Pods\n"
    "    pods:\n"
    "      metric: {name: %s}\n"
    "      target: {type: AverageValue, averageValue: %d}\n"
    "  behavior:\n"
    "    scaleUp: {stabilizationWindowSeconds: 0, policies: [{type: Pods, value: 4, "
    "periodSeconds: 1}]}\n"
    "    scaleDown: {stabilizationWindowSeconds: 0, policies: [{type: Percent, value: 100, "
    "periodSeconds: 1}]}\n"
    "---\n";

enum { STEPS_PER_EXPORTER = 2 };

struct options {
    const char *gpuscale, *workload, *sync_period;
    int64_t steps;
    bool verbose;
};

struct reaction {
    uv_loop_t loop;
    uv_timer_t poll;
    pid_t up;
    struct http_client *http;
    struct kube_client *client;
    struct kube_cache *deployments, *pods;
    _Atomic uint32_t *percent; // shared with the pods
    struct queue_load *queue;  // NULL: no requests
    enum kind kind;
    bool polling;
    size_t n_values;                     // in the last reply
    double value;                        // the highest in it
    int64_t step_ns, value_ns, scale_ns; // 0: not yet
    struct bench_series value_s[KINDS], scale_s[KINDS];
};

static const struct service *service(const struct reaction *r)
{
    return &services[r->kind];
}

// --- observation ---

static double highest(const json_t *items)
{
    double max = -1;
    size_t i;
    json_t *item;
    json_array_foreach (items, i, item) {
        int64_t milli = 0;
        GS_AUTO_ERROR struct gs_error *err =
            kube_quantity_parse_milli(gs_slice_of(codec_json_str(item, "value", NULL)), &milli);
        if (!err && (double)milli / 1000 > max)
            max = (double)milli / 1000;
    }
    return max;
}

static void on_values(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct reaction *r = arg;
    (void)status; // 404 until the first pod runs
    gs_error_free(err);
    const json_t *items = json_object_get(body, "items");
    r->n_values = json_array_size(items);
    r->value = highest(items);
    if (r->step_ns && !r->value_ns && r->value > service(r)->target)
        r->value_ns = gs_mono_ns();
    r->polling = false;
}

static void on_poll(uv_timer_t *t)
{
    struct reaction *r = t->data;
    if (r->polling)
        return;
    r->polling = true;
    kube_raw_get(r->client, service(r)->values, on_values, r);
}

static int64_t replicas(const json_t *deployment)
{
    return codec_json_int(deployment, 0, "spec", "replicas", NULL);
}

static void on_deployment(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct reaction *r = arg;
    if (r->step_ns && !r->scale_ns && gs_streq(kube_name(new_obj), service(r)->name) &&
        replicas(new_obj) > replicas(old_obj))
        r->scale_ns = gs_mono_ns();
}

// Pods of earlier steps have ended.
static bool is_idle(const struct reaction *r)
{
    const json_t *d = kube_cache_get(r->deployments, "default", service(r)->name);
    return replicas(d) == 1 && codec_json_int(d, 0, "status", "readyReplicas", NULL) == 1 &&
           kube_cache_len(r->pods) == KINDS && r->n_values == 1 && r->value < 1;
}

static bool has_reacted(const struct reaction *r)
{
    return r->value_ns && r->scale_ns;
}

// --- steps ---

static void set_load(struct reaction *r, uint32_t percent)
{
    atomic_store(r->percent, percent);
    syscall(SYS_futex, r->percent, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

// The address of the only pod of the service.
static char *pod_url(const struct reaction *r)
{
    size_t pos = 0;
    const json_t *pod;
    while ((pod = kube_cache_next(r->pods, &pos)))
        if (gs_streq(kube_label(pod, "app"), service(r)->name))
            return gs_format("http://%s:8000", codec_json_str(pod, "status", "podIP", NULL));
    return NULL;
}

static void set_step(struct reaction *r, bool on)
{
    if (r->kind == GPU_LOAD) {
        set_load(r, on ? STEP_PERCENT : 0);
        return;
    }
    queue_load_free(GS_TAKE(r->queue));
    GS_AUTO_FREE char *url = on ? pod_url(r) : NULL;
    if (url)
        r->queue = queue_load_new(&r->loop, url, REQUESTS);
}

static bool wait_for(struct reaction *r, bool (*condition)(const struct reaction *r),
                     int64_t wait_ns)
{
    int64_t deadline = gs_mono_ns() + wait_ns;
    while (!condition(r) && gs_mono_ns() < deadline)
        uv_run(&r->loop, UV_RUN_ONCE);
    bench_check_running(r->up);
    return condition(r);
}

static void run_for(struct reaction *r, int64_t ns)
{
    for (int64_t end = gs_mono_ns() + ns; gs_mono_ns() < end;)
        uv_run(&r->loop, UV_RUN_ONCE);
}

// All parts of the chain tick once a second. Steps are spread evenly over the second.
static int64_t phase_ns(int64_t i, double stride)
{
    double golden = (double)i * stride;
    return (int64_t)((golden - floor(golden)) * (double)GS_NS_PER_SEC);
}

// The timers of exporter and scraper drift against each other, by one period in about ten minutes.
// To cover all offsets in a short run, the exporter is killed at different points of the second;
// `up` restarts it.
static void move_exporter(struct reaction *r, int64_t i)
{
    pid_t children[64];
    size_t n = bench_children(r->up, children, GS_ARRAY_LEN(children));
    run_for(r, phase_ns(i, 0.7548776662466927)); // independent of the steps' stride
    for (size_t k = 0; k < n; k++)
        if (bench_is_command(children[k], "exporter"))
            kill(children[k], SIGTERM);
    run_for(r, EXPORTER_RESTART_NS);
}

static void step(struct reaction *r, const struct options *o, int64_t i)
{
    if (i % STEPS_PER_EXPORTER == 0)
        move_exporter(r, i);
    do {
        if (!wait_for(r, is_idle, STEP_WAIT_NS))
            bench_fail("step %d: the deployment does not come to rest at one replica", (int)i + 1);
        run_for(r, GS_NS_PER_SEC / 2 + phase_ns(i, 0.6180339887498949));
    } while (!is_idle(r));
    r->value_ns = r->scale_ns = 0;
    r->step_ns = gs_mono_ns();
    set_step(r, true);
    if (!wait_for(r, has_reacted, STEP_WAIT_NS))
        bench_fail("step %d: no reaction within %d s", (int)i + 1,
                   (int)(STEP_WAIT_NS / GS_NS_PER_SEC));
    double value_s = (double)(r->value_ns - r->step_ns) / 1e9;
    double scale_s = (double)(r->scale_ns - r->step_ns) / 1e9;
    set_step(r, false);
    r->step_ns = 0;
    bench_add(&r->value_s[r->kind], value_s);
    bench_add(&r->scale_s[r->kind], scale_s);
    if (o->verbose)
        printf("  step %2d: value after %.3f s, replicas after %.3f s\n", (int)i + 1, value_s,
               scale_s);
}

// --- start and end ---

static void make_shared_word(struct reaction *r, const char *path)
{
    GS_AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(*r->percent)) < 0)
        bench_fail("cannot make %s", path);
    r->percent = mmap(NULL, sizeof(*r->percent), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (r->percent == MAP_FAILED)
        bench_fail("cannot map %s", path);
}

static void write_manifest(const char *path)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    for (size_t i = 0; i < KINDS; i++) {
        const struct service *s = &services[i];
        gs_buf_addf(&text, manifest, s->name, s->name, s->name, s->name, s->name, s->name,
                    s->metric, s->target);
    }
    bench_check(gs_file_write_atomic(path, 0600, gs_buf_slice(&text)));
}

static void start_up(struct reaction *r, const struct options *o, const char *data)
{
    GS_AUTO_FREE char *word = gs_format("%s/percent", bench_dir());
    GS_AUTO_FREE char *file = gs_format("%s/bench.yaml", bench_dir());
    GS_AUTO_FREE char *image = gs_format("bench:*=%s %s", o->workload, word);
    GS_AUTO_FREE char *engine = gs_format("queue:*=%s sim inference --startup=100ms "
                                          "--max-num-seqs=" RUNNING_REQUESTS " Bench-8B",
                                          o->gpuscale);
    make_shared_word(r, word);
    write_manifest(file);
    const char *const argv[] = {o->gpuscale,
                                "up",
                                "--gpus",
                                "8xA100-SXM4-80GB",
                                "--data-dir",
                                data,
                                "--api-port",
                                "0",
                                "--exporter-port",
                                "0",
                                "--filename",
                                file,
                                "--image",
                                image,
                                "--image",
                                engine,
                                "--horizontal-pod-autoscaler-sync-period",
                                o->sync_period,
                                NULL};
    r->up = bench_start("up.log", argv);
}

static void wait_for_kubeconfig(struct reaction *r, const char *path, struct kube_config *ret)
{
    int64_t deadline = gs_mono_ns() + START_WAIT_NS;
    for (;;) {
        GS_AUTO_ERROR struct gs_error *err = kube_config_load(path, NULL, ret);
        if (!err)
            return;
        if (gs_mono_ns() > deadline)
            bench_fail("%s", gs_error_message(err));
        bench_check_running(r->up);
        bench_sleep(50 * GS_NS_PER_MS);
    }
}

static void connect_api(struct reaction *r, const char *data)
{
    GS_AUTO_FREE char *path = gs_format("%s/kubeconfig", data);
    struct kube_config k = {0};
    wait_for_kubeconfig(r, path, &k);
    bench_check(kube_config_connect(&k, &r->loop, NULL, &r->http));
    kube_config_finish(&k);
    r->client = kube_client_new(r->http);
    r->deployments = kube_cache_new(&r->loop, r->client, KUBE_DEPLOYMENTS, "default", NULL);
    r->pods = kube_cache_new(&r->loop, r->client, KUBE_PODS, "default", NULL);
    kube_cache_add_handlers(r->deployments,
                            &(struct kube_cache_handlers){.on_change = on_deployment, .arg = r});
    kube_cache_start(r->deployments);
    kube_cache_start(r->pods);
    uv_timer_init(&r->loop, &r->poll);
    r->poll.data = r;
    uv_timer_start(&r->poll, on_poll, 0, POLL_MS);
}

static void finish(struct reaction *r)
{
    uv_close((uv_handle_t *)&r->poll, NULL);
    queue_load_free(r->queue);
    kube_cache_free(r->deployments);
    kube_cache_free(r->pods);
    kube_client_free(r->client);
    http_client_free(r->http);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    uv_loop_close(&r->loop);
    munmap(r->percent, sizeof(*r->percent));
    for (size_t i = 0; i < KINDS; i++) {
        bench_series_finish(&r->value_s[i]);
        bench_series_finish(&r->scale_s[i]);
    }
}

// --- result ---

static void print_row(const char *what, struct bench_series *s)
{
    static const double percents[] = {0, 50, 90, 99, 100};
    printf("  %-48s", what);
    for (size_t i = 0; i < GS_ARRAY_LEN(percents); i++)
        printf(" %6.2f", bench_percentile(s, percents[i]));
    printf("   %.1f s at p99: %s\n", TARGET_S, bench_verdict(bench_percentile(s, 99) <= TARGET_S));
}

static void measure(struct reaction *r, const struct options *o)
{
    r->n_values = 0; // of the other service
    if (!wait_for(r, is_idle, START_WAIT_NS))
        bench_fail("the deployment %s has not become ready", service(r)->name);
    printf("Reaction to a step of the %s, autoscaler every %s (seconds, %d steps; SIMULATED)\n",
           service(r)->title, o->sync_period, (int)o->steps);
    for (int64_t i = 0; i < o->steps; i++)
        step(r, o, i);
    printf("  %-48s %6s %6s %6s %6s %6s   %s\n", "step until", "min", "p50", "p90", "p99", "max",
           "target");
    print_row("the value is in the custom metrics API", &r->value_s[r->kind]);
    print_row("spec.replicas has changed", &r->scale_s[r->kind]);
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct options *o = opts;
    (void)argc, (void)argv, (void)ret_exit;
    struct reaction r = {.value = -1};
    bench_begin();
    GS_AUTO_FREE char *data = gs_format("%s/data", bench_dir());
    uv_loop_init(&r.loop);
    start_up(&r, o, data);
    connect_api(&r, data);
    for (r.kind = 0; r.kind < KINDS; r.kind++)
        measure(&r, o);
    bench_stop(r.up);
    finish(&r);
    return NULL;
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct gs_opt rows[] = {
    {"gpuscale", GS_OPT_STRING, AT(gpuscale), "FILE",
     .help = "The program to measure, as an absolute path."},
    {"workload", GS_OPT_STRING, AT(workload), "FILE",
     .help = "bench/workload of the build folder, as an absolute path."},
    {"steps", GS_OPT_INT, AT(steps), "N", "20", .min = 1, .max = 100000,
     .help = "How many steps of each."},
    {"sync-period", GS_OPT_STRING, AT(sync_period), "DURATION", "15s",
     .help = "The autoscaler's sync period."},
    {"verbose", GS_OPT_BOOL, AT(verbose), .help = "Print every step."},
    {0},
};

int main(int argc, char **argv)
{
    const struct gs_command command = {.name = "reaction",
                                       .summary = "Measure the reaction to a step of load.",
                                       .opts = rows,
                                       .opts_size = sizeof(struct options),
                                       .run = run};
    return bench_main(&command, argc, argv);
}
