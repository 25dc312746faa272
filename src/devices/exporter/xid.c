// SPDX-License-Identifier: Apache-2.0
// Short descriptions of XIDs, from NVIDIA's public catalog of Xid errors.
#include "exporter/render.h"

const char *exporter_render_xid_text(int64_t xid)
{
    static const struct {
        int xid;
        const char *text;
    } rows[] = {
        {0, "No Error"},
        {1, "Invalid or corrupted push buffer stream"},
        {6, "Invalid or corrupted push buffer stream"},
        {8, "GPU stopped processing"},
        {13, "Graphics Engine Exception"},
        {16, "Display engine hung"},
        {31, "GPU memory page fault"},
        {32, "Invalid or corrupted push buffer stream"},
        {38, "Driver firmware error"},
        {43, "GPU stopped processing"},
        {45, "Preemptive cleanup, due to previous errors"},
        {48, "Double Bit ECC Error"},
        {56, "Display Engine error"},
        {57, "Error programming video memory interface"},
        {61, "Internal micro-controller breakpoint/warning"},
        {62, "Internal micro-controller halt"},
        {63, "ECC page retirement or row remapping recording event"},
        {64, "ECC page retirement or row remapper recording failure"},
        {68, "NVDEC0 Exception"},
        {69, "Graphics Engine class error"},
        {74, "NVLINK Error"},
        {79, "GPU has fallen off the bus"},
        {92, "High single-bit ECC error rate"},
        {94, "Contained ECC error"},
        {95, "Uncontained ECC error"},
        {109, "Context Switch Timeout Error"},
        {119, "GSP RPC Timeout"},
        {120, "GSP Error"},
        {121, "C2C Link Error"},
        {140, "Unrecovered ECC Error"},
        {149, "NVLINK Error"},
        {154, "GPU Recovery Action Changed"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
        if (rows[i].xid == xid)
            return rows[i].text;
    return "Unknown Error";
}
