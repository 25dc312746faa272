// SPDX-License-Identifier: Apache-2.0
// Addresses of pods: 127.64.0.1 to 127.95.255.254, without .0 and .255. Linux accepts all of
// 127.0.0.0/8 on the loopback interface, so no network set-up and no root is needed.
#include "local/kubelet/pod_ips.h"

#include "base/hmap.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <stdint.h>

#define FIRST 0x7f400001u // 127.64.0.1
#define COUNT 0x001ffffeu // up to 127.95.255.254

struct kubelet_pod_ips {
    struct gs_hmap *taken; // values are not used
    uint32_t next;         // offset from FIRST
};

struct kubelet_pod_ips *kubelet_pod_ips_new(const char *seed)
{
    struct kubelet_pod_ips *ips = gs_alloc(sizeof(*ips));
    ips->taken = gs_hmap_new(NULL);
    // Begins at a x.y.z.1, which reads well.
    ips->next = (uint32_t)(gs_hash(seed, strlen(seed)) % (COUNT / 256)) * 256;
    return ips;
}

void kubelet_pod_ips_free(struct kubelet_pod_ips *ips)
{
    if (!ips)
        return;
    gs_hmap_free(ips->taken);
    free(ips);
}

bool kubelet_pod_ips_reserve(struct kubelet_pod_ips *ips, const char *ip)
{
    struct in_addr addr;
    if (inet_pton(AF_INET, ip, &addr) != 1 || ntohl(addr.s_addr) - FIRST >= COUNT ||
        gs_hmap_get_str(ips->taken, ip))
        return false;
    gs_hmap_put_str(ips->taken, ip, ips);
    return true;
}

char *kubelet_pod_ips_take(struct kubelet_pod_ips *ips)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t address = FIRST + ips->next;
        ips->next = (ips->next + 1) % COUNT;
        if ((address & 0xff) == 0 || (address & 0xff) == 0xff)
            continue;
        char text[INET_ADDRSTRLEN];
        struct in_addr addr = {.s_addr = htonl(address)};
        inet_ntop(AF_INET, &addr, text, sizeof(text));
        if (kubelet_pod_ips_reserve(ips, text))
            return gs_strdup(text);
    }
    return NULL;
}

void kubelet_pod_ips_give_back(struct kubelet_pod_ips *ips, const char *ip)
{
    gs_hmap_remove_str(ips->taken, ip);
}
