// SPDX-License-Identifier: Apache-2.0
// Reads BestOptionsRequest of the Cluster Autoscaler's expander.proto. Releases up to 1.33 send
// objects as messages, 1.34 sends both forms, and 1.35 and later send bytes. Nothing is decoded
// more than needed: a request of a large cluster has the same pods in each option, so equal pods
// are found by their bytes.
#include "base/hmap.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "codec/protobuf.h"
#include "expander/expander_private.h"

// Fields of the messages.
enum { REQUEST_OPTION = 1, REQUEST_NODE = 2, REQUEST_NODE_BYTES = 3 };
enum { OPTION_GROUP = 1, OPTION_NODES = 2, OPTION_POD = 4, OPTION_POD_BYTES = 5 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };

struct counts {
    size_t options, references;
    bool old, new;
};

// The pods of all options. Options share most of their pods, so each is kept once.
struct pods {
    struct gs_slice *items;
    size_t len;
    uint32_t *slots; // index + 1; a power of two of them
    size_t n_slots;
};

// --- counting ---

static struct gs_error *count_option(struct gs_slice option, struct counts *c)
{
    size_t old = 0, new = 0;
    while (option.len) {
        struct codec_proto_token t;
        struct gs_error *err = codec_proto_next(&option, &t);
        if (err)
            return err;
        old += t.number == OPTION_POD;
        new += t.number == OPTION_POD_BYTES;
    }
    c->options++;
    c->references += new ? new : old;
    c->old |= old > 0;
    c->new |= new > 0;
    return NULL;
}

static struct gs_error *count(struct gs_slice message, struct counts *ret)
{
    while (message.len) {
        struct codec_proto_token t;
        struct gs_error *err = codec_proto_next(&message, &t);
        if (!err && t.number == REQUEST_OPTION)
            err = count_option(t.bytes, ret);
        if (err)
            return err;
        ret->old |= t.number == REQUEST_NODE;
        ret->new |= t.number == REQUEST_NODE_BYTES;
    }
    return NULL;
}

static struct gs_error *check_counts(const struct counts *c)
{
    if (c->options > EXPANDER_MAX_OPTIONS)
        return gs_error_new(GS_ELIMIT, "the request has %zu options; the limit is %d", c->options,
                            EXPANDER_MAX_OPTIONS);
    if (c->references > EXPANDER_MAX_REFERENCES)
        return gs_error_new(GS_ELIMIT, "the options have %zu pods; the limit is %d", c->references,
                            EXPANDER_MAX_REFERENCES);
    return NULL;
}

// --- pods ---

static void init_pods(struct pods *p, size_t references, struct gs_arena *a)
{
    size_t max = references < EXPANDER_MAX_PODS ? references : EXPANDER_MAX_PODS;
    p->n_slots = 16;
    while (p->n_slots < 2 * max)
        p->n_slots *= 2;
    p->slots = gs_arena_alloc(a, p->n_slots * sizeof(*p->slots));
    p->items = gs_arena_alloc(a, (max + 1) * sizeof(*p->items));
}

static struct gs_error *find_pod(struct pods *p, struct gs_slice pod, size_t *ret)
{
    size_t slot = gs_hash(pod.data, pod.len) & (p->n_slots - 1);
    while (p->slots[slot] && !gs_slice_eq(p->items[p->slots[slot] - 1], pod))
        slot = (slot + 1) & (p->n_slots - 1);
    if (!p->slots[slot]) {
        if (p->len == EXPANDER_MAX_PODS)
            return gs_error_new(GS_ELIMIT, "the request has more than %d pods", EXPANDER_MAX_PODS);
        p->items[p->len++] = pod;
        p->slots[slot] = (uint32_t)p->len;
    }
    *ret = p->slots[slot] - 1;
    return NULL;
}

// --- options and templates ---

static struct gs_error *wrong_wire(const char *field)
{
    return gs_error_new(GS_EPROTO, "field %s of the request has the wrong wire type", field);
}

static struct gs_error *read_group(const struct codec_proto_token *t,
                                   struct expander_request_option *o)
{
    if (t->wire != CODEC_PROTO_BYTES)
        return wrong_wire("nodeGroupId");
    if (t->bytes.len > EXPANDER_MAX_GROUP)
        return gs_error_new(GS_ELIMIT, "the ID of a node group has %zu bytes; the limit is %d",
                            t->bytes.len, EXPANDER_MAX_GROUP);
    bool printable = codec_utf8_valid_prefix(t->bytes) == t->bytes.len;
    for (size_t i = 0; i < t->bytes.len; i++)
        printable &= (unsigned char)t->bytes.data[i] >= 0x20 && t->bytes.data[i] != 0x7f;
    if (!printable)
        return gs_error_new(GS_EPROTO, "the ID of a node group is not printable UTF-8");
    o->group = t->bytes;
    return NULL;
}

// pods NULL: only the ID and the number of nodes.
static struct gs_error *read_option(struct gs_slice option, struct pods *pods, struct gs_arena *a,
                                    struct expander_request_option *ret)
{
    struct counts c = {0};
    struct gs_error *err = count_option(option, &c);
    uint64_t pod_field = c.new ? OPTION_POD_BYTES : OPTION_POD;
    if (pods && !err)
        ret->pods = gs_arena_alloc(a, (c.references + 1) * sizeof(*ret->pods));
    while (!err && option.len) {
        struct codec_proto_token t;
        err = codec_proto_next(&option, &t);
        if (err)
            return err;
        if (t.number == OPTION_GROUP)
            err = read_group(&t, ret);
        else if (t.number == OPTION_NODES && t.wire == CODEC_PROTO_VARINT)
            ret->nodes = (int32_t)t.varint;
        else if (pods && t.number == pod_field && t.wire == CODEC_PROTO_BYTES)
            err = find_pod(pods, t.bytes, &ret->pods[ret->n_pods++]);
    }
    return err;
}

struct template
{
    struct gs_slice group, node;
};

static struct gs_error *read_entry(struct gs_slice entry, struct template *ret)
{
    while (entry.len) {
        struct codec_proto_token t;
        struct gs_error *err = codec_proto_next(&entry, &t);
        if (err)
            return err;
        if (t.number == ENTRY_KEY && t.wire == CODEC_PROTO_BYTES)
            ret->group = t.bytes;
        else if (t.number == ENTRY_VALUE && t.wire == CODEC_PROTO_BYTES)
            ret->node = t.bytes;
    }
    return NULL;
}

// The map has the templates of all node groups, also of those without an option.
static struct gs_error *read_templates(struct gs_slice message, struct expander_request *r)
{
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *options = gs_hmap_new(NULL);
    for (size_t i = 0; i < r->n_options; i++)
        gs_hmap_put(options, r->options[i].group, &r->options[i]);
    while (message.len) {
        struct codec_proto_token t;
        struct template m = {0};
        struct gs_error *err = codec_proto_next(&message, &t);
        if (!err && (t.number == REQUEST_NODE || t.number == REQUEST_NODE_BYTES))
            err = t.wire == CODEC_PROTO_BYTES ? read_entry(t.bytes, &m) : wrong_wire("nodeMap");
        if (err)
            return err;
        struct expander_request_option *o = m.node.len ? gs_hmap_get(options, m.group) : NULL;
        if (o && (t.number == REQUEST_NODE_BYTES || !o->node.len))
            o->node = m.node;
    }
    // Two options of one group share its template.
    for (size_t i = 0; i < r->n_options; i++) {
        const struct expander_request_option *last = gs_hmap_get(options, r->options[i].group);
        r->options[i].node = last->node;
    }
    return NULL;
}

static struct gs_error *read_options(struct gs_slice message, struct pods *pods,
                                     struct expander_request *r)
{
    struct gs_error *err = NULL;
    while (!err && message.len) {
        struct codec_proto_token t;
        err = codec_proto_next(&message, &t);
        if (!err && t.number == REQUEST_OPTION)
            err = t.wire == CODEC_PROTO_BYTES
                      ? read_option(t.bytes, pods, &r->arena, &r->options[r->n_options++])
                      : wrong_wire("options");
    }
    return err;
}

void expander_request_finish(struct expander_request *r)
{
    gs_arena_finish(&r->arena);
    *r = (struct expander_request){0};
}

struct gs_error *expander_request_read(struct gs_slice message, struct expander_request *ret)
{
    struct expander_request r = {0};
    struct counts c = {0};
    struct pods pods = {0};
    struct gs_error *err = count(message, &c);
    if (!err)
        err = check_counts(&c);
    if (err)
        return err;
    r.form =
        (enum expander_form)((c.old ? EXPANDER_FORM_OLD : 0) | (c.new ? EXPANDER_FORM_NEW : 0));
    r.options = gs_arena_alloc(&r.arena, (c.options + 1) * sizeof(*r.options));
    init_pods(&pods, c.references, &r.arena);
    err = read_options(message, &pods, &r);
    if (!err)
        err = read_templates(message, &r);
    if (err) {
        expander_request_finish(&r);
        return err;
    }
    r.pods = pods.items;
    r.n_pods = pods.len;
    *ret = r;
    return NULL;
}

struct gs_error *expander_request_read_groups(struct gs_slice message, struct expander_request *ret)
{
    struct expander_request r = {0};
    struct counts c = {0};
    struct gs_error *err = count(message, &c);
    if (err)
        return err;
    r.options = gs_arena_alloc(&r.arena, (c.options + 1) * sizeof(*r.options));
    err = read_options(message, NULL, &r);
    if (err) {
        expander_request_finish(&r);
        return err;
    }
    *ret = r;
    return NULL;
}

// The Cluster Autoscaler reads only the ID.
void expander_answer_add(struct gs_buf *out, const struct expander_request_option *o)
{
    GS_AUTO_BUF struct gs_buf option = {0};
    codec_proto_add_bytes(&option, OPTION_GROUP, o->group);
    codec_proto_add_varint(&option, OPTION_NODES, (uint64_t)o->nodes);
    codec_proto_add_bytes(out, REQUEST_OPTION, gs_buf_slice(&option));
}
