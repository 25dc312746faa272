// SPDX-License-Identifier: Apache-2.0
// The simulated GPUs of an engine: the steps of the model as kernels, one thread for each GPU. The
// threads also are the clock of the steps. Without simulated GPUs, a thread only waits.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct inference_gpu;

// Opens the first n devices that CUDA_VISIBLE_DEVICES allows, if the environment has simulated
// GPUs. done(arg) is called on the loop when a step has ended. GS_ENOTFOUND: fewer devices.
struct gs_error *inference_gpu_open(uv_loop_t *loop, unsigned n, void (*done)(void *arg), void *arg,
                                    struct inference_gpu **ret);
// Waits for the kernels that run. Run the loop afterwards. Accepts NULL.
void inference_gpu_free(struct inference_gpu *g);

bool inference_gpu_is_present(const struct inference_gpu *g);
const char *inference_gpu_model(const struct inference_gpu *g); // of the first one
uint64_t inference_gpu_memory(const struct inference_gpu *g);   // bytes of one
// On each GPU. They are freed with the device or by inference_gpu_release().
struct gs_error *inference_gpu_allocate(struct inference_gpu *g, uint64_t bytes);
void inference_gpu_release(struct inference_gpu *g);

// Begins a step: kernels for busy_ns on this part of the SMs, until end_ns of gs_mono_ns() or, if
// others use the GPU, later. Not while a step runs.
void inference_gpu_begin(struct inference_gpu *g, int64_t busy_ns, double sm_share, int64_t end_ns);
bool inference_gpu_is_busy(const struct inference_gpu *g);
// The error of a kernel, such as that of a lost GPU. NULL: none. The caller owns it.
struct gs_error *inference_gpu_take_error(struct inference_gpu *g);
