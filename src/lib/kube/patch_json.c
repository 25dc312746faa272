// SPDX-License-Identifier: Apache-2.0
// RFC 6902, and the JSON pointers of RFC 6901.
#include "kube/patch.h"

#include "base/mem.h"
#include "base/num.h"

enum {
    MAX_OPERATIONS = 10000,  // kube-apiserver's limit
    MAX_COPIED = 8 << 20,    // bytes that all copy operations together may add
    MAX_MOVED = 64 << 20,    // bytes that all move operations together may handle
    MAX_SHIFTED = 100000000, // items that all insertions and removals in lists together may move
    NODE_COST = 32,          // of a value, in addition to its text
};

struct pointer {
    const char *text;
    char *tokens[CODEC_JSON_MAX_DEPTH];
    size_t len;
};

static void pointer_finish(struct pointer *p)
{
    for (size_t i = 0; i < p->len; i++)
        free(p->tokens[i]);
    p->len = 0;
}
#define AUTO_POINTER GS_CLEANUP(pointer_finish)

static char *unescape_pointer(struct gs_slice s)
{
    char *out = gs_alloc(s.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.data[i];
        if (c == '~') {
            if (++i == s.len || (s.data[i] != '0' && s.data[i] != '1')) {
                free(out);
                return NULL;
            }
            c = s.data[i] == '0' ? '~' : '/';
        }
        out[n++] = c;
    }
    return out;
}

static struct gs_error *pointer_parse(const char *text, struct pointer *p)
{
    p->text = text;
    if (!*text)
        return NULL;
    if (*text != '/')
        return gs_error_new(GS_EINVAL, "JSON pointer \"%s\" does not start with \"/\"", text);
    struct gs_slice rest = gs_slice_of(text + 1);
    while (rest.data) {
        struct gs_slice token = gs_slice_cut(&rest, '/');
        if (p->len == GS_ARRAY_LEN(p->tokens))
            return gs_error_new(GS_ELIMIT, "JSON pointer is more than %d levels deep",
                                CODEC_JSON_MAX_DEPTH);
        char *name = unescape_pointer(token);
        if (!name)
            return gs_error_new(GS_EINVAL, "JSON pointer \"%s\": \"~\" must be followed by 0 or 1",
                                text);
        p->tokens[p->len++] = name;
    }
    return NULL;
}

// An array index without leading zeros, at most max.
static bool read_index(const char *token, size_t max, size_t *ret)
{
    uint64_t v;
    if (token[0] == '0' && token[1])
        return false;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_u64(gs_slice_of(token), max, &v);
    if (err)
        return false;
    *ret = (size_t)v;
    return true;
}

static json_t *pointer_child(const json_t *j, const char *token)
{
    size_t i;
    if (json_is_object(j))
        return json_object_get(j, token);
    if (json_is_array(j) && json_array_size(j) && read_index(token, json_array_size(j) - 1, &i))
        return json_array_get(j, i);
    return NULL;
}

static json_t *descend_pointer(json_t *j, const struct pointer *p, size_t levels)
{
    for (size_t i = 0; j && i < levels; i++)
        j = pointer_child(j, p->tokens[i]);
    return j;
}

static json_t *container_of(json_t *doc, const struct pointer *p)
{
    return descend_pointer(doc, p, p->len - 1);
}

static int depth_of(const json_t *j)
{
    int deepest = 0;
    if (json_is_object(j)) {
        const char *key;
        json_t *v;
        json_object_foreach ((json_t *)j, key, v) {
            int d = depth_of(v);
            deepest = d > deepest ? d : deepest;
        }
    } else if (json_is_array(j)) {
        size_t i;
        json_t *v;
        json_array_foreach (j, i, v) {
            int d = depth_of(v);
            deepest = d > deepest ? d : deepest;
        }
    } else {
        return 0;
    }
    return deepest + 1;
}

static size_t cost_of(const json_t *j)
{
    size_t cost = NODE_COST;
    if (json_is_object(j)) {
        const char *key;
        json_t *v;
        json_object_foreach ((json_t *)j, key, v)
            cost += strlen(key) + cost_of(v);
    } else if (json_is_array(j)) {
        size_t i;
        json_t *v;
        json_array_foreach (j, i, v)
            cost += cost_of(v);
    } else if (json_is_string(j)) {
        cost += json_string_length(j);
    }
    return cost;
}

struct state {
    json_t *doc;
    size_t copied, moved, shifted;
};

// Kubernetes quotes the path for add and remove only.
static struct gs_error *missing_path(const char *op, const char *what, const char *path)
{
    const char *quote = gs_streq(op, "add") || gs_streq(op, "remove") ? "\"" : "";
    return gs_error_new(GS_EINVAL, "%s operation does not apply: %s%s%s%s: missing value", op, what,
                        quote, path, quote);
}

static struct gs_error *bad_index(const char *op, const struct pointer *p)
{
    return gs_error_new(GS_EINVAL,
                        "error in %s for path: '%s': Unable to access invalid index: %s: invalid "
                        "index referenced",
                        op, p->text, p->tokens[p->len - 1]);
}

// Counts the items of a list after index i, which an insertion or a removal moves.
static struct gs_error *count_shifted(struct state *s, const json_t *list, size_t i)
{
    s->shifted += json_array_size(list) - i;
    return s->shifted <= MAX_SHIFTED
               ? NULL
               : gs_error_new(GS_ELIMIT, "operations move more than %d items of lists",
                              MAX_SHIFTED);
}

// Takes value. missing: the error text if the parent does not exist.
static struct gs_error *op_add(struct state *s, const char *op, const char *missing,
                               const struct pointer *p, json_t *value)
{
    if ((int)p->len + depth_of(value) > CODEC_JSON_MAX_DEPTH) {
        json_decref(value);
        return gs_error_new(GS_ELIMIT, "%s operation at \"%s\" nests more than %d levels deep", op,
                            p->text, CODEC_JSON_MAX_DEPTH);
    }
    if (p->len == 0) {
        json_decref(s->doc);
        s->doc = value;
        return NULL;
    }
    json_t *container = container_of(s->doc, p);
    const char *last = p->tokens[p->len - 1];
    size_t i;
    if (json_is_object(container)) {
        json_object_set_new(container, last, value);
        return NULL;
    }
    if (!json_is_array(container)) {
        json_decref(value);
        return missing_path(op, missing, p->text);
    }
    if (strcmp(last, "-") == 0) {
        json_array_append_new(container, value);
        return NULL;
    }
    if (!read_index(last, json_array_size(container), &i)) {
        json_decref(value);
        return bad_index(op, p);
    }
    struct gs_error *err = count_shifted(s, container, i);
    if (err)
        json_decref(value);
    else
        json_array_insert_new(container, i, value);
    return err;
}

static struct gs_error *op_remove(struct state *s, const char *op, const char *missing,
                                  const struct pointer *p)
{
    json_t *container = p->len ? container_of(s->doc, p) : NULL;
    if (!json_is_object(container) && !json_is_array(container))
        return missing_path(op, missing, p->text);
    const char *last = p->tokens[p->len - 1];
    size_t i;
    if (json_is_object(container)) {
        if (json_object_del(container, last) != 0)
            return gs_error_new(GS_EINVAL,
                                "error in %s for path: '%s': Unable to remove nonexistent key: %s: "
                                "missing value",
                                op, p->text, last);
        return NULL;
    }
    if (json_array_size(container) == 0 || !read_index(last, json_array_size(container) - 1, &i))
        return bad_index(op, p);
    struct gs_error *err = count_shifted(s, container, i);
    if (!err)
        json_array_remove(container, i);
    return err;
}

// As in kube-apiserver and unlike the RFC, an absent member of an object is added.
static struct gs_error *op_replace(struct state *s, const struct pointer *p, const json_t *value)
{
    static const char missing[] = "doc is missing path: ";
    json_t *container = p->len ? container_of(s->doc, p) : NULL;
    if (json_is_array(container)) {
        size_t i;
        if (!pointer_child(container, p->tokens[p->len - 1]))
            return missing_path("replace", "doc is missing key: ", p->text);
        if (read_index(p->tokens[p->len - 1], json_array_size(container) - 1, &i))
            json_array_remove(container, i);
    }
    return op_add(s, "replace", missing, p, json_deep_copy(value));
}

static struct gs_error *op_test(const struct state *s, const struct pointer *p, const json_t *value)
{
    const json_t *container = p->len ? container_of(s->doc, p) : NULL;
    if (p->len && !json_is_object(container) && !json_is_array(container))
        return missing_path("test", "is missing path: ", p->text);
    const json_t *have = descend_pointer(s->doc, p, p->len);
    if (!have && json_is_array(container))
        return bad_index("test", p);
    // An absent member equals null, as in kube-apiserver.
    if (have ? json_equal((json_t *)have, (json_t *)value) : json_is_null(value))
        return NULL;
    return gs_error_new(GS_EINVAL, "testing value %s failed: test failed", p->text);
}

static struct gs_error *op_copy(struct state *s, const struct pointer *from,
                                const struct pointer *to)
{
    const json_t *value = descend_pointer(s->doc, from, from->len);
    if (!value)
        return missing_path("copy", "doc is missing from path: ", from->text);
    s->copied += cost_of(value);
    if (s->copied > MAX_COPIED)
        return gs_error_new(GS_ELIMIT,
                            "Unable to complete the copy, the accumulated size increase of copy is "
                            "%zu, exceeding the limit %d",
                            s->copied, MAX_COPIED);
    return op_add(s, "copy", "doc is missing destination path: ", to, json_deep_copy(value));
}

static struct gs_error *op_move(struct state *s, const struct pointer *from,
                                const struct pointer *to)
{
    bool inside = from->len < to->len;
    for (size_t i = 0; inside && i < from->len; i++)
        inside = strcmp(from->tokens[i], to->tokens[i]) == 0;
    if (inside)
        return gs_error_new(GS_EINVAL, "move operation cannot move \"%s\" into itself, to \"%s\"",
                            from->text, to->text);
    if (from->len == 0)
        return NULL; // replaces the whole document by itself
    json_t *value = json_incref(descend_pointer(s->doc, from, from->len));
    s->moved += value ? cost_of(value) : 0;
    if (s->moved > MAX_MOVED) {
        json_decref(value);
        return gs_error_new(GS_ELIMIT, "move operations handle more than %d bytes", MAX_MOVED);
    }
    struct gs_error *err = op_remove(s, "move", "doc is missing from path: ", from);
    if (err) {
        json_decref(value);
        return err;
    }
    return op_add(s, "move", "doc is missing destination path: ", to, value);
}

static struct gs_error *read_pointer(const json_t *operation, const char *member, struct pointer *p)
{
    const char *text = json_string_value(json_object_get(operation, member));
    if (!text)
        return gs_error_new(GS_EINVAL, "operation has no text in \"%s\"", member);
    return pointer_parse(text, p);
}

static struct gs_error *apply_one(struct state *s, const json_t *operation)
{
    const char *op = json_string_value(json_object_get(operation, "op"));
    const json_t *value = json_object_get(operation, "value");
    AUTO_POINTER struct pointer path = {0};
    AUTO_POINTER struct pointer from = {0};
    if (!op)
        return gs_error_new(GS_EINVAL, "operation has no text in \"op\"");
    struct gs_error *err = read_pointer(operation, "path", &path);
    if (err)
        return err;
    if (gs_streq(op, "remove"))
        return op_remove(s, op, "doc is missing path: ", &path);
    if (gs_streq(op, "move") || gs_streq(op, "copy")) {
        err = read_pointer(operation, "from", &from);
        if (err)
            return err;
        return *op == 'm' ? op_move(s, &from, &path) : op_copy(s, &from, &path);
    }
    bool add = gs_streq(op, "add"), replace = gs_streq(op, "replace");
    if (!add && !replace && !gs_streq(op, "test"))
        return gs_error_new(GS_EINVAL, "Unexpected kind: %s", op);
    if (!value)
        return gs_error_new(GS_EINVAL, "%s operation at \"%s\" has no \"value\"", op, path.text);
    if (add)
        return op_add(s, op, "doc is missing path: ", &path, json_deep_copy(value));
    return replace ? op_replace(s, &path, value) : op_test(s, &path, value);
}

struct gs_error *kube_patch_json(const json_t *target, const json_t *patch, json_t **ret)
{
    if (!json_is_array(patch))
        return gs_error_new(GS_EINVAL, "a JSON patch must be an array of operations");
    if (json_array_size(patch) > MAX_OPERATIONS)
        return gs_error_new(GS_ELIMIT,
                            "The allowed maximum operations in a JSON patch is %d, got %zu",
                            MAX_OPERATIONS, json_array_size(patch));
    struct state s = {.doc = json_deep_copy(target)};
    size_t i;
    json_t *operation;
    json_array_foreach (patch, i, operation) {
        struct gs_error *err = apply_one(&s, operation);
        if (err) {
            json_decref(s.doc);
            return err;
        }
    }
    *ret = s.doc;
    return NULL;
}
