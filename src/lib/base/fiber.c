// SPDX-License-Identifier: Apache-2.0
// Coroutines for long work on the loop's thread, by ucontext(3). A fiber must be resumed by the
// thread that started it, and must have ended before it is freed: nothing unwinds its stack. Each
// has a stack of 4 MiB with a guard page; only the pages that it used take memory.
#include "base/fiber.h"

#include "base/mem.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#define STACK ((size_t)4 << 20)

struct gs_fiber {
    ucontext_t caller, own;
    void *stack; // its lowest page is a guard
    size_t size; // of the stack, with the guard
    void (*fn)(void *arg);
    void *arg;
    bool done;
    // for the address sanitizer
    void *fake_caller, *fake_own;
    const void *caller_stack;
    size_t caller_size;
};

static void leave(struct gs_fiber *f, void **save, const void *stack, size_t size)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(save, stack, size);
#else
    (void)f, (void)save, (void)stack, (void)size;
#endif
}

static void arrive(struct gs_fiber *f, void *saved, bool from_caller)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(saved, from_caller ? &f->caller_stack : NULL,
                                    from_caller ? &f->caller_size : NULL);
#else
    (void)f, (void)saved, (void)from_caller;
#endif
}

struct gs_error *gs_fiber_new(struct gs_fiber **ret)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = STACK + page;
    void *stack = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED)
        return gs_error_errno(errno, "stack of %zu bytes", size);
    if (mprotect(stack, page, PROT_NONE) != 0) {
        struct gs_error *err = gs_error_errno(errno, "guard of a stack");
        munmap(stack, size);
        return err;
    }
    struct gs_fiber *f = gs_alloc(sizeof(*f));
    f->stack = stack;
    f->size = size;
    f->done = true;
    *ret = f;
    return NULL;
}

void gs_fiber_free(struct gs_fiber *f)
{
    if (!f)
        return;
    munmap(f->stack, f->size);
    free(f);
}

// makecontext() hands over ints: the two halves of the pointer.
static void fiber_begin(unsigned high, unsigned low)
{
    struct gs_fiber *f = (struct gs_fiber *)((uintptr_t)high << 32 | low);
    arrive(f, NULL, true);
    f->fn(f->arg);
    f->done = true;
    leave(f, NULL, f->caller_stack,
          f->caller_size); // the frames on this stack are not used any more
    swapcontext(&f->own, &f->caller);
}

static bool fiber_enter(struct gs_fiber *f)
{
    leave(f, &f->fake_caller, f->stack, f->size);
    swapcontext(&f->caller, &f->own);
    arrive(f, f->fake_caller, false);
    return f->done;
}

bool gs_fiber_start(struct gs_fiber *f, void (*fn)(void *arg), void *arg)
{
    f->fn = fn;
    f->arg = arg;
    f->done = false;
    getcontext(&f->own);
    f->own.uc_stack.ss_sp = f->stack;
    f->own.uc_stack.ss_size = f->size;
    f->own.uc_link = NULL; // fiber_begin() switches back itself
    makecontext(&f->own, (void (*)(void))fiber_begin, 2, (unsigned)((uintptr_t)f >> 32),
                (unsigned)(uintptr_t)f);
    return fiber_enter(f);
}

bool gs_fiber_resume(struct gs_fiber *f)
{
    return fiber_enter(f);
}

void gs_fiber_pause(struct gs_fiber *f)
{
    leave(f, &f->fake_own, f->caller_stack, f->caller_size);
    swapcontext(&f->own, &f->caller);
    arrive(f, f->fake_own, true);
}
