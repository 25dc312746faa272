// SPDX-License-Identifier: Apache-2.0
// What systemd passes to a service in its environment: the socket for notifications, and listening
// sockets (sd_notify(3), sd_listen_fds(3)). Children do not inherit the variables.
#include "net/program/program_private.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { FIRST_FD = 3 };

char *program_take_notify_socket(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    char *copy = path && (*path == '/' || *path == '@') ? gs_strdup(path) : NULL;
    unsetenv("NOTIFY_SOCKET");
    return copy;
}

void program_notify(const struct program *p, const char *message)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = p->notify_socket ? strlen(p->notify_socket) : 0;
    if (!n || n >= sizeof(to.sun_path))
        return;
    memcpy(to.sun_path, p->notify_socket, n);
    if (*to.sun_path == '@') // an abstract name
        *to.sun_path = '\0';
    GS_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    // Without systemd's receiver, the message has no use.
    if (fd >= 0)
        (void)sendto(fd, message, strlen(message), MSG_NOSIGNAL, (const struct sockaddr *)&to,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
}

static uint64_t number_of(const char *variable)
{
    const char *text = getenv(variable);
    uint64_t n = 0;
    gs_error_free(gs_parse_u64(gs_slice_of(text ? text : ""), INT32_MAX, &n));
    return n;
}

struct gs_error *program_take_listen_fds(int *ret_fds, size_t *ret_n)
{
    uint64_t pid = number_of("LISTEN_PID"), n = number_of("LISTEN_FDS");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    if (!n || pid != (uint64_t)getpid())
        return gs_error_new(GS_ENOTFOUND,
                            "systemd passed no socket: start the program by a socket unit");
    if (n > PROGRAM_MAX_LISTEN_FDS)
        return gs_error_new(GS_EINVAL, "systemd passed %d sockets; at most %d are possible", (int)n,
                            PROGRAM_MAX_LISTEN_FDS);
    for (size_t i = 0; i < n; i++)
        ret_fds[i] = FIRST_FD + (int)i;
    *ret_n = n;
    return NULL;
}
