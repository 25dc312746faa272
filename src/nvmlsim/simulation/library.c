// SPDX-License-Identifier: Apache-2.0
#include "nvmlsim/simulation/simulation.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/slice.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#define LIBRARY_ENV "GPUSCALE_NVMLSIM_LIBRARY"

static struct gs_error *program_folder(char **ret)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n < 0)
        return gs_error_errno(errno, "/proc/self/exe");
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        return gs_error_new(GS_EINTERNAL, "/proc/self/exe points to \"%s\"", path);
    *slash = '\0';
    *ret = gs_strdup(path);
    return NULL;
}

struct gs_error *simulation_find_library(char **ret)
{
    static const char *const places[] = {
        "/" NVMLSIM_LIBRARY,
        "/../nvmlsim/" NVMLSIM_LIBRARY,
        "/../" GPUSCALE_LIBDIR "/gpuscale/" NVMLSIM_LIBRARY,
    };
    const char *override = getenv(LIBRARY_ENV);
    if (override && *override) {
        *ret = gs_strdup(override);
        return NULL;
    }
    GS_AUTO_FREE char *folder = NULL;
    struct gs_error *err = program_folder(&folder);
    if (err)
        return gs_error_wrap(err, "finding the simulated NVML library");
    GS_AUTO_BUF struct gs_buf looked = {0};
    for (size_t i = 0; i < GS_ARRAY_LEN(places); i++) {
        GS_AUTO_FREE char *path = gs_format("%s%s", folder, places[i]);
        if (access(path, R_OK) == 0) {
            *ret = GS_TAKE(path);
            return NULL;
        }
        gs_buf_addf(&looked, "%s%s", looked.len ? ", " : "", path);
    }
    return gs_error_new(
        GS_ENOTFOUND,
        "the simulated NVML library was not found; searched %s (environment variable " LIBRARY_ENV
        " sets another path)",
        looked.data);
}
