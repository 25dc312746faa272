// SPDX-License-Identifier: Apache-2.0
// Reduces resident memory after the start: free heap pages, and pages of the program and its
// libraries that were never written, which the kernel maps again when they are used.
#include "base/trim.h"

#include "base/clock.h"

#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

// A segment that was never writable holds nothing but the file's own bytes: the relocated read-only
// data (RELRO) lie in a writable one.
static void drop_segment(uintptr_t base, const ElfW(Phdr) * p, uintptr_t page)
{
    if (p->p_type != PT_LOAD || (p->p_flags & PF_W))
        return;
    uintptr_t from = (base + p->p_vaddr) & ~(page - 1);
    uintptr_t to = (base + p->p_vaddr + p->p_memsz) & ~(page - 1); // the last page may be shared
    if (to > from)
        madvise((void *)from, to - from, MADV_DONTNEED);
}

static int drop_object(struct dl_phdr_info *info, size_t size, void *page)
{
    (void)size;
    // The vDSO is the kernel's and has no file; madvise() on it fails harmlessly.
    for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++)
        drop_segment(info->dlpi_addr, &info->dlpi_phdr[i], *(const uintptr_t *)page);
    return 0;
}

void gs_trim_memory(void)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    malloc_trim(0);
    dl_iterate_phdr(drop_object, &page);
}

#define WORTH_IT ((size_t)4 * 1024 * 1024)

// Both functions of libc visit each free part of the heap: of a gigabyte, for a fifth of a second.
#define LEAST_PAUSE_NS  (10 * GS_NS_PER_SEC)
#define PAUSE_PER_SPENT 200

bool gs_trim_heap(void)
{
    static int64_t next_ns;
    int64_t start_ns = gs_mono_ns();
    if (start_ns < next_ns)
        return false;
    if (mallinfo2().fordblks > WORTH_IT)
        malloc_trim(0);
    int64_t end_ns = gs_mono_ns(), pause_ns = PAUSE_PER_SPENT * (end_ns - start_ns);
    next_ns = end_ns + (pause_ns > LEAST_PAUSE_NS ? pause_ns : LEAST_PAUSE_NS);
    return true;
}
