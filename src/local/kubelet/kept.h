// SPDX-License-Identifier: Apache-2.0
// Files of this machine that a container needs whatever its volumes hide: this program, the library
// that is loaded into its processes, and its own directory. A volume at /tmp hides them if they are
// below /tmp. They are then bound below KUBELET_KEPT_ROOT under their own paths. Used by the
// supervisor process between fork and exec.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define KUBELET_KEPT_ROOT "/.gpuscale"

struct kubelet_kept {
    struct kubelet_kept_file {
        const char *path; // borrowed
        int fd;
        bool directory;
    } * items;
    size_t len, cap;
};
void kubelet_kept_finish(struct kubelet_kept *k);

// True if a mount on `target` hides `path`.
bool kubelet_kept_is_hidden(const char *path, const char *target);
// Opens a file or directory before it is hidden. Paths that do not exist are left out.
void kubelet_kept_add(struct kubelet_kept *k, const char *path);
// Binds them below KUBELET_KEPT_ROOT, in a root directory that belongs to the container alone.
struct gs_error *kubelet_kept_bind(struct kubelet_kept *k);

// Where a path is for the calling process, which is in the namespace of the container: below
// KUBELET_KEPT_ROOT if it was bound there, otherwise unchanged. Caller frees.
char *kubelet_kept_path(const char *path);
// Replaces kept paths in the words of a command and in the environment, also in lists such as PATH.
// The words are replaced by memory that is not freed: an exec follows.
void kubelet_kept_use(char **argv);
