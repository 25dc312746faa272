// SPDX-License-Identifier: Apache-2.0
// The Node object and its Lease: registration, labels, taints, conditions, heartbeats every ten
// seconds. Thresholds and reasons are those of the kubelet. One request for the node is in
// progress at a time; later changes wait for it.
#include "local/kubelet/node.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "local/pod.h"

#include <sys/statvfs.h>
#include <sys/utsname.h>

enum {
    HEARTBEAT_MS = 10000,
    LEASE_SECONDS = 40,
    DEFAULT_MAX_PODS = 110, // as the kubelet
};
// Below these the kubelet reports pressure (its default hard eviction thresholds).
#define MIN_MEMORY_BYTES (INT64_C(100) * 1024 * 1024)
#define MIN_DISK_PERCENT 10
#define NOT_READY        "node.kubernetes.io/not-ready"

struct kubelet_node {
    struct local_cluster *cluster;
    char *name, *address, *provider_id, *not_ready; // the last two may be NULL
    bool control_plane;
    json_t *labels, *taints, *capacity; // of the configuration
    char *data_dir;
    size_t n_gpus, n_shared;
    int64_t max_pods;
    uint16_t port; // of the kubelet's API; 0: no server listens for it
    json_t *conditions;
    bool registered;
    bool tainted;          // registered with the taint NOT_READY
    bool relabel, changed; // labels, status: to send after the current request
    struct gs_timer *timer;
    struct kube_request *node_request, *lease_request;
};

// --- facts of the machine ---

static char *read_line(const char *path)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, 4096, &text);
    struct gs_slice rest = {0};
    if (!err)
        rest = gs_slice_trim(gs_buf_slice(&text));
    return gs_slice_dup(gs_slice_cut(&rest, '\n'));
}

// The text after `key` at the start of a line; NULL without one. Caller frees.
static char *find_line(const char *path, const char *key)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, 64 * 1024, &text);
    if (err)
        return NULL;
    for (struct gs_slice rest = gs_buf_slice(&text); rest.data && rest.len;) {
        struct gs_slice line = gs_slice_cut(&rest, '\n');
        if (!gs_slice_starts(line, key))
            continue;
        size_t skip = strlen(key);
        return gs_slice_dup(gs_slice_trim(gs_slice_make(line.data + skip, line.len - skip)));
    }
    return NULL;
}

static char *os_image(void)
{
    char *name = find_line("/etc/os-release", "PRETTY_NAME=");
    size_t len = name ? strlen(name) : 0;
    if (len < 2 || name[0] != '"' || name[len - 1] != '"')
        return name ? name : gs_strdup("Linux");
    char *bare = gs_strndup(name + 1, len - 2);
    free(name);
    return bare;
}

static const char *architecture(const struct utsname *u)
{
    if (gs_streq(u->machine, "x86_64"))
        return "amd64";
    return gs_streq(u->machine, "aarch64") ? "arm64" : u->machine;
}

static int64_t memory_bytes(void)
{
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

static bool memory_is_short(void)
{
    GS_AUTO_FREE char *kib = find_line("/proc/meminfo", "MemAvailable:");
    return kib && strtoll(kib, NULL, 10) * 1024 < MIN_MEMORY_BYTES;
}

static bool disk_is_short(const struct statvfs *disk)
{
    return disk->f_blocks && disk->f_bavail * 100 / disk->f_blocks < MIN_DISK_PERCENT;
}

// --- the object ---

static json_t *labels(const struct kubelet_node *n)
{
    struct utsname u;
    uname(&u);
    json_t *l = json_object();
    codec_json_set_str(l, "kubernetes.io/hostname", n->name);
    codec_json_set_str(l, "kubernetes.io/os", "linux");
    codec_json_set_str(l, "kubernetes.io/arch", architecture(&u));
    codec_json_set_str(l, "beta.kubernetes.io/os", "linux");
    codec_json_set_str(l, "beta.kubernetes.io/arch", architecture(&u));
    codec_json_set_str(l, "node.kubernetes.io/instance-type", "gpuscale-local");
    codec_json_set_str(l, "beta.kubernetes.io/instance-type", "gpuscale-local");
    if (n->control_plane)
        codec_json_set_str(l, "node-role.kubernetes.io/control-plane", "");
    json_object_update(l, n->labels);
    return l;
}

static json_t *capacity(const struct kubelet_node *n)
{
    char text[KUBE_QUANTITY_SIZE];
    struct statvfs disk;
    json_t *c = json_object();
    json_object_set_new(c, "cpu", codec_json_strf("%ld", sysconf(_SC_NPROCESSORS_ONLN)));
    codec_json_set_str(c, "memory", kube_quantity_format_bytes(memory_bytes(), text));
    json_object_set_new(c, "pods", codec_json_strf("%lld", (long long)n->max_pods));
    if (statvfs(n->data_dir, &disk) == 0)
        codec_json_set_str(
            c, "ephemeral-storage",
            kube_quantity_format_bytes((int64_t)(disk.f_blocks * disk.f_frsize), text));
    json_object_update(c, n->capacity);
    if (n->n_gpus)
        json_object_set_new(c, LOCAL_GPU, codec_json_strf("%zu", n->n_gpus));
    if (n->n_shared)
        json_object_set_new(c, LOCAL_GPU_SHARED, codec_json_strf("%zu", n->n_shared));
    return c;
}

static json_t *node_info(void)
{
    struct utsname u;
    uname(&u);
    GS_AUTO_FREE char *machine = read_line("/etc/machine-id");
    GS_AUTO_FREE char *boot = read_line("/proc/sys/kernel/random/boot_id");
    GS_AUTO_FREE char *image = os_image();
    json_t *i = json_object();
    codec_json_set_str(i, "machineID", machine);
    codec_json_set_str(i, "systemUUID", machine);
    codec_json_set_str(i, "bootID", boot);
    codec_json_set_str(i, "kernelVersion", u.release);
    codec_json_set_str(i, "osImage", image);
    codec_json_set_str(i, "containerRuntimeVersion", "gpuscale://" GPUSCALE_VERSION);
    codec_json_set_str(i, "kubeletVersion", "v" KUBE_VERSION ".0-gpuscale." GPUSCALE_VERSION);
    codec_json_set_str(i, "kubeProxyVersion", "v" KUBE_VERSION ".0-gpuscale." GPUSCALE_VERSION);
    codec_json_set_str(i, "operatingSystem", "linux");
    codec_json_set_str(i, "architecture", architecture(&u));
    return i;
}

static void add_condition(json_t *conditions, const char *type, bool value, const char *reason,
                          const char *message, int64_t now)
{
    char text[GS_RFC3339_SIZE];
    kube_set_condition(conditions, type, value ? "True" : "False", reason, message, now);
    size_t i;
    json_t *c;
    json_array_foreach (conditions, i, c)
        if (gs_streq(codec_json_str(c, "type", NULL), type))
            codec_json_set_str(c, "lastHeartbeatTime", gs_format_rfc3339(now, text));
}

static json_t *conditions(struct kubelet_node *n)
{
    struct statvfs disk = {0};
    int64_t now = gs_unix_ms();
    bool memory = memory_is_short();
    bool full = statvfs(n->data_dir, &disk) == 0 && disk_is_short(&disk);
    add_condition(n->conditions, "MemoryPressure", memory,
                  memory ? "KubeletHasInsufficientMemory" : "KubeletHasSufficientMemory",
                  memory ? "kubelet has insufficient memory available"
                         : "kubelet has sufficient memory available",
                  now);
    add_condition(n->conditions, "DiskPressure", full,
                  full ? "KubeletHasDiskPressure" : "KubeletHasNoDiskPressure",
                  full ? "kubelet has disk pressure" : "kubelet has no disk pressure", now);
    add_condition(n->conditions, "PIDPressure", false, "KubeletHasSufficientPID",
                  "kubelet has sufficient PID available", now);
    add_condition(n->conditions, "Ready", !n->not_ready,
                  n->not_ready ? "KubeletNotReady" : "KubeletReady",
                  n->not_ready ? n->not_ready : "kubelet is posting ready status", now);
    return n->conditions;
}

static json_t *status(struct kubelet_node *n)
{
    json_t *s = json_object();
    json_object_set_new(s, "capacity", capacity(n));
    json_object_set_new(s, "allocatable", capacity(n));
    json_object_set(s, "conditions", conditions(n));
    json_object_set_new(s, "addresses",
                        json_pack("[{s:s,s:s},{s:s,s:s}]", "type", "InternalIP", "address",
                                  n->address, "type", "Hostname", "address", n->name));
    // As in Kubernetes, 0 means that it is absent.
    json_object_set_new(s, "daemonEndpoints",
                        json_pack("{s:{s:i}}", "kubeletEndpoint", "Port", (int)n->port));
    json_object_set_new(s, "nodeInfo", node_info());
    return s;
}

static void complain(const struct kubelet_node *n, const char *what, struct gs_error *err)
{
    gs_warn("kubelet", "%s %s: %s", what, n->name, gs_error_message(err));
    gs_error_free(err);
}

static void send_changes(struct kubelet_node *n);

static void on_status(void *arg, int code, json_t *body, struct gs_error *err)
{
    struct kubelet_node *n = arg;
    (void)body;
    n->node_request = NULL;
    if (code == 404)
        n->registered = false; // deleted by a client: the next heartbeat creates it again
    if (err)
        complain(n, "status of node", err);
    else
        send_changes(n);
}

static void send_status(struct kubelet_node *n)
{
    CODEC_AUTO_JSON json_t *patch = json_object();
    json_object_set_new(patch, "status", status(n));
    n->changed = false;
    n->node_request = kube_patch(n->cluster->client, KUBE_NODES, NULL, n->name, "status",
                                 KUBE_MERGE_PATCH, patch, on_status, n);
}

static void on_labelled(void *arg, int code, json_t *body, struct gs_error *err)
{
    struct kubelet_node *n = arg;
    (void)code, (void)body;
    n->node_request = NULL;
    if (code == 409 && n->registered) { // another client has changed the node
        gs_error_free(err);
        n->relabel = true;
        send_changes(n);
        return;
    }
    if (err) {
        complain(n, "labels of node", err);
        return;
    }
    n->registered = true;
    send_status(n);
}

// Those of the configuration, and that of a node that is not ready. In Kubernetes, the node
// controller adds and removes the latter.
static json_t *own_taints(const struct kubelet_node *n)
{
    json_t *taints = json_deep_copy(n->taints);
    if (n->not_ready)
        json_array_append_new(taints,
                              json_pack("{s:s, s:s}", "key", NOT_READY, "effect", "NoSchedule"));
    return taints;
}

// The node's taints with ours, which replace taints with the same key and effect.
static json_t *merge_taints(const struct kubelet_node *n, const json_t *node)
{
    CODEC_AUTO_JSON json_t *own = own_taints(n);
    json_t *all = json_deep_copy(own), *old, *ours;
    size_t i, k;
    json_array_foreach (codec_json_get(node, "spec", "taints", NULL), i, old) {
        bool replaced =
            n->tainted && gs_streq(codec_json_str(old, "key", NULL), NOT_READY) && !n->not_ready;
        json_array_foreach (own, k, ours)
            replaced |= json_equal(json_object_get(old, "key"), json_object_get(ours, "key")) &&
                        json_equal(json_object_get(old, "effect"), json_object_get(ours, "effect"));
        if (!replaced)
            json_array_append_new(all, json_deep_copy(old));
    }
    return all;
}

static void on_found(void *arg, int code, json_t *body, struct gs_error *err)
{
    struct kubelet_node *n = arg;
    n->node_request = NULL;
    if (err) {
        on_labelled(n, code, body, err);
        return;
    }
    n->relabel = false;
    CODEC_AUTO_JSON json_t *patch = json_object();
    codec_json_set(patch, labels(n), "metadata", "labels", NULL);
    if (json_array_size(n->taints) || n->tainted) {
        codec_json_set(patch, merge_taints(n, body), "spec", "taints", NULL);
        codec_json_set(patch, json_string(kube_resource_version(body)), "metadata",
                       "resourceVersion", NULL);
    }
    n->node_request = kube_patch(n->cluster->client, KUBE_NODES, NULL, n->name, NULL,
                                 KUBE_MERGE_PATCH, patch, on_labelled, n);
}

static void on_created(void *arg, int code, json_t *body, struct gs_error *err)
{
    struct kubelet_node *n = arg;
    n->node_request = NULL;
    if (err && gs_error_code(err) == GS_EEXIST) {
        gs_error_free(err);
        n->node_request =
            kube_get(n->cluster->client, KUBE_NODES, NULL, n->name, NULL, on_found, n);
        return;
    }
    on_labelled(n, code, body, err);
}

// Labels first: a node that is Ready has all of them.
static void send_changes(struct kubelet_node *n)
{
    if (n->node_request || !n->registered)
        return;
    if (n->relabel)
        n->node_request =
            kube_get(n->cluster->client, KUBE_NODES, NULL, n->name, NULL, on_found, n);
    else if (n->changed)
        send_status(n);
}

void kubelet_node_set_gpus(struct kubelet_node *n, size_t n_gpus, size_t n_shared)
{
    n->n_gpus = n_gpus;
    n->n_shared = n_shared;
    n->changed = true;
    send_changes(n);
}

void kubelet_node_set_ready(struct kubelet_node *n, const char *not_ready)
{
    free(n->not_ready);
    n->not_ready = not_ready ? gs_strdup(not_ready) : NULL;
    n->changed = true;
    n->relabel |= n->tainted && !not_ready;
    send_changes(n);
}

void kubelet_node_set_port(struct kubelet_node *n, uint16_t port)
{
    n->port = port;
    n->changed = true;
    send_changes(n);
}

void kubelet_node_add_labels(struct kubelet_node *n, const json_t *labels)
{
    json_object_update(n->labels, (json_t *)labels);
    n->relabel = true;
    send_changes(n);
}

static void register_node(struct kubelet_node *n)
{
    CODEC_AUTO_JSON json_t *node = json_object();
    codec_json_set_str(node, "kind", "Node");
    codec_json_set_str(node, "apiVersion", "v1");
    codec_json_set(node, json_string(n->name), "metadata", "name", NULL);
    codec_json_set(node, labels(n), "metadata", "labels", NULL);
    n->tainted = n->not_ready != NULL;
    if (json_array_size(n->taints) || n->tainted)
        codec_json_set(node, own_taints(n), "spec", "taints", NULL);
    if (n->provider_id)
        codec_json_set(node, json_string(n->provider_id), "spec", "providerID", NULL);
    json_object_set_new(node, "status", status(n));
    n->relabel = false;
    n->node_request = kube_create(n->cluster->client, KUBE_NODES, NULL, node, on_created, n);
}

// --- the lease ---

static json_t *lease_spec(const struct kubelet_node *n)
{
    char now[GS_RFC3339_SIZE];
    json_t *spec = json_object();
    codec_json_set_str(spec, "holderIdentity", n->name);
    codec_json_set_int(spec, "leaseDurationSeconds", LEASE_SECONDS);
    codec_json_set_str(spec, "renewTime", gs_format_rfc3339_micro(gs_unix_us(), now));
    return spec;
}

static void on_lease(void *arg, int code, json_t *body, struct gs_error *err)
{
    struct kubelet_node *n = arg;
    (void)code, (void)body;
    n->lease_request = NULL;
    if (err)
        complain(n, "lease of node", err);
}

static void on_namespace(void *arg, int code, json_t *body, struct gs_error *err)
{
    on_lease(arg, code, body, err); // the next heartbeat finds it
}

static void on_lease_created(void *arg, int code, json_t *body, struct gs_error *err)
{
    struct kubelet_node *n = arg;
    if (code != 404) {
        on_lease(n, code, body, err);
        return;
    }
    gs_error_free(err);
    CODEC_AUTO_JSON json_t *ns = json_pack("{s:s,s:s,s:{s:s}}", "kind", "Namespace", "apiVersion",
                                           "v1", "metadata", "name", "kube-node-lease");
    n->lease_request = kube_create(n->cluster->client, KUBE_NAMESPACES, NULL, ns, on_namespace, n);
}

static void on_renewed(void *arg, int code, json_t *body, struct gs_error *err)
{
    struct kubelet_node *n = arg;
    if (code != 404) {
        on_lease(n, code, body, err);
        return;
    }
    gs_error_free(err);
    CODEC_AUTO_JSON json_t *lease = json_object();
    codec_json_set_str(lease, "kind", "Lease");
    codec_json_set_str(lease, "apiVersion", "coordination.k8s.io/v1");
    codec_json_set(lease, json_string(n->name), "metadata", "name", NULL);
    codec_json_set(lease, json_string("kube-node-lease"), "metadata", "namespace", NULL);
    json_object_set_new(lease, "spec", lease_spec(n));
    n->lease_request =
        kube_create(n->cluster->client, KUBE_LEASES, "kube-node-lease", lease, on_lease_created, n);
}

static void renew_lease(struct kubelet_node *n)
{
    CODEC_AUTO_JSON json_t *patch = json_object();
    json_object_set_new(patch, "spec", lease_spec(n));
    n->lease_request = kube_patch(n->cluster->client, KUBE_LEASES, "kube-node-lease", n->name, NULL,
                                  KUBE_MERGE_PATCH, patch, on_renewed, n);
}

static void on_heartbeat(void *arg)
{
    struct kubelet_node *n = arg;
    if (!n->node_request) {
        if (n->registered)
            send_status(n);
        else
            register_node(n);
    }
    if (!n->lease_request)
        renew_lease(n);
}

struct kubelet_node *kubelet_node_new(struct local_cluster *c,
                                      const struct kubelet_node_config *cfg)
{
    struct kubelet_node *n = gs_alloc(sizeof(*n));
    *n = (struct kubelet_node){
        .cluster = c,
        .name = gs_strdup(cfg->name),
        .address = gs_strdup(cfg->address),
        .provider_id = cfg->provider_id ? gs_strdup(cfg->provider_id) : NULL,
        .not_ready = cfg->not_ready ? gs_strdup(cfg->not_ready) : NULL,
        .control_plane = cfg->control_plane,
        .capacity = cfg->capacity ? json_deep_copy(cfg->capacity) : json_object(),
        .data_dir = gs_strdup(cfg->data_dir),
        .n_gpus = cfg->n_gpus,
        .n_shared = cfg->n_shared,
        .max_pods = cfg->max_pods > 0 ? cfg->max_pods : DEFAULT_MAX_PODS,
        .labels = cfg->labels ? json_deep_copy(cfg->labels) : json_object(),
        .taints = cfg->taints ? json_deep_copy(cfg->taints) : json_array(),
        .conditions = json_array(),
    };
    n->timer = gs_timer_new(c->loop, n);
    gs_timer_repeat(n->timer, on_heartbeat, 0, HEARTBEAT_MS);
    return n;
}

void kubelet_node_free(struct kubelet_node *n)
{
    if (!n)
        return;
    kube_request_cancel(n->node_request);
    kube_request_cancel(n->lease_request);
    gs_timer_free(n->timer);
    json_decref(n->conditions);
    json_decref(n->labels);
    json_decref(n->taints);
    json_decref(n->capacity);
    free(n->name);
    free(n->address);
    free(n->provider_id);
    free(n->not_ready);
    free(n->data_dir);
    free(n);
}
