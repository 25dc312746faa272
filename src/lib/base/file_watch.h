// SPDX-License-Identifier: Apache-2.0
// Reports when the contents of files change: paths and globs.
//
// A change is a change of bytes: a file that is touched, or replaced by an identical one, did not
// change. Folders are watched (inotify), not files, so that editors that replace a file and
// ConfigMap volumes, which swap the symbolic link ..data, are noticed. Files are also read
// regularly, for file systems without events. A file that is being written is empty first and
// incomplete next: a change is reported once two inspections in a row agree.
//
// With a loop, the watch calls the functions of the options. Without one, the owner calls
// gs_file_watch_check(). Only the thread of the loop, or of the owner, may use a watch.
//
// Not a change, unless an option is set:
//   - a file that is empty, since it is probably being written
//   - a file that is missing or cannot be read: its last contents stay in use
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct gs_file_watch;

enum gs_file_event { GS_FILE_ADDED = 1, GS_FILE_CHANGED, GS_FILE_REMOVED };

struct gs_file_watch_options {
    uv_loop_t *loop;        // NULL: only gs_file_watch_check()
    int64_t poll_ms;        // interval of reads without an event; 0: 30 s
    int64_t empty_after_ms; // an empty file is a change after this time; 0: never
    bool missing_is_change; // a missing or unreadable file is a change, too
    // Called for each changed file, before on_change. It must not change the watch. May be NULL.
    void (*on_file)(void *arg, const char *path, enum gs_file_event event);
    // Called once for all files that changed together. It may set and free the watch. May be NULL.
    void (*on_change)(void *arg);
    void *arg;
};

struct gs_file_watch *gs_file_watch_new(const struct gs_file_watch_options *o);
void gs_file_watch_free(struct gs_file_watch *w); // accepts NULL
// Replaces the watched files: n paths and globs (glob(7)). NULL and "" are ignored. Later contents
// are compared with the current ones.
void gs_file_watch_set(struct gs_file_watch *w, const char *const *patterns, size_t n);
// Like gs_file_watch_set, but all files that exist are reported as added in the next turn of the
// loop (on_change is called also if there are none), or by the next gs_file_watch_check().
void gs_file_watch_set_new(struct gs_file_watch *w, const char *const *patterns, size_t n);
// Inspects the files now, without waiting until a change is complete. True: something changed
// since the last report. on_file is called, on_change is not.
bool gs_file_watch_check(struct gs_file_watch *w);
