// SPDX-License-Identifier: Apache-2.0
// Attributes of OTLP messages become labels.
#include "codec/protobuf.h"
#include "engine/remote/remote_private.h"

#include "base/mem.h"

#define MAX_VALUE    ((size_t)128 << 10) // bytes of a value of an attribute
#define STEPS_A_CALL 256                 // of remote_incoming_go_on()

// --- attributes ---

static bool step(struct remote_otlp *x)
{
    if (!x->stopped && ++x->steps % STEPS_A_CALL == 0)
        x->stopped = !remote_incoming_go_on(&x->w);
    return !x->stopped;
}

// The next field of a message, which has been checked. Pauses from time to time, so that no message
// delays the loop. False: there is none, or the request has ended.
bool remote_otlp_next(struct remote_otlp *x, struct gs_slice *message,
                      struct codec_proto_token *ret)
{
    if (!message->len || !step(x))
        return false;
    GS_AUTO_ERROR struct gs_error *err = codec_proto_next(message, ret);
    return !err;
}

// The content of the last field with this number.
struct gs_slice remote_otlp_field_of(struct remote_otlp *x, struct gs_slice message,
                                     unsigned number)
{
    struct gs_slice found = GS_SLICE("");
    struct codec_proto_token t;
    while (remote_otlp_next(x, &message, &t))
        if (t.number == number)
            found = t.bytes;
    return found;
}

uint64_t remote_otlp_bits_of(struct gs_slice bytes)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof(bits) && i < bytes.len; i++)
        bits |= (uint64_t)(unsigned char)bytes.data[i] << 8 * i;
    return bits;
}

double remote_otlp_double_of(struct gs_slice bytes)
{
    uint64_t bits = remote_otlp_bits_of(bytes);
    double v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

static void add_attribute(struct remote_otlp *x, struct remote_attributes *a, struct gs_slice pair)
{
    struct remote_attribute *to =
        &a->items[a->n < REMOTE_MAX_LABELS ? a->n : REMOTE_MAX_LABELS - 1];
    struct codec_proto_token t;
    *to = (struct remote_attribute){GS_SLICE(""), GS_SLICE("")};
    while (remote_otlp_next(x, &pair, &t)) {
        if (t.number == OTLP_KEY)
            to->key = t.bytes;
        else if (t.number == OTLP_VALUE)
            to->value = t.bytes;
    }
    a->n++;
}

void remote_otlp_read_attributes(struct remote_otlp *x, struct gs_slice message, unsigned number,
                                 struct remote_attributes *ret)
{
    struct codec_proto_token t;
    ret->n = 0;
    while (remote_otlp_next(x, &message, &t))
        if (t.number == number)
            add_attribute(x, ret, t.bytes);
}

static size_t n_kept(const struct remote_attributes *a)
{
    return a->n < REMOTE_MAX_LABELS ? a->n : REMOTE_MAX_LABELS;
}

const struct remote_attribute *remote_otlp_find_attribute(const struct remote_attributes *a,
                                                          const char *key)
{
    for (size_t i = 0; i < n_kept(a); i++)
        if (gs_slice_eq_str(a->items[i].key, key))
            return &a->items[i];
    return NULL;
}

static struct gs_error *limit_error(void)
{
    return gs_error_new(GS_ELIMIT, "more than %d attributes, or than %zu bytes of them",
                        REMOTE_MAX_LABELS, REMOTE_OTLP_ARENA);
}

static struct gs_error *keep(struct gs_arena *a, struct gs_slice text, struct gs_slice *ret)
{
    const char *copy = gs_arena_strndup(a, text.data ? text.data : "", text.len);
    if (!copy)
        return limit_error();
    *ret = gs_slice_make(copy, text.len);
    return NULL;
}

struct gs_error *remote_otlp_value(struct gs_arena *a, struct gs_slice value, struct gs_slice *ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (value.len > MAX_VALUE)
        return limit_error();
    remote_otlp_add_value(&text, value);
    return keep(a, gs_buf_slice(&text), ret);
}

// --- sets of labels ---

struct gs_slice *remote_otlp_get_label(struct remote_label_set *s, struct gs_slice name)
{
    for (size_t i = 0; i < s->n; i++)
        if (gs_slice_eq(s->items[i].name, name))
            return &s->items[i].value;
    return NULL;
}

// An empty value removes the label.
void remote_otlp_set_label(struct remote_label_set *s, struct gs_slice name, struct gs_slice value)
{
    struct gs_slice *old = remote_otlp_get_label(s, name);
    if (old && value.len) {
        *old = value;
    } else if (old) {
        size_t at =
            (size_t)((struct metrics_label *)(void *)((char *)old -
                                                      offsetof(struct metrics_label, value)) -
                     s->items);
        s->items[at] = s->items[--s->n];
    } else if (value.len && s->n < REMOTE_MAX_LABELS) {
        s->items[s->n++] = (struct metrics_label){name, value};
    } else if (value.len) {
        s->full = true;
    }
}

static struct gs_error *label_name(const struct remote_otlp *x, struct gs_arena *a,
                                   struct gs_slice key, struct gs_slice *ret)
{
    GS_AUTO_BUF struct gs_buf made = {0};
    struct gs_error *err = remote_otlp_label_name(&x->settings->o, key, &made);
    return err ? err : keep(a, gs_buf_slice(&made), ret);
}

static int compare_attributes(const void *a, const void *b)
{
    const struct remote_attribute *x = a, *y = b;
    return gs_slice_compare(x->key, y->key);
}

static struct gs_error *add_value(struct remote_otlp *x, struct gs_slice name,
                                  struct gs_slice value, struct remote_label_set *ret)
{
    struct gs_slice *old = remote_otlp_get_label(ret, name), both = value;
    if (old && old->len) {
        GS_AUTO_BUF struct gs_buf text = {0};
        gs_buf_add_slice(&text, *old);
        gs_buf_add_char(&text, ';');
        gs_buf_add_slice(&text, value);
        struct gs_error *err = keep(&x->arena, gs_buf_slice(&text), &both);
        if (err)
            return err;
    }
    remote_otlp_set_label(ret, name, both);
    return NULL;
}

// The labels of attributes of a point, or of the resource for target_info. ignored ends with NULL.
struct gs_error *remote_otlp_attribute_labels(struct remote_otlp *x, struct remote_attributes *a,
                                              const char *const *ignored,
                                              struct remote_label_set *ret)
{
    if (a->n > REMOTE_MAX_LABELS)
        return limit_error();
    qsort(a->items, a->n, sizeof(*a->items), compare_attributes);
    for (size_t i = 0; i < a->n; i++) {
        size_t k = 0;
        struct gs_slice name, value;
        while (ignored[k] && !gs_slice_eq_str(a->items[i].key, ignored[k]))
            k++;
        if (ignored[k])
            continue;
        struct gs_error *err = remote_otlp_value(&x->arena, a->items[i].value, &value);
        if (!err && x->settings->o.escape)
            err = label_name(x, &x->arena, a->items[i].key, &name);
        else
            name = a->items[i].key;
        if (!err)
            err = add_value(x, name, value, ret);
        if (err)
            return err;
    }
    return NULL;
}

void remote_otlp_merge(struct remote_label_set *into, const struct remote_label_set *from,
                       bool keep_old)
{
    for (size_t i = 0; i < from->n; i++)
        if (!keep_old || !remote_otlp_get_label(into, from->items[i].name))
            remote_otlp_set_label(into, from->items[i].name, from->items[i].value);
}

// --- resources and scopes ---

static bool is_promoted(const struct engine_config_otlp *o, struct gs_slice key)
{
    for (size_t i = 0; i < o->n_attributes; i++)
        if (gs_slice_eq_str(key, o->attributes[i]))
            return !o->promote_all;
    return o->promote_all;
}

// job and instance.
static struct gs_error *read_identity(struct remote_otlp *x)
{
    const struct remote_attribute *name = remote_otlp_find_attribute(&x->resource, "service.name");
    const struct remote_attribute *space =
        remote_otlp_find_attribute(&x->resource, "service.namespace");
    const struct remote_attribute *instance =
        remote_otlp_find_attribute(&x->resource, "service.instance.id");
    struct gs_slice value;
    struct gs_error *err = NULL;
    x->identity.n = 0;
    if (name) {
        GS_AUTO_BUF struct gs_buf job = {0};
        if (space)
            err = remote_otlp_value(&x->scope_arena, space->value, &value);
        if (space && !err) {
            gs_buf_add_slice(&job, value);
            gs_buf_add_char(&job, '/');
        }
        if (!err)
            err = remote_otlp_value(&x->scope_arena, name->value, &value);
        if (!err) {
            gs_buf_add_slice(&job, value);
            err = keep(&x->scope_arena, gs_buf_slice(&job), &value);
        }
        if (!err)
            remote_otlp_set_label(&x->identity, GS_SLICE("job"), value);
    }
    if (!err && instance) {
        err = remote_otlp_value(&x->scope_arena, instance->value, &value);
        if (!err)
            remote_otlp_set_label(&x->identity, GS_SLICE("instance"), value);
    }
    return err;
}

struct gs_error *remote_otlp_read_resource(struct remote_otlp *x, struct gs_slice message)
{
    remote_otlp_read_attributes(x, message, OTLP_RESOURCE_ATTRIBUTES, &x->resource);
    x->resource_labels.n = 0;
    if (x->resource.n > REMOTE_MAX_LABELS)
        return limit_error();
    for (size_t i = 0; i < x->resource.n; i++) {
        struct gs_slice name, value;
        if (!is_promoted(&x->settings->o, x->resource.items[i].key))
            continue;
        struct gs_error *err = label_name(x, &x->scope_arena, x->resource.items[i].key, &name);
        if (!err)
            err = remote_otlp_value(&x->scope_arena, x->resource.items[i].value, &value);
        if (err)
            return err;
        remote_otlp_set_label(&x->resource_labels, name, value);
    }
    return read_identity(x);
}

struct gs_error *remote_otlp_read_scope(struct remote_otlp *x, struct gs_slice scope_metrics)
{
    struct gs_slice scope = remote_otlp_field_of(x, scope_metrics, OTLP_SCOPE);
    struct gs_slice name = remote_otlp_field_of(x, scope, OTLP_SCOPE_NAME);
    struct remote_label_set *s = &x->scope_labels;
    s->n = 0;
    if (!x->settings->o.promote_scope || !name.len)
        return NULL;
    remote_otlp_read_attributes(x, scope, OTLP_SCOPE_ATTRIBUTES, &x->scope);
    if (x->scope.n > REMOTE_MAX_LABELS)
        return limit_error();
    for (size_t i = 0; i < x->scope.n; i++) {
        GS_AUTO_BUF struct gs_buf key = {0};
        struct gs_slice label, value;
        gs_buf_add_str(&key, "otel_scope_");
        gs_buf_add_slice(&key, x->scope.items[i].key);
        struct gs_error *err = label_name(x, &x->scope_arena, gs_buf_slice(&key), &label);
        if (!err)
            err = remote_otlp_value(&x->scope_arena, x->scope.items[i].value, &value);
        if (err)
            return err;
        remote_otlp_set_label(s, label, value);
    }
    remote_otlp_set_label(s, GS_SLICE("otel_scope_name"), name);
    remote_otlp_set_label(s, GS_SLICE("otel_scope_version"),
                          remote_otlp_field_of(x, scope, OTLP_SCOPE_VERSION));
    remote_otlp_set_label(s, GS_SLICE("otel_scope_schema_url"),
                          remote_otlp_field_of(x, scope_metrics, OTLP_SCHEMA_URL));
    return NULL;
}
