// SPDX-License-Identifier: Apache-2.0
// The built-in table of images: what runs in place of images that guides for GPUs use. Images are
// never pulled. An entry of --image takes precedence.
#include "local/kubelet/images.h"

#include "base/mem.h"

#include <fnmatch.h>

// A driver installer checks the driver that is installed. As an init container it ends, so that the
// pod goes on.
#define CHECK_DRIVER                                                                               \
    "sh -c 'echo \"[INFO] The driver of this machine is used, nothing is installed.\"; "           \
    "NVIDIA_VISIBLE_DEVICES=all nvidia-smi; "                                                      \
    "if [ -n \"$GPUSCALE_INIT_CONTAINER\" ]; then exit 0; fi; exec sleep infinity'"

#define TOOLS "the tools of this machine"

static const struct kubelet_substitute table[] = {
    {"dcgm-exporter", "gpuscale exporter", "gpuscale exporter", .gpu = true},
    {"*vectoradd*", "gpu-load vectorAdd", "gpu-load, which loads its GPU", .gpu = true,
     .cmd_only = true, .link = "vectorAdd"},
    {"*vector-add*", "gpu-load vectorAdd", "gpu-load, which loads its GPU", .gpu = true,
     .cmd_only = true, .link = "vectorAdd"},
    {"*:vectoradd*", "gpu-load vectorAdd", "gpu-load, which loads its GPU", .gpu = true,
     .cmd_only = true, .link = "vectorAdd"},
    {"*:nbody*", "gpu-load burn", "gpu-load, which loads its GPU", .gpu = true, .cmd_only = true},
    {"*dcgmproftester*", "gpu-load dcgmproftester", "gpu-load, which loads its GPU", .gpu = true},
    {"*:dcgmproftester*", "gpu-load dcgmproftester", "gpu-load, which loads its GPU", .gpu = true},
    {"gpu-burn", "gpu-load burn", "gpu-load, which loads its GPU", .gpu = true, .cmd_only = true,
     .link = "gpu_burn"},
    {"nvidia/cuda", "sh", TOOLS " and an nvidia-smi", .gpu = true, .cmd_only = true},
    {"cuda", "sh", TOOLS " and an nvidia-smi", .gpu = true, .cmd_only = true},
    {"cos-nvidia-installer", CHECK_DRIVER, "a check of the driver", .gpu = true},
    {"*nvidia-driver-installer*", CHECK_DRIVER, "a check of the driver", .gpu = true},
    {"cos-gpu-installer", CHECK_DRIVER, "a check of the driver", .gpu = true},
    {"nvidia-partition-gpu", "true", "nothing: GPUs are not partitioned", .gpu = true},
    {"bert-intent-detection", "intent-api", "the example service intent-api", .gpu = true,
     .cmd_only = true, .port = true},
    {"gpu-cuda-api", "intent-api", "the example service intent-api", .gpu = true, .cmd_only = true,
     .port = true},
    {"torchvision", "intent-api", "the example service intent-api", .gpu = true, .cmd_only = true,
     .port = true},
    {"pause*", "sleep infinity", "sleep", .cmd_only = true},
    {"curl", "curl", TOOLS},
    {"busybox", "sh", TOOLS, .cmd_only = true},
    {"alpine", "sh", TOOLS, .cmd_only = true},
    {"debian", "bash", TOOLS, .cmd_only = true},
    {"ubuntu", "bash", TOOLS, .cmd_only = true},
    {"bash", "bash", TOOLS, .cmd_only = true},
};

// "registry:5000/team/name:tag@digest" -> "team/name" and "tag" ("" without a tag).
static void split_image(const char *image, char **ret_path, char **ret_tag)
{
    size_t len = strcspn(image, "@");
    GS_AUTO_FREE char *text = gs_strndup(image, len);
    char *slash = strchr(text, '/');
    char *start = text;
    if (slash) {
        *slash = '\0';
        bool host = strpbrk(text, ".:") || gs_streq(text, "localhost");
        *slash = '/';
        start = host ? slash + 1 : text;
    }
    char *tag = strchr(start, ':');
    if (tag)
        *tag++ = '\0';
    *ret_path = gs_strdup(start);
    *ret_tag = gs_strdup(tag ? tag : "");
}

// "*:tag" matches tags, "a/b" the end of the path, and "name" the last part of the path.
static bool matches(const char *pattern, const char *path, const char *tag)
{
    const char *name = strrchr(path, '/');
    size_t len = strlen(pattern), path_len = strlen(path);
    if (gs_starts(pattern, "*:"))
        return fnmatch(pattern + 2, tag, 0) == 0;
    if (strchr(pattern, '/'))
        return path_len >= len && gs_streq(path + path_len - len, pattern) &&
               (path_len == len || path[path_len - len - 1] == '/');
    return fnmatch(pattern, name ? name + 1 : path, 0) == 0;
}

const struct kubelet_substitute *kubelet_substitute(size_t i)
{
    return i < GS_ARRAY_LEN(table) ? &table[i] : NULL;
}

size_t kubelet_substitute_index(const char *image)
{
    GS_AUTO_FREE char *path = NULL, *tag = NULL;
    split_image(image, &path, &tag);
    for (size_t i = 0; i < GS_ARRAY_LEN(table); i++)
        if (matches(table[i].image, path, tag))
            return i;
    return GS_ARRAY_LEN(table);
}

const char *kubelet_substitute_hostname_label(const char *image)
{
    static const unsigned last[] = {4, 5, 3};
    GS_AUTO_FREE char *path = NULL, *tag = NULL;
    split_image(image, &path, &tag);
    if (!gs_streq(path, "dcgm-exporter") && !gs_ends(path, "/dcgm-exporter"))
        return NULL;
    const char *at = tag;
    for (size_t i = 0; i < GS_ARRAY_LEN(last); i++) {
        char *end;
        unsigned long part = strtoul(at, &end, 10);
        if (end == at || *at < '0' || *at > '9')
            return NULL;
        if (part != last[i])
            return part < last[i] ? "Hostname" : NULL;
        at = *end == '.' ? end + 1 : end;
    }
    return "Hostname";
}
