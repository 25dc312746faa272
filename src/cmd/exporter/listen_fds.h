// SPDX-License-Identifier: Apache-2.0
// Socket activation: the listening socket that a service manager passes (sd_listen_fds(3)).
#pragma once

#include "base/error.h"

// From LISTEN_PID and LISTEN_FDS, which are removed. GS_ENOTFOUND: none was passed; GS_EINVAL: more
// than one.
struct gs_error *listen_fds_take(int *ret_fd);
