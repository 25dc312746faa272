// SPDX-License-Identifier: Apache-2.0
// Where a host engine is: the values of --dcgm and -r, and whether something listens there.
#include "dcgm_source/source_private.h"

#include "base/slice.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DEFAULT_PORT "5555"

// --- values of flags ---

static struct gs_error *bad_address(const char *text)
{
    return gs_error_new(
        GS_EINVAL, "\"%s\": want auto, off, embedded, HOST:PORT, [IPV6]:PORT or unix:PATH", text);
}

static bool is_port(const char *text)
{
    unsigned long n = 0;
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9')
            return false;
        n = n * 10 + (unsigned long)(*p - '0');
        if (n > 65535)
            return false;
    }
    return n > 0;
}

// Sets *ret_port to the port, or to NULL if the text has none. False: the host is malformed.
static bool split(const char *text, size_t *ret_host, const char **ret_port)
{
    const char *end = text[0] == '[' ? strchr(text, ']') : NULL;
    const char *colon = end ? (end[1] ? end + 1 : NULL) : strchr(text, ':');
    if ((text[0] == '[' && !end) || (colon && (*colon != ':' || strchr(colon + 1, ':'))))
        return false;
    *ret_host = colon ? (size_t)(colon - text) : strlen(text);
    *ret_port = colon ? colon + 1 : NULL;
    return *ret_host > 0 && !strpbrk(text, " \t/");
}

static struct gs_error *parse_remote(const char *text, struct dcgm_source_endpoint *ret)
{
    struct dcgm_source_endpoint e = {.mode = DCGM_SOURCE_REMOTE};
    size_t host = 0;
    const char *port = NULL;
    int n;
    e.is_unix = strncmp(text, "unix:", 5) == 0;
    if (e.is_unix) {
        text += strncmp(text, "unix://", 7) == 0 ? 7 : 5;
        n = snprintf(e.address, sizeof(e.address), "%s", text);
        if (text[0] != '/' || n >= (int)sizeof(((struct sockaddr_un *)NULL)->sun_path))
            return gs_error_new(GS_EINVAL,
                                "\"unix:%s\": want an absolute path of at most %zu bytes", text,
                                sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
    } else {
        if (!split(text, &host, &port) || (port && !is_port(port)))
            return bad_address(text);
        n = snprintf(e.address, sizeof(e.address), "%.*s:%s", (int)host, text,
                     port ? port : DEFAULT_PORT);
        if (n >= (int)sizeof(e.address))
            return bad_address(text);
    }
    *ret = e;
    return NULL;
}

struct gs_error *dcgm_source_parse(const char *text, struct dcgm_source_endpoint *ret)
{
    static const struct {
        const char *name;
        enum dcgm_source_mode mode;
    } modes[] = {
        {"auto", DCGM_SOURCE_AUTO}, {"off", DCGM_SOURCE_OFF}, {"embedded", DCGM_SOURCE_EMBEDDED}};
    for (size_t i = 0; i < GS_ARRAY_LEN(modes); i++) {
        if (gs_streq(text, modes[i].name)) {
            *ret = (struct dcgm_source_endpoint){.mode = modes[i].mode};
            return NULL;
        }
    }
    return parse_remote(text, ret);
}

// --- probes ---

static bool finishes_connecting(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof(error);
    return poll(&p, 1, timeout_ms) == 1 &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

static bool connects(const struct sockaddr *to, socklen_t size, int timeout_ms)
{
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    bool ok =
        connect(fd, to, size) == 0 || (errno == EINPROGRESS && finishes_connecting(fd, timeout_ms));
    close(fd);
    return ok;
}

bool dcgm_source_probe_unix(const char *path, int timeout_ms)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (snprintf(to.sun_path, sizeof(to.sun_path), "%s", path) >= (int)sizeof(to.sun_path))
        return false;
    return connects((const struct sockaddr *)&to, sizeof(to), timeout_ms);
}

bool dcgm_source_probe_local(unsigned port, int timeout_ms)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return connects((const struct sockaddr *)&to, sizeof(to), timeout_ms);
}
