// SPDX-License-Identifier: Apache-2.0
// What runs in place of a container image on a machine without a container runtime: a command of
// the option --image, or of the built-in table.
#pragma once

#include "base/error.h"
#include "local/kubelet.h"
#include "local/kubelet/env.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

// --- images.c: the command of an image on a machine without a container runtime (--image) ---

// Splits as a POSIX shell does: blanks, '…', "…" (with \" \\ \$ \` inside), backslash. No
// expansion.
struct gs_error *kubelet_split_words(const char *text, struct kubelet_words *ret);

struct kubelet_images;
struct gs_error *kubelet_images_new(const char *self_exe, const struct local_image *images,
                                    size_t n, struct kubelet_images **ret);
void kubelet_images_free(struct kubelet_images *m);

// The command of an image, its program resolved to a path: an exact entry of the map, else its
// longest prefix entry, else that of the built-in table. NULL if no entry matches.
const struct kubelet_words *kubelet_images_find(const struct kubelet_images *m, const char *image);

// The entry of the built-in table that is used for an image. NULL if no entry matches or its
// program is not installed, or the map has the image.
const struct kubelet_substitute *kubelet_images_substitute(const struct kubelet_images *m,
                                                           const char *image);

// The same for a container. NULL also if it is a stand-in and the container's own command runs.
const struct kubelet_substitute *kubelet_images_substitute_of(const struct kubelet_images *m,
                                                              const json_t *container);

// The argv of a container by Kubernetes' rules: `command` replaces the image's command line, `args`
// alone are appended to it. A substitute replaces a `command` that runs one of its programs, and
// gets it as arguments. GS_ENOTFOUND if neither the pod, the map nor the table has a command.
struct gs_error *kubelet_images_argv(const struct kubelet_images *m, const json_t *container,
                                     struct kubelet_words *ret);

// A directory with links to the programs that replace those of images: dcgm-exporter, vectorAdd
// …. It is in the PATH of containers.
struct gs_error *kubelet_images_link_tools(const char *self_exe, const char *dir);

// --- substitutes.c: the built-in table ---
struct kubelet_substitute {
    const char *image;   // the end of its path, or "*:TAG"; a pattern of fnmatch
    const char *command; // words as in a shell; "gpuscale" is this program
    const char *text;    // what runs in place of the image, for people
    bool gpu;            // it uses GPUs, which may be simulated
    bool cmd_only;       // the image has no entry point: args replace the command
    bool port;           // PORT is the first port of the container
    const char *link;    // name of the program in the image's working directory; NULL: none
    // Programs of the image that the substitute replaces if a container's `command` runs one of
    // them, separated by commas; "*": any, and the arguments are dropped. NULL: none.
    const char *programs;
    // A shell or Python that runs one of these words is such a program, too. NULL: none.
    const char *scripts;
};
// The command of this program that takes a role of local/standin.
#define KUBELET_STANDIN_COMMAND "pod-standin"
bool kubelet_substitute_is_standin(const struct kubelet_substitute *s); // s may be NULL
// Whether it runs instead of the `command` of a container. s may be NULL.
bool kubelet_substitute_replaces(const struct kubelet_substitute *s, const json_t *container);
// For an image without a command: what there is instead, beginning with "; ". "": nothing.
const char *kubelet_absent_hint(const char *image);
const struct kubelet_substitute *kubelet_substitute(size_t i); // NULL: end of the table
// How this image of dcgm-exporter writes the host name label: "Hostname" up to 4.5.3-4.8.2. NULL:
// as gpuscale exporter, or no image of dcgm-exporter.
const char *kubelet_substitute_hostname_label(const char *image);
size_t kubelet_substitute_index(const char *image); // the table's length: no entry

// The path of a program of the map. Relative paths and plain names are searched beside this
// program, in its build folder and in the current folder. Otherwise the name is returned unchanged
// (PATH). Caller frees.
char *kubelet_find_program(const char *self_exe, const char *name);
