// SPDX-License-Identifier: Apache-2.0
// Loads an NVML library as the exporter does and prints, for each call, the exported name that is
// used, or "absent" with all names that were tried. Then initialises it and prints the return code.
//
// nvml-symbols LIBRARY
#include "base/error.h"
#include "gpu/gpu.h"
#include "gpu/nvml.h"

#include <dlfcn.h>
#include <stdio.h>

static const struct {
    const char *names[3];
} rows[NVML_CALL_COUNT] = {
#define ROW(member, symbol, second, third, args) {{symbol, second, third}},
    NVML_CALLS(ROW)
#undef ROW
};

static void print_row(const struct nvml *n, enum nvml_call c)
{
    for (size_t i = 0; i < 3; i++) {
        if (rows[c].names[i] && dlsym(n->library, rows[c].names[i])) {
            printf("present %s\n", rows[c].names[i]);
            return;
        }
    }
    printf("absent");
    for (size_t i = 0; i < 3 && rows[c].names[i]; i++)
        printf(" %s", rows[c].names[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    struct nvml n;
    if (argc != 2) {
        fprintf(stderr, "usage: nvml-symbols LIBRARY\n");
        return 2;
    }
    GS_AUTO_ERROR struct gs_error *err = nvml_load(argv[1], &n);
    if (err) {
        fprintf(stderr, "nvml-symbols: %s\n", gs_error_message(err));
        return 1;
    }
    for (enum nvml_call c = 0; c < NVML_CALL_COUNT; c++)
        print_row(&n, c);
    nvml_ret ret = n.init();
    printf("%s returns %d %s\n", nvml_call_symbol(NVML_CALL_init), ret, gpu_nvml_error_name(ret));
    if (ret == NVML_OK && n.shutdown)
        n.shutdown();
    nvml_unload(&n);
    return 0;
}
