// SPDX-License-Identifier: Apache-2.0
// Addresses and node ports of services. Until the API has a lease's value, the lease keeps others
// from taking it. Free addresses are searched from a place that depends on the data directory, so
// that clusters of one machine rarely meet.
#include "local/services/services_private.h"

#include "base/file.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "kube/object.h"

#include <arpa/inet.h>
#include <assert.h>
#include <sys/socket.h>

struct services_addresses {
    const struct kube_cache *services;
    int first;              // of the last two bytes, where the search for a free address starts
    struct gs_hmap *leases; // "service|what" -> address or port as text
};

struct services_addresses *services_addresses_new(const struct kube_cache *services,
                                                  const char *seed)
{
    struct services_addresses *a = gs_alloc(sizeof(*a));
    a->services = services;
    a->first = (int)(gs_hash(seed, strlen(seed)) % 256) << 8;
    a->leases = gs_hmap_new(free);
    return a;
}

void services_addresses_free(struct services_addresses *a)
{
    if (!a)
        return;
    gs_hmap_free(a->leases);
    free(a);
}

void services_addresses_drop(struct services_addresses *a, const char *service)
{
    GS_AUTO_FREE char *prefix = gs_format("%s|", service);
    CODEC_AUTO_JSON json_t *gone = json_array();
    size_t pos = 0, i;
    struct gs_slice key;
    while (gs_hmap_next(a->leases, &pos, &key, NULL))
        if (gs_slice_starts(key, prefix))
            json_array_append_new(gone, json_stringn(key.data, key.len));
    json_t *k;
    json_array_foreach (gone, i, k) {
        free(gs_hmap_remove_str(a->leases, json_string_value(k)));
    }
}

// By another service than `except` (its leases begin so; NULL: by any).
static bool leased(const struct services_addresses *a, const char *text, const char *except)
{
    GS_AUTO_FREE char *own = except ? gs_format("%s|", except) : NULL;
    size_t pos = 0;
    struct gs_slice key;
    void *v;
    while (gs_hmap_next(a->leases, &pos, &key, &v))
        if (gs_streq(v, text) && !(own && gs_slice_starts(key, own)))
            return true;
    return false;
}

static bool is_service(const json_t *s, const char *key)
{
    GS_AUTO_FREE char *own = kube_key(s);
    return gs_streq(own, key);
}

static bool has_ip(const json_t *s, const char *ip)
{
    size_t i;
    json_t *ingress;
    if (gs_streq(codec_json_str(s, "spec", "clusterIP", NULL), ip))
        return true;
    json_array_foreach (codec_json_get(s, "status", "loadBalancer", "ingress", NULL), i, ingress)
        if (gs_streq(codec_json_str(ingress, "ip", NULL), ip))
            return true;
    return false;
}

bool services_addresses_taken(const struct services_addresses *a, const char *ip,
                              const char *service)
{
    size_t pos = 0;
    const json_t *s;
    while ((s = kube_cache_next(a->services, &pos)))
        if (has_ip(s, ip) && !is_service(s, service))
            return true;
    return leased(a, ip, service);
}

// What a service wants is not given to others that take any.
static bool is_wanted(const struct services_addresses *a, const char *ip)
{
    size_t pos = 0;
    const json_t *s;
    while ((s = kube_cache_next(a->services, &pos)))
        if (gs_streq(codec_json_str(s, "spec", "loadBalancerIP", NULL), ip))
            return true;
    return false;
}

static char *lease_key(const char *service, enum services_address_kind kind)
{
    return gs_format("%s|ip%d", service, (int)kind);
}

static void lease(struct services_addresses *a, const char *key, char *text)
{
    free(gs_hmap_remove_str(a->leases, key));
    gs_hmap_put_str(a->leases, key, text);
}

void services_addresses_keep_ip(struct services_addresses *a, const char *service,
                                enum services_address_kind kind, const char *ip)
{
    GS_AUTO_FREE char *key = lease_key(service, kind);
    lease(a, key, gs_strdup(ip));
}

const char *services_addresses_lease_ip(struct services_addresses *a, const char *service,
                                        enum services_address_kind kind)
{
    GS_AUTO_FREE char *key = lease_key(service, kind);
    const char *have = gs_hmap_get_str(a->leases, key);
    // A client may have created a service with this address before this one was written.
    if (have && !services_addresses_taken(a, have, service))
        return have;
    for (int k = 1; k < 0xffff; k++) {
        int n = (a->first + k) & 0xffff;
        if ((n & 0xff) == 0 || (n & 0xff) == 0xff) // resemble network and broadcast addresses
            continue;
        GS_AUTO_FREE char *ip = gs_format("127.%d.%d.%d", (int)kind, n >> 8, n & 0xff);
        if (services_addresses_taken(a, ip, service) || is_wanted(a, ip))
            continue;
        lease(a, key, GS_TAKE(ip));
        return gs_hmap_get_str(a->leases, key);
    }
    return NULL;
}

static_assert(GS_ARRAY_LEN(((struct services_node_ports *)0)->state) ==
                  LOCAL_NODE_PORT_LAST - LOCAL_NODE_PORT_FIRST + 1,
              "one state for each node port");

static bool is_node_port(int64_t port)
{
    return port >= LOCAL_NODE_PORT_FIRST && port <= LOCAL_NODE_PORT_LAST;
}

void services_addresses_node_ports(const struct services_addresses *a,
                                   struct services_node_ports *ret)
{
    size_t pos = 0, i;
    const json_t *s;
    json_t *p;
    struct gs_slice key;
    void *text;
    *ret = (struct services_node_ports){0};
    while (gs_hmap_next(a->leases, &pos, &key, &text)) {
        int64_t port = strtol(text, NULL, 10); // an address of four numbers begins with 127
        if (is_node_port(port))
            ret->state[port - LOCAL_NODE_PORT_FIRST] = SERVICES_PORT_LEASED;
    }
    pos = 0;
    while ((s = kube_cache_next(a->services, &pos)))
        json_array_foreach (codec_json_get(s, "spec", "ports", NULL), i, p) {
            int64_t port = codec_json_int(p, 0, "nodePort", NULL);
            if (is_node_port(port))
                ret->state[port - LOCAL_NODE_PORT_FIRST] = SERVICES_PORT_USED;
        }
}

// A server of this machine may have it.
static bool can_bind(int port)
{
    GS_AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, LOCAL_NODE_IP, &at.sin_addr);
    if (fd < 0)
        return true;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    return bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;
}

int services_addresses_lease_port(struct services_addresses *a, struct services_node_ports *ports,
                                  const char *service, int service_port)
{
    GS_AUTO_FREE char *key = gs_format("%s|port%d", service, service_port);
    const char *have = gs_hmap_get_str(a->leases, key);
    int port = have ? (int)strtol(have, NULL, 10) : 0;
    if (have && ports->state[port - LOCAL_NODE_PORT_FIRST] != SERVICES_PORT_USED)
        return port;
    for (port = LOCAL_NODE_PORT_FIRST; port <= LOCAL_NODE_PORT_LAST; port++) {
        if (ports->state[port - LOCAL_NODE_PORT_FIRST] != SERVICES_PORT_FREE)
            continue;
        ports->state[port - LOCAL_NODE_PORT_FIRST] = SERVICES_PORT_LEASED;
        if (!can_bind(port))
            continue;
        lease(a, key, gs_format("%d", port));
        return port;
    }
    return 0;
}
