// SPDX-License-Identifier: Apache-2.0
// fsync() of a written file and of its folder on a thread of its own: a slow disk takes seconds,
// and the loop must not wait for it. The thread sees nothing but two descriptors. Private to the
// room.
#pragma once

#include <stdbool.h>

struct tsdb_file_sync;

// Takes fd, a file in dir, and does it at once. False: the file may not be on the disk.
bool tsdb_file_sync_now(int fd, const char *dir);

// Takes fd, a file in dir. NULL: what it could not do in the background it has done (*ret_ok).
struct tsdb_file_sync *tsdb_file_sync_start(int fd, const char *dir, bool *ret_ok);
bool tsdb_file_sync_done(const struct tsdb_file_sync *s); // tsdb_file_sync_end() will not wait
// Waits for the end and frees it. False: the file may not be on the disk.
bool tsdb_file_sync_end(struct tsdb_file_sync *s);
