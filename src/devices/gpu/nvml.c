// SPDX-License-Identifier: Apache-2.0
// Loads libnvidia-ml at run time and resolves its functions. Older drivers lack functions and have
// older versions of others: those are NULL, or the older symbol with the same signature.
#include "gpu/nvml.h"

#include "base/buf.h"
#include "base/mem.h"
#include "gpu/gpu.h"

#include <dlfcn.h>
#include <string.h>

#define NVML_PATH_ENV      "GPUSCALE_NVML_LIBRARY"
#define NVML_ROOT_ENV      "DRIVER_ROOT_CTR_PATH" // as in NVIDIA's device plug-in
#define NVML_SIMULATED_SYM "gpuscaleNvmlIsSimulated"

// For the plain name, ld.so searches LD_LIBRARY_PATH and ld.so.cache. The paths are those of
// distributions, the GPU operator's driver container, container volume mounts, GKE's COS and WSL2.
static const char *const search_order[] = {
    "libnvidia-ml.so.1",
    "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "/usr/lib64/libnvidia-ml.so.1",
    "/lib64/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/usr/local/nvidia/lib/libnvidia-ml.so.1",
    "/home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
};

struct symbol_row {
    size_t offset; // into struct nvml
    const char *names[3];
};

static const struct symbol_row symbols[NVML_CALL_COUNT] = {
#define NVML_CALL_ROW(member, symbol, second, third, args)                                         \
    {offsetof(struct nvml, member), {symbol, second, third}},
    NVML_CALLS(NVML_CALL_ROW)
#undef NVML_CALL_ROW
};

const char *nvml_call_symbol(enum nvml_call c)
{
    return symbols[c].names[0];
}

const char *gpu_nvml_error_name(int code)
{
    static const char *const names[] = {
        "SUCCESS",
        "UNINITIALIZED",
        "INVALID_ARGUMENT",
        "NOT_SUPPORTED",
        "NO_PERMISSION",
        "ALREADY_INITIALIZED",
        "NOT_FOUND",
        "INSUFFICIENT_SIZE",
        "INSUFFICIENT_POWER",
        "DRIVER_NOT_LOADED",
        "TIMEOUT",
        "IRQ_ISSUE",
        "LIBRARY_NOT_FOUND",
        "FUNCTION_NOT_FOUND",
        "CORRUPTED_INFOROM",
        "GPU_IS_LOST",
        "RESET_REQUIRED",
        "OPERATING_SYSTEM",
        "LIB_RM_VERSION_MISMATCH",
        "IN_USE",
        "MEMORY",
        "NO_DATA",
        "VGPU_ECC_NOT_SUPPORTED",
        "INSUFFICIENT_RESOURCES",
        "FREQ_NOT_SUPPORTED",
        "ARGUMENT_VERSION_MISMATCH",
        "DEPRECATED",
        "NOT_READY",
        "GPU_NOT_FOUND",
        "INVALID_STATE",
        "RESET_TYPE_NOT_SUPPORTED",
    };
    if (code < 0 || (size_t)code >= GS_ARRAY_LEN(names))
        return "UNKNOWN";
    return names[code];
}

static void resolve(struct nvml *n)
{
    for (size_t i = 0; i < NVML_CALL_COUNT; i++) {
        void *sym = NULL;
        for (size_t k = 0; !sym && k < GS_ARRAY_LEN(symbols[i].names); k++)
            if (symbols[i].names[k])
                sym = dlsym(n->library, symbols[i].names[k]);
        // POSIX: a function pointer and void * have the same representation.
        memcpy((char *)n + symbols[i].offset, &sym, sizeof(sym));
    }
    n->simulated = dlsym(n->library, NVML_SIMULATED_SYM) != NULL;
}

static struct gs_error *load_one(const char *path, struct nvml *ret)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return gs_error_new(GS_ENOTFOUND, "%s", dlerror());
    struct nvml n = {.library = library};
    resolve(&n);
    if (!n.init || !n.count || !n.handle_by_index || !n.uuid) {
        dlclose(library);
        return gs_error_new(GS_EINVAL, "%s is not an NVML library: it exports no %s", path,
                            !n.init ? "nvmlInit_v2"
                                    : "nvmlDeviceGetCount_v2, …ByIndex_v2 or …UUID");
    }
    n.path = gs_strdup(path);
    *ret = n;
    return NULL;
}

struct gs_error *nvml_load(const char *path, struct nvml *ret)
{
    if (!path)
        path = getenv(NVML_PATH_ENV);
    if (path && *path) {
        struct gs_error *err = load_one(path, ret);
        return err ? gs_error_wrap(err, "loading NVML") : NULL;
    }
    GS_AUTO_BUF struct gs_buf tried = {0};
    const char *roots[] = {"", getenv(NVML_ROOT_ENV)};
    for (size_t i = 0; i < GS_ARRAY_LEN(roots) && roots[i]; i++) {
        for (size_t k = 0; k < GS_ARRAY_LEN(search_order); k++) {
            if (*roots[i] && search_order[k][0] != '/')
                continue;
            GS_AUTO_FREE char *candidate = gs_format("%s%s", roots[i], search_order[k]);
            GS_AUTO_ERROR struct gs_error *err = load_one(candidate, ret);
            if (!err)
                return NULL;
            if (gs_error_code(err) != GS_ENOTFOUND)
                return gs_error_wrap(GS_TAKE(err), "loading NVML");
            gs_buf_addf(&tried, "%s%s", tried.len ? ", " : "", candidate);
        }
    }
    return gs_error_new(GS_ENOTFOUND,
                        "no NVIDIA driver library found; tried %s (" NVML_PATH_ENV
                        " sets another path, " NVML_ROOT_ENV
                        " the directory where the root of the host is mounted)",
                        tried.data);
}

void nvml_unload(struct nvml *n)
{
    if (n->library)
        dlclose(n->library);
    free(n->path);
    *n = (struct nvml){0};
}
