// SPDX-License-Identifier: Apache-2.0
// Processes as /proc shows them: signal all descendants of one, find those that carry a mark in
// their environment. What cannot be read (other users, just gone) is passed over.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Sends `sig` to every descendant of `root` at any depth, not to root itself. Returns how many live
// or unreaped descendants there were.
size_t kubelet_proc_signal_descendants(pid_t root, int sig);
// Clock ticks after boot at which the process started; 0 when there is no such process. With the
// pid it names a process for good, since pids are reused.
uint64_t kubelet_proc_start_time(pid_t pid);
// Sends SIGKILL to the processes (never the caller) whose initial environment holds the entry
// `first` and, unless NULL, the entry `second` ("NAME=value"). Returns how many.
size_t kubelet_proc_kill_marked(const char *first, const char *second);
