// SPDX-License-Identifier: Apache-2.0
// What an image name runs on a machine without a container runtime: the map given with --image.
#pragma once

#include "base/error.h"
#include "local/kubelet.h"

#include <stdbool.h>

// NULL-terminated list of owned strings.
struct kubelet_words {
    char **items;
    size_t len, cap;
};
void kubelet_words_add(struct kubelet_words *w, const char *word); // copies
void kubelet_words_finish(struct kubelet_words *w);

// Splits as a POSIX shell does: blanks, '…', "…" (with \" \\ \$ \` inside), backslash. No
// expansion.
struct gs_error *kubelet_split_words(const char *text, struct kubelet_words *ret);

struct kubelet_images;
struct gs_error *kubelet_images_new(const char *self_exe, const struct local_image *images,
                                    size_t n, struct kubelet_images **ret);
void kubelet_images_free(struct kubelet_images *m);

// The command of an image, its program resolved to a path: an exact entry, else the longest prefix
// entry. NULL when none is mapped.
const struct kubelet_words *kubelet_images_find(const struct kubelet_images *m, const char *image);

// The argv of a container by Kubernetes' rules: command replaces the image's command line, args
// alone are added to it. GS_ENOTFOUND when neither the pod nor the map has a command.
struct gs_error *kubelet_images_argv(const struct kubelet_images *m, const json_t *container,
                                     struct kubelet_words *ret);

// Where a program named in the map is: relative paths and plain names are looked up beside this
// program, in the build folder it lies in, and in the current folder; else the name as it is
// (PATH).
char *kubelet_find_program(const char *self_exe, const char *name);
