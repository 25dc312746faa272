// SPDX-License-Identifier: Apache-2.0
// Start and end of the server. The start has the phases of an engine: the process, the weights, and
// the KV cache with the first kernels. vLLM accepts no connection before their end; SGLang does,
// and is not healthy.
#include "inference/server_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/slice.h"

enum { MAX_CONNECTIONS = 8192, MAX_BODY = 8 * 1024 * 1024, REPORT_MS = 10000 };
enum { VLLM_PORT = 8000, SGLANG_PORT = 30000 };
#define DEFAULT_GPU        "H100-80GB-HBM3"
#define DEFAULT_GPU_MEMORY (UINT64_C(81559) << 20)

enum { PHASE_PROCESS, PHASE_WEIGHTS, PHASE_CACHE, PHASE_END };

static const char *name_of(const struct inference_server *s)
{
    return inference_dialect_engine(&s->dialect);
}

// --- log ---

static void on_report(void *arg)
{
    struct inference_server *s = arg;
    struct inference_state state = inference_model_state(s->model);
    double prompt = s->stats[0].prompt_tokens + s->stats[1].prompt_tokens;
    double output = s->stats[0].output_tokens + s->stats[1].output_tokens;
    int64_t now = gs_mono_ns();
    double passed = (double)(now - s->reported_at) / 1e9;
    if (output > s->reported_output || state.running || state.waiting)
        gs_info(name_of(s),
                "SIMULATED: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f "
                "tokens/s, Running: %u reqs, Waiting: %u reqs, GPU KV cache usage: %.1f%%",
                (prompt - s->reported_prompt) / passed, (output - s->reported_output) / passed,
                state.running, state.waiting, 100.0 * state.used_blocks / s->parameters.num_blocks);
    s->reported_prompt = prompt;
    s->reported_output = output;
    s->reported_at = now;
}

static void log_setup(const struct inference_server *s)
{
    char release[INFERENCE_RELEASE_SIZE];
    const struct inference_parameters *p = &s->parameters;
    gs_info(name_of(s),
            "SIMULATED engine, dialect of %s %s: %s, %.3g billion weights, on %lld x %s (%s); KV "
            "cache %llu tokens, max_num_seqs %u, max_model_len %u",
            name_of(s), inference_dialect_release(&s->dialect, release), s->o->model,
            s->sizes.billions, (long long)s->o->tensor_parallel,
            inference_gpu_is_present(s->gpu) ? inference_gpu_model(s->gpu) : s->o->gpu,
            inference_gpu_is_present(s->gpu) ? "simulated" : "assumed, without load",
            (unsigned long long)p->num_blocks * p->block_size, p->max_num_seqs, p->max_model_len);
    if (s->sizes.shrunk)
        gs_warn(name_of(s),
                "the weights do not fit into the memory of the GPU: the real engine would fail. "
                "The simulator counts 60%% of the memory for them");
    if (s->sizes.shortened)
        gs_warn(name_of(s), "max_model_len is %u: the KV cache does not hold more tokens",
                p->max_model_len);
}

// --- setup ---

static double memory_utilization(const struct inference_server *s)
{
    if (s->o->memory_utilization > 0)
        return s->o->memory_utilization;
    return s->dialect.engine == INFERENCE_VLLM && s->dialect.release >= 20000 ? 0.92 : 0.9;
}

static struct gs_error *set_parameters(struct inference_server *s)
{
    const struct inference_options *o = s->o;
    bool present = inference_gpu_is_present(s->gpu);
    const struct inference_setup setup = {
        .model = o->model,
        .billions = o->billions,
        .gpu = present ? inference_gpu_model(s->gpu) : o->gpu,
        .gpu_memory = present ? inference_gpu_memory(s->gpu) : DEFAULT_GPU_MEMORY,
        .gpus = (unsigned)o->tensor_parallel,
        .memory_utilization = s->memory_utilization,
        .speed = o->speed,
        .block_size = (uint32_t)o->block_size,
        .max_num_seqs = (uint32_t)o->max_num_seqs,
        .max_num_batched_tokens = (uint32_t)o->max_num_batched_tokens,
        .max_model_len = (uint32_t)o->max_model_len,
    };
    struct gs_error *err = inference_parameters_init(&setup, &s->parameters, &s->sizes);
    if (err)
        return err;
    s->parameters.output_mean = o->output_mean;
    s->parameters.output_sigma = o->output_sigma;
    s->parameters.failure_ratio = o->failure_ratio;
    s->parameters.seed = (uint64_t)o->seed;
    if (o->max_queued >= 0 && inference_dialect_limits_queue(&s->dialect))
        s->parameters.max_queued = (uint32_t)o->max_queued;
    else if (o->max_queued >= 0)
        gs_warn(name_of(s), "--max-num-queued-reqs is not used: this release does not have it");
    return NULL;
}

static void start_model(struct inference_server *s)
{
    struct inference_model_events events = inference_server_events;
    events.arg = s;
    s->model = inference_model_new(&s->parameters, &events);
    if (s->o->prefix_caching && !s->o->no_radix_cache)
        s->prefixes = inference_prefix_cache_new(s->parameters.num_blocks);
    for (int i = 0; i < INFERENCE_N_STATS; i++)
        inference_dialect_init_stats(&s->dialect, s->parameters.max_model_len, &s->stats[i]);
}

// --- the phases of the start ---

static void on_phase_end(void *arg);

static void begin_phase(struct inference_server *s)
{
    struct inference_startup startup = inference_startup_of(s->o->startup_ns);
    int64_t ns = s->phase == PHASE_PROCESS   ? startup.process_ns
                 : s->phase == PHASE_WEIGHTS ? startup.weights_ns
                                             : startup.cache_ns;
    gs_timer_start(s->startup, on_phase_end, (uint64_t)(ns / GS_NS_PER_MS));
}

static void fail(struct inference_server *s, struct gs_error *err)
{
    s->failed = true;
    program_fail(s->program, err);
}

static double seconds_since(int64_t begin)
{
    return (double)(gs_mono_ns() - begin) / 1e9;
}

static struct gs_error *end_weights(struct inference_server *s)
{
    if (s->o->fail_startup)
        return gs_error_new(GS_EIO, "SIMULATED failure of the start (--fail-startup): Engine core "
                                    "initialization failed");
    struct gs_error *err = inference_gpu_allocate(s->gpu, s->sizes.weights);
    s->load_s = (double)inference_startup_of(s->o->startup_ns).weights_ns / 1e9;
    return err ? gs_error_wrap(err, "loading the weights") : NULL;
}

static struct gs_error *end_cache(struct inference_server *s)
{
    struct gs_error *err = inference_gpu_allocate(s->gpu, s->sizes.kv);
    s->allocation_s = (double)inference_startup_of(s->o->startup_ns).cache_ns / 1e9;
    s->startup_s = seconds_since(s->began_ns);
    s->ready = !err;
    return err ? gs_error_wrap(err, "allocating the KV cache") : NULL;
}

static void on_phase_end(void *arg)
{
    struct inference_server *s = arg;
    struct gs_error *err = s->phase == PHASE_WEIGHTS ? end_weights(s)
                           : s->phase == PHASE_CACHE ? end_cache(s)
                                                     : NULL;
    if (err)
        fail(s, err);
    else if (++s->phase < PHASE_END)
        begin_phase(s);
    else
        gs_info(name_of(s), "SIMULATED: started in %.1f s. Application startup complete.",
                s->startup_s);
}

static void on_crash(void *arg)
{
    struct inference_server *s = arg;
    fail(s, gs_error_new(GS_EIO, "SIMULATED failure of the engine (--crash-after)"));
}

// --- serving ---

static bool is_healthy(void *arg, bool readiness, struct gs_buf *details)
{
    const struct inference_server *s = arg;
    if (readiness && !s->ready)
        gs_buf_add_str(details, "the engine is starting\n");
    return !readiness || s->ready;
}

static struct gs_error *listen_for_requests(struct inference_server *s)
{
    static const struct http_server_config http = {.max_connections = MAX_CONNECTIONS,
                                                   .max_body = MAX_BODY};
    int64_t port = s->o->port                              ? s->o->port
                   : s->dialect.engine == INFERENCE_SGLANG ? SGLANG_PORT
                                                           : VLLM_PORT;
    GS_AUTO_FREE char *address = gs_format("%s:%lld", s->o->host, (long long)port);
    const struct program_listener l = {.flag = "--host and --port",
                                       .address = address,
                                       .prefix = "SIMULATED: ",
                                       .path = "/v1",
                                       .http = &http,
                                       .rows = inference_server_rows,
                                       .ctx = s};
    return program_listen(s->program, &l, NULL);
}

// vLLM: the time before its server listens.
static void wait_for_start(struct inference_server *s)
{
    while (!s->ready && !s->failed && !program_stopping(s->program))
        uv_run(program_loop(s->program), UV_RUN_ONCE);
}

static struct gs_error *serve(struct inference_server *s)
{
    if (s->dialect.engine == INFERENCE_VLLM)
        wait_for_start(s);
    if (s->failed || program_stopping(s->program))
        return program_run(s->program);
    struct gs_error *err = listen_for_requests(s);
    return err ? err : program_run(s->program);
}

static struct gs_error *start(struct inference_server *s)
{
    uv_loop_t *loop = program_loop(s->program);
    s->began_ns = s->reported_at = s->rate_at = gs_mono_ns();
    s->created_s = (double)gs_unix_ms() / 1000;
    s->memory_utilization = memory_utilization(s);
    struct gs_error *err = inference_gpu_open(loop, (unsigned)s->o->tensor_parallel,
                                              inference_server_step_done, s, &s->gpu);
    if (!err)
        err = set_parameters(s);
    if (err)
        return err;
    log_setup(s);
    start_model(s);
    s->startup = gs_timer_new(loop, s);
    s->crash = gs_timer_new(loop, s);
    s->report = gs_timer_new(loop, s);
    begin_phase(s);
    gs_timer_repeat(s->report, on_report, REPORT_MS, REPORT_MS);
    if (s->o->crash_after_ns)
        gs_timer_start(s->crash, on_crash, (uint64_t)(s->o->crash_after_ns / GS_NS_PER_MS));
    return serve(s);
}

static void finish_server(struct inference_server *s)
{
    program_close(s->program);
    gs_timer_free(s->startup);
    gs_timer_free(s->crash);
    gs_timer_free(s->report);
    inference_gpu_free(s->gpu);
    inference_model_free(s->model);
    inference_prefix_cache_free(s->prefixes);
    for (int i = 0; s->model && i < INFERENCE_N_STATS; i++)
        inference_stats_finish(&s->stats[i]);
    program_free(s->program);
}

static struct gs_error *check_options(const struct inference_options *o)
{
    if (!o->model || !*o->model)
        return gs_error_new(GS_EINVAL, "the model is missing: give its name, such as "
                                       "meta-llama/Llama-3.1-8B-Instruct");
    if (!(o->failure_ratio >= 0 && o->failure_ratio <= 1))
        return gs_error_new(GS_EINVAL, "--fail-ratio=%g: want a number from 0 to 1",
                            o->failure_ratio);
    if (!(o->output_mean >= 0 && o->output_sigma >= 0 && o->output_sigma <= 5))
        return gs_error_new(GS_EINVAL, "--output-tokens: want a number of at least 0, and for "
                                       "--output-sigma one from 0 to 5");
    return NULL;
}

struct gs_error *inference_server_run(const struct inference_options *o)
{
    struct inference_server s = {.o = o};
    struct gs_error *err = check_options(o);
    if (!err)
        err = inference_dialect_parse(o->engine, o->release, &s.dialect);
    if (err)
        return err;
    s.model_name = o->served_name && *o->served_name ? o->served_name : o->model;
    const struct program_config config = {
        .name = inference_dialect_engine(&s.dialect), .health = is_healthy, .arg = &s};
    s.program = program_new(&config);
    err = start(&s);
    finish_server(&s);
    return err;
}
