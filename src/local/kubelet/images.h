// SPDX-License-Identifier: Apache-2.0
// What an image name runs on a machine without a container runtime: the map given with --image.
#pragma once

#include "base/error.h"
#include "local/kubelet.h"

#include <stdbool.h>

// NULL-terminated list of owned strings.
struct local_words {
    char **items;
    size_t len, cap;
};
void local_words_add(struct local_words *w, const char *word); // copies
void local_words_finish(struct local_words *w);

// Splits as a POSIX shell does: blanks, '…', "…" (with \" \\ \$ \` inside), backslash. No
// expansion.
struct gs_error *local_split_words(const char *text, struct local_words *ret);

struct local_images;
struct gs_error *local_images_new(const char *self_exe, const struct local_image *images, size_t n,
                                  struct local_images **ret);
void local_images_free(struct local_images *m);

// The command of an image, its program resolved to a path: an exact entry, else the longest prefix
// entry. NULL when none is mapped.
const struct local_words *local_images_find(const struct local_images *m, const char *image);

// The argv of a container by Kubernetes' rules: command replaces the image's command line, args
// alone are added to it. GS_ENOTFOUND when neither the pod nor the map has a command.
struct gs_error *local_images_argv(const struct local_images *m, const json_t *container,
                                   struct local_words *ret);

// Where a program named in the map is: relative paths and plain names are looked up beside this
// program, in the build folder it lies in, and in the current folder; else the name as it is
// (PATH).
char *local_find_program(const char *self_exe, const char *name);
