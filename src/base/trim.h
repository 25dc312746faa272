// SPDX-License-Identifier: Apache-2.0
// Resident memory of a program that runs for months and started once.
#pragma once

// Gives back what only the start needed: free pages of the heap, and the read-only pages of the
// program and its libraries (code, constants, tables of the dynamic linker). The kernel maps those
// again from its page cache at the next use, so this costs some minor faults and no disk. What was
// ever written, relocations among it, stays.
void gs_trim_memory(void);
// Only the heap, and only when a few megabytes of it are free: for now and then.
void gs_trim_heap(void);
