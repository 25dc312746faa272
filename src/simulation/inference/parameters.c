// SPDX-License-Identifier: Apache-2.0
// A roofline of two measured efficiencies. Decodes are bound by the memory, prompts by the
// arithmetic: Llama 3.1 8B of 16 bits gives 6.5 ms a token on an H100 and 13.3 ms on an A100 with
// 40 GB.
#include "inference/parameters.h"

#include "base/num.h"
#include "base/slice.h"

#include <ctype.h>
#include <math.h>

// The part of the data sheet's numbers that engines reach.
#define MEMORY_EFFICIENCY  0.77 // 75 tokens/s of an 8B model on 1,555 GB/s
#define COMPUTE_EFFICIENCY 0.5
#define HOST_NS            250e3 // between steps
#define SEQUENCE_NS        5e3   // sampling and output of one sequence
#define GPU_LINK_NS        1.5e6 // of a step on several GPUs, for an 80-layer model
#define BYTES_A_WEIGHT     2.0
#define WEIGHTS_MAX_PART   0.6  // of the memory, if the weights do not fit
#define OVERHEAD           0.03 // of the GPU memory: activations and graphs

enum { DEFAULT_LEN = 8192, DEFAULT_SEQS = 256, DEFAULT_TOKENS = 8192, DEFAULT_BLOCK = 16 };

// Data sheets: GB/s of the memory, dense TFLOP/s of 16 bits (of 32 bits on a K80). The first row
// that is the beginning of the name applies.
static const struct {
    const char *name;
    double bandwidth, flops;
} gpus[] = {
    {"Tesla-K80", 240, 4.1},
    {"Tesla-P100", 732, 18.7},
    {"Tesla-V100", 900, 125},
    {"Tesla-T4", 320, 65},
    {"A100-SXM4-40GB", 1555, 312},
    {"A100", 2039, 312},
    {"A10", 600, 125},
    {"A30", 933, 165},
    {"L40S", 864, 362},
    {"L4", 300, 121},
    {"H100-NVL", 3938, 835},
    {"H100", 3350, 989},
    {"H200", 4800, 989},
    {"B200", 8000, 2250},
    {"GB200", 8000, 2500},
    {"RTX-PRO-6000", 1597, 500},
    {"GeForce-RTX-4090", 1008, 165},
};

static void find_gpu(const char *name, double *ret_bandwidth, double *ret_flops)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(gpus); i++) {
        if (!gs_starts(name, gpus[i].name))
            continue;
        *ret_bandwidth = gpus[i].bandwidth * 1e9;
        *ret_flops = gpus[i].flops * 1e12;
        return;
    }
    find_gpu("A10", ret_bandwidth, ret_flops);
}

// --- the start ---

struct inference_startup inference_startup_of(int64_t total_ns)
{
    struct inference_startup s = {.process_ns = total_ns * 15 / 100,
                                  .weights_ns = total_ns * 45 / 100};
    s.cache_ns = total_ns - s.process_ns - s.weights_ns;
    return s;
}

// --- the size of a model ---

// "7b", "0.6B", "125m" at a place where a number begins. 0: no number is there.
static double size_at(const char *at, const char **ret_end)
{
    size_t n = strspn(at, "0123456789.");
    double value = 0;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_double(gs_slice_make(at, n), &value);
    char unit = (char)tolower((unsigned char)at[n]);
    *ret_end = at + n;
    if (err || (unit != 'b' && unit != 'm' && unit != 'x') ||
        (unit != 'x' && isalnum((unsigned char)at[n + 1])))
        return 0;
    return unit == 'm' ? value / 1000 : value;
}

double inference_parameters_billions(const char *model)
{
    const char *slash = strrchr(model, '/');
    double experts = 1;
    for (const char *at = slash ? slash + 1 : model; *at; at++) {
        const char *end;
        if (!isdigit((unsigned char)*at))
            continue;
        double size = size_at(at, &end);
        if (size > 0 && *end != 'x')
            return experts * size;
        experts = size > 0 ? size : 1;
        at = size > 0 ? end : end - 1;
    }
    return 0;
}

// Bytes of the KV cache for a token: 131,072 of Llama 3.1 8B (32 layers, 8 heads of 128), and about
// with the square root of the size.
static double kv_bytes(double billions)
{
    return 131072 * sqrt(billions / 8);
}

// --- the parameters ---

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value ? value : fallback;
}

static struct gs_error *check(const struct inference_setup *s)
{
    if (!(s->memory_utilization > 0 && s->memory_utilization <= 1))
        return gs_error_new(GS_EINVAL,
                            "--gpu-memory-utilization=%g: want a number above 0 and at most 1",
                            s->memory_utilization);
    if (!(s->speed >= 0 && s->speed <= 1e6))
        return gs_error_new(GS_EINVAL, "--speed=%g: want a number from 0 to 1000000", s->speed);
    if (!(s->billions >= 0 && s->billions <= 1e5))
        return gs_error_new(
            GS_EINVAL, "--model-size=%g: want a number of billions from 0 to 100000", s->billions);
    return NULL;
}

static void set_cost(const struct inference_setup *s, const struct inference_sizes *sizes,
                     struct inference_cost *ret)
{
    double bandwidth, flops, speed = s->speed > 0 ? s->speed : 1;
    find_gpu(s->gpu, &bandwidth, &flops);
    double read_ns = 1e9 / (bandwidth * MEMORY_EFFICIENCY) / speed;
    double compute = 2e9 * sizes->billions / (flops * COMPUTE_EFFICIENCY);
    ret->host_ns = HOST_NS / speed;
    ret->weights_ns = (double)sizes->weights * read_ns;
    if (s->gpus > 1)
        ret->weights_ns += GPU_LINK_NS * sqrt(sizes->billions / 70) / speed;
    ret->compute_ns = compute * 1e9 / s->gpus / speed;
    ret->kv_ns = kv_bytes(sizes->billions) / s->gpus * read_ns;
    ret->sequence_ns = SEQUENCE_NS / speed;
}

static void set_sizes(const struct inference_setup *s, struct inference_sizes *ret)
{
    double named = inference_parameters_billions(s->model);
    double memory = (double)s->gpu_memory;
    double usable = memory * (s->memory_utilization - OVERHEAD);
    ret->billions = s->billions > 0 ? s->billions : named > 0 ? named : 8;
    double weights = ret->billions * 1e9 * BYTES_A_WEIGHT / s->gpus;
    ret->shrunk = weights > usable * 0.95;
    if (ret->shrunk)
        weights = usable > 0 ? usable * WEIGHTS_MAX_PART : 0;
    ret->weights = (uint64_t)weights;
    ret->kv = usable > weights ? (uint64_t)(usable - weights) : 0;
}

static void set_cache(const struct inference_setup *s, struct inference_sizes *sizes,
                      struct inference_parameters *ret)
{
    double block = kv_bytes(sizes->billions) / s->gpus * ret->block_size;
    double blocks = floor((double)sizes->kv / block);
    ret->num_blocks = blocks < 1 ? 1 : blocks > 1e8 ? 100000000 : (uint32_t)blocks;
    uint64_t tokens = (uint64_t)ret->num_blocks * ret->block_size;
    sizes->shortened = ret->max_model_len > tokens;
    if (sizes->shortened)
        ret->max_model_len = (uint32_t)tokens;
}

struct gs_error *inference_parameters_init(const struct inference_setup *setup,
                                           struct inference_parameters *ret,
                                           struct inference_sizes *ret_sizes)
{
    struct gs_error *err = check(setup);
    if (err)
        return err;
    struct inference_sizes sizes = {0};
    struct inference_parameters p = {
        .max_num_seqs = or_default(setup->max_num_seqs, DEFAULT_SEQS),
        .max_num_batched_tokens = or_default(setup->max_num_batched_tokens, DEFAULT_TOKENS),
        .max_model_len = or_default(setup->max_model_len, DEFAULT_LEN),
        .block_size = or_default(setup->block_size, DEFAULT_BLOCK),
        .max_queued = UINT32_MAX,
    };
    set_sizes(setup, &sizes);
    set_cost(setup, &sizes, &p.cost);
    set_cache(setup, &sizes, &p);
    *ret = p;
    *ret_sizes = sizes;
    return NULL;
}
