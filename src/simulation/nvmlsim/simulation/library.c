// SPDX-License-Identifier: Apache-2.0
// Finds the simulated libnvidia-ml beside the program, and the environment with which other
// programs load it.
#include "nvmlsim/simulation/simulation.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/slice.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#define LIBRARY_ENV      "GPUSCALE_NVMLSIM_LIBRARY"
#define LIBRARY_PATH_ENV "LD_LIBRARY_PATH"

static struct gs_error *own_folder(char **ret)
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
        "/../simulation/nvmlsim/" NVMLSIM_LIBRARY,
        "/../" GPUSCALE_LIBDIR "/gpuscale/" NVMLSIM_LIBRARY,
    };
    const char *override = getenv(LIBRARY_ENV);
    if (override && *override) {
        *ret = gs_strdup(override);
        return NULL;
    }
    GS_AUTO_FREE char *folder = NULL;
    struct gs_error *err = own_folder(&folder);
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

char *simulation_library_folder(const char *library)
{
    const char *slash = library ? strrchr(library, '/') : NULL;
    if (!slash || strchr(library, ':'))
        return NULL;
    GS_AUTO_FREE char *folder = gs_format("%.*s/nvml", (int)(slash - library), library);
    GS_AUTO_FREE char *link = gs_format("%s/libnvidia-ml.so.1", folder);
    return access(link, R_OK) == 0 ? realpath(folder, NULL) : NULL;
}

char *simulation_dcgm_library(const char *library)
{
    GS_AUTO_FREE char *folder = simulation_library_folder(library);
    GS_AUTO_FREE char *path = folder ? gs_format("%s/libdcgm.so.4", folder) : NULL;
    return path && access(path, R_OK) == 0 ? GS_TAKE(path) : NULL;
}

void simulation_env_init(struct simulation_env *env, const char *set, const char *library)
{
    GS_AUTO_FREE char *folder = simulation_library_folder(library);
    GS_AUTO_FREE char *dcgm = simulation_dcgm_library(library);
    const char *path = getenv(LIBRARY_PATH_ENV);
    env->n = 0;
    env->items[env->n++] = gs_format("%s=%s", NVMLSIM_ENV, set);
    if (library)
        env->items[env->n++] = gs_format("GPUSCALE_NVML_LIBRARY=%s", library);
    if (dcgm) {
        env->items[env->n++] = gs_format("GPUSCALE_DCGM_LIBRARY=%s", dcgm);
        env->items[env->n++] = gs_strdup("GPUSCALE_EXPORTER_DCGM=" SIMULATION_DCGM_ADDRESS);
    }
    if (folder)
        env->items[env->n++] = gs_format(LIBRARY_PATH_ENV "=%s%s%s", folder,
                                         path && *path ? ":" : "", path ? path : "");
}

void simulation_env_finish(struct simulation_env *env)
{
    for (size_t i = 0; i < env->n; i++)
        free(env->items[i]);
    env->n = 0;
}
