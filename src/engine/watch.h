// SPDX-License-Identifier: Apache-2.0
// Tells when the contents of files change: the configuration and what its rule_files match. Folders
// are watched rather than files, so that editors that replace files and Kubernetes' ConfigMap
// mounts (a symbolic link that is swapped) are seen. Private to the room.
#pragma once

#include <stdint.h>
#include <uv.h>

struct engine_watch;

// poll_ms: how often to look anyway, for file systems that do not tell.
struct engine_watch *engine_watch_new(uv_loop_t *loop, int64_t poll_ms, void (*changed)(void *arg),
                                      void *arg);
void engine_watch_free(struct engine_watch *w);
// The paths and globs to watch; what they hold now counts as known.
void engine_watch_set(struct engine_watch *w, const char *path, const char *const *globs, size_t n);
