// SPDX-License-Identifier: Apache-2.0
// What the newest samples of the exporter say about each GPU, and a row of text for each.
#pragma once

#include "cmd/up/block.h"
#include "tsdb/tsdb.h"

#define UP_MAX_GPUS 128 // devices, with MIG instances

struct up_gpu {
    long index;
    long instance; // of MIG; -1: the whole GPU
    char model[64];
    double util, used_mib, free_mib, reserved_mib; // NAN: absent
    struct gs_buf pods;                            // names, each once
    size_t n_processes;
    bool lost;
};

struct up_gpus {
    struct up_gpu items[UP_MAX_GPUS];
    size_t len;
    const struct tsdb *db;
    const char *metric;
};

void up_gpus_collect(const struct tsdb *db, int64_t now_ms, struct up_gpus *ret);
void up_gpus_finish(struct up_gpus *gpus);
// An entry for each. The columns shrink to the width of the block: utilisation and memory stay,
// then pods, the bar and the model have what is left. When the block has not room for all, those
// with processes and the lost ones come first.
void up_gpus_add(const struct up_gpus *gpus, bool colour, struct up_block *block);
