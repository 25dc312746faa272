// SPDX-License-Identifier: Apache-2.0
// A model that is filled from an exposition, for the tests of this module.
#pragma once

#include "base/clock.h"
#include "top/top_private.h"

#define NODE "hostname=\"node-1\",DCGM_FI_DRIVER_VERSION=\"570.1-simulated\""
#define GPU0 "gpu=\"0\",UUID=\"GPU-a\",modelName=\"NVIDIA A100-SXM4-80GB\"," NODE
#define GPU1 "gpu=\"1\",UUID=\"GPU-b\",modelName=\"NVIDIA A100-SXM4-80GB\"," NODE
#define GPU2 "gpu=\"2\",UUID=\"GPU-c\",modelName=\"Tesla T4\"," NODE

// Three GPUs: busy with a pod, idle, and one that is lost.
static const char three_gpus[] =
    "DCGM_FI_DEV_GPU_UTIL{" GPU0 ",namespace=\"ml\",pod=\"train-0\",container=\"c\"} 83\n"
    "DCGM_FI_DEV_FB_USED{" GPU0 ",namespace=\"ml\",pod=\"train-0\",container=\"c\"} 40960\n"
    "DCGM_FI_DEV_FB_FREE{" GPU0 "} 40091\n"
    "DCGM_FI_DEV_FB_RESERVED{" GPU0 "} 869\n"
    "DCGM_FI_DEV_GPU_TEMP{" GPU0 "} 64\n"
    "DCGM_FI_DEV_POWER_USAGE{" GPU0 "} 312.4\n"
    "DCGM_FI_DEV_GPU_UTIL{" GPU1 "} 0\n"
    "DCGM_FI_DEV_FB_USED{" GPU1 "} 0\n"
    "DCGM_FI_DEV_FB_FREE{" GPU1 "} 81051\n"
    "DCGM_FI_DEV_GPU_UTIL{" GPU2 "} 12\n"
    "gpuscale_exporter_gpu_lost{gpu=\"2\",UUID=\"GPU-c\"} 1\n"
    "DCGM_CUSTOM_PROCESS_SM_UTIL{gpu=\"0\",UUID=\"GPU-a\",NodeName=\"node-1\",ProcessId=\"4711\","
    "ProcessName=\"python3\",ProcessType=\"C\",NamespaceName=\"ml\",PodName=\"train-0\"} 81\n"
    "DCGM_CUSTOM_PROCESS_MEM_USED{gpu=\"0\",UUID=\"GPU-a\",NodeName=\"node-1\",ProcessId=\"4711\","
    "ProcessName=\"python3\",ProcessType=\"C\",NamespaceName=\"ml\",PodName=\"train-0\"} 40000\n";

static inline void feed(struct top_model *m, const char *text, int64_t now_ms)
{
    struct top_samples s = {0};
    assert_null(top_source_read_exposition(gs_slice_of(text), &s));
    for (size_t i = 0; i < s.len; i++)
        s.items[i].t_ms = now_ms;
    top_model_update(m, &s, now_ms);
    top_samples_finish(&s);
}
