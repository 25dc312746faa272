// SPDX-License-Identifier: Apache-2.0
// Reduces the resident memory of a long-running program after its start.
#pragma once

#include <stdbool.h>

// Releases memory that only the start needed: free pages of the heap, and read-only pages of the
// program and its libraries (code, constants, tables of the dynamic linker). The kernel maps those
// again from its page cache at the next use, which costs minor faults and no disk reads. Pages that
// were written, for example by relocations, stay.
void gs_trim_memory(void);
// Releases only heap pages, if at least a few megabytes are free. For regular calls on one thread:
// false, and nothing is done, within ten seconds of the last call that did it, or longer in a large
// heap, so that it takes at most a two-hundredth of the time.
bool gs_trim_heap(void);
