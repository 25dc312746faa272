// SPDX-License-Identifier: Apache-2.0
// The functions of NVML that no simulated board supports. Their other arguments are not read.
#include "nvmlsim/nvml_unsupported.h"

#include "nvmlsim/nvml_lib.h"

static nvmlReturn_t unsupported_of_device(const char *fn, nvmlDevice_t device)
{
    NVML_CALL c = nvmlsim_call_device(fn, device, NVMLSIM_CALL_ANY, true);
    return c.rc ? c.rc : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t unsupported_of_system(const char *fn)
{
    NVML_CALL c = nvmlsim_call_system(fn, true);
    return c.rc ? c.rc : NVML_ERROR_NOT_SUPPORTED;
}

#define DEFINE_OF_DEVICE(name)                                                                     \
    NVML_API nvmlReturn_t name(nvmlDevice_t device);                                               \
    nvmlReturn_t name(nvmlDevice_t device)                                                         \
    {                                                                                              \
        return unsupported_of_device(__func__, device);                                            \
    }
NVML_UNSUPPORTED_OF_DEVICE(DEFINE_OF_DEVICE)

#define DEFINE_OF_SYSTEM(name)                                                                     \
    NVML_API nvmlReturn_t name(void);                                                              \
    nvmlReturn_t name(void)                                                                        \
    {                                                                                              \
        return unsupported_of_system(__func__);                                                    \
    }
NVML_UNSUPPORTED_OF_SYSTEM(DEFINE_OF_SYSTEM)
