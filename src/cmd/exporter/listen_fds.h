// SPDX-License-Identifier: Apache-2.0
// Socket activation: the listening sockets that a service manager passes (sd_listen_fds(3)).
#pragma once

#include "base/error.h"

enum { LISTEN_FDS_MAX = 8 };

// From LISTEN_PID and LISTEN_FDS, which are removed. GS_ENOTFOUND: none was passed; GS_EINVAL: more
// than LISTEN_FDS_MAX.
struct gs_error *listen_fds_take(int *ret_fds, size_t *ret_n);
