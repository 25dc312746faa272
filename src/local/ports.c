// SPDX-License-Identifier: Apache-2.0
// An ordinary user may not bind ports below 1024, but manifests have port 80. Such ports are moved
// by LOCAL_PORT_SHIFT, in pods and in services, until the object itself does not use the new one.
#include "local/ports.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

// --- what this process may bind ---

static bool may_bind_any_port(void)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read("/proc/self/status", 64 * 1024, &text);
    gs_error_free(err);
    const char *line = text.data ? strstr(text.data, "\nCapEff:") : NULL;
    if (!line)
        return geteuid() == 0;
    unsigned long long caps = strtoull(line + strlen("\nCapEff:"), NULL, 16);
    return (caps >> CAP_NET_BIND_SERVICE) & 1;
}

static int first_unprivileged_port(void)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    int64_t port = 1024;
    struct gs_error *err = gs_file_read("/proc/sys/net/ipv4/ip_unprivileged_port_start", 64, &text);
    if (!err)
        err = gs_parse_i64(gs_slice_trim(gs_buf_slice(&text)), 0, 65536, &port);
    gs_error_free(err);
    return (int)port;
}

static int first = -1; // neither changes while we run

int local_ports_first(void)
{
    if (first < 0)
        first = may_bind_any_port() ? 0 : first_unprivileged_port();
    return first;
}

void local_ports_set_first(int port)
{
    first = port;
}

// Root's programs have the capability anyway. libcap is not needed for one bit.
void local_ports_pass_on(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = {0};
    const uint32_t bit = 1u << CAP_NET_BIND_SERVICE;
    if (geteuid() == 0 || syscall(SYS_capget, &header, caps) < 0 || !(caps[0].effective & bit))
        return;
    caps[0].inheritable |= bit;
    if (syscall(SYS_capset, &header, caps) == 0)
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_BIND_SERVICE, 0, 0);
}

// --- where ports go ---

static bool moves(int port)
{
    return port > 0 && port < local_ports_first() && port + LOCAL_PORT_SHIFT <= 65535;
}

int local_host_port(int port)
{
    return moves(port) ? port + LOCAL_PORT_SHIFT : port;
}

static bool declares(const json_t *ports, const char *member, int port)
{
    size_t i;
    json_t *entry;
    json_array_foreach ((json_t *)(uintptr_t)ports, i, entry)
        if (codec_json_int(entry, 0, member, NULL) == port)
            return true;
    return false;
}

static bool any_container_declares(const json_t *pod, int port)
{
    static const char *const lists[] = {"containers", "initContainers"};
    size_t i;
    json_t *c;
    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
        json_array_foreach (codec_json_get(pod, "spec", lists[l], NULL), i, c)
            if (declares(json_object_get(c, "ports"), "containerPort", port))
                return true;
    return false;
}

static bool service_declares(const json_t *service, int port)
{
    return declares(codec_json_get(service, "spec", "ports", NULL), "port", port);
}

// By the shift until the object itself has no such port.
static int move(const json_t *obj, int port, bool (*taken)(const json_t *obj, int port))
{
    int to = local_host_port(port);
    while (to != port && taken(obj, to) && to + LOCAL_PORT_SHIFT <= 65535)
        to += LOCAL_PORT_SHIFT;
    return to;
}

int local_service_port(const json_t *service, int port)
{
    return move(service, port, service_declares);
}

int local_service_port_after(const json_t *service, int port)
{
    do
        port += LOCAL_PORT_SHIFT;
    while (port <= 65535 && service_declares(service, port));
    return port <= 65535 ? port : 0;
}

static void record(const json_t *pod, const json_t *container, struct gs_buf *out)
{
    size_t i;
    json_t *entry;
    json_array_foreach (json_object_get(container, "ports"), i, entry) {
        int64_t port = codec_json_int(entry, 0, "containerPort", NULL);
        if (port > 65535 || !moves((int)port) || kube_port_in(out->data, (int)port) > 0)
            continue;
        gs_buf_addf(out, "%s%d=%d", out->len ? "," : "", (int)port,
                    move(pod, (int)port, any_container_declares));
    }
}

char *local_ports_of_pod(const json_t *pod)
{
    static const char *const lists[] = {"containers", "initContainers"};
    struct gs_buf out = {0};
    size_t i;
    json_t *c;
    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
        json_array_foreach (codec_json_get(pod, "spec", lists[l], NULL), i, c)
            record(pod, c, &out);
    return out.len ? gs_buf_take(&out) : NULL;
}

int local_port_by(const char *record, int port)
{
    int to = kube_port_in(record, port);
    return to > 0 ? to : local_host_port(port);
}

int local_pod_port(const json_t *pod, int port)
{
    return local_port_by(kube_annotation(pod, KUBE_ANN_PORTS), port);
}

// --- saying it ---

int local_ports_lowest(const char *record)
{
    int lowest = 65535;
    for (const char *at = record; at && *at;) {
        int port = (int)strtol(at, NULL, 10);
        lowest = port < lowest ? port : lowest;
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return lowest;
}

char *local_ports_remedy(int lowest)
{
    return gs_format("this user may not bind ports below %d (root can allow it: sysctl "
                     "net.ipv4.ip_unprivileged_port_start=%d)",
                     local_ports_first(), lowest < 80 ? lowest : 80);
}
