// SPDX-License-Identifier: Apache-2.0
// gpuscale sim inference: a simulated inference engine. It has the flags of vLLM and SGLang that
// change what the simulation does; others are logged and have no effect.
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/slice.h"
#include "cmd/commands.h"
#include "inference/server.h"

#include <stdlib.h>

struct inference_opts {
    struct inference_options run;
    const char *model, *max_model_len, *max_num_batched_tokens;
};

#define AT(member)  .offset = offsetof(struct inference_opts, member)
#define RUN(member) .offset = offsetof(struct inference_opts, run.member)

static const struct gs_opt inference_flags[] = {
    {"engine", GS_OPT_STRING, RUN(engine), "vllm|sglang", "vllm",
     .help = "The engine whose API, metrics and defaults are simulated."},
    {"release", GS_OPT_STRING, RUN(release), "X.Y.Z", .env = "GPUSCALE_INFERENCE_RELEASE",
     .help = "Release of the engine, which sets the names of the metrics. Default: the latest one "
             "that is simulated."},
    {"model", GS_OPT_STRING, AT(model), "NAME", .alias = "model-path",
     .help = "The model, instead of the argument. Its name contains its size: 8B, 0.6B, 125m."},
    {"served-model-name", GS_OPT_STRING, RUN(served_name), "NAME",
     .help = "The name that clients use. Default: the model."},
    {"host", GS_OPT_STRING, RUN(host), "ADDRESS",
     .help = "Address to listen on. Default: 127.0.0.1, and in a pod 0.0.0.0."},
    {"port", GS_OPT_INT, RUN(port), "PORT", .max = 65535,
     .help = "Port to listen on. Default: 8000 of vllm, 30000 of sglang."},
    {"tensor-parallel-size", GS_OPT_INT, RUN(tensor_parallel), "N", "1", .alias = "tp", .min = 1,
     .max = 16, .help = "GPUs that share the model."},
    {"gpu-memory-utilization", GS_OPT_DOUBLE, RUN(memory_utilization), "PART",
     .alias = "mem-fraction-static",
     .help = "Part of the GPU memory that the engine allocates. Default: that of the engine."},
    {"max-num-seqs", GS_OPT_INT, RUN(max_num_seqs), "N", .alias = "max-running-requests",
     .max = 65536, .help = "Requests that run at the same time. Default: 256."},
    {"max-num-batched-tokens", GS_OPT_STRING, AT(max_num_batched_tokens), "N",
     .alias = "chunked-prefill-size", .help = "Tokens of a step. Default: 8192."},
    {"max-model-len", GS_OPT_STRING, AT(max_model_len), "N", .alias = "context-length",
     .help = "Tokens of a prompt with its output. Default: 8192, or less if the KV cache is "
             "smaller."},
    {"block-size", GS_OPT_INT, RUN(block_size), "N", .alias = "page-size", .max = 4096,
     .help = "Tokens of a block of the KV cache. Default: 16."},
    {"max-num-queued-reqs", GS_OPT_INT, RUN(max_queued), "N", "-1", .alias = "max-queued-requests",
     .min = -1, .max = 1000000,
     .help = "Requests that wait; more get the status 503. Only of releases that have it. -1: no "
             "limit."},
    {"enable-prefix-caching", GS_OPT_BOOL, RUN(prefix_caching), .def = "true",
     .help =
         "Do not compute the beginning of a prompt again while its blocks are in the KV cache."},
    {"enable-metrics", GS_OPT_BOOL, RUN(enable_metrics),
     .help = "Serve /metrics; as in the engine, only sglang needs it."},
    {"seed", GS_OPT_INT, RUN(seed), "N", "0", .env = "GPUSCALE_INFERENCE_SEED",
     .help = "Seed of the lengths of outputs and of failures."},
    {"startup", GS_OPT_DURATION, RUN(startup_ns), "DURATION", "5s",
     .env = "GPUSCALE_INFERENCE_STARTUP", .group = "Simulation",
     .help = "Time until the engine serves. Real ones take from 30 s to many minutes."},
    {"speed", GS_OPT_DOUBLE, RUN(speed), "FACTOR", "1", .env = "GPUSCALE_INFERENCE_SPEED",
     .group = "Simulation", .help = "2: all steps take half the time."},
    {"model-size", GS_OPT_DOUBLE, RUN(billions), "BILLIONS", .env = "GPUSCALE_INFERENCE_MODEL_SIZE",
     .group = "Simulation", .help = "Weights of the model, if its name does not contain them."},
    {"gpu", GS_OPT_STRING, RUN(gpu), "MODEL", "H100-80GB-HBM3", .group = "Simulation",
     .help = "The GPU that is assumed if the environment has no simulated GPUs; without load."},
    {"output-tokens", GS_OPT_DOUBLE, RUN(output_mean), "N", "200",
     .env = "GPUSCALE_INFERENCE_OUTPUT_TOKENS", .group = "Simulation",
     .help = "Mean length of outputs, up to max_tokens of the request. 0: each has max_tokens."},
    {"output-sigma", GS_OPT_DOUBLE, RUN(output_sigma), "N", "0.7", .group = "Simulation",
     .help = "Deviation of the logarithm of that length. 0: all outputs have the mean."},
    {"fail-ratio", GS_OPT_DOUBLE, RUN(failure_ratio), "PART", "0",
     .env = "GPUSCALE_INFERENCE_FAIL_RATIO", .group = "Simulation",
     .help = "Part of the requests that fail with the status 500, 0 to 1."},
    {"fail-startup", GS_OPT_BOOL, RUN(fail_startup), .env = "GPUSCALE_INFERENCE_FAIL_STARTUP",
     .group = "Simulation", .help = "End with an error while the weights are loaded."},
    {"crash-after", GS_OPT_DURATION, RUN(crash_after_ns), "DURATION",
     .env = "GPUSCALE_INFERENCE_CRASH_AFTER", .group = "Simulation",
     .help = "End with an error after this time. 0: never."},
    {"disable-radix-cache", GS_OPT_BOOL, RUN(no_radix_cache), .group = "Names of SGLang",
     .help = "As --no-enable-prefix-caching."},
    {"tp-size", GS_OPT_INT, RUN(tensor_parallel), "N", .min = 1, .max = 16,
     .group = "Names of SGLang", .help = "As --tensor-parallel-size."},
    {0},
};

// Flags of the engines without a value, by their beginning.
static bool is_switch(const char *name)
{
    static const char *const beginnings[] = {
        "enable-", "disable-", "no-",    "trust-",  "enforce-", "use-",
        "skip-",   "log-",     "async-", "return-", "headless", "language-model-only"};
    for (size_t i = 0; i < GS_ARRAY_LEN(beginnings); i++)
        if (gs_starts(name, beginnings[i]))
            return true;
    return false;
}

// Values are not logged: that of --api-key is a secret.
static bool skip_flag(const char *flag, const char *next)
{
    const char *name = flag + strspn(flag, "-");
    gs_info("inference", "SIMULATED: %.*s has no effect", (int)strcspn(flag, "="), flag);
    return next && *next != '-' && !is_switch(name);
}

// "8192", "8k" (8000), "8K" (8192), "1.5M"; "auto" and "-1" are 0.
static struct gs_error *parse_tokens(const char *flag, const char *text, int64_t *ret)
{
    static const struct {
        char unit;
        double factor;
    } units[] = {{'k', 1e3}, {'K', 1024}, {'m', 1e6}, {'M', 1048576}};
    double value = 0, factor = 1;
    if (!text || gs_streq(text, "auto") || gs_streq(text, "-1"))
        return NULL;
    size_t len = strlen(text);
    for (size_t i = 0; len && i < GS_ARRAY_LEN(units); i++)
        if (text[len - 1] == units[i].unit)
            factor = units[i].factor;
    struct gs_error *err = gs_parse_double(gs_slice_make(text, len - (factor > 1)), &value);
    if (!err && !(value * factor >= 1 && value * factor <= 1e9))
        err = gs_error_new(GS_EINVAL, "\"%s\": want a number of tokens up to 1e9", text);
    if (err)
        return gs_error_wrap(err, "--%s", flag);
    *ret = (int64_t)(value * factor);
    return NULL;
}

static struct gs_error *run_inference(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct inference_opts *o = opts;
    struct inference_options run = o->run;
    bool serve = argc > 0 && gs_streq(argv[0], "serve"); // as in `vllm serve MODEL`
    run.model = o->model ? o->model : argc > serve ? argv[serve] : NULL;
    if (!run.host || !*run.host)
        run.host = getenv("GPUSCALE_POD_IP") ? "0.0.0.0" : "127.0.0.1";
    struct gs_error *err = parse_tokens("max-model-len", o->max_model_len, &run.max_model_len);
    if (!err)
        err = parse_tokens("max-num-batched-tokens", o->max_num_batched_tokens,
                           &run.max_num_batched_tokens);
    return err ? err : inference_server_run(&run);
}

const struct gs_command cmd_inference = {
    .name = "inference",
    .within = "sim",
    .args = "[serve] MODEL",
    .summary = "Simulate an inference engine: API of OpenAI, metrics of vLLM or SGLang.",
    .description =
        "Serves /v1/completions, /v1/chat/completions, /v1/models, /health and /metrics like the "
        "engine, and answers with constant words. Continuous batching, KV cache, queue and times "
        "follow a model that is calibrated with published measurements. The load appears on the "
        "simulated GPUs of the environment, as in pods of gpuscale up. Everything is labelled "
        "SIMULATED. docs/inference-simulator.md describes the model.",
    .examples = "  gpuscale sim inference meta-llama/Llama-3.1-8B-Instruct --port=8000\n"
                "  gpuscale sim inference --engine=sglang --release=0.5.9 --enable-metrics "
                "Qwen/Qwen3-0.6B\n"
                "  curl -s 127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' -d "
                "'{\"prompt\": \"Hello\", \"max_tokens\": 50}'",
    .opts = inference_flags,
    .opts_size = sizeof(struct inference_opts),
    .max_args = -1,
    .other_flag = skip_flag,
    .run = run_inference,
};
