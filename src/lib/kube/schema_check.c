// SPDX-License-Identifier: Apache-2.0
// Checks an object against its type. Two paths are tracked: the path in texts about unknown fields
// (spec.containers[0].foo), and the path of Go's decoder (spec.containers.foo).
#include "kube/schema.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/quantity.h"

struct walk {
    bool drop;
    kube_schema_problem_fn *found;
    void *arg;
    struct gs_buf shown, go;
    const struct kube_type *owner; // the Go struct whose field is checked
    const json_t *twin, *outer_twin;
};

static void truncate_to(struct gs_buf *b, size_t len)
{
    if (!b->data)
        return;
    b->len = len;
    b->data[len] = '\0';
}

static void push_path(struct gs_buf *b, const char *name)
{
    if (b->len)
        gs_buf_add_char(b, '.');
    gs_buf_add_str(b, name);
}

// p has what is wrong.
static void report_problem(struct walk *w, struct kube_schema_problem p)
{
    p.path = w->shown.data ? w->shown.data : "";
    p.twin = w->twin;
    p.outer_twin = w->outer_twin;
    w->found(w->arg, &p);
}

// Converts "io.k8s.api.core.v1.PodSpec" to Go's name v1.PodSpec.
static const char *go_type_name(const struct kube_type *t, bool with_package)
{
    const char *last = strrchr(t->name, '.');
    const char *from = last ? last + 1 : t->name;
    if (with_package && last) {
        for (from = last; from > t->name && from[-1] != '.'; from--)
            ;
    }
    return from;
}

static void go_type(enum kube_field_kind kind, const struct kube_field *f, struct gs_buf *out)
{
    static const char *const names[] = {
        [KUBE_F_STRING] = "string",
        [KUBE_F_INT] = "int32",
        [KUBE_F_INT64] = "int64",
        [KUBE_F_NUMBER] = "float64",
        [KUBE_F_BOOL] = "bool",
        [KUBE_F_BYTES] = "[]uint8",
        [KUBE_F_QUANTITY] = "resource.Quantity",
        [KUBE_F_INTORSTR] = "intstr.IntOrString",
        [KUBE_F_TIME] = "v1.Time",
        [KUBE_F_ANY] = "runtime.RawExtension",
    };
    if (kind == KUBE_F_OBJECT) {
        gs_buf_add_str(out, go_type_name(f->type, true));
    } else if (kind == KUBE_F_LIST || kind == KUBE_F_MAP) {
        gs_buf_add_str(out, kind == KUBE_F_LIST ? "[]" : "map[string]");
        go_type(f->item, f, out);
    } else {
        gs_buf_add_str(out, names[kind]);
    }
}

static const char *json_type_name(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "object";
    case JSON_ARRAY:
        return "array";
    case JSON_STRING:
        return "string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "bool";
    case JSON_NULL:
        break;
    }
    return "null";
}

static void type_error(struct walk *w, const json_t *v, bool show_value, const char *type)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_addf(&text, "json: cannot unmarshal %s", json_type_name(v));
    if (show_value) {
        GS_AUTO_FREE char *value = codec_json_text(v);
        gs_buf_addf(&text, " %s", value);
    }
    if (w->owner && w->go.len)
        gs_buf_addf(&text, " into Go struct field %s.%s of type %s", go_type_name(w->owner, false),
                    w->go.data, type);
    else
        gs_buf_addf(&text, " into Go value of type %s", type);
    report_problem(w, (struct kube_schema_problem){.text = text.data, .wanted = type});
}

static void plain_error(struct walk *w, const char *fmt, ...) GS_PRINTF(2, 3);
static void plain_error(struct walk *w, const char *fmt, ...)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    gs_buf_vaddf(&text, fmt, ap);
    va_end(ap);
    report_problem(w, (struct kube_schema_problem){.text = text.data});
}

static void check_int(struct walk *w, const json_t *v, int64_t min, int64_t max, const char *type)
{
    if (json_is_integer(v) && json_integer_value(v) >= min && json_integer_value(v) <= max)
        return;
    type_error(w, v, json_is_number(v), type);
}

static void check_bytes(struct walk *w, const json_t *v)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (!json_is_string(v)) {
        type_error(w, v, false, "[]uint8");
        return;
    }
    const char *s = json_string_value(v);
    size_t n = 0, padding = 0;
    for (; s[n]; n++) {
        padding += s[n] == '=';
        if ((s[n] != '=' && (padding || !strchr(alphabet, s[n]))) || padding > 2)
            break;
    }
    if (s[n] || n % 4)
        plain_error(w, "illegal base64 data at input byte %zu", s[n] ? n : n - n % 4);
}

static void check_time(struct walk *w, const json_t *v)
{
    if (!json_is_string(v)) {
        type_error(w, v, false, "string");
        return;
    }
    int64_t ms;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_rfc3339(gs_slice_of(json_string_value(v)), &ms);
    if (err)
        plain_error(w,
                    "parsing time \"%s\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"%s\" as "
                    "\"2006\"",
                    json_string_value(v), json_string_value(v));
}

static void check_quantity(struct walk *w, const json_t *v)
{
    GS_AUTO_FREE char *number = json_is_string(v) ? NULL : codec_json_text(v);
    const char *text = json_is_string(v) ? json_string_value(v) : number ? number : "";
    int64_t milli;
    GS_AUTO_ERROR struct gs_error *err =
        kube_quantity_parse_milli(gs_slice_trim(gs_slice_of(text)), &milli);
    if (err)
        plain_error(w, "%s", gs_error_message(err));
}

static void check_scalar(struct walk *w, enum kube_field_kind kind, const json_t *v)
{
    switch (kind) {
    case KUBE_F_STRING:
        if (!json_is_string(v))
            type_error(w, v, false, "string");
        break;
    case KUBE_F_BOOL:
        if (!json_is_boolean(v))
            type_error(w, v, false, "bool");
        break;
    case KUBE_F_NUMBER:
        if (!json_is_number(v))
            type_error(w, v, false, "float64");
        break;
    case KUBE_F_INT:
        check_int(w, v, INT32_MIN, INT32_MAX, "int32");
        break;
    case KUBE_F_INT64:
        check_int(w, v, INT64_MIN, INT64_MAX, "int64");
        break;
    case KUBE_F_INTORSTR:
        if (!json_is_string(v))
            check_int(w, v, INT32_MIN, INT32_MAX, "int32");
        break;
    case KUBE_F_BYTES:
        check_bytes(w, v);
        break;
    case KUBE_F_TIME:
        check_time(w, v);
        break;
    case KUBE_F_QUANTITY:
        check_quantity(w, v);
        break;
    case KUBE_F_OBJECT:
    case KUBE_F_LIST:
    case KUBE_F_MAP:
    case KUBE_F_ANY:
        break;
    }
}

static void check_object(struct walk *w, const struct kube_type *t, json_t *obj);
static void check_value(struct walk *w, enum kube_field_kind kind, const struct kube_field *f,
                        json_t *v);

// Checks an item of a list or map, whose twin is given.
static void check_item(struct walk *w, const struct kube_field *f, json_t *item, const json_t *twin)
{
    const json_t *at = w->twin, *outer = w->outer_twin;
    w->outer_twin = at;
    w->twin = twin;
    check_value(w, f->item, f, item);
    w->twin = at;
    w->outer_twin = outer;
}

static void check_value(struct walk *w, enum kube_field_kind kind, const struct kube_field *f,
                        json_t *v)
{
    if (json_is_null(v))
        return;
    bool fits = (kind != KUBE_F_OBJECT && kind != KUBE_F_MAP) || json_is_object(v);
    if (!fits || (kind == KUBE_F_LIST && !json_is_array(v))) {
        GS_AUTO_BUF struct gs_buf type = {0};
        go_type(kind, f, &type);
        type_error(w, v, false, type.data);
        return;
    }
    size_t shown = w->shown.len;
    if (kind == KUBE_F_OBJECT) {
        check_object(w, f->type, v);
    } else if (kind == KUBE_F_LIST) {
        size_t i;
        json_t *item;
        json_array_foreach (v, i, item) {
            gs_buf_addf(&w->shown, "[%zu]", i);
            check_item(w, f, item, json_array_get(w->twin, i));
            truncate_to(&w->shown, shown);
        }
    } else if (kind == KUBE_F_MAP) {
        const char *key;
        json_t *item;
        json_object_foreach (v, key, item) {
            push_path(&w->shown, key);
            check_item(w, f, item, json_object_get(w->twin, key));
            truncate_to(&w->shown, shown);
        }
    } else {
        check_scalar(w, kind, v);
    }
}

static void check_object(struct walk *w, const struct kube_type *t, json_t *obj)
{
    const struct kube_type *outer = w->owner;
    const json_t *at = w->twin, *outer_twin = w->outer_twin;
    size_t shown = w->shown.len, go = w->go.len;
    const char *key;
    json_t *v;
    void *next;
    w->outer_twin = at;
    json_object_foreach_safe (obj, next, key, v) {
        push_path(&w->shown, key);
        w->twin = json_object_get(at, key);
        const struct kube_field *f = kube_schema_field(t, key);
        if (f) {
            push_path(&w->go, key);
            w->owner = t;
            check_value(w, f->kind, f, v);
            w->owner = outer;
        } else {
            GS_AUTO_BUF struct gs_buf text = {0};
            gs_buf_addf(&text, "unknown field \"%s\"", w->shown.data);
            report_problem(
                w, (struct kube_schema_problem){.text = text.data, .owner = t, .field = key});
        }
        truncate_to(&w->shown, shown);
        truncate_to(&w->go, go);
        if (w->drop && (!f || json_is_null(v)))
            json_object_del(obj, key);
    }
    w->twin = at;
    w->outer_twin = outer_twin;
}

static void walk_document(struct walk *w, const struct kube_type *t, json_t *obj)
{
    if (json_is_object(obj))
        check_object(w, t, obj);
    else
        type_error(w, obj, false, go_type_name(t, true));
    gs_buf_finish(&w->shown);
    gs_buf_finish(&w->go);
}

void kube_schema_visit(const struct kube_type *t, const json_t *obj, const json_t *twin,
                       kube_schema_problem_fn *found, void *arg)
{
    struct walk w = {.found = found, .arg = arg, .twin = twin, .outer_twin = twin};
    walk_document(&w, t, (json_t *)(uintptr_t)obj); // without `drop`, it is only read
}

struct problem_lists {
    json_t *unknown, *type_errors;
};

static void add_to_lists(void *arg, const struct kube_schema_problem *p)
{
    const struct problem_lists *lists = arg;
    json_t *list = p->owner ? lists->unknown : lists->type_errors;
    if (json_array_size(list) < KUBE_SCHEMA_MAX_PROBLEMS)
        json_array_append_new(list, json_string_nocheck(p->text));
}

void kube_schema_check(const struct kube_type *t, json_t *obj, bool drop, json_t *ret_unknown,
                       json_t *ret_type_errors)
{
    struct problem_lists lists = {ret_unknown, ret_type_errors};
    struct walk w = {.drop = drop, .found = add_to_lists, .arg = &lists};
    walk_document(&w, t, obj);
}
