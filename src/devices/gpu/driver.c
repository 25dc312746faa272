// SPDX-License-Identifier: Apache-2.0
// Finds out whether a driver and a GPU exist.
#include "gpu/gpu_private.h"

#include "base/mem.h"
#include "base/slice.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *gpu_driver_name(enum gpu_driver d)
{
    static const char *const names[GPU_DRIVER_STATES] = {
        "up",     "library_not_found", "not_loaded", "version_mismatch", "no_permission",
        "no_gpu", "no_device",         "failed",
    };
    return names[d];
}

enum gpu_driver gpu_driver_of(nvml_ret ret)
{
    switch (ret) {
    case NVML_DRIVER_NOT_LOADED:
        return GPU_DRIVER_NOT_LOADED;
    case NVML_LIB_RM_VERSION_MISMATCH:
        return GPU_DRIVER_MISMATCH;
    case NVML_NO_PERMISSION:
        return GPU_DRIVER_NO_PERMISSION;
    case NVML_GPU_NOT_FOUND:
        return GPU_DRIVER_NO_GPU;
    default:
        return GPU_DRIVER_FAILED;
    }
}

// Reads the first `size` - 1 bytes of a small file; "" if it does not exist.
static void read_start(const char *path, char *ret, size_t size)
{
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(ret, 1, size - 1, f) : 0;
    ret[n] = '\0';
    if (f)
        (void)fclose(f);
}

// Display controllers with or without a display connector, but not NVIDIA's switches and audio
// devices.
static bool is_gpu(const char *devices, const char *name)
{
    GS_AUTO_FREE char *vendor = gs_format("%s/%s/vendor", devices, name);
    GS_AUTO_FREE char *class = gs_format("%s/%s/class", devices, name);
    char text[16];
    read_start(vendor, text, sizeof(text));
    if (!gs_starts(text, "0x10de"))
        return false;
    read_start(class, text, sizeof(text));
    return gs_starts(text, "0x03");
}

// As root, NVIDIA's library creates the device node even if no driver is loaded, so the node alone
// is no proof.
static bool has_driver(const char *node)
{
    int fd = open(node, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0 || (errno != ENOENT && errno != ENXIO && errno != ENODEV);
}

bool gpu_machine_may_have_gpu(const char *sys)
{
    // The GPUs of WSL2 and Tegra are not on the PCI bus.
    if (has_driver("/dev/nvidiactl") || has_driver("/dev/dxg") ||
        access("/etc/nv_tegra_release", F_OK) == 0)
        return true;
    GS_AUTO_FREE char *devices = gs_format("%s/bus/pci/devices", sys ? sys : "/sys");
    DIR *dir = opendir(devices);
    if (!dir) // unknown
        return true;
    bool found = false;
    for (struct dirent *e; !found && (e = readdir(dir)) != NULL;)
        found = e->d_name[0] != '.' && is_gpu(devices, e->d_name);
    closedir(dir);
    return found;
}
