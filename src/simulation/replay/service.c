// SPDX-License-Identifier: Apache-2.0
// Reading and changing the inference service of a scenario.
#include "replay/service.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "replay/scenario_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_MODEL  "meta-llama/Llama-3.1-8B-Instruct"
#define DEFAULT_GPU    "H100-SXM5-80GB"
#define DEFAULT_MEMORY 80.0 // GB, of GPUs without a number in their name
#define MEMORY_SHARE   0.9  // that the engine takes
#define MAX_REQUESTS   5e6
#define MAX_GPUS       64 // of a replica

void replay_service_init(struct replay_service *v)
{
    *v = (struct replay_service){
        .setup = {.model = DEFAULT_MODEL,
                  .gpu = DEFAULT_GPU,
                  .gpus = 1,
                  .memory_utilization = MEMORY_SHARE},
        .seed = 1,
        .prompt_tokens = 1000,
        .output_tokens = 200,
        .max_tokens = REPLAY_SERVICE_MAX_TOKENS,
    };
}

void replay_service_finish(struct replay_service *v)
{
    replay_curve_finish(&v->prompt_curve);
    replay_curve_finish(&v->output_curve);
}

// --- the mapping ---

#define READ_NUMBER(name, field)                                                                   \
    static void read_##name(struct codec_reader *r, const json_t *in, void *out)                   \
    {                                                                                              \
        ((struct replay_service *)out)->field = replay_read_number(r, in);                         \
    }
READ_NUMBER(memory, memory_gb)
READ_NUMBER(speed, setup.speed)
READ_NUMBER(billions, setup.billions)
READ_NUMBER(rate, rate)
READ_NUMBER(prompt, prompt_tokens)
READ_NUMBER(output, output_tokens)
READ_NUMBER(spread, start_spread)
READ_NUMBER(failed, failed_starts)
#undef READ_NUMBER

static void read_seed(struct codec_reader *r, const json_t *in, void *out)
{
    struct gs_error *err = gs_parse_u64(gs_slice_of(codec_read_text(r, in)), UINT64_MAX,
                                        &((struct replay_service *)out)->seed);
    if (err)
        codec_reader_fail(r, in, "seed: %s", gs_error_message(err));
    gs_error_free(err);
}

static void read_seqs(struct codec_reader *r, const json_t *in, void *out)
{
    double n = replay_read_number(r, in);
    if (!(n >= 1 && n <= 65536 && n == floor(n)))
        codec_reader_fail(r, in, "maxNumSeqs: want a whole number from 1 to 65536");
    else
        ((struct replay_service *)out)->setup.max_num_seqs = (uint32_t)n;
}

static void read_router(struct codec_reader *r, const json_t *in, void *out)
{
    const char *text = codec_read_text(r, in);
    bool random = gs_streq(text, "random");
    if (!random && !gs_streq(text, "least-requests"))
        codec_reader_fail(r, in, "router: want least-requests or random");
    ((struct replay_service *)out)->router = random ? INFERENCE_RANDOM : INFERENCE_LEAST_REQUESTS;
}

static void read_shape(struct codec_reader *r, const json_t *in, void *out)
{
    struct replay_service *v = out;
    struct gs_error *err = inference_shape_parse(codec_read_text(r, in), &v->shape);
    if (err)
        codec_reader_fail(r, in, "shape: %s", gs_error_message(err));
    gs_error_free(err);
    v->has_shape = true;
}

static void read_requests(struct codec_reader *r, const json_t *in, void *out)
{
    (void)out;
    replay_read_curve(r, in, &((struct replay_scenario *)r->user)->load);
}

static void read_startup(struct codec_reader *r, const json_t *in, void *out)
{
    (void)out;
    ((struct replay_scenario *)r->user)->startup_ms = codec_read_duration(r, in);
}

static void read_gpus(struct codec_reader *r, const json_t *in, void *out)
{
    double n = replay_read_number(r, in);
    (void)out;
    if (!(n >= 1 && n <= MAX_GPUS && n == floor(n)))
        codec_reader_fail(r, in, "gpusPerReplica: want a whole number from 1 to %d", MAX_GPUS);
    else
        ((struct replay_scenario *)r->user)->gpus_per_replica = (size_t)n;
}

static void read_goal(struct codec_reader *r, const json_t *in, void *out)
{
    const char *text = codec_read_text(r, in);
    struct gs_error *err =
        replay_service_set_target(((struct replay_service *)out)->goal, NULL, text);
    if (err)
        codec_reader_fail(r, in, "target: %s", gs_error_message(err));
    gs_error_free(err);
}

void replay_service_read(struct codec_reader *r, const json_t *in, struct replay_service *v,
                         struct replay_scenario *s)
{
#define AT(field) offsetof(struct replay_service, field)
    static const struct codec_field fields[] = {
        {"model", CODEC_FIELD_TEXT, AT(setup.model), NULL},
        {"modelBillions", CODEC_FIELD_CUSTOM, 0, read_billions},
        {"gpu", CODEC_FIELD_TEXT, AT(setup.gpu), NULL},
        {"gpusPerReplica", CODEC_FIELD_CUSTOM, 0, read_gpus},
        {"gpuMemoryGB", CODEC_FIELD_CUSTOM, 0, read_memory},
        {"maxNumSeqs", CODEC_FIELD_CUSTOM, 0, read_seqs},
        {"speed", CODEC_FIELD_CUSTOM, 0, read_speed},
        {"startup", CODEC_FIELD_CUSTOM, 0, read_startup},
        {"startupSpread", CODEC_FIELD_CUSTOM, 0, read_spread},
        {"failedStarts", CODEC_FIELD_CUSTOM, 0, read_failed},
        {"router", CODEC_FIELD_CUSTOM, 0, read_router},
        {"requests", CODEC_FIELD_CUSTOM, 0, read_requests},
        {"shape", CODEC_FIELD_CUSTOM, 0, read_shape},
        {"rate", CODEC_FIELD_CUSTOM, 0, read_rate},
        {"promptTokens", CODEC_FIELD_CUSTOM, 0, read_prompt},
        {"outputTokens", CODEC_FIELD_CUSTOM, 0, read_output},
        {"target", CODEC_FIELD_CUSTOM, 0, read_goal},
        {"seed", CODEC_FIELD_CUSTOM, 0, read_seed},
        {0},
    };
#undef AT
    void *user = r->user;
    r->user = s;
    codec_read_mapping(r, in, fields, "service", v);
    r->user = user;
}

// --- the target ---

// Whether an item "ttft=1s" is of the key.
static bool is_of_key(struct gs_slice item, const char *key)
{
    size_t n = strlen(key);
    return item.len > n && memcmp(item.data, key, n) == 0 && item.data[n] == '=';
}

// Whether an item is a target, and not only how targets are applied.
static bool is_target(struct gs_slice item)
{
    return item.len && !is_of_key(item, "p") && !is_of_key(item, "mode");
}

struct gs_error *replay_service_set_target(char slo[SLO_TEXT_MAX], const char *key,
                                           const char *value)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_slice rest = gs_slice_of(slo);
    bool targets = false, set = !*value;
    while (key && *slo && rest.data) {
        struct gs_slice item = gs_slice_trim(gs_slice_cut(&rest, ','));
        if (!is_of_key(item, key)) {
            gs_buf_addf(&text, "%s" GS_SLICE_FMT, text.len ? "," : "", GS_SLICE_ARG(item));
            targets = targets || is_target(item);
        } else if (!set) {
            gs_buf_addf(&text, "%s%s=%s", text.len ? "," : "", key, value);
            set = true;
        }
    }
    if (!key)
        gs_buf_add_str(&text, value);
    else if (!set)
        gs_buf_addf(&text, "%s%s=%s", text.len ? "," : "", key, value);
    else if (!*value && !targets)
        gs_buf_clear(&text);
    if (text.len >= SLO_TEXT_MAX)
        return gs_error_new(GS_ELIMIT, "a target has less than %d bytes", SLO_TEXT_MAX);
    memcpy(slo, text.len ? text.data : "", text.len);
    slo[text.len] = '\0';
    return NULL;
}

static struct gs_error *parse_target(const char *text, bool *ret_has, struct slo_policy *ret)
{
    *ret_has = *text;
    struct gs_error *err = *text ? slo_policy_parse(text, ret) : NULL;
    return err ? gs_error_wrap(err, "latency target \"%s\"", text) : NULL;
}

static struct gs_error *parse_targets(struct replay_service *v)
{
    const char *goal = *v->goal ? v->goal : v->slo;
    struct gs_error *err = parse_target(v->slo, &v->has_policy, &v->policy);
    if (!err)
        err = parse_target(goal, &v->has_goal, &v->goal_policy);
    const struct slo_policy *p = &v->goal_policy;
    if (!err && v->has_goal && !(p->seconds[SLO_TTFT] > 0 || p->seconds[SLO_ITL] > 0))
        err = gs_error_new(GS_EINVAL,
                           "latency target \"%s\": the requests of a simulated service "
                           "are measured by ttft or itl",
                           goal);
    return err;
}

// --- what follows ---

// "H100-SXM5-80GB": 80.
static double memory_of(const char *gpu)
{
    for (const char *at = strstr(gpu, "GB"); at && at > gpu; at = strstr(at + 1, "GB")) {
        const char *start = at;
        double gb = 0;
        while (start > gpu && start[-1] >= '0' && start[-1] <= '9')
            start--;
        GS_AUTO_ERROR struct gs_error *err =
            gs_parse_double(gs_slice_make(start, (size_t)(at - start)), &gb);
        if (!err && gb > 0)
            return gb;
    }
    return DEFAULT_MEMORY;
}

static struct gs_error *check_requests(const struct replay_scenario *s)
{
    const struct replay_service *v = s->service;
    double n = replay_service_expected(s);
    if (v->has_shape && (s->load.n || !(v->rate > 0)))
        return gs_error_new(GS_EINVAL, "service: a shape needs a rate above 0, and no requests");
    if (!(v->prompt_tokens >= 1) || !(v->output_tokens >= 1))
        return gs_error_new(GS_EINVAL, "service: promptTokens and outputTokens are at least 1");
    if (n > MAX_REQUESTS ||
        n * replay_curve_mean(&v->output_curve, v->output_tokens) > v->max_tokens)
        return gs_error_new(GS_ELIMIT,
                            "%.0f requests with %.0f generated tokens each are too many: at most "
                            "%g requests and %g tokens; choose a shorter time",
                            n, replay_curve_mean(&v->output_curve, v->output_tokens), MAX_REQUESTS,
                            v->max_tokens);
    return NULL;
}

static struct gs_error *check_service(const struct replay_scenario *s)
{
    const struct replay_service *v = s->service;
    if (s->gpus_per_node || s->instance)
        return gs_error_new(GS_EINVAL, "a service has no nodes in a scenario");
    if (s->spec.max_replicas > REPLAY_SERVICE_MAX_REPLICAS ||
        s->replicas > REPLAY_SERVICE_MAX_REPLICAS)
        return gs_error_new(GS_ELIMIT, "a service has at most %d replicas in a scenario",
                            REPLAY_SERVICE_MAX_REPLICAS);
    for (size_t i = 0; i < s->n_events; i++)
        if (s->events[i].scale > REPLAY_SERVICE_MAX_REPLICAS)
            return gs_error_new(GS_ELIMIT, "events: a service has at most %d replicas",
                                REPLAY_SERVICE_MAX_REPLICAS);
    if (v->start_spread > 2 || v->failed_starts > 0.9)
        return gs_error_new(GS_EINVAL,
                            "service: startupSpread is at most 2, failedStarts at most 0.9");
    if (v->memory_gb > 10000)
        return gs_error_new(GS_EINVAL, "service.gpuMemoryGB: at most 10000");
    if (s->delay_ms >= s->sync_ms)
        return gs_error_new(GS_EINVAL, "delay: less than controller.sync for a service");
    return check_requests(s);
}

struct gs_error *replay_service_prepare(struct replay_scenario *s)
{
    struct replay_service *v = s->service;
    struct inference_sizes sizes;
    struct gs_error *err = check_service(s);
    if (!err)
        err = parse_targets(v);
    if (err)
        return err;
    v->setup.gpus = s->gpus_per_replica ? (unsigned)s->gpus_per_replica : 1;
    v->setup.gpu_memory =
        (uint64_t)((v->memory_gb > 0 ? v->memory_gb : memory_of(v->setup.gpu)) * 1e9);
    return inference_parameters_init(&v->setup, &v->engine, &sizes);
}

// --- settings ---

struct gs_error *replay_service_set(struct replay_scenario *s, const char *name, const char *value,
                                    bool *ret_found)
{
    struct replay_service *v = s->service;
    const struct {
        const char *name;
        double *number;
    } numbers[] = {{"rate", &v->rate},
                   {"promptTokens", &v->prompt_tokens},
                   {"outputTokens", &v->output_tokens},
                   {"speed", &v->setup.speed}};
    struct gs_error *err = NULL;
    *ret_found = true;
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++) {
        if (!gs_streq(name, numbers[i].name))
            continue;
        err = gs_parse_double(gs_slice_of(value), numbers[i].number);
        return err ? gs_error_wrap(err, "%s", name) : replay_service_prepare(s);
    }
    if (gs_streq(name, "slo"))
        err = replay_service_set_target(v->slo, NULL, value);
    else if (gs_starts(name, "slo."))
        err = replay_service_set_target(v->slo, name + strlen("slo."), value);
    else if (gs_streq(name, "seed"))
        err = gs_parse_u64(gs_slice_of(value), UINT64_MAX, &v->seed);
    else
        *ret_found = false;
    return err || !*ret_found ? err : replay_service_prepare(s);
}
