// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the simulated GPUs: a segment of their own, and the library loaded as a
// foreign program loads NVML.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "nvmlsim/client.h"
#include "nvmlsim/nvml_calls.h"
#include "nvmlsim/sim.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct nvml {
    void *handle;
#define NVML_MEMBER(name, arguments) nvmlReturn_t(*name) arguments;
    NVML_CALLS(NVML_MEMBER)
#undef NVML_MEMBER
    const char *(*nvmlErrorString)(nvmlReturn_t code);
    int (*gpuscaleNvmlIsSimulated)(void);
};

static inline void ok(struct gs_error *err)
{
    if (err)
        fail_msg("%s", gs_error_message(err));
}

static inline void fails(struct gs_error *err, enum gs_code code, const char *part)
{
    assert_non_null(err);
    if (gs_error_code(err) != code || !strstr(gs_error_message(err), part))
        fail_msg("wanted code %d and \"%s\", got %d: %s", (int)code, part, (int)gs_error_code(err),
                 gs_error_message(err));
    gs_error_free(err);
}

// A segment of this test's own; its name is in the environment.
static inline struct nvmlsim *make_sim(const char *spec_text)
{
    static int n;
    char name[64];
    snprintf(name, sizeof(name), "/gpuscale-test-%d-%d", (int)getpid(), n++);
    struct nvmlsim_spec spec;
    ok(nvmlsim_spec_parse(spec_text, &spec));
    struct nvmlsim *s = NULL;
    ok(nvmlsim_create(name, &spec, &s));
    setenv(NVMLSIM_ENV, name, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    return s;
}

static inline void drop_sim(struct nvmlsim *s)
{
    ok(nvmlsim_unlink(nvmlsim_name(s)));
    nvmlsim_detach(s);
    unsetenv(NVMLSIM_ENV);
}

static inline void load_nvml(struct nvml *ret)
{
    char path[4096];
    const char *root = getenv("GPUSCALE_BUILD_ROOT");
    snprintf(path, sizeof(path), "%s/src/simulation/nvmlsim/" NVMLSIM_LIBRARY,
             root ? root : "build");
    ret->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!ret->handle)
        fail_msg("%s", dlerror());
#define NVML_LOOKUP(name, arguments) *(void **)&ret->name = dlsym(ret->handle, #name);
    NVML_CALLS(NVML_LOOKUP)
#undef NVML_LOOKUP
    *(void **)&ret->nvmlErrorString = dlsym(ret->handle, "nvmlErrorString");
    *(void **)&ret->gpuscaleNvmlIsSimulated = dlsym(ret->handle, "gpuscaleNvmlIsSimulated");
}

static inline void sleep_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

// Runs `body` in a child process; returns its pid.
static inline pid_t start_child(void (*body)(void *), void *arg)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // a failed test leaves none behind
        body(arg);
        _exit(0);
    }
    return pid;
}

static inline void end_child(pid_t pid, int signal_number)
{
    if (signal_number)
        kill(pid, signal_number);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!signal_number)
        assert_int_equal(status, 0);
}
