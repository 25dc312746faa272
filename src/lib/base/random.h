// SPDX-License-Identifier: Apache-2.0
// Random bytes of the kernel, fit for secrets, and texts that are made of them. They cannot fail:
// the kernel waits until it has collected enough randomness at its start.
#pragma once

#include <stddef.h>
#include <stdint.h>

void gs_random_bytes(void *out, size_t len);
// Two lowercase hexadecimal digits for each byte. Caller frees.
char *gs_random_hex(size_t bytes);

// SplitMix64, for simulations, which must give the same for the same seed: a bijection of 64 bits,
// so that neighbouring inputs give unrelated outputs. Not fit for secrets.
uint64_t gs_mix64(uint64_t x);
// The next number of a sequence that begins with any seed.
uint64_t gs_seeded_next(uint64_t *state);

// Letters and digits that form no words, as in the names that Kubernetes generates. Any number has
// one of them.
char gs_name_letter(unsigned number);
// The random end of a generated name: writes `len` such letters and a NUL, and returns out.
char *gs_random_suffix(char *out, size_t len);
