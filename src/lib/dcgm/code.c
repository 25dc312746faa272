// SPDX-License-Identifier: Apache-2.0
// The texts contain the number, because users search for it in DCGM's own documentation.
#include "dcgm/code.h"

#include "base/attr.h"
#include "dcgm/abi.h"

#define ROW(code, text)                                                                            \
    {                                                                                              \
        (code), text " (" #code ")"                                                                \
    }
static const struct {
    int code;
    const char *text;
} TEXTS[] = {
    ROW(0, "no error"),
    ROW(-1, "bad parameter"),
    ROW(-3, "unspecified error of DCGM"),
    ROW(-5, "not configured"),
    ROW(-6, "not supported"),
    ROW(-7, "DCGM failed to start"),
    ROW(-8, "NVML failed"),
    ROW(-9, "pending"),
    ROW(-10, "not initialized"),
    ROW(-11, "DCGM timed out"),
    ROW(-12, "DCGM has another version of this message"),
    ROW(-13, "unknown field"),
    ROW(-14, "no data yet"),
    ROW(-15, "the data is stale"),
    ROW(-16, "the field is not watched"),
    ROW(-17, "no permission: the host engine needs root or CAP_SYS_ADMIN for this"),
    ROW(-18, "the GPU is lost"),
    ROW(-19, "the GPU must be reset"),
    ROW(-21, "the connection to the host engine is lost"),
    ROW(-22, "the GPU is not supported"),
    ROW(-24, "a limit of the host engine is reached"),
    ROW(-25, "a library is missing"),
    ROW(-26, "it exists already"),
    ROW(-29, "the host engine must run as root for this"),
    ROW(-33, "a module of DCGM is not loaded; profiling needs the package "
             "datacenter-gpu-manager-4-proprietary"),
    ROW(-34, "in use"),
    ROW(-35, "the group is empty"),
    ROW(-36, "the GPU or the driver has no profiling counters"),
    ROW(-37, "another process owns the profiling counters"),
    ROW(-38, "the profiling fields need several passes: configure fewer of them"),
    ROW(-44, "the driver is too old"),
    ROW(-45, "no such GPU instance"),
    ROW(-46, "no such compute instance"),
    ROW(-49, "insufficient resources"),
    ROW(-54, "profiling is paused: run dcgmi profile --resume"),
    ROW(-56, "NVML is not loaded"),
};
#undef ROW

const char *dcgm_code_text(int code)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(TEXTS); i++)
        if (TEXTS[i].code == code)
            return TEXTS[i].text;
    return "unknown error of DCGM";
}
