// SPDX-License-Identifier: Apache-2.0
// The kubelet's PodResources API (v1) on a Unix socket, for exporters: which devices each
// container has.
#include "local/kubelet/kubelet_private.h"

#include "base/arena.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/podresources.pb-c.h"
#include "local/kubelet/pod_worker.h"
#include "local/pod.h"
#include "net/grpc/grpc.h"

// The resources of a node, in the order of a reply.
static const char *const resources[] = {LOCAL_GPU, LOCAL_GPU_SHARED};
enum { N_RESOURCES = 2 };

struct kubelet_podresources {
    struct kubelet *k;
    struct grpc_server *server;
};

// All parts of a reply live in one arena and borrow the strings of the pods.
struct reply {
    struct gs_arena arena;
};

static void *make(struct reply *r, size_t n, size_t size)
{
    void *p = gs_arena_alloc(&r->arena, (n ? n : 1) * size);
    return p ? p : gs_alloc((n ? n : 1) * size); // the arena has no limit: never
}

static Podresources__ContainerDevices *make_devices(struct reply *r, const char *resource,
                                                    char **ids, size_t n)
{
    Podresources__ContainerDevices *d = make(r, 1, sizeof(*d));
    podresources__container_devices__init(d);
    d->resource_name = (char *)(uintptr_t)resource;
    d->device_ids = ids;
    d->n_device_ids = n;
    return d;
}

// An entry for each resource with devices. Returns their number; ret has N_RESOURCES elements.
static size_t group_devices(struct reply *r, const struct kubelet *k, char *const *ids, size_t n,
                            Podresources__ContainerDevices **ret)
{
    size_t n_entries = 0;
    for (size_t s = 0; s < N_RESOURCES; s++) {
        char **list = make(r, n, sizeof(*list));
        size_t used = 0;
        for (size_t i = 0; i < n; i++)
            if ((k->slices_renamed && local_gpu_is_slice(ids[i])) == (s == 1))
                list[used++] = ids[i];
        if (used)
            ret[n_entries++] = make_devices(r, resources[s], list, used);
    }
    return n_entries;
}

static void add_devices(struct reply *r, const struct kubelet *k,
                        Podresources__ContainerResources *out, const json_t *ids)
{
    size_t n = json_array_size(ids), used = 0;
    char **list = make(r, n, sizeof(*list));
    for (size_t i = 0; i < n; i++) {
        const char *id = json_string_value(json_array_get(ids, i));
        if (id)
            list[used++] = (char *)(uintptr_t)id;
    }
    out->devices = make(r, N_RESOURCES, sizeof(*out->devices));
    out->n_devices = group_devices(r, k, list, used, out->devices);
}

// gpus: the parsed LOCAL_ANN_GPUS, NULL without; must live as long as the reply.
static Podresources__PodResources *make_pod(struct reply *r, const struct kubelet_worker *w,
                                            const json_t *gpus)
{
    Podresources__PodResources *p = make(r, 1, sizeof(*p));
    podresources__pod_resources__init(p);
    p->name = w->name;
    p->namespace_ = w->ns;
    p->containers = make(r, w->n_containers, sizeof(*p->containers));
    for (size_t i = 0; i < w->n_containers; i++) {
        const struct kubelet_container *c = &w->containers[i];
        if (c->init && !kubelet_container_is_sidecar(c))
            continue;
        Podresources__ContainerResources *out = make(r, 1, sizeof(*out));
        podresources__container_resources__init(out);
        out->name = c->name;
        add_devices(r, w->k, out, json_object_get(gpus, c->name));
        p->containers[p->n_containers++] = out;
    }
    return p;
}

static json_t *parse_gpus(const struct kubelet_worker *w)
{
    json_t *gpus = NULL;
    const char *text = kube_annotation(w->pod, LOCAL_ANN_GPUS);
    if (text)
        gs_error_free(codec_json_parse(gs_slice_of(text), false, &gpus));
    return gpus;
}

static void send_message(struct grpc_call *call, const ProtobufCMessage *m)
{
    size_t size = protobuf_c_message_get_packed_size(m);
    GS_AUTO_FREE uint8_t *bytes = gs_alloc(size ? size : 1);
    protobuf_c_message_pack(m, bytes);
    grpc_call_send(call, gs_slice_make(bytes, size));
    grpc_call_finish(call, GRPC_OK, "");
}

static void on_list(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    struct kubelet_podresources *s = ctx;
    struct reply r = {0};
    CODEC_AUTO_JSON json_t *kept = json_array(); // the annotations whose strings are used
    Podresources__ListPodResourcesResponse out = PODRESOURCES__LIST_POD_RESOURCES_RESPONSE__INIT;
    (void)request;
    out.pod_resources = make(&r, gs_hmap_len(s->k->workers), sizeof(*out.pod_resources));
    size_t pos = 0;
    void *value;
    struct gs_slice key;
    while (gs_hmap_next(s->k->workers, &pos, &key, &value)) {
        const struct kubelet_worker *w = value;
        if (w->finished || w->gone)
            continue;
        json_t *gpus = parse_gpus(w);
        if (gpus)
            json_array_append_new(kept, gpus);
        out.pod_resources[out.n_pod_resources++] = make_pod(&r, w, gpus);
    }
    send_message(call, &out.base);
    gs_arena_finish(&r.arena);
}

static void on_allocatable(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    struct kubelet_podresources *s = ctx;
    struct reply r = {0};
    Podresources__AllocatableResourcesResponse out =
        PODRESOURCES__ALLOCATABLE_RESOURCES_RESPONSE__INIT;
    const struct kubelet_words *ids = &s->k->device_ids;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    (void)request;
    Podresources__ContainerDevices *devices[N_RESOURCES];
    out.devices = devices;
    out.n_devices = group_devices(&r, s->k, ids->items, ids->len, devices);
    out.n_cpu_ids = cpus > 0 ? (size_t)cpus : 0;
    out.cpu_ids = make(&r, out.n_cpu_ids, sizeof(*out.cpu_ids));
    for (size_t i = 0; i < out.n_cpu_ids; i++)
        out.cpu_ids[i] = (int64_t)i;
    send_message(call, &out.base);
    gs_arena_finish(&r.arena);
}

static const struct kubelet_worker *find_pod(const struct kubelet_podresources *s, const char *ns,
                                             const char *name)
{
    const json_t *pod = kube_cache_get(s->k->cluster->pods, ns, name);
    const char *uid = kube_uid(pod);
    const struct kubelet_worker *w = uid ? gs_hmap_get_str(s->k->workers, uid) : NULL;
    return w && !w->finished && !w->gone ? w : NULL;
}

static void on_get(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    struct kubelet_podresources *s = ctx;
    Podresources__GetPodResourcesRequest *in = podresources__get_pod_resources_request__unpack(
        NULL, request.len, (const uint8_t *)request.data);
    if (!in) {
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT,
                         "the request is not a GetPodResourcesRequest");
        return;
    }
    const struct kubelet_worker *w = find_pod(s, in->pod_namespace, in->pod_name);
    if (w) {
        struct reply r = {0};
        CODEC_AUTO_JSON json_t *gpus = parse_gpus(w);
        Podresources__GetPodResourcesResponse out = PODRESOURCES__GET_POD_RESOURCES_RESPONSE__INIT;
        out.pod_resources = make_pod(&r, w, gpus);
        send_message(call, &out.base);
        gs_arena_finish(&r.arena);
    } else {
        GS_AUTO_FREE char *text =
            gs_format("pod %s in namespace %s not found", in->pod_name, in->pod_namespace);
        grpc_call_finish(call, GRPC_UNKNOWN, text); // the code that the kubelet answers with
    }
    podresources__get_pod_resources_request__free_unpacked(in, NULL);
}

struct gs_error *kubelet_podresources_new(struct kubelet *k, const char *socket_path,
                                          struct kubelet_podresources **ret)
{
    struct kubelet_podresources *s = gs_alloc(sizeof(*s));
    s->k = k;
    s->server = grpc_server_new(k->cluster->loop);
    grpc_server_handle(s->server, "/v1.PodResourcesLister/List", on_list, s);
    grpc_server_handle(s->server, "/v1.PodResourcesLister/GetAllocatableResources", on_allocatable,
                       s);
    grpc_server_handle(s->server, "/v1.PodResourcesLister/Get", on_get, s);
    // The same fields, as far as v1alpha1 has them.
    grpc_server_handle(s->server, "/v1alpha1.PodResourcesLister/List", on_list, s);
    struct gs_error *err = grpc_server_listen_unix(s->server, socket_path);
    if (err) {
        kubelet_podresources_free(s);
        return gs_error_wrap(err, "serving PodResources");
    }
    *ret = s;
    return NULL;
}

void kubelet_podresources_free(struct kubelet_podresources *r)
{
    if (!r)
        return;
    grpc_server_free(r->server);
    free(r);
}
