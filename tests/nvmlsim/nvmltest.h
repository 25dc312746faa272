// SPDX-License-Identifier: Apache-2.0
// For the tests that go through the library: it is loaded once, each test has a segment of its own.
#pragma once

#include "simtest.h"

static struct nvml nv;

static inline struct nvmlsim *start(const char *spec)
{
    struct nvmlsim *s = make_sim(spec);
    assert_int_equal(nv.nvmlInit_v2(), 0);
    return s;
}

static inline void stop(struct nvmlsim *s)
{
    assert_int_equal(nv.nvmlShutdown(), 0);
    drop_sim(s);
}

static inline nvmlDevice_t device(unsigned i)
{
    nvmlDevice_t d = NULL;
    assert_int_equal(nv.nvmlDeviceGetHandleByIndex_v2(i, &d), 0);
    assert_non_null(d);
    return d;
}

static inline struct nvmlsim *start_mig(void)
{
    struct nvmlsim_spec spec;
    ok(nvmlsim_spec_parse("H100-80GB-HBM3", &spec));
    spec.gpus[0].n_mig = 2;
    strcpy(spec.gpus[0].mig[0].profile, "1g.10gb");
    strcpy(spec.gpus[0].mig[1].profile, "3g.40gb");
    struct nvmlsim *s = NULL;
    char name[64];
    snprintf(name, sizeof(name), "/gpuscale-test-mig-%d", (int)getpid());
    ok(nvmlsim_create(name, &spec, &s));
    setenv(NVMLSIM_ENV, name, 1);
    assert_int_equal(nv.nvmlInit_v2(), 0);
    return s;
}
