// SPDX-License-Identifier: Apache-2.0
// The gRPC methods of the externalgrpc cloud provider. All answers come from memory; calls that
// change the target return when the change is on the disk.
#include "base/log.h"
#include "base/mem.h"
#include "node_provider/service_private.h"

#define SERVICE "/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/"

enum { CLASS_OUT_OF_RESOURCES = 1, CLASS_OTHER = 99 };
enum { STATE_RUNNING = 1, STATE_CREATING = 2, STATE_DELETING = 3 };

// --- answers ---

void node_provider_answer(struct grpc_call *call, const ProtobufCMessage *message)
{
    GS_AUTO_FREE uint8_t *bytes = gs_alloc(protobuf_c_message_get_packed_size(message) + 1);
    const size_t n = protobuf_c_message_pack(message, bytes);
    grpc_call_send(call, gs_slice_make(bytes, n));
    grpc_call_finish(call, GRPC_OK, "");
}

static void answer_nothing(struct grpc_call *call)
{
    const Externalgrpc__Empty empty = EXTERNALGRPC__EMPTY__INIT;
    node_provider_answer(call, &empty.base);
}

// Frees the error.
static void answer_error(struct grpc_call *call, struct gs_error *err)
{
    enum grpc_status status = GRPC_INTERNAL;
    if (gs_error_code(err) == GS_EINVAL)
        status = GRPC_INVALID_ARGUMENT;
    else if (gs_error_code(err) == GS_EUNAVAIL)
        status = GRPC_UNAVAILABLE;
    else if (gs_error_code(err) == GS_ELIMIT)
        status = GRPC_RESOURCE_EXHAUSTED;
    gs_warn("node-provider", "refused: %s", gs_error_message(err));
    grpc_call_finish(call, status, gs_error_message(err));
    gs_error_free(err);
}

void *node_provider_read_request(struct grpc_call *call, const ProtobufCMessageDescriptor *type,
                                 struct gs_slice request)
{
    ProtobufCMessage *m =
        protobuf_c_message_unpack(type, NULL, request.len, (const uint8_t *)request.data);
    if (!m)
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, "the request is not a valid message");
    return m;
}

struct node_provider_pool *node_provider_find_group(struct node_provider_fleet *f,
                                                    struct grpc_call *call, const char *id)
{
    struct node_provider_pool *p = node_provider_find_pool(f, id);
    if (!p) {
        GS_AUTO_FREE char *text = gs_format("node group %.100s does not exist", id);
        grpc_call_finish(call, GRPC_NOT_FOUND, text);
    }
    return p;
}

struct node_provider_pool *node_provider_read_group(struct node_provider_fleet *f,
                                                    struct grpc_call *call, struct gs_slice request)
{
    NODE_PROVIDER_AUTO_MESSAGE Externalgrpc__GroupRequest *m =
        node_provider_read_request(call, &externalgrpc__group_request__descriptor, request);
    return m ? node_provider_find_group(f, call, m->id) : NULL;
}

// --- groups ---

static void fill_group(Externalgrpc__NodeGroup *g, const struct node_provider_pool *p, char **debug)
{
    externalgrpc__node_group__init(g);
    *debug = gs_format("%s (%zu:%zu)", p->spec->name, p->spec->min, p->spec->max);
    g->id = (char *)p->spec->name;
    g->min_size = (int32_t)p->spec->min;
    g->max_size = (int32_t)p->spec->max;
    g->debug = *debug;
}

static void handle_groups(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    const struct node_provider_fleet *f = ctx;
    (void)request;
    Externalgrpc__NodeGroup *groups = gs_alloc_array(f->n_pools, sizeof(*groups));
    Externalgrpc__NodeGroup **pointers = gs_alloc_array(f->n_pools, sizeof(*pointers));
    char **debug = gs_alloc_array(f->n_pools, sizeof(*debug));
    for (size_t i = 0; i < f->n_pools; i++) {
        fill_group(&groups[i], &f->pools[i], &debug[i]);
        pointers[i] = &groups[i];
    }
    Externalgrpc__NodeGroupsResponse r = EXTERNALGRPC__NODE_GROUPS_RESPONSE__INIT;
    r.n_node_groups = f->n_pools;
    r.node_groups = pointers;
    node_provider_answer(call, &r.base);
    for (size_t i = 0; i < f->n_pools; i++)
        free(debug[i]);
    free(debug);
    free(pointers);
    free(groups);
}

// Nodes that the autoscaler makes up for machines without a Node have the provider ID as name.
struct node_provider_machine *node_provider_machine_of(const struct node_provider_fleet *f,
                                                       const Externalgrpc__Node *node)
{
    struct node_provider_machine *m = NULL;
    if (node)
        m = node_provider_find_machine(f, *node->provider_id ? node->provider_id : node->name);
    return m;
}

static void handle_group_of_node(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    NODE_PROVIDER_AUTO_MESSAGE Externalgrpc__NodeRequest *m =
        node_provider_read_request(call, &externalgrpc__node_request__descriptor, request);
    if (!m)
        return;
    const struct node_provider_machine *machine = node_provider_machine_of(ctx, m->node);
    Externalgrpc__NodeGroup g = EXTERNALGRPC__NODE_GROUP__INIT; // no id: not ours
    GS_AUTO_FREE char *debug = NULL;
    if (machine && machine->step != NODE_PROVIDER_GONE)
        fill_group(&g, machine->pool, &debug);
    Externalgrpc__NodeGroupResponse r = EXTERNALGRPC__NODE_GROUP_RESPONSE__INIT;
    r.node_group = &g;
    node_provider_answer(call, &r.base);
}

static void handle_refresh(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    (void)request;
    if (node_provider_fleet_ready(ctx))
        answer_nothing(call);
    else
        grpc_call_finish(call, GRPC_UNAVAILABLE,
                         "the first list commands have not ended yet; the machines are not known");
}

static void handle_cleanup(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    (void)ctx, (void)request;
    answer_nothing(call);
}

// --- size ---

static void handle_target(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    const struct node_provider_pool *p = node_provider_read_group(ctx, call, request);
    if (!p)
        return;
    Externalgrpc__TargetSizeResponse r = EXTERNALGRPC__TARGET_SIZE_RESPONSE__INIT;
    r.target_size = (int32_t)node_provider_target(p);
    node_provider_answer(call, &r.base);
}

static void change_size(struct node_provider_fleet *f, struct grpc_call *call,
                        struct gs_slice request, int sign,
                        struct gs_error *(*change)(struct node_provider_pool *p, size_t n))
{
    NODE_PROVIDER_AUTO_MESSAGE Externalgrpc__DeltaRequest *m =
        node_provider_read_request(call, &externalgrpc__delta_request__descriptor, request);
    struct node_provider_pool *p = m ? node_provider_find_group(f, call, m->id) : NULL;
    if (!p)
        return;
    const int64_t n = (int64_t)m->delta * sign;
    struct gs_error *err = change(p, n > 0 ? (size_t)n : 0);
    if (err)
        answer_error(call, err);
    else
        answer_nothing(call);
}

static void handle_increase(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    change_size(ctx, call, request, 1, node_provider_increase);
}

static void handle_decrease(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    change_size(ctx, call, request, -1, node_provider_decrease);
}

static void handle_delete(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    NODE_PROVIDER_AUTO_MESSAGE Externalgrpc__DeleteNodesRequest *m =
        node_provider_read_request(call, &externalgrpc__delete_nodes_request__descriptor, request);
    struct node_provider_pool *p = m ? node_provider_find_group(ctx, call, m->id) : NULL;
    if (!p)
        return;
    const char **ids = gs_alloc_array(m->n_nodes + 1, sizeof(*ids));
    for (size_t i = 0; i < m->n_nodes; i++)
        ids[i] = *m->nodes[i]->provider_id ? m->nodes[i]->provider_id : m->nodes[i]->name;
    struct gs_error *err = node_provider_delete(p, ids, m->n_nodes);
    free(ids);
    if (err)
        answer_error(call, err);
    else
        answer_nothing(call);
}

// --- machines ---

struct instance {
    Externalgrpc__Instance instance;
    Externalgrpc__InstanceStatus status;
    Externalgrpc__ErrorInfo error;
};

static int32_t instance_state(const struct node_provider_machine *m)
{
    switch (m->step) {
    case NODE_PROVIDER_CREATED:
        return STATE_RUNNING;
    case NODE_PROVIDER_DELETING:
        return STATE_DELETING;
    default:
        return STATE_CREATING; // with an error: the autoscaler deletes it
    }
}

static void fill_instance(struct instance *i, const struct node_provider_machine *m)
{
    externalgrpc__instance__init(&i->instance);
    externalgrpc__instance_status__init(&i->status);
    externalgrpc__error_info__init(&i->error);
    i->instance.id = m->provider_id;
    i->instance.status = &i->status;
    i->status.instance_state = instance_state(m);
    if (m->step != NODE_PROVIDER_FAILED)
        return;
    i->status.error_info = &i->error;
    i->error.error_code = m->error_code ? m->error_code : (char *)"failed";
    i->error.error_message = m->error_message ? m->error_message : (char *)"";
    i->error.instance_error_class = m->out_of_resources ? CLASS_OUT_OF_RESOURCES : CLASS_OTHER;
}

static void handle_nodes(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    const struct node_provider_pool *p = node_provider_read_group(ctx, call, request);
    if (!p)
        return;
    struct instance *items = gs_alloc_array(p->len + 1, sizeof(*items));
    Externalgrpc__Instance **pointers = gs_alloc_array(p->len + 1, sizeof(*pointers));
    Externalgrpc__NodesResponse r = EXTERNALGRPC__NODES_RESPONSE__INIT;
    for (size_t i = 0; i < p->len; i++) {
        if (p->machines[i]->step == NODE_PROVIDER_GONE)
            continue;
        fill_instance(&items[i], p->machines[i]);
        pointers[r.n_instances++] = &items[i].instance;
    }
    r.instances = pointers;
    node_provider_answer(call, &r.base);
    free(pointers);
    free(items);
}

// --- GPUs ---

static void handle_gpu_label(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    const struct node_provider_fleet *f = ctx;
    (void)request;
    Externalgrpc__GpuLabelResponse r = EXTERNALGRPC__GPU_LABEL_RESPONSE__INIT;
    r.label = (char *)f->config.file->gpu_label;
    node_provider_answer(call, &r.base);
}

static void handle_gpu_types(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    const struct node_provider_fleet *f = ctx;
    (void)request;
    Externalgrpc__GpuTypesResponse__Entry *items = gs_alloc_array(f->n_pools, sizeof(*items));
    Externalgrpc__GpuTypesResponse__Entry **pointers =
        gs_alloc_array(f->n_pools, sizeof(*pointers));
    Externalgrpc__GpuTypesResponse r = EXTERNALGRPC__GPU_TYPES_RESPONSE__INIT;
    for (size_t i = 0; i < f->n_pools; i++) {
        const char *type = f->pools[i].spec->gpu_type;
        bool is_new = *type;
        for (size_t k = 0; k < r.n_gpu_types; k++)
            is_new = is_new && !gs_streq(pointers[k]->key, type);
        if (!is_new)
            continue;
        Externalgrpc__GpuTypesResponse__Entry *e = &items[r.n_gpu_types];
        externalgrpc__gpu_types_response__entry__init(e);
        e->key = (char *)type;
        pointers[r.n_gpu_types++] = e;
    }
    r.gpu_types = pointers;
    node_provider_answer(call, &r.base);
    free(pointers);
    free(items);
}

void node_provider_serve(struct grpc_server *s, struct node_provider_fleet *f)
{
    static const struct {
        const char *path;
        grpc_method_fn fn;
    } methods[] = {
        {SERVICE "NodeGroups", handle_groups},
        {SERVICE "NodeGroupForNode", handle_group_of_node},
        {SERVICE "Refresh", handle_refresh},
        {SERVICE "Cleanup", handle_cleanup},
        {SERVICE "NodeGroupTargetSize", handle_target},
        {SERVICE "NodeGroupIncreaseSize", handle_increase},
        {SERVICE "NodeGroupDecreaseTargetSize", handle_decrease},
        {SERVICE "NodeGroupDeleteNodes", handle_delete},
        {SERVICE "NodeGroupNodes", handle_nodes},
        {SERVICE "GPULabel", handle_gpu_label},
        {SERVICE "GetAvailableGPUTypes", handle_gpu_types},
        {SERVICE "NodeGroupTemplateNodeInfo", node_provider_handle_template},
        {SERVICE "NodeGroupGetOptions", node_provider_handle_options},
        {SERVICE "PricingNodePrice", node_provider_handle_node_price},
        {SERVICE "PricingPodPrice", node_provider_handle_pod_price},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(methods); i++)
        grpc_server_handle(s, methods[i].path, methods[i].fn, f);
}
