// SPDX-License-Identifier: Apache-2.0
// libgpuscale-podnet.so, loaded into the processes of pods by LD_PRELOAD: gives each pod its own
// ports although all of them share this machine's network. Binding to "all addresses" binds to the
// pod's address (GPUSCALE_POD_IP), and ports that an ordinary user may not bind move up
// (GPUSCALE_POD_PORTS "1024 8000": those below 1024 by 8000). Anything else, and any process
// without these variables, is left alone. Programs that make system calls themselves (static ones,
// Go) are not reached: they bind $GPUSCALE_POD_IP on their own. Needs libc only.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

__attribute__((visibility("default"))) int bind(int fd, const struct sockaddr *addr, socklen_t len);

typedef int (*bind_fn)(int fd, const struct sockaddr *addr, socklen_t len);

static in_port_t moved(in_port_t net_port)
{
    const char *text = getenv("GPUSCALE_POD_PORTS");
    unsigned long port = ntohs(net_port);
    char *end;
    if (!text || port == 0)
        return net_port;
    unsigned long below = strtoul(text, &end, 10), shift = strtoul(end, NULL, 10);
    return port < below && port + shift <= 65535 ? htons((in_port_t)(port + shift)) : net_port;
}

static int bind4(bind_fn real, int fd, struct sockaddr_in to, struct in_addr pod)
{
    if (to.sin_addr.s_addr == htonl(INADDR_ANY))
        to.sin_addr = pod;
    to.sin_port = moved(to.sin_port);
    return real(fd, (const struct sockaddr *)&to, sizeof(to));
}

// An IPv6 socket on "::" serves IPv4 too; on the mapped address of the pod it serves that alone.
static int bind6(bind_fn real, int fd, struct sockaddr_in6 to, struct in_addr pod)
{
    int off = 0;
    if (IN6_IS_ADDR_UNSPECIFIED(&to.sin6_addr) &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0) {
        to.sin6_addr.s6_addr[10] = to.sin6_addr.s6_addr[11] = 0xff;
        memcpy(&to.sin6_addr.s6_addr[12], &pod, sizeof(pod));
    }
    to.sin6_port = moved(to.sin6_port);
    return real(fd, (const struct sockaddr *)&to, sizeof(to));
}

int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
    bind_fn real;
    void *symbol = dlsym(RTLD_NEXT, "bind");
    const char *ip = getenv("GPUSCALE_POD_IP");
    struct in_addr pod;
    if (!symbol) {
        errno = ENOSYS;
        return -1;
    }
    memcpy(&real, &symbol, sizeof(real));
    if (!addr || !ip || inet_pton(AF_INET, ip, &pod) != 1)
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
