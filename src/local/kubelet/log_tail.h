// SPDX-License-Identifier: Apache-2.0
// Where the last lines of a file begin.
#pragma once

#include <stdint.h>

// Moves the file offset to the start of the n-th line from the end (the beginning when there are
// fewer). Returns how many lines follow, at most n.
int64_t kubelet_log_tail_seek(int fd, int64_t n);
