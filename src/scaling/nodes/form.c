// SPDX-License-Identifier: Apache-2.0
// Forms: what pods with equal requirements share. A form is found by a text of everything that the
// filters read of a pod.
#include "base/mem.h"
#include "kube/object.h"
#include "nodes/nodes_private.h"

uint32_t nodes_intern(struct nodes_names *n, struct gs_slice text)
{
    if (!n->numbers)
        n->numbers = gs_hmap_new(NULL);
    uintptr_t at = (uintptr_t)gs_hmap_get(n->numbers, text);
    if (at)
        return (uint32_t)(at - 1);
    gs_grow(&n->items, &n->cap, n->len, sizeof(*n->items));
    n->items[n->len++] = gs_slice_dup(text);
    gs_hmap_put(n->numbers, text, (void *)(uintptr_t)n->len);
    return (uint32_t)(n->len - 1);
}

void nodes_names_clear(struct nodes_names *n)
{
    for (size_t i = 0; i < n->len; i++)
        free(n->items[i]);
    free(n->items);
    gs_hmap_free(n->numbers);
    *n = (struct nodes_names){0};
}

// --- requests ---

uint32_t nodes_resource_number(struct nodes_snapshot *s, const char *name)
{
    uint32_t number = nodes_intern(&s->resources, gs_slice_of(name));
    while (s->columns_cap <= number) {
        size_t before = s->columns_cap;
        gs_grow(&s->columns, &s->columns_cap, s->columns_cap, sizeof(*s->columns));
        for (size_t i = before; i < s->columns_cap; i++)
            s->columns[i] = -1;
    }
    return number;
}

static int compare_amounts(const void *pa, const void *pb)
{
    const struct nodes_amount *a = pa, *b = pb;
    return a->name < b->name ? -1 : a->name > b->name;
}

static size_t take_requests(struct nodes_snapshot *s, const struct nodes_sum *sum,
                            struct nodes_amount *out)
{
    size_t n = 0;
    for (size_t i = 0; i < sum->len; i++)
        if (sum->items[i].milli > 0)
            out[n++] = (struct nodes_amount){nodes_resource_number(s, sum->items[i].name),
                                             sum->items[i].milli};
    if (n)
        qsort(out, n, sizeof(*out), compare_amounts);
    return n;
}

// --- host ports ---

static void add_ports(struct gs_buf *b, const json_t *containers)
{
    size_t i, k;
    json_t *container, *port;
    json_array_foreach ((json_t *)containers, i, container) {
        json_array_foreach (json_object_get(container, "ports"), k, port) {
            int64_t number = codec_json_int(port, 0, "hostPort", NULL);
            const char *protocol = codec_json_str(port, "protocol", NULL);
            if (number > 0)
                gs_buf_addf(b, "%s/%lld ", protocol ? protocol : "TCP", (long long)number);
        }
    }
}

static void split_ports(struct nodes_form *f, struct gs_slice text)
{
    size_t cap = 0;
    while (text.len) {
        struct gs_slice one = gs_slice_cut(&text, ' ');
        gs_grow(&f->ports, &cap, f->n_ports, sizeof(*f->ports));
        f->ports[f->n_ports++] = gs_slice_dup(one);
    }
}

// --- the text of a form ---

static void add_json(struct gs_buf *b, const json_t *value)
{
    if (value && (json_object_size(value) || json_array_size(value)))
        codec_json_dump(value, b);
    gs_buf_add_char(b, '\n');
}

static const json_t *required_terms(const json_t *pod, const char *kind)
{
    return codec_json_get(pod, "spec", "affinity", kind,
                          "requiredDuringSchedulingIgnoredDuringExecution", NULL);
}

// What rules between pods read. Without such rules, neither labels nor the namespace matter.
static void add_rules(struct gs_buf *b, const json_t *pod)
{
    const json_t *parts[] = {codec_json_get(pod, "spec", "topologySpreadConstraints", NULL),
                             required_terms(pod, "podAffinity"),
                             required_terms(pod, "podAntiAffinity")};
    bool any = false;
    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++) {
        add_json(b, parts[i]);
        any |= json_array_size(parts[i]) > 0;
    }
    if (!any)
        return;
    const char *ns = kube_namespace(pod);
    gs_buf_addf(b, "%s\n", ns ? ns : "");
    add_json(b, codec_json_get(pod, "metadata", "labels", NULL));
}

static struct nodes_form *form_new(struct nodes_snapshot *s, const json_t *pod,
                                   const struct nodes_amount *requests, size_t n)
{
    struct nodes_form *f = gs_alloc(sizeof(*f));
    f->pod = pod;
    f->requests = gs_alloc_array(n + 1, sizeof(*requests));
    if (n)
        memcpy(f->requests, requests, n * sizeof(*requests));
    f->n_requests = n;
    f->rules = nodes_rules_new(s, pod);
    return f;
}

void nodes_form_free(struct nodes_form *f)
{
    if (!f)
        return;
    free(f->requests);
    free(f->verdicts);
    nodes_rules_free(f->rules);
    for (size_t i = 0; i < f->n_ports; i++)
        free(f->ports[i]);
    free(f->ports);
    free(f);
}

size_t nodes_form_of(struct nodes_snapshot *s, const json_t *pod)
{
    struct nodes_sum sum;
    nodes_sum_init(&sum);
    nodes_sum_of_pod(&sum, pod);
    GS_AUTO_FREE struct nodes_amount *requests = gs_alloc_array(sum.len + 1, sizeof(*requests));
    size_t n = take_requests(s, &sum, requests);
    nodes_sum_finish(&sum);

    struct gs_buf *b = &s->scratch;
    gs_buf_clear(b);
    add_ports(b, codec_json_get(pod, "spec", "containers", NULL));
    size_t ports_len = b->len;
    for (size_t i = 0; i < n; i++)
        gs_buf_addf(b, "%u=%lld,", requests[i].name, (long long)requests[i].milli);
    gs_buf_add_char(b, '\n');
    add_json(b, codec_json_get(pod, "spec", "nodeSelector", NULL));
    add_json(b, codec_json_get(pod, "spec", "affinity", "nodeAffinity",
                               "requiredDuringSchedulingIgnoredDuringExecution", NULL));
    add_json(b, codec_json_get(pod, "spec", "tolerations", NULL));
    add_rules(b, pod);

    uintptr_t at = (uintptr_t)gs_hmap_get(s->form_numbers, gs_buf_slice(b));
    if (at)
        return at - 1;
    struct nodes_form *f = form_new(s, pod, requests, n);
    split_ports(f, gs_slice_make(b->data, ports_len ? ports_len - 1 : 0));
    gs_grow(&s->forms, &s->forms_cap, s->n_forms, sizeof(*s->forms));
    s->forms[s->n_forms++] = f;
    gs_hmap_put(s->form_numbers, gs_buf_slice(b), (void *)(uintptr_t)s->n_forms);
    return s->n_forms - 1;
}
