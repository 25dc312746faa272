// SPDX-License-Identifier: Apache-2.0
// The contents of a snapshot, and undo.
#include "base/assert.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "nodes/nodes_private.h"

#define UNPLACED UINT32_MAX

struct nodes_snapshot *nodes_snapshot_new(void)
{
    struct nodes_snapshot *s = gs_alloc(sizeof(*s));
    s->by_name = gs_hmap_new(NULL);
    s->form_numbers = gs_hmap_new(NULL);
    s->generation = 1;
    return s;
}

static void node_finish(struct nodes_node *n)
{
    json_decref(n->own ? n->own : (json_t *)n->object);
    gs_hmap_free(n->ports);
}

void nodes_snapshot_free(struct nodes_snapshot *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_nodes; i++)
        node_finish(&s->nodes[i]);
    for (size_t i = 0; i < s->n_forms; i++)
        nodes_form_free(s->forms[i]);
    for (size_t i = 0; i < s->n_pods; i++)
        json_decref((json_t *)s->pods[i].object);
    nodes_topology_free(s->topology);
    gs_hmap_free(s->by_name);
    gs_hmap_free(s->form_numbers);
    nodes_names_clear(&s->resources);
    nodes_names_clear(&s->keys);
    nodes_names_clear(&s->classes);
    nodes_names_clear(&s->verdicts);
    gs_buf_finish(&s->scratch);
    free(s->columns);
    free(s->allocatable);
    free(s->free);
    free(s->forms);
    free(s->nodes);
    free(s->pods);
    free(s->steps);
    free(s);
}

// --- columns ---

static int64_t *regrow(int64_t *old, size_t rows, size_t old_stride, size_t new_rows, size_t stride)
{
    int64_t *out = gs_alloc_array(new_rows * stride + 1, sizeof(*out));
    for (size_t i = 0; i < rows; i++)
        memcpy(out + i * stride, old + i * old_stride, old_stride * sizeof(*out));
    free(old);
    return out;
}

static void reshape(struct nodes_snapshot *s, size_t rows, size_t stride)
{
    s->allocatable = regrow(s->allocatable, s->n_nodes, s->stride, rows, stride);
    s->free = regrow(s->free, s->n_nodes, s->stride, rows, stride);
    s->stride = stride;
}

// Pods that are placed already use the new column, too.
static void recount_column(struct nodes_snapshot *s, uint32_t name, size_t column)
{
    for (size_t i = 0; i < s->n_pods; i++) {
        const struct nodes_pod *p = &s->pods[i];
        const struct nodes_form *f = s->forms[p->form];
        for (size_t k = 0; k < f->n_requests && p->node != UNPLACED; k++) {
            if (f->requests[k].name != name)
                continue;
            int64_t *at = &s->free[p->node * s->stride + column];
            *at = gs_add_clamped(*at, -f->requests[k].milli);
        }
    }
}

static int make_column(struct nodes_snapshot *s, const char *name)
{
    uint32_t number = nodes_resource_number(s, name);
    if (s->columns[number] >= 0)
        return s->columns[number];
    if (s->n_columns == NODES_MAX_RESOURCES)
        return -1;
    size_t column = s->n_columns++;
    if (column >= s->stride)
        reshape(s, s->nodes_cap, s->stride ? s->stride * 2 : 8);
    s->columns[number] = (int16_t)column;
    s->column_names[column] = number;
    recount_column(s, number, column);
    return (int)column;
}

int nodes_column(const struct nodes_snapshot *s, const char *name)
{
    uintptr_t number =
        s->resources.numbers ? (uintptr_t)gs_hmap_get_str(s->resources.numbers, name) : 0;
    return number ? s->columns[number - 1] : -1;
}

// --- nodes ---

static void read_allocatable(struct nodes_snapshot *s, size_t node)
{
    struct nodes_node *n = &s->nodes[node];
    size_t before = s->n_columns;
    const char *name;
    json_t *quantity;
    json_object_foreach (codec_json_get(n->object, "status", "allocatable", NULL), name, quantity) {
        int64_t milli = nodes_milli_of(quantity);
        if (gs_streq(name, "pods")) {
            n->max_pods = n->free_pods = milli / 1000;
            continue;
        }
        // One node cannot use up the columns of the others.
        bool may_add = s->n_columns - before < NODES_MAX_OWN_RESOURCES;
        int column = may_add ? make_column(s, name) : nodes_column(s, name);
        if (column >= 0)
            s->allocatable[node * s->stride + (size_t)column] =
                s->free[node * s->stride + (size_t)column] = milli;
    }
}

static void note(struct nodes_snapshot *s, enum nodes_step_kind kind, size_t pod, size_t node)
{
    if (!s->n_checkpoints)
        return;
    gs_grow(&s->steps, &s->steps_cap, s->n_steps, sizeof(*s->steps));
    s->steps[s->n_steps++] = (struct nodes_step){kind, (uint32_t)pod, (uint32_t)node};
}

static size_t add_node(struct nodes_snapshot *s, struct nodes_node node)
{
    if (s->n_nodes == s->nodes_cap) {
        gs_grow(&s->nodes, &s->nodes_cap, s->n_nodes, sizeof(*s->nodes));
        reshape(s, s->nodes_cap, s->stride ? s->stride : 8);
    }
    size_t index = s->n_nodes;
    memset(s->allocatable + index * s->stride, 0, s->stride * sizeof(int64_t));
    memset(s->free + index * s->stride, 0, s->stride * sizeof(int64_t));
    s->nodes[s->n_nodes++] = node;
    if (node.name && !gs_hmap_get_str(s->by_name, node.name))
        gs_hmap_put_str(s->by_name, node.name, (void *)(uintptr_t)(index + 1));
    read_allocatable(s, index);
    nodes_topology_add_node(s, index);
    note(s, NODES_STEP_ADD_NODE, 0, index);
    return index;
}

size_t nodes_snapshot_add_node(struct nodes_snapshot *s, const json_t *node)
{
    return add_node(
        s, (struct nodes_node){.object = json_incref((json_t *)node), .name = kube_name(node)});
}

// A copy of the parts that change; the rest is shared.
static json_t *renamed(const json_t *node, const char *name)
{
    json_t *out = json_copy((json_t *)node);
    json_t *metadata = json_copy(json_object_get(node, "metadata"));
    json_t *labels = json_copy(json_object_get(metadata, "labels"));
    if (!metadata)
        metadata = json_object();
    if (!labels)
        labels = json_object();
    codec_json_set_str(labels, "kubernetes.io/hostname", name);
    json_object_set_new(metadata, "labels", labels);
    codec_json_set_str(metadata, "name", name);
    json_object_set_new(out, "metadata", metadata);
    return out;
}

size_t nodes_snapshot_add_template(struct nodes_snapshot *s, const json_t *node, const char *name)
{
    json_t *own = name ? renamed(node, name) : NULL;
    const json_t *object = own ? own : json_incref((json_t *)node);
    return add_node(s,
                    (struct nodes_node){
                        .object = object, .name = kube_name(object), .own = own, .template = true});
}

size_t nodes_snapshot_add_parking(struct nodes_snapshot *s)
{
    json_t *node = json_pack("{s:{s:s}, s:{}}", "metadata", "name", "parking", "status");
    size_t index = add_node(s, (struct nodes_node){.object = node, .parking = true});
    nodes_exclude(s, index, true);
    return index;
}

static void pop_node(struct nodes_snapshot *s)
{
    size_t index = s->n_nodes - 1;
    struct nodes_node *n = &s->nodes[index];
    gs_assert(n->n_pods == 0);
    nodes_topology_drop_node(s, index);
    if (n->name && (uintptr_t)gs_hmap_get_str(s->by_name, n->name) == index + 1)
        gs_hmap_remove_str(s->by_name, n->name);
    node_finish(n);
    s->n_nodes--;
}

void nodes_exclude(struct nodes_snapshot *s, size_t node, bool excluded)
{
    struct nodes_node *n = &s->nodes[node];
    if (n->excluded == excluded)
        return;
    if (excluded)
        nodes_topology_drop_node(s, node);
    n->excluded = excluded;
    if (!excluded)
        nodes_topology_add_node(s, node);
    note(s, NODES_STEP_EXCLUDE, 0, node);
}

bool nodes_is_excluded(const struct nodes_snapshot *s, size_t node)
{
    return s->nodes[node].excluded;
}

// --- pods ---

size_t nodes_snapshot_add_pod(struct nodes_snapshot *s, const json_t *pod)
{
    gs_assert(!s->n_checkpoints);
    size_t form = nodes_form_of(s, pod);
    gs_grow(&s->pods, &s->pods_cap, s->n_pods, sizeof(*s->pods));
    size_t index = s->n_pods++;
    s->pods[index] = (struct nodes_pod){json_incref((json_t *)pod), (uint32_t)form, UNPLACED};
    const char *name = kube_pod_node(pod);
    size_t node = name ? nodes_find(s, name) : NODES_NONE;
    if (node != NODES_NONE)
        nodes_place(s, index, node);
    return index;
}

static void use_ports(struct nodes_node *n, const struct nodes_form *f, int sign)
{
    if (!f->n_ports)
        return;
    if (!n->ports)
        n->ports = gs_hmap_new(NULL);
    for (size_t i = 0; i < f->n_ports; i++) {
        uintptr_t uses = (uintptr_t)gs_hmap_get_str(n->ports, f->ports[i]);
        uses = sign > 0 ? uses + 1 : uses - (uses > 0);
        if (uses)
            gs_hmap_put_str(n->ports, f->ports[i], (void *)uses);
        else
            gs_hmap_remove_str(n->ports, f->ports[i]);
    }
}

static void use(struct nodes_snapshot *s, size_t pod, size_t node, int sign)
{
    const struct nodes_form *f = s->forms[s->pods[pod].form];
    struct nodes_node *n = &s->nodes[node];
    int64_t *row = s->free + node * s->stride;
    for (size_t i = 0; i < f->n_requests; i++) {
        int column = s->columns[f->requests[i].name];
        if (column >= 0)
            row[column] = gs_add_clamped(row[column],
                                         sign > 0 ? -f->requests[i].milli : f->requests[i].milli);
    }
    n->free_pods -= sign;
    n->n_pods += (uint32_t)sign;
    use_ports(n, f, sign);
    nodes_topology_count(s, pod, node, sign);
}

void nodes_place(struct nodes_snapshot *s, size_t pod, size_t node)
{
    gs_assert(s->pods[pod].node == UNPLACED && node < s->n_nodes);
    s->pods[pod].node = (uint32_t)node;
    use(s, pod, node, 1);
    note(s, NODES_STEP_PLACE, pod, node);
}

void nodes_unplace(struct nodes_snapshot *s, size_t pod, size_t node)
{
    gs_assert(s->pods[pod].node == node);
    use(s, pod, node, -1);
    s->pods[pod].node = UNPLACED;
    note(s, NODES_STEP_UNPLACE, pod, node);
}

// --- undo ---

size_t nodes_checkpoint(struct nodes_snapshot *s)
{
    s->n_checkpoints++;
    return s->n_steps;
}

void nodes_keep(struct nodes_snapshot *s)
{
    gs_assert(s->n_checkpoints);
    if (!--s->n_checkpoints)
        s->n_steps = 0;
}

void nodes_restore(struct nodes_snapshot *s, size_t checkpoint)
{
    gs_assert(s->n_checkpoints && checkpoint <= s->n_steps);
    size_t depth = s->n_checkpoints - 1;
    s->n_checkpoints = 0; // undoing is not recorded
    while (s->n_steps > checkpoint) {
        struct nodes_step step = s->steps[--s->n_steps];
        switch (step.kind) {
        case NODES_STEP_PLACE:
            nodes_unplace(s, step.pod, step.node);
            break;
        case NODES_STEP_UNPLACE:
            nodes_place(s, step.pod, step.node);
            break;
        case NODES_STEP_ADD_NODE:
            pop_node(s);
            break;
        case NODES_STEP_EXCLUDE:
            nodes_exclude(s, step.node, !s->nodes[step.node].excluded);
            break;
        }
    }
    s->n_checkpoints = depth;
}

// --- access ---

size_t nodes_count(const struct nodes_snapshot *s)
{
    return s->n_nodes;
}

size_t nodes_pod_count(const struct nodes_snapshot *s)
{
    return s->n_pods;
}

const json_t *nodes_node(const struct nodes_snapshot *s, size_t node)
{
    return s->nodes[node].object;
}

const json_t *nodes_pod(const struct nodes_snapshot *s, size_t pod)
{
    return s->pods[pod].object;
}

const char *nodes_name(const struct nodes_snapshot *s, size_t node)
{
    return s->nodes[node].name;
}

size_t nodes_find(const struct nodes_snapshot *s, const char *name)
{
    uintptr_t at = (uintptr_t)gs_hmap_get_str(s->by_name, name);
    return at ? at - 1 : NODES_NONE;
}

size_t nodes_of_pod(const struct nodes_snapshot *s, size_t pod)
{
    return s->pods[pod].node == UNPLACED ? NODES_NONE : s->pods[pod].node;
}

// A counting sort. While it fills `pods`, first[i + 1] is where the next pod of node i goes.
void nodes_pods_by_node(const struct nodes_snapshot *s, size_t **ret_first, size_t **ret_pods)
{
    size_t *first = gs_alloc_array(s->n_nodes + 2, sizeof(*first));
    size_t *pods = gs_alloc_array(s->n_pods + 1, sizeof(*pods));
    for (size_t i = 0; i < s->n_pods; i++)
        if (s->pods[i].node != UNPLACED)
            first[s->pods[i].node + 2]++;
    for (size_t i = 2; i < s->n_nodes + 2; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < s->n_pods; i++)
        if (s->pods[i].node != UNPLACED)
            pods[first[s->pods[i].node + 1]++] = i;
    *ret_first = first;
    *ret_pods = pods;
}

size_t nodes_pod_form(const struct nodes_snapshot *s, size_t pod)
{
    return s->pods[pod].form;
}

int64_t nodes_request(const struct nodes_snapshot *s, size_t pod, const char *resource)
{
    const struct nodes_form *f = s->forms[s->pods[pod].form];
    for (size_t i = 0; i < f->n_requests; i++)
        if (gs_streq(s->resources.items[f->requests[i].name], resource))
            return f->requests[i].milli;
    return 0;
}

int64_t nodes_allocatable(const struct nodes_snapshot *s, size_t node, const char *resource)
{
    int column = nodes_column(s, resource);
    return column < 0 ? 0 : s->allocatable[node * s->stride + (size_t)column];
}

int64_t nodes_free(const struct nodes_snapshot *s, size_t node, const char *resource)
{
    int column = nodes_column(s, resource);
    return column < 0 ? 0 : s->free[node * s->stride + (size_t)column];
}

static size_t whole(int64_t milli)
{
    return milli > 0 ? (size_t)(milli / 1000) : 0;
}

size_t nodes_gpus(const struct nodes_snapshot *s, size_t node)
{
    return whole(nodes_allocatable(s, node, NODES_GPU)) +
           whole(nodes_allocatable(s, node, NODES_GPU_SHARED));
}

size_t nodes_free_gpus(const struct nodes_snapshot *s, size_t node)
{
    return whole(nodes_free(s, node, NODES_GPU)) + whole(nodes_free(s, node, NODES_GPU_SHARED));
}

size_t nodes_pods_on(const struct nodes_snapshot *s, size_t node)
{
    return s->nodes[node].n_pods;
}

size_t nodes_gpu_request(const struct nodes_snapshot *s, size_t pod)
{
    int64_t milli =
        gs_add_clamped(nodes_request(s, pod, NODES_GPU), nodes_request(s, pod, NODES_GPU_SHARED));
    return whole(milli) + (milli % 1000 > 0);
}
