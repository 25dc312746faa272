// SPDX-License-Identifier: Apache-2.0
#include "differential.h"

#include "base/mem.h"

#include <math.h>

struct emit {
    void (*fn)(void *arg, const struct metrics_label *labels, size_t n, int64_t t_ms, double v);
    void *arg;
    uint64_t state; // of the noise
};

static uint64_t noise(struct emit *e)
{
    e->state = e->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return e->state >> 33;
}

enum shape { GAUGE, COUNTER, BUCKETS, SPECIAL, GAPS, CONSTANT, SIGNED };

// Buckets are cumulative: a function of the time and the bound only.
static double value(struct emit *e, enum shape shape, int series, int i, double *sum)
{
    switch (shape) {
    case COUNTER:
        if (i % (50 + series * 7) == 49)
            *sum = 0;
        return *sum += (double)(noise(e) % 20);
    case BUCKETS:
        return (double)i * (series % 6 + 1) * (series / 6 + 1);
    case SPECIAL:
        return i % 11 == 3 ? NAN : i % 13 == 5 ? INFINITY : i % 17 == 6 ? -INFINITY : (double)i / 7;
    case CONSTANT:
        return 1;
    case SIGNED:
        return (double)(noise(e) % 2000) / 8 - 125;
    default:
        return (double)(noise(e) % 1000) / 10;
    }
}

static bool there(enum shape shape, int series, int i)
{
    if (shape == GAPS)
        return (i / (20 + series * 3)) % 2 == 0;
    return !(series == 3 && i < 100) &&
           !(series == 4 && i > 200); // one begins late, and one ends early
}

struct family {
    const char *name, *third, *values[7];
    enum shape shape;
};

// In the order of labels, as in a block of Prometheus: topk of equal values depends on it.
static void emit_family(struct emit *e, const struct family *f)
{
    static const char *const pods[] = {"vision-0", "vision-1", "bert-0"};
    static const char *const nodes[] = {"node-a", "node-b", "node-b"};
    static const char *const instances[] = {"node-a:9400", "node-b:9400", "node-b:9400"};
    static const int orders[2][3] = {{0, 1, 2}, {0, 2, 1}};
    static const int bounds[] = {5, 0, 1, 2, 4, 3};
    for (int k = 0; f->values[k]; k++)
        for (int o = 0; o < 3; o++) {
            int p = orders[k != 0][o];
            int series = f->shape == BUCKETS ? p * 6 + bounds[k] : p * 3 + k;
            const struct metrics_label labels[] = {
                {GS_SLICE("__name__"), gs_slice_of(f->name)},
                {gs_slice_of(f->third), gs_slice_of(f->values[k])},
                {GS_SLICE("node"), gs_slice_of(p == 2 && k == 0 ? "" : nodes[p])},
                {GS_SLICE("pod"), gs_slice_of(pods[p])},
                {GS_SLICE("instance"), gs_slice_of(instances[p])},
            };
            size_t n_labels = gs_streq(f->third, "gpu") ? 5 : 4;
            double sum = 0;
            for (int i = 0; i < 360; i++) {
                double v = value(e, f->shape, series, i, &sum);
                if (there(f->shape, series, i))
                    e->fn(e->arg, labels, n_labels, DATA_START_MS + i * 15000 + p * 1700 + 411, v);
            }
        }
}

void data_each(void (*fn)(void *arg, const struct metrics_label *labels, size_t n, int64_t t_ms,
                          double v),
               void *arg)
{
    static const struct family families[] = {
        {"DCGM_FI_DEV_FB_USED", "gpu", {"0", "1"}, GAUGE},
        {"DCGM_FI_DEV_GPU_TEMP", "gpu", {"0", "1"}, GAUGE},
        {"DCGM_FI_DEV_GPU_UTIL", "gpu", {"0", "1"}, GAUGE},
        {"DCGM_FI_DEV_POWER_USAGE", "gpu", {"0"}, SIGNED},
        {"DCGM_FI_DEV_SM_CLOCK", "gpu", {"0", "1"}, GAUGE},
        {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gpu", {"0", "1"}, GAUGE},
        {"gaps", "gpu", {"0", "1"}, GAPS},
        {"http_requests_total", "code", {"200", "404", "500"}, COUNTER},
        {"kube_pod_labels", "label_app", {"cuda-test"}, CONSTANT},
        {"queue_wait_seconds_bucket", "le", {"+Inf", "0.1", "0.5", "1", "10", "5"}, BUCKETS},
        {"special", "gpu", {"0", "1"}, SPECIAL},
    };
    struct emit e = {.fn = fn, .arg = arg, .state = 42};
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        emit_family(&e, &families[i]);
}
