// SPDX-License-Identifier: Apache-2.0
// Policies of other systems, each in its own program (bench/latency-peers): it reads one line of
// JSON for each decision and answers with the number of replicas.
#include "latency.h"

#include "base/buf.h"
#include "base/mem.h"
#include "bench.h"
#include "codec/json.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct peer {
    FILE *in, *out; // of its program; NULL: it does not run
    pid_t pid;
    char version[160];
};
static struct peer peers[LATENCY_N_PEERS];

struct peer_run {
    struct peer *peer;
    double setting;
    bool begun, engines;
};

const char *latency_peer_start(enum latency_peer which, const char *program)
{
    struct peer *p = &peers[which];
    int to[2], from[2];
    if (pipe(to) || pipe(from))
        bench_fail("pipe: %s", strerror(errno));
    p->pid = fork();
    if (p->pid < 0)
        bench_fail("fork: %s", strerror(errno));
    if (!p->pid) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[0]), close(to[1]), close(from[0]), close(from[1]);
        execl("/bin/sh", "sh", "-c", program, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    p->in = fdopen(to[1], "w");
    p->out = fdopen(from[0], "r");
    if (!p->in || !p->out || !fgets(p->version, sizeof(p->version), p->out))
        return NULL;
    p->version[strcspn(p->version, "\n")] = '\0';
    return p->version;
}

void latency_peers_stop(void)
{
    for (size_t i = 0; i < LATENCY_N_PEERS; i++) {
        if (peers[i].in)
            (void)fclose(peers[i].in);
        if (peers[i].out)
            (void)fclose(peers[i].out);
        peers[i].in = peers[i].out = NULL;
    }
}

// --- a run ---

static void *begin_peer(enum latency_peer which, double setting)
{
    struct peer_run *r = gs_alloc(sizeof(*r));
    *r = (struct peer_run){
        .peer = &peers[which], .setting = setting, .engines = which == LATENCY_DYNAMO};
    return r;
}

static void add_engines(const struct latency_view *v, struct gs_buf *b)
{
    const char *separator = "";
    gs_buf_add_str(b, ",\"engines\":[");
    for (size_t i = 0; i < v->n_pods; i++) {
        const struct inference_pod *p = &v->pods[i];
        const struct inference_step *s = &p->last_step;
        if (p->phase != INFERENCE_POD_READY)
            continue;
        gs_buf_addf(b,
                    "%s{\"id\":%u,\"running\":%u,\"waiting\":%u,\"queued_tokens\":%llu,"
                    "\"prefill\":%u,\"decode\":%u,\"blocks\":%u,\"seconds\":%.6f}",
                    separator, p->id, p->state.running, p->state.waiting,
                    (unsigned long long)p->queued_tokens, s->prefill, s->decode,
                    p->state.used_blocks, (double)(s->end - s->start) / 1e9);
        separator = ",";
    }
    gs_buf_add_str(b, "]");
}

// What arrived in the last three minutes.
static void add_traffic(const struct latency_view *v, struct gs_buf *b)
{
    double n = 0, prompt = 0, output = 0, seconds = v->t_s < 180 ? v->t_s : 180;
    for (size_t i = 0; i < v->c->n && (double)v->c->arrivals[i].at_ns / 1e9 < v->t_s; i++) {
        if ((double)v->c->arrivals[i].at_ns / 1e9 < v->t_s - seconds)
            continue;
        n++;
        prompt += v->c->arrivals[i].prompt;
        output += v->c->arrivals[i].output;
    }
    gs_buf_addf(b, ",\"seconds\":%g,\"arrived\":%g,\"isl\":%g,\"osl\":%g", seconds, n,
                n > 0 ? prompt / n : 0, n > 0 ? output / n : 0);
}

static uint32_t decide_peer(void *state, const struct latency_view *v)
{
    struct peer_run *r = state;
    GS_AUTO_BUF struct gs_buf line = {0};
    char answer[64];
    gs_buf_addf(&line,
                "{\"new\":%s,\"t\":%.3f,\"replicas\":%u,\"ready\":%u,\"starting\":%u,"
                "\"requests\":%.0f,\"waiting\":%.0f,\"target\":%g,\"ttft_ms\":%g,\"itl_ms\":%g",
                r->begun ? "false" : "true", v->t_s, v->replicas, v->ready, v->starting,
                v->waiting + v->running, v->waiting, r->setting, LATENCY_TTFT_S * 1000,
                LATENCY_TPOT_S * 1000);
    if (r->engines) {
        add_engines(v, &line);
        add_traffic(v, &line);
    }
    gs_buf_add_str(&line, "}\n");
    r->begun = true;
    struct gs_slice text = gs_buf_slice(&line);
    if (fwrite(text.data, 1, text.len, r->peer->in) != text.len || fflush(r->peer->in) ||
        !fgets(answer, sizeof(answer), r->peer->out))
        bench_fail("%s has ended", r->peer->version);
    long n = strtol(answer, NULL, 10);
    return n < 1 ? v->replicas : (uint32_t)n;
}

static void *knative_begin(const struct latency_policy *p, const struct latency_case *c,
                           double setting)
{
    (void)p, (void)c;
    return begin_peer(LATENCY_KNATIVE, setting);
}

static void *ray_begin(const struct latency_policy *p, const struct latency_case *c, double setting)
{
    (void)p, (void)c;
    return begin_peer(LATENCY_RAY, setting);
}

static void *dynamo_begin(const struct latency_policy *p, const struct latency_case *c,
                          double setting)
{
    (void)p, (void)c;
    return begin_peer(LATENCY_DYNAMO, setting);
}

#define PEER(begin_) .begin = (begin_), .decide = decide_peer, .end = free

// Knative evaluates each two seconds. Ray's controller loop is shorter than its metrics' interval
// of ten seconds; Dynamo's planner reads loads each five seconds.
const struct latency_policy latency_knative = {.name = "Knative KPA",
                                               .period_s = 2,
                                               PEER(knative_begin),
                                               .settings = {16, 8, 24},
                                               .unit = "concurrent"};
const struct latency_policy latency_ray = {.name = "Ray Serve",
                                           .period_s = 10,
                                           PEER(ray_begin),
                                           .settings = {16, 8, 24},
                                           .unit = "ongoing"};
const struct latency_policy latency_dynamo = {.name = "Dynamo planner",
                                              .period_s = 5,
                                              PEER(dynamo_begin),
                                              .settings = {1, 0.5, 0.25},
                                              .unit = "of the TTFT"};

// --- KEDA ---

// Its program gives the autoscaler and the values that it reads. Without it, they follow from
// KEDA's rules.
struct keda_run {
    struct latency_scaler *scaler;
    struct peer *peer; // NULL: it does not run
};

// New reference.
static json_t *call_keda(const struct peer *p, const char *request)
{
    GS_AUTO_FREE char *line = NULL;
    size_t size = 0;
    json_t *answer = NULL;
    if (fputs(request, p->in) == EOF || fflush(p->in) || getline(&line, &size, p->out) <= 0)
        bench_fail("%s has ended", p->version);
    bench_check(codec_json_parse(gs_slice_of(line), true, &answer));
    if (json_object_get(answer, "problem"))
        bench_fail("%s: %s", p->version, line);
    return answer;
}

#define KEDA_TRIGGER                                                                               \
    "{\"type\":\"prometheus\",\"metadata\":{\"serverAddress\":\"http://p\",\"query\":\"q\","       \
    "\"threshold\":\"%g\"}}"

// The metrics of the autoscaler that KEDA creates, separated by commas. Caller frees.
static char *keda_metrics(const struct peer *p, double setting)
{
    GS_AUTO_FREE char *request = gs_format(
        "{\"object\":{\"metadata\":{\"name\":\"llm\",\"namespace\":\"ml\"},\"spec\":{"
        "\"scaleTargetRef\":{\"name\":\"llm\"},\"minReplicaCount\":1,\"maxReplicaCount\":%d,"
        "\"triggers\":[" KEDA_TRIGGER "," KEDA_TRIGGER "]}}}\n",
        LATENCY_MAX_REPLICAS, 1.0, setting);
    CODEC_AUTO_JSON json_t *answer = call_keda(p, request);
    struct gs_buf out = {0};
    const json_t *metric;
    size_t i;
    json_array_foreach (codec_json_get(answer, "hpa", "metrics", NULL), i, metric) {
        GS_AUTO_FREE char *text = codec_json_text(metric);
        gs_buf_addf(&out, "%s%s", i ? "," : "", text);
    }
    return gs_buf_take(&out);
}

// The two triggers of llm-d's guide: a queue of one and running requests, for each replica.
static void *keda_begin(const struct latency_policy *p, const struct latency_case *c,
                        double setting)
{
    struct keda_run *r = gs_alloc(sizeof(*r));
    (void)p, (void)c;
    r->peer = peers[LATENCY_KEDA].in && *peers[LATENCY_KEDA].version ? &peers[LATENCY_KEDA] : NULL;
    GS_AUTO_FREE char *metrics =
        r->peer ? keda_metrics(r->peer, setting)
                : gs_format(LATENCY_EXTERNAL "," LATENCY_EXTERNAL, "waiting", "AverageValue",
                            "averageValue", 1000, "running", "AverageValue", "averageValue",
                            (int)(setting * 1000));
    r->scaler = latency_scaler_new(metrics, false);
    return r;
}

static uint32_t keda_decide(void *state, const struct latency_view *v)
{
    struct keda_run *r = state;
    double values[] = {v->waiting, v->running};
    if (!r->peer)
        return latency_scaler_decide(r->scaler, v, values, NULL);
    GS_AUTO_FREE char *request =
        gs_format("{\"seconds\":%.0f,\"replicas\":%u,\"samples\":[\"%g\",\"%g\"]}\n", v->t_s,
                  v->replicas, v->waiting, v->running);
    CODEC_AUTO_JSON json_t *answer = call_keda(r->peer, request);
    for (size_t i = 0; i < GS_ARRAY_LEN(values); i++)
        values[i] = (double)codec_json_int(json_array_get(json_object_get(answer, "triggers"), i),
                                           0, "milli", NULL) /
                    1000;
    int64_t executor = codec_json_int(answer, 0, "replicas", NULL);
    uint32_t n = latency_scaler_decide(r->scaler, v, values, NULL);
    return executor == v->replicas ? n : (uint32_t)executor;
}

static void keda_end(void *state)
{
    struct keda_run *r = state;
    latency_scaler_end(r->scaler);
    free(r);
}

const struct latency_policy latency_keda = {.name = "KEDA, two triggers",
                                            .period_s = 15,
                                            .begin = keda_begin,
                                            .decide = keda_decide,
                                            .end = keda_end,
                                            .settings = {16, 8, 11},
                                            .unit = "running"};
