// SPDX-License-Identifier: Apache-2.0
// Who has a device open, with how much memory. What a process that died left is taken back by
// whoever looks next: a process is the pid together with its start time, and a zombie is dead. All
// functions need the GPU's mutex.
#pragma once

#include "nvmlsim/shm.h"

struct nvmlsim_process_id {
    int32_t pid;
    uint64_t start_time;
    uint64_t pid_ns;
};

struct gs_error *nvmlsim_process_self(struct nvmlsim_process_id *ret);

// The place of that process on that timeline, opened once more. GS_ELIMIT when all are taken.
struct gs_error *nvmlsim_process_open(struct nvmlsim_shm_gpu *g,
                                      const struct nvmlsim_process_id *id, uint32_t timeline,
                                      unsigned *ret); // the error does not name the GPU
// Undoes one nvmlsim_process_open and gives `memory` back.
void nvmlsim_process_close(struct nvmlsim_shm_gpu *g, unsigned place, uint64_t memory);

// Ends the entries of processes that are no more.
void nvmlsim_process_reap(struct nvmlsim_shm_gpu *g);

// Bytes of a timeline: what it has for processes, and what they have allocated.
uint64_t nvmlsim_process_memory_limit(const struct nvmlsim_shm_board *b, uint32_t timeline);
uint64_t nvmlsim_process_memory_used(const struct nvmlsim_shm_gpu *g,
                                     const struct nvmlsim_shm_board *b, uint32_t timeline);
uint64_t nvmlsim_process_memory_all(const struct nvmlsim_shm_gpu *g); // of the whole GPU
