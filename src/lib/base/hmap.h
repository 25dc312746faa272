// SPDX-License-Identifier: Apache-2.0
// Hash map from byte strings to pointers. Keys are copied. Values belong to the caller or,
// with a free function, to the map. Open addressing with linear probing; XXH3. Not thread-safe.
#pragma once

#include "base/slice.h"

#include <stdint.h>

struct gs_hmap;

struct gs_hmap *gs_hmap_new(void (*free_value)(void *)); // free_value may be NULL
void gs_hmap_free(struct gs_hmap *m);
GS_DEFINE_CLEANUP(struct gs_hmap *, gs_hmap_free)

size_t gs_hmap_len(const struct gs_hmap *m);
void *gs_hmap_get(const struct gs_hmap *m, struct gs_slice key);
void *gs_hmap_get_str(const struct gs_hmap *m, const char *key);
// Sets or replaces (the replaced value is freed). value must not be NULL.
void gs_hmap_put(struct gs_hmap *m, struct gs_slice key, void *value);
void gs_hmap_put_str(struct gs_hmap *m, const char *key, void *value);
// Removes and returns the value without freeing it; NULL if absent.
void *gs_hmap_remove(struct gs_hmap *m, struct gs_slice key);
void *gs_hmap_remove_str(struct gs_hmap *m, const char *key);
void gs_hmap_clear(struct gs_hmap *m);

// Iteration: *pos starts at 0; false at the end. The map must not be changed meanwhile, except by
// gs_hmap_put of an existing key.
bool gs_hmap_next(const struct gs_hmap *m, size_t *pos, struct gs_slice *ret_key, void **ret_value);

uint64_t gs_hash(const void *data, size_t len); // XXH3, 64 bits
