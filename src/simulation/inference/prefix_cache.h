// SPDX-License-Identifier: Apache-2.0
// The prefix cache of an engine: which blocks of prompts it has computed and not yet replaced. A
// block is named by a hash of its tokens and of all before it, so that equal names mean equal
// beginnings. Without a clock and without random numbers, as the model.
#pragma once

#include "base/slice.h"

#include <stdint.h>

struct inference_prefix_cache;

// The least recently used blocks are replaced when there are more than `blocks`.
struct inference_prefix_cache *inference_prefix_cache_new(uint32_t blocks);
void inference_prefix_cache_free(struct inference_prefix_cache *c); // accepts NULL
// The number of leading blocks that are in the cache. They become the most recently used.
size_t inference_prefix_cache_find(struct inference_prefix_cache *c, const uint64_t *blocks,
                                   size_t n);
// The blocks have been computed.
void inference_prefix_cache_add(struct inference_prefix_cache *c, const uint64_t *blocks, size_t n);

// The names of the whole blocks of a text, each of block_bytes. The caller frees *ret.
size_t inference_prefix_blocks(struct gs_slice text, size_t block_bytes, uint64_t **ret);
