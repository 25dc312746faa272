// SPDX-License-Identifier: Apache-2.0
// Files: bounded reads, atomic writes, cleanup of descriptors.
#pragma once

#include "base/buf.h"
#include "base/error.h"

#include <stdio.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

// Reads a whole file (also of /proc) of at most max bytes. GS_ELIMIT: it is longer. ret->data is
// NUL-terminated.
struct gs_error *gs_file_read(const char *path, size_t max, struct gs_buf *ret);
// Writes to a temporary file beside `path`, syncs and renames it: readers see the
// old or the new contents.
struct gs_error *gs_file_write_atomic(const char *path, mode_t mode, struct gs_slice content);
struct gs_error *gs_mkdir_p(const char *path, mode_t mode);
// Removes a file or a directory with its contents, without following links. What cannot be removed
// stays.
void gs_remove_tree(const char *path);

// Raises the soft limit of open files (1024 in a shell or unit) to the hard limit, since each
// connection of a server is an open file.
void gs_raise_file_limit(void);

// Call it first in main(). Occupies those of the descriptors 0, 1 and 2 that are closed, so that no
// other file gets their number: messages would be written into it, and libuv ends the process.
// Reading from them and writing to them still fails with EBADF, as while they were closed.
void gs_occupy_standard_files(void);

// The folder of a file: "." of a plain name, "/" of a name in the root. Caller frees.
char *gs_folder_of(const char *path) GS_MUST_USE;

// The path of a program in the folders of PATH. NULL: it is not installed. Caller frees.
char *gs_find_program(const char *name);

// The address of the Unix socket `path`, however long its folder's path is. *ret_dir: a descriptor,
// to be closed after bind or connect.
struct gs_error *gs_unix_address(const char *path, struct sockaddr_un *ret, int *ret_dir);

static inline void gs_closep(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
static inline void gs_fclosep(FILE **f)
{
    if (*f)
        (void)fclose(*f);
}
#define GS_AUTO_CLOSE  GS_CLEANUP(gs_closep)
#define GS_AUTO_FCLOSE GS_CLEANUP(gs_fclosep)

// The folder of this user's state, $XDG_DATA_HOME/gpuscale or ~/.local/share/gpuscale, which may
// not exist. NULL: the user has no home directory. The caller frees it.
char *gs_data_dir(void);
