// SPDX-License-Identifier: Apache-2.0
// The private mount namespace of a container. Containers are processes of this machine and see its
// files; volumes are bound over them in a namespace that only the container has. The supervisor
// process calls these functions between fork and exec: they change the calling process, which must
// have one thread. An ordinary user gets a user namespace in which only this user exists; root
// keeps its own if it may mount.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// A mount as text, "TARGET:ro:SOURCE" or "TARGET:rw:SOURCE". TARGET is an absolute path without
// colons (Kubernetes allows none in mountPath), SOURCE an existing file or directory.
char *kubelet_mount_text(const char *target, bool read_only, const char *source); // caller frees

// Moves the process to a new mount namespace with these mounts, in their order. A target that does
// not exist is created there and nowhere else: its parent directory is replaced by a tmpfs with all
// entries of the parent bound in it, which hides entries that the machine creates later. `staging`
// is an existing empty directory for that. The files and directories of `keep` stay reachable when
// a mount hides them (kept.h).
struct gs_error *kubelet_mounts_enter(const char *staging, char *const *mounts, size_t n,
                                      char *const *keep, size_t n_keep);

// Moves the process to the user and mount namespaces of a running process. Does nothing if they
// are those of the caller.
struct gs_error *kubelet_mounts_join(pid_t pid);

// Tries kubelet_mounts_enter in a child process. NULL: it works.
struct gs_error *kubelet_mounts_try(const char *staging, char *const *mounts, size_t n_mounts);
// The same with a mount on /tmp: whether any mount can work here.
struct gs_error *kubelet_mounts_check(void);
