// SPDX-License-Identifier: Apache-2.0
// The output of the create and list commands: lines "NAME [STATE [PROVIDER-ID]]", or JSON.
#include "node_provider/node_provider_private.h"

#include "base/hmap.h"
#include "base/mem.h"
#include "kube/names.h"

#define MAX_PROVIDER_ID 512
#define MAX_ERROR_CODE  64
#define MAX_ERROR_TEXT  1024

void node_provider_listed_finish(struct node_provider_listed *l)
{
    free(l->name);
    free(l->provider_id);
    free(l->error_code);
    free(l->error_message);
    *l = (struct node_provider_listed){0};
}

void node_provider_list_finish(struct node_provider_list *list)
{
    for (size_t i = 0; i < list->len; i++)
        node_provider_listed_finish(&list->items[i]);
    free(list->items);
    *list = (struct node_provider_list){0};
}

bool node_provider_is_provider_id(const char *text)
{
    size_t n = strlen(text);
    if (n == 0 || n > MAX_PROVIDER_ID)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 0x7f)
            return false;
    return true;
}

static struct gs_error *parse_state(const char *text, enum node_provider_listed_state *ret)
{
    static const char *const names[] = {
        [NODE_PROVIDER_LISTED_RUNNING] = "running",
        [NODE_PROVIDER_LISTED_CREATING] = "creating",
        [NODE_PROVIDER_LISTED_DELETING] = "deleting",
        [NODE_PROVIDER_LISTED_FAILED] = "failed",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (gs_streq(text, names[i])) {
            *ret = (enum node_provider_listed_state)i;
            return NULL;
        }
    return gs_error_new(
        GS_EPROTO, "unknown state \"%.40s\"; want running, creating, deleting or failed", text);
}

// The name of a machine becomes the name of its Node.
static struct gs_error *check_name(const char *name)
{
    if (kube_check_dns_subdomain(gs_slice_of(name), NULL))
        return NULL;
    return gs_error_new(GS_EPROTO,
                        "\"%.80s\" is not the name of a machine (a DNS name in lower case)", name);
}

static struct gs_error *set_provider_id(struct node_provider_listed *l, const char *id)
{
    if (!node_provider_is_provider_id(id))
        return gs_error_new(GS_EPROTO,
                            "\"%.80s\" is not a provider ID (at most %d printable characters "
                            "without blanks)",
                            id, MAX_PROVIDER_ID);
    l->provider_id = gs_strdup(id);
    return NULL;
}

// --- JSON ---

static void set_error(struct node_provider_listed *l, const json_t *error)
{
    const char *code = codec_json_str(error, "code", NULL);
    const char *message = codec_json_str(error, "message", NULL);
    if (!message && json_is_string(error))
        message = json_string_value(error);
    code = code && *code ? code : "failed";
    message = message ? message : "";
    l->error_code = gs_strndup(code, strnlen(code, MAX_ERROR_CODE));
    l->error_message = gs_strndup(message, strnlen(message, MAX_ERROR_TEXT));
    l->out_of_resources = codec_json_bool(error, false, "outOfResources", NULL);
}

static struct gs_error *read_object(const json_t *j, struct node_provider_listed *l)
{
    const char *name = codec_json_str(j, "name", NULL), *state = codec_json_str(j, "state", NULL);
    const char *id = codec_json_str(j, "providerID", NULL);
    if (json_is_string(j))
        name = json_string_value(j);
    else if (!json_is_object(j))
        return gs_error_new(GS_EPROTO, "a machine is neither an object nor a name");
    const json_t *error = json_object_get(j, "error");
    if (error && !json_is_null(error))
        set_error(l, error);
    struct gs_error *err = name ? check_name(name) : NULL;
    if (!err && state)
        err = parse_state(state, &l->state);
    if (!err && id && *id)
        err = set_provider_id(l, id);
    if (!err && name)
        l->name = gs_strdup(name);
    return err;
}

// --- lines ---

static struct gs_slice next_word(struct gs_slice *line)
{
    while (line->len > 0 && gs_is_blank(line->data[0]))
        *line = gs_slice_make(line->data + 1, line->len - 1);
    size_t n = 0;
    while (n < line->len && !gs_is_blank(line->data[n]))
        n++;
    const struct gs_slice word = gs_slice_make(line->data, n);
    *line = gs_slice_make(line->data + n, line->len - n);
    return word;
}

static struct gs_error *read_words(struct gs_slice line, struct node_provider_listed *l)
{
    GS_AUTO_FREE char *name = gs_slice_dup(next_word(&line));
    GS_AUTO_FREE char *state = gs_slice_dup(next_word(&line));
    GS_AUTO_FREE char *id = gs_slice_dup(next_word(&line));
    if (next_word(&line).len > 0)
        return gs_error_new(GS_EPROTO, "more than three words; want NAME [STATE [PROVIDER-ID]]");
    struct gs_error *err = check_name(name);
    if (!err && *state)
        err = parse_state(state, &l->state);
    if (!err && *id)
        err = set_provider_id(l, id);
    if (!err)
        l->name = GS_TAKE(name);
    return err;
}

static struct gs_error *read_line(struct gs_slice line, struct node_provider_listed *l)
{
    if (memchr(line.data, 0, line.len))
        return gs_error_new(GS_EPROTO, "a NUL byte");
    if (line.data[0] != '{' && line.data[0] != '"')
        return read_words(line, l);
    CODEC_AUTO_JSON json_t *j = NULL;
    struct gs_error *err = codec_json_parse(line, false, &j);
    return err ? err : read_object(j, l);
}

// --- whole outputs ---

static struct gs_error *add_listed(struct node_provider_list *list, struct node_provider_listed *l)
{
    if (!l->name)
        return gs_error_new(GS_EPROTO, "a machine without a name");
    if (list->len >= NODE_PROVIDER_MAX_MACHINES)
        return gs_error_new(GS_ELIMIT, "more than %d machines", NODE_PROVIDER_MAX_MACHINES);
    gs_grow(&list->items, &list->cap, list->len, sizeof(*list->items));
    list->items[list->len++] = *l;
    *l = (struct node_provider_listed){0};
    return NULL;
}

static struct gs_error *parse_array(struct gs_slice text, struct node_provider_list *list)
{
    CODEC_AUTO_JSON json_t *j = NULL;
    struct gs_error *err = codec_json_parse(text, false, &j);
    for (size_t i = 0; !err && i < json_array_size(j); i++) {
        GS_CLEANUP(node_provider_listed_finish) struct node_provider_listed l = {0};
        err = read_object(json_array_get(j, i), &l);
        if (!err)
            err = add_listed(list, &l);
        if (err)
            err = gs_error_wrap(err, "machine %zu", i + 1);
    }
    return err;
}

static struct gs_error *parse_lines(struct gs_slice text, struct node_provider_list *list)
{
    struct gs_error *err = NULL;
    for (size_t number = 1; !err && text.data; number++) {
        const struct gs_slice line = gs_slice_trim(gs_slice_cut(&text, '\n'));
        GS_CLEANUP(node_provider_listed_finish) struct node_provider_listed l = {0};
        if (line.len == 0 || line.data[0] == '#')
            continue;
        err = read_line(line, &l);
        if (!err)
            err = add_listed(list, &l);
        if (err)
            err = gs_error_wrap(err, "line %zu", number);
    }
    return err;
}

static struct gs_error *check_unique(const struct node_provider_list *list)
{
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *names = gs_hmap_new(NULL);
    for (size_t i = 0; i < list->len; i++) {
        if (gs_hmap_get_str(names, list->items[i].name))
            return gs_error_new(GS_EPROTO, "machine %s is listed twice", list->items[i].name);
        gs_hmap_put_str(names, list->items[i].name, &list->items[i]);
    }
    return NULL;
}

struct gs_error *node_provider_parse_list(struct gs_slice text, struct node_provider_list *ret)
{
    struct node_provider_list list = {0};
    const struct gs_slice trimmed = gs_slice_trim(text);
    struct gs_error *err = NULL;
    if (trimmed.len > 0)
        err = trimmed.data[0] == '[' ? parse_array(trimmed, &list) : parse_lines(text, &list);
    if (!err)
        err = check_unique(&list);
    if (err) {
        node_provider_list_finish(&list);
        return err;
    }
    *ret = list;
    return NULL;
}

struct gs_error *node_provider_parse_created(struct gs_slice text, struct node_provider_listed *ret)
{
    struct node_provider_listed l = {0};
    const struct gs_slice trimmed = gs_slice_trim(text);
    struct gs_error *err = NULL;
    // Programs print progress as text; only an object is for us.
    if (trimmed.len > 0 && trimmed.data[0] == '{') {
        CODEC_AUTO_JSON json_t *j = NULL;
        err = codec_json_parse(trimmed, false, &j);
        if (!err)
            err = read_object(j, &l);
    }
    if (err) {
        node_provider_listed_finish(&l);
        return err;
    }
    *ret = l;
    return NULL;
}
