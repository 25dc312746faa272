// SPDX-License-Identifier: Apache-2.0
// Whether a pod fits on a node, in the order of kube-scheduler's filters, and the choice among
// nodes that fit.
#include "base/mem.h"
#include "nodes/nodes_private.h"

// --- reasons ---

void nodes_reasons_add(struct nodes_reasons *r, const char *text, size_t nodes)
{
    for (size_t i = 0; i < r->len; i++) {
        if (gs_streq(r->items[i].text, text)) {
            r->items[i].nodes += nodes;
            return;
        }
    }
    gs_grow(&r->items, &r->cap, r->len, sizeof(*r->items));
    r->items[r->len++] = (struct nodes_reason){gs_strdup(text), nodes};
}

void nodes_reasons_finish(struct nodes_reasons *r)
{
    for (size_t i = 0; i < r->len; i++)
        free(r->items[i].text);
    free(r->items);
    *r = (struct nodes_reasons){0};
}

char *nodes_reasons_text(size_t n_nodes, const struct nodes_reasons *r)
{
    if (n_nodes == 0)
        return gs_strdup("no nodes available to schedule pods");
    GS_AUTO_FREE char **texts = gs_alloc_array(r->len + 1, sizeof(char *));
    for (size_t i = 0; i < r->len; i++)
        texts[i] = gs_format("%zu %s", r->items[i].nodes, r->items[i].text);
    qsort(texts, r->len, sizeof(char *), gs_compare_texts);
    struct gs_buf out = {0};
    gs_buf_addf(&out, "0/%zu nodes are available: ", n_nodes);
    for (size_t i = 0; i < r->len; i++) {
        gs_buf_addf(&out, "%s%s", i ? ", " : "", texts[i]);
        free(texts[i]);
    }
    gs_buf_add_char(&out, '.');
    return gs_buf_take(&out);
}

// --- the filters ---

static bool refuse(struct nodes_reasons *reasons, const char *text)
{
    if (reasons)
        nodes_reasons_add(reasons, text, 1);
    return false;
}

// Storage that a node does not list is not managed there.
static bool unmanaged(const struct nodes_snapshot *s, uint32_t name, int64_t allocatable)
{
    return allocatable == 0 && gs_streq(s->resources.items[name], "ephemeral-storage");
}

static bool has_room(const struct nodes_snapshot *s, const struct nodes_form *f, size_t node,
                     bool empty, struct nodes_reasons *reasons)
{
    const struct nodes_node *n = &s->nodes[node];
    const int64_t *allocatable = s->allocatable + node * s->stride;
    const int64_t *free_row = empty ? allocatable : s->free + node * s->stride;
    bool fits = true;
    if ((empty ? n->max_pods : n->free_pods) < 1)
        fits = refuse(reasons, "Too many pods");
    for (size_t i = 0; i < f->n_requests && (fits || reasons); i++) {
        uint32_t name = f->requests[i].name;
        int column = s->columns[name];
        if (column >= 0 && f->requests[i].milli <= free_row[column])
            continue;
        if (unmanaged(s, name, column >= 0 ? allocatable[column] : 0))
            continue;
        fits = false;
        if (reasons) {
            GS_AUTO_FREE char *text = gs_format("Insufficient %s", s->resources.items[name]);
            refuse(reasons, text);
        }
    }
    return fits;
}

static bool ports_are_free(const struct nodes_node *n, const struct nodes_form *f)
{
    for (size_t i = 0; i < f->n_ports && n->ports; i++)
        if (gs_hmap_get_str(n->ports, f->ports[i]))
            return false;
    return true;
}

bool nodes_fits(struct nodes_snapshot *s, size_t pod, size_t node, struct nodes_reasons *reasons)
{
    struct nodes_form *f = s->forms[s->pods[pod].form];
    const struct nodes_node *n = &s->nodes[node];
    if (n->excluded)
        return false;
    if (!reasons && !has_room(s, f, node, false, NULL)) // the cheapest filter
        return false;
    const char *reason = nodes_static_reason(s, f, node);
    if (reason)
        return refuse(reasons, reason);
    if (!ports_are_free(n, f))
        return refuse(reasons, "node(s) didn't have free ports for the requested pod ports");
    if (reasons && !has_room(s, f, node, false, reasons))
        return false;
    reason = nodes_topology_reason(s, pod, node);
    return reason ? refuse(reasons, reason) : true;
}

bool nodes_fits_empty(struct nodes_snapshot *s, size_t pod, size_t node,
                      struct nodes_reasons *reasons)
{
    struct nodes_form *f = s->forms[s->pods[pod].form];
    const char *reason = nodes_static_reason(s, f, node);
    if (reason)
        return refuse(reasons, reason);
    return has_room(s, f, node, true, reasons);
}

// --- scores ---

static double used_share(const struct nodes_snapshot *s, const struct nodes_form *f, size_t node,
                         int column)
{
    if (column < 0)
        return 0;
    int64_t total = s->allocatable[node * s->stride + (size_t)column];
    int64_t left = s->free[node * s->stride + (size_t)column];
    for (size_t i = 0; i < f->n_requests; i++)
        if (s->columns[f->requests[i].name] == column)
            left -= f->requests[i].milli;
    return total > 0 ? 1 - (double)left / (double)total : 0;
}

// Higher is better.
static double score(const struct nodes_snapshot *s, size_t pod, size_t node,
                    enum nodes_scoring scoring)
{
    const struct nodes_form *f = s->forms[s->pods[pod].form];
    if (scoring == NODES_FIRST)
        return 0;
    if (scoring == NODES_PACK_GPUS) {
        double left = (double)nodes_free_gpus(s, node) - (double)nodes_gpu_request(s, pod);
        return -left * 4096 - (double)nodes_gpus(s, node);
    }
    double used = used_share(s, f, node, nodes_column(s, "cpu")) +
                  used_share(s, f, node, nodes_column(s, "memory"));
    return scoring == NODES_MOST_ALLOCATED ? used : -used;
}

size_t nodes_best(struct nodes_snapshot *s, size_t pod, enum nodes_scoring scoring,
                  struct nodes_reasons *reasons)
{
    size_t best = NODES_NONE;
    double best_score = 0;
    for (size_t node = 0; node < s->n_nodes; node++) {
        if (!nodes_fits(s, pod, node, NULL))
            continue;
        double this_score = score(s, pod, node, scoring);
        if (best == NODES_NONE || this_score > best_score) {
            best = node;
            best_score = this_score;
        }
        if (scoring == NODES_FIRST)
            break;
    }
    for (size_t node = 0; best == NODES_NONE && reasons && node < s->n_nodes; node++)
        nodes_fits(s, pod, node, reasons);
    return best;
}
