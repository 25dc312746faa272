// SPDX-License-Identifier: Apache-2.0
// Whether files are others than at the last look, by stat(): that of a mounted ConfigMap changes by
// a symbolic link above it, of which a watch of the file would not hear.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

enum { CHANGES_MAX = 8 };

struct changes {
    const char *paths[CHANGES_MAX]; // borrowed
    struct stat seen[CHANGES_MAX];  // st_ino 0: not there
    size_t n;
};

void changes_add(struct changes *c, const char *path); // NULL: nothing
bool changes_look(struct changes *c);
