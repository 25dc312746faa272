// SPDX-License-Identifier: Apache-2.0
// libgpuscale-podnet.so, loaded into the processes of pods by LD_PRELOAD: gives each pod its own
// ports although all of them share this machine's network. Binding to "all addresses" binds to the
// pod's address (GPUSCALE_POD_IP). Ports that an ordinary user may not bind move up, and so do
// connections to them at the addresses of pods and services. GPUSCALE_POD_PORTS says which:
// "1024 8000 80=16080,443=8443", those below 1024 by 8000, except for those of this pod that are
// listed. Anything else, and any process without these variables, is left alone. Programs that make
// system calls themselves (static ones, Go) are not reached: they bind $GPUSCALE_POD_IP on their
// own. Needs libc only.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define EXPORTED __attribute__((visibility("default")))
EXPORTED int bind(int fd, const struct sockaddr *addr, socklen_t len);
EXPORTED int connect(int fd, const struct sockaddr *addr, socklen_t len);

typedef int (*socket_fn)(int fd, const struct sockaddr *addr, socklen_t len);

// 0: the list does not name the port.
static unsigned long listed(const char *list, unsigned long port)
{
    while (*list) {
        char *end;
        unsigned long from = strtoul(list, &end, 10);
        unsigned long to = *end == '=' ? strtoul(end + 1, &end, 10) : 0;
        if (from == port && to > 0 && to <= 65535)
            return to;
        list = end + strcspn(end, ",");
        list += *list == ',';
    }
    return 0;
}

static in_port_t moved(in_port_t net_port, bool own)
{
    const char *text = getenv("GPUSCALE_POD_PORTS");
    unsigned long port = ntohs(net_port);
    char *end;
    if (!text || port == 0)
        return net_port;
    unsigned long below = strtoul(text, &end, 10), shift = strtoul(end, &end, 10);
    unsigned long to = own ? listed(end, port) : 0;
    if (!to && port < below)
        to = port + shift;
    return to && to <= 65535 ? htons((in_port_t)to) : net_port;
}

static socket_fn real_function(const char *name)
{
    socket_fn real = NULL;
    void *symbol = dlsym(RTLD_NEXT, name);
    if (symbol)
        memcpy(&real, &symbol, sizeof(real));
    else
        errno = ENOSYS;
    return real;
}

static bool pod_address(struct in_addr *ret)
{
    const char *ip = getenv("GPUSCALE_POD_IP");
    return ip && inet_pton(AF_INET, ip, ret) == 1;
}

// --- bind ---

static int bind4(socket_fn real, int fd, struct sockaddr_in to, struct in_addr pod)
{
    if (to.sin_addr.s_addr == htonl(INADDR_ANY))
        to.sin_addr = pod;
    to.sin_port = moved(to.sin_port, true);
    return real(fd, (const struct sockaddr *)&to, sizeof(to));
}

// An IPv6 socket on "::" serves IPv4 too; on the mapped address of the pod it serves that alone.
static int bind6(socket_fn real, int fd, struct sockaddr_in6 to, struct in_addr pod)
{
    int off = 0;
    if (IN6_IS_ADDR_UNSPECIFIED(&to.sin6_addr) &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0) {
        to.sin6_addr.s6_addr[10] = to.sin6_addr.s6_addr[11] = 0xff;
        memcpy(&to.sin6_addr.s6_addr[12], &pod, sizeof(pod));
    }
    to.sin6_port = moved(to.sin6_port, true);
    return real(fd, (const struct sockaddr *)&to, sizeof(to));
}

int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
    socket_fn real = real_function("bind");
    struct in_addr pod;
    if (!real)
        return -1;
    if (!addr || !pod_address(&pod))
        return real(fd, addr, len);
    if (addr->sa_family == AF_INET && len >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in to;
        memcpy(&to, addr, sizeof(to));
        return bind4(real, fd, to, pod);
    }
    if (addr->sa_family == AF_INET6 && len >= sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 to;
        memcpy(&to, addr, sizeof(to));
        return bind6(real, fd, to, pod);
    }
    return real(fd, addr, len);
}

// --- connect ---

// 127.64.0.0/11 has the pods, 127.96.0.0/15 the services.
static bool is_of_cluster(in_addr_t net_address)
{
    uint32_t a = ntohl(net_address);
    return (a & 0xffe00000u) == 0x7f400000u || (a & 0xfffe0000u) == 0x7f600000u;
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    socket_fn real = real_function("connect");
    struct in_addr pod;
    struct sockaddr_in to;
    if (!real)
        return -1;
    if (!addr || addr->sa_family != AF_INET || len < sizeof(to) || !pod_address(&pod))
        return real(fd, addr, len);
    memcpy(&to, addr, sizeof(to));
    if (!is_of_cluster(to.sin_addr.s_addr))
        return real(fd, addr, len);
    to.sin_port = moved(to.sin_port, to.sin_addr.s_addr == pod.s_addr);
    return real(fd, (const struct sockaddr *)&to, sizeof(to));
}
