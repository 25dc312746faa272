// SPDX-License-Identifier: Apache-2.0
// Sockets that systemd passes (sd_listen_fds(3)). The variables are removed, so that children do
// not take the sockets.
#include "exporter/daemon/daemon_private.h"

#include "base/num.h"

#include <stdlib.h>
#include <unistd.h>

enum { FIRST_FD = 3 };

static uint64_t number_of(const char *variable)
{
    const char *text = getenv(variable);
    uint64_t n = 0;
    gs_error_free(gs_parse_u64(gs_slice_of(text ? text : ""), INT32_MAX, &n));
    return n;
}

struct gs_error *daemon_take_listen_fds(int *ret_fds, size_t *ret_n)
{
    uint64_t pid = number_of("LISTEN_PID"), n = number_of("LISTEN_FDS");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    if (!n || pid != (uint64_t)getpid())
        return gs_error_new(GS_ENOTFOUND,
                            "systemd passed no socket: start the exporter by a socket unit");
    if (n > DAEMON_LISTEN_FDS_MAX)
        return gs_error_new(GS_EINVAL, "systemd passed %d sockets; at most %d are possible", (int)n,
                            DAEMON_LISTEN_FDS_MAX);
    for (size_t i = 0; i < n; i++)
        ret_fds[i] = FIRST_FD + (int)i;
    *ret_n = n;
    return NULL;
}
