// SPDX-License-Identifier: Apache-2.0
// Random bytes of the kernel, fit for secrets, and texts that are made of them. They cannot fail:
// the kernel waits until it has collected enough randomness at its start.
#pragma once

#include <stddef.h>

void gs_random_bytes(void *out, size_t len);
// Two lowercase hexadecimal digits for each byte. Caller frees.
char *gs_random_hex(size_t bytes);

// Letters and digits that form no words, as in the names that Kubernetes generates. Any number has
// one of them.
char gs_name_letter(unsigned number);
// The random end of a generated name: writes `len` such letters and a NUL, and returns out.
char *gs_random_suffix(char *out, size_t len);
