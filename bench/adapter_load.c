// SPDX-License-Identifier: Apache-2.0
// gpuscale adapter under load with faults: many autoscalers request metrics of many pods while the
// source is slow, sends wrong data, hangs or is down, certificates and rules change, and idle
// connections stay open. Checks the owner and the age of each value that is served.
#include "adapter_bed.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "codec/json.h"
#include "kube/quantity.h"
#include "net/tls/tls.h"

#include <gnutls/x509.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define ROOT "/apis/custom.metrics.k8s.io/v1beta1/namespaces/" CLUSTER_NS "/"

enum {
    WORKERS = 24,
    STALE_S = 3, // maximum age of a value at the time of its request: values are shared and rounded
    MOVE_EVERY = 50, // requests on a connection, then a new one
    ANSWER_LIMIT_S = 60,
    IDLE_KB = 120, // of memory, for each idle connection
};

// Time limit for events that must happen, also on slow machines.
#define PATIENCE_NS (120 * GS_NS_PER_SEC)

struct options {
    const char *gpuscale;
    int64_t pods, hpas, idle, serve, source_port, growth_mb;
    double interval, phase;
};

// Shared by the workers and the main thread.
struct load {
    const struct adapter_bed *bed;
    const struct options *o;
    uint16_t port;
    atomic_int phase;      // incremented at each change
    atomic_bool good;      // all answers must be whole
    atomic_bool stop, end; // end: connections may break
    atomic_long asked, whole, partial, refused, broken;
    _Atomic int64_t late_ns; // maximum delay of a worker: how slow the machine is
};

struct worker {
    struct load *load;
    pthread_t thread;
    int number;
};

// --- checking ---

// One item of a response: a pod of this autoscaler, with a recent value.
static void check_item(const json_t *item, int hpa, double asked_s, double took_s, double late_s)
{
    const char *name = codec_json_str(item, "describedObject", "name", NULL);
    const char *value = codec_json_str(item, "value", NULL);
    int pod = name && gs_starts(name, "pod-") ? (int)strtol(name + 4, NULL, 10) : -1;
    int64_t milli = 0;
    if (pod < hpa * CLUSTER_PODS_OF_HPA || pod >= (hpa + 1) * CLUSTER_PODS_OF_HPA)
        bench_fail("autoscaler %d was given a value of %s", hpa, name ? name : "nobody");
    bench_check(kube_quantity_parse_milli(gs_slice_of(value ? value : ""), &milli));
    if (milli / 1000 != pod)
        bench_fail("%s was given the value %s", name, value);
    double age = fmod(asked_s + took_s - (double)(milli % 1000) + 2000, 1000);
    if (age > STALE_S + took_s + late_s && age < 999)
        bench_fail("%s was given a value of %.1f s ago (%s), asked %.1f s ago", name, age, value,
                   took_s);
}

static size_t check_answer(struct gs_slice body, int hpa, double asked_s, double took_s,
                           double late_s)
{
    CODEC_AUTO_JSON json_t *list = NULL;
    size_t i;
    json_t *item;
    bench_check(codec_json_parse(body, false, &list));
    const json_t *items = json_object_get(list, "items");
    if (!json_is_array(items))
        bench_fail("no list: %.*s", (int)body.len, body.data);
    json_array_foreach (items, i, item)
        check_item(item, hpa, asked_s, took_s, late_s);
    return json_array_size(items);
}

static void ask(struct load *l, struct wire *w, int hpa)
{
    char path[160];
    struct gs_slice body;
    snprintf(path, sizeof(path), ROOT "pods/*/" CLUSTER_METRIC "?labelSelector=hpa%%3D%d", hpa);
    int phase = atomic_load(&l->phase);
    bool good = atomic_load(&l->good);
    double asked_s = fmod((double)gs_unix_ms() / 1000, 1000);
    int64_t from = gs_mono_ns();
    int status = wire_try_get(w, path, &body);
    double took_s = (double)(gs_mono_ns() - from) / 1e9;
    bool same = phase == atomic_load(&l->phase);
    size_t n =
        status == 200 ? check_answer(body, hpa, asked_s, took_s, (double)l->late_ns / 1e9) : 0;
    l->asked++;
    l->whole += n == CLUSTER_PODS_OF_HPA;
    l->partial += status == 200 && n != CLUSTER_PODS_OF_HPA;
    l->refused += status > 200;
    l->broken += status == 0;
    if (took_s > ANSWER_LIMIT_S)
        bench_fail("an answer took %.0f s", took_s);
    if (good && same && n != CLUSTER_PODS_OF_HPA)
        bench_fail("autoscaler %d got status %d and %zu values: %.*s", hpa, status, n,
                   status ? (int)(body.len < 400 ? body.len : 400) : 0, status ? body.data : "");
    if (status == 0 && !atomic_load(&l->end))
        bench_fail("a connection broke");
}

static void *work(void *arg)
{
    struct worker *me = arg;
    struct load *l = me->load;
    struct wire w = {.fd = -1};
    int64_t step = (int64_t)(l->o->interval * 1e9 / (double)l->o->hpas * WORKERS);
    int64_t next = gs_mono_ns() + step * me->number / WORKERS;
    for (int i = 0; !atomic_load(&l->stop); i++) {
        int64_t now = gs_mono_ns();
        if (now < next)
            bench_sleep(next - now);
        if ((now = gs_mono_ns()) - next > l->late_ns)
            l->late_ns = now - next;
        if (now - next > GS_NS_PER_SEC) // late requests do not accumulate
            next = now;
        next += step;
        if (w.fd < 0 || i % MOVE_EVERY == 0) {
            wire_close(&w);
            if (!adapter_try_connect(l->bed, &w, l->port)) {
                if (atomic_load(&l->end))
                    break;
                bench_fail("a connection was refused");
            }
        }
        ask(l, &w, (me->number + i * WORKERS) % (int)l->o->hpas);
    }
    wire_close(&w);
    return NULL;
}

// --- faults ---

static void set_mode(uint16_t port, const char *mode)
{
    struct wire w;
    struct gs_slice body;
    GS_AUTO_FREE char *path = gs_format("/mode?is=%s", mode);
    wire_connect(&w, port);
    if (!wire_get(&w, path, &body) || strncmp(body.data, mode, strlen(mode)) != 0)
        bench_fail("the source does not take the mode %s", mode);
    wire_close(&w);
}

static pid_t start_source(const struct options *o, uint16_t port)
{
    GS_AUTO_FREE char *pods = gs_format("%lld", (long long)o->pods);
    GS_AUTO_FREE char *at = gs_format("--source-port=%u", port);
    const char *const argv[] = {"/proc/self/exe", "--serve", pods, at, NULL};
    pid_t pid = bench_start("source.log", argv);
    free(bench_wait_for_text(pid, "source port "));
    return pid;
}

static void write_rules(const char *path, int turn)
{
    GS_AUTO_FREE char *text = gs_format(
        "rules:\n- seriesQuery: '" CLUSTER_METRIC "{pod!=\"\"}'\n"
        "  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}\n"
        "  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)\n"
        "- seriesQuery: '" CLUSTER_METRIC "{pod!=\"\"}'\n  name: {as: another_%d}\n"
        "  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}\n"
        "  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)\n",
        turn);
    bench_check(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
}

static void write_certificate(const char *dir, const struct tls_pair *ca, int turn)
{
    static const char *const names[] = {"localhost"};
    GS_CLEANUP(tls_pair_finish) struct tls_pair leaf = {0};
    GS_AUTO_FREE char *cn = gs_format("turn-%d", turn);
    GS_AUTO_FREE char *cert = gs_format("%s/apiserver.crt", dir);
    GS_AUTO_FREE char *key = gs_format("%s/apiserver.key", dir);
    const struct tls_leaf want = {
        .common_name = cn, .dns_names = names, .n_dns_names = 1, .server = 1, .days = 1};
    bench_check(tls_make_leaf(ca, &want, &leaf));
    bench_check(gs_file_write_atomic(key, 0600, gs_slice_of(leaf.key_pem)));
    bench_check(gs_file_write_atomic(cert, 0644, gs_slice_of(leaf.cert_pem)));
}

static bool shows(const struct load *l, const char *cn)
{
    struct wire w;
    unsigned n = 0;
    char name[64] = "";
    size_t size = sizeof(name);
    gnutls_x509_crt_t crt;
    if (!adapter_try_connect(l->bed, &w, l->port))
        return false;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(w.tls, &n);
    if (chain && n && gnutls_x509_crt_init(&crt) == 0) {
        if (gnutls_x509_crt_import(crt, &chain[0], GNUTLS_X509_FMT_DER) == 0)
            gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &size);
        gnutls_x509_crt_deinit(crt);
    }
    wire_close(&w);
    return strcmp(name, cn) == 0;
}

// --- phases ---

static double resident_mb(pid_t pid)
{
    return (double)bench_memory(pid).rss_kib * 1024 / 1e6;
}

struct counts {
    long asked, whole, partial, refused;
};

static void begin_phase(struct load *l, bool good)
{
    atomic_store(&l->good, false);
    atomic_fetch_add(&l->phase, 1);
    atomic_store(&l->good, good);
    l->asked = l->whole = l->partial = l->refused = 0;
}

static void end_phase(struct load *l, pid_t adapter, const char *what)
{
    bench_check_running(adapter);
    printf("  %-26s %7ld requests: %6ld complete, %5ld without values, %5ld rejected; resident "
           "%5.1f MB\n",
           what, (long)l->asked, (long)l->whole, (long)l->partial, (long)l->refused,
           resident_mb(adapter));
}

// On a slow machine this may take longer than a phase.
static void wait_for(const atomic_long *count, const char *failure)
{
    for (int64_t end = gs_mono_ns() + PATIENCE_NS; !*count; bench_sleep(50 * GS_NS_PER_MS))
        if (gs_mono_ns() > end)
            bench_fail("%s", failure);
}

// Values that were cached while the source was good are still served for a moment.
static void bad_phase(struct load *l, pid_t adapter, const char *mode, bool answers)
{
    begin_phase(l, false);
    set_mode(l->bed->source_port, mode);
    bench_sleep((int64_t)(l->o->phase * 1e9));
    end_phase(l, adapter, mode);
    if (answers)
        wait_for(&l->whole, "nobody was answered");
    set_mode(l->bed->source_port, "good");
}

// Responses to earlier requests have arrived. From now on, all responses must be complete.
static void settle(struct load *l)
{
    bench_sleep(GS_NS_PER_SEC * 3 / 2);
    int64_t end = gs_mono_ns() + PATIENCE_NS;
    for (long whole = l->whole, rest = l->asked - whole; l->whole < whole + 4L * WORKERS;) {
        bench_sleep(50 * GS_NS_PER_MS);
        if (gs_mono_ns() > end)
            bench_fail("values do not come back");
        long now = l->whole, rest_now = l->asked - now;
        if (rest_now > rest) {
            whole = now;
            rest = rest_now;
        }
    }
}

static void change_all(struct load *l, pid_t adapter, const char *rules)
{
    GS_CLEANUP(tls_pair_finish) struct tls_pair ca = {0};
    GS_AUTO_FREE char *dir = gs_format("%s/cert-adapter.log", bench_dir());
    bench_check(tls_make_ca("another", 1, &ca));
    begin_phase(l, true);
    int64_t end = gs_mono_ns() + (int64_t)(l->o->phase * 1e9);
    int turn = 0;
    while (gs_mono_ns() < end) {
        turn++;
        write_rules(rules, turn);
        write_certificate(dir, &ca, turn);
        kill(adapter, SIGHUP);
        bench_sleep(GS_NS_PER_SEC / 5);
    }
    GS_AUTO_FREE char *cn = gs_format("turn-%d", turn);
    for (end += PATIENCE_NS; !shows(l, cn); bench_sleep(50 * GS_NS_PER_MS))
        if (gs_mono_ns() > end)
            bench_fail("the last certificate is not shown");
    end_phase(l, adapter, "rules and certificates");
}

static void hang_and_die(struct load *l, pid_t adapter, pid_t *source)
{
    begin_phase(l, false);
    kill(*source, SIGSTOP);
    bench_sleep((int64_t)(l->o->phase * 1e9));
    kill(*source, SIGCONT);
    settle(l);
    end_phase(l, adapter, "the source hangs");
    begin_phase(l, false);
    bench_stop(*source);
    bench_sleep((int64_t)(l->o->phase * 1e9));
    wait_for(&l->refused, "no response reported that the source is unavailable");
    *source = start_source(l->o, l->bed->source_port);
    settle(l);
    end_phase(l, adapter, "the source is unavailable");
}

static void good_phase(struct load *l, pid_t adapter, const char *what)
{
    begin_phase(l, true);
    bench_sleep((int64_t)(l->o->phase * 1e9));
    wait_for(&l->whole, "nobody was answered");
    end_phase(l, adapter, what);
}

static void end_under_load(struct load *l, pid_t adapter)
{
    int status = 0;
    atomic_store(&l->end, true);
    begin_phase(l, false);
    int64_t from = gs_mono_ns();
    kill(adapter, SIGTERM);
    while (waitpid(adapter, &status, WNOHANG) == 0) {
        if (gs_mono_ns() - from > PATIENCE_NS)
            bench_fail("the adapter does not end");
        bench_sleep(GS_NS_PER_MS);
    }
    printf("  ended %.0f ms after SIGTERM, %ld responses meanwhile\n",
           (double)(gs_mono_ns() - from) / 1e6, (long)l->whole);
    if (status != 0)
        bench_fail("the adapter ended with status %d", status);
}

static struct wire *open_idle(struct load *l)
{
    struct wire *idle = gs_alloc_array((size_t)l->o->idle + 1, sizeof(*idle));
    struct gs_slice body;
    for (int64_t i = 0; i < l->o->idle; i++) {
        adapter_connect(l->bed, &idle[i], l->port);
        if (i % 2 && !wire_get(&idle[i], "/readyz", &body)) // half of them have sent one request
            bench_fail("/readyz: %.*s", (int)body.len, body.data);
    }
    return idle;
}

static void run_phases(struct load *l, pid_t adapter, pid_t *source, const char *rules)
{
    struct worker workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.load = l, .number = i};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            bench_fail("no thread");
    }
    good_phase(l, adapter, "good");
    double before = resident_mb(adapter);
    struct wire *idle = open_idle(l);
    good_phase(l, adapter, "with idle connections");
    change_all(l, adapter, rules);
    static const char *const modes[] = {"slow",   "json", "types",  "huge",
                                        "others", "drop", "endless"};
    for (size_t i = 0; i < GS_ARRAY_LEN(modes); i++)
        bad_phase(l, adapter, modes[i], strcmp(modes[i], "slow") == 0);
    settle(l);
    hang_and_die(l, adapter, source);
    good_phase(l, adapter, "good again");
    double limit = before + (double)l->o->growth_mb + (double)l->o->idle * IDLE_KB / 1000;
    double most = (double)bench_peak_kib(adapter) * 1024 / 1e6;
    printf("  resident at most %.1f MB, limit %.0f\n", most, limit);
    if (l->o->growth_mb && most > limit)
        bench_fail("too much memory");
    end_under_load(l, adapter);
    atomic_store(&l->stop, true);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    for (int64_t i = 0; i < l->o->idle; i++)
        wire_close(&idle[i]);
    free(idle);
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct options *o = opts;
    (void)argc, (void)argv, (void)ret_exit;
    if (o->serve)
        cluster_serve((int)o->serve, 0, (uint16_t)o->source_port);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    bench_begin();
    struct adapter_bed b = {0};
    adapter_bed_start(&b, "/proc/self/exe", (int)o->pods);
    b.source_port = bench_free_port(); // another process: it will be stopped
    pid_t source = start_source(o, b.source_port);
    GS_AUTO_FREE char *rules = gs_format("%s/rules.yaml", bench_dir());
    GS_AUTO_FREE char *url = gs_format("http://127.0.0.1:%u", b.source_port);
    write_rules(rules, 0);
    struct load l = {.bed = &b, .o = o, .port = bench_free_port()};
    const char *const program[] = {o->gpuscale, "adapter", NULL};
    const char *const extra[] = {"--gpu-metrics=false", NULL};
    pid_t adapter = adapter_start(&b, "adapter.log", program, l.port, url, rules, extra);
    free(bench_wait_for_text(adapter, "discovered the resources of the cluster"));
    bench_sleep(GS_NS_PER_SEC);
    printf("%lld pods, %lld autoscalers that ask each %.1f s, %lld idle connections\n",
           (long long)o->pods, (long long)o->hpas, o->interval, (long long)o->idle);
    run_phases(&l, adapter, &source, rules);
    adapter_bed_finish(&b);
    return NULL;
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct gs_opt rows[] = {
    {"gpuscale", GS_OPT_STRING, AT(gpuscale), "FILE", "build/src/cmd/gpuscale",
     .help = "The program."},
    {"pods", GS_OPT_INT, AT(pods), "N", "10000", .min = 100, .max = 99999,
     .help = "Number of pods."},
    {"hpas", GS_OPT_INT, AT(hpas), "N", "1000", .min = 1, .max = 9999,
     .help = "Autoscalers, each of ten pods."},
    {"interval", GS_OPT_DOUBLE, AT(interval), "SECONDS", "15",
     .help = "Interval between the requests of each autoscaler."},
    {"phase", GS_OPT_DOUBLE, AT(phase), "SECONDS", "15", .help = "Duration of each phase."},
    {"idle", GS_OPT_INT, AT(idle), "N", "2000", .max = 9000, .help = "Number of idle connections."},
    {"growth-mb", GS_OPT_INT, AT(growth_mb), "N", "300", .max = 100000,
     .help = "Maximum growth of resident memory without that of idle connections. 0: no limit."},
    {"serve", GS_OPT_INT, AT(serve), "PODS", "0", .max = 1000000,
     .help = "Only run the simulated cluster, with this number of pods."},
    {"source-port", GS_OPT_INT, AT(source_port), "PORT", "0", .max = 65535,
     .help = "Port of the simulated Prometheus."},
    {0},
};

static const struct gs_command command = {
    .name = "adapter-load",
    .summary = "Check the adapter under load with slow, dead and faulty sources.",
    .description =
        "The exit code is 1 if a wrong or old value was served, if memory grew too much, "
        "or if the adapter did not end correctly.",
    .opts = rows,
    .opts_size = sizeof(struct options),
    .max_args = 0,
    .run = run,
};

int main(int argc, char **argv)
{
    return bench_main(&command, argc, argv);
}
