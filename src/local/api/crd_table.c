// SPDX-License-Identifier: Apache-2.0
// Columns of custom resources: additionalPrinterColumns with simple JSONPaths. Also the columns of
// CustomResourceDefinitions themselves and of APIServices.
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "local/api/crd.h"
#include "local/api/table.h"

#define MAX_PATH_STEPS 64

// --- JSONPath ---

// One step of a path: `.name`, `['name']`, `[0]`, `[*]` or `[?(@.type=="Ready")]`.
struct path_step {
    char name[256];  // of a member, or of the member that a filter compares
    char value[256]; // of a filter
    enum { PATH_MEMBER, PATH_INDEX, PATH_FIRST, PATH_FILTER } kind;
    long index;
};

// Copies up to one of the characters in `stops`; a backslash quotes the next character.
static const char *copy_until(const char *p, const char *stops, char *out, size_t size)
{
    size_t n = 0;

    while (*p && !strchr(stops, *p)) {
        if (*p == '\\' && p[1])
            p++;
        if (n + 1 < size)
            out[n++] = *p;
        p++;
    }
    out[n] = '\0';
    return p;
}

// After "[?(": `@.type=="Ready")]`. NULL: another form.
static const char *parse_filter(const char *p, struct path_step *ret)
{
    if (!gs_starts(p, "@."))
        return NULL;
    p = copy_until(p + 2, "= )", ret->name, sizeof ret->name);
    while (*p == ' ' || *p == '=')
        p++;
    char quote[] = {*p, '\0'};
    if (*p != '"' && *p != '\'')
        return NULL;
    p = copy_until(p + 1, quote, ret->value, sizeof ret->value);
    p = *p ? p + 1 : p;
    while (*p == ' ')
        p++;
    ret->kind = PATH_FILTER;
    return gs_starts(p, ")]") ? p + 2 : NULL;
}

static const char *parse_bracket(const char *p, struct path_step *ret)
{
    if (gs_starts(p, "?("))
        return parse_filter(p + 2, ret);
    if (gs_starts(p, "*]")) {
        ret->kind = PATH_FIRST;
        return p + 2;
    }
    if (*p == '\'' || *p == '"') {
        char quote[] = {*p, '\0'};
        p = copy_until(p + 1, quote, ret->name, sizeof ret->name);
        ret->kind = PATH_MEMBER;
        return *p && p[1] == ']' ? p + 2 : NULL;
    }
    char *end;
    ret->index = strtol(p, &end, 10);
    ret->kind = PATH_INDEX;
    return end != p && *end == ']' ? end + 1 : NULL;
}

// NULL: the path is malformed.
static const char *parse_step(const char *p, struct path_step *ret)
{
    if (*p == '[')
        return parse_bracket(p + 1, ret);
    if (*p != '.')
        return NULL;
    ret->kind = PATH_MEMBER;
    return copy_until(p + 1, ".[", ret->name, sizeof ret->name);
}

static json_t *step_into(json_t *value, const struct path_step *step)
{
    size_t n = json_array_size(value), i;
    json_t *item;

    switch (step->kind) {
    case PATH_MEMBER:
        return *step->name ? json_object_get(value, step->name) : value;
    case PATH_FIRST:
        return json_array_get(value, 0);
    case PATH_INDEX:
        if (step->index < 0 && (size_t)-step->index <= n)
            return json_array_get(value, n - (size_t)-step->index);
        return step->index >= 0 ? json_array_get(value, (size_t)step->index) : NULL;
    case PATH_FILTER:
        json_array_foreach (value, i, item)
            if (gs_streq(codec_json_str(item, step->name, NULL), step->value))
                return item;
        break;
    }
    return NULL;
}

json_t *local_api_json_path(const json_t *obj, const char *path)
{
    json_t *value = (json_t *)obj;

    for (int i = 0; path && *path && value && i < MAX_PATH_STEPS; i++) {
        struct path_step step = {0};
        path = parse_step(path, &step);
        value = path ? step_into(value, &step) : NULL;
    }
    return value;
}

// --- cells ---

struct custom_table {
    struct local_api_table table; // first: what requests see
    json_t *columns;              // owns the strings
    size_t n;
};

static json_t *date_cell(const json_t *value, int64_t now_ms)
{
    const char *text = json_string_value(value);
    char buf[LOCAL_API_AGE_SIZE];
    int64_t then;

    if (!text)
        return json_null();
    GS_AUTO_ERROR struct gs_error *err = gs_parse_rfc3339(gs_slice_of(text), &then);
    return json_string(err ? "<invalid>" : local_api_format_duration(now_ms - then, buf));
}

static json_t *text_cell(const json_t *value)
{
    if (json_is_string(value))
        return json_incref((json_t *)value);
    GS_AUTO_FREE char *text = codec_json_text(value);
    return json_string(text);
}

static json_t *cell_of(const char *type, const json_t *value, int64_t now_ms)
{
    if (!value || json_is_null(value))
        return json_null();
    if (strcmp(type, "date") == 0)
        return date_cell(value, now_ms);
    if (strcmp(type, "string") == 0)
        return text_cell(value);
    if (strcmp(type, "boolean") == 0)
        return json_is_boolean(value) ? json_incref((json_t *)value) : json_null();
    if (!json_is_number(value))
        return json_null();
    if (strcmp(type, "integer") == 0 && json_is_real(value)) {
        double n = json_real_value(value);
        return n >= -1e15 && n <= 1e15 ? json_integer((json_int_t)n) : json_null();
    }
    return json_incref((json_t *)value);
}

static void add_custom_cells(const struct local_api_table *t, const json_t *obj, json_t *cells,
                             int64_t now_ms)
{
    const struct custom_table *custom = (const struct custom_table *)t;
    size_t i;
    json_t *column;

    local_api_cell_name(cells, obj);
    json_array_foreach (custom->columns, i, column) {
        const char *type = codec_json_str(column, "type", NULL);
        const char *path = codec_json_str(column, "jsonPath", NULL);
        json_array_append_new(cells,
                              cell_of(type ? type : "", local_api_json_path(obj, path), now_ms));
    }
}

static json_t *default_columns(void)
{
    return json_pack("[{ssssssss}]", "name", "Age", "type", "date", "jsonPath",
                     ".metadata.creationTimestamp", "description",
                     "Time since the object was created.");
}

// Descriptions are part of the columns, so that the table owns their text.
static void add_descriptions(json_t *columns)
{
    size_t i;
    json_t *column;

    json_array_foreach (columns, i, column)
        if (!codec_json_str(column, "description", NULL))
            json_object_set_new(
                column, "description",
                codec_json_strf("Custom resource definition column (in JSONPath format): %s",
                                codec_json_str(column, "jsonPath", NULL)));
}

struct local_api_table *local_api_custom_table_new(const json_t *columns)
{
    struct custom_table *t = gs_alloc(sizeof *t);
    size_t n, i;
    json_t *column;

    t->columns = json_array_size(columns) > 0 ? json_deep_copy(columns) : default_columns();
    add_descriptions(t->columns);
    n = json_array_size(t->columns);
    struct local_api_column *list = gs_alloc_array(n + 2, sizeof *list);
    list[0] = (struct local_api_column)LOCAL_API_COLUMN_NAME;
    json_array_foreach (t->columns, i, column) {
        const char *format = codec_json_str(column, "format", NULL);
        list[i + 1] = (struct local_api_column){
            .name = codec_json_str(column, "name", NULL),
            .type = codec_json_str(column, "type", NULL),
            .priority = (int)codec_json_int(column, 0, "priority", NULL),
            .doc = codec_json_str(column, "description", NULL),
            .format = format ? format : "",
        };
    }
    t->table.columns = list;
    t->table.add_custom_cells = add_custom_cells;
    return &t->table;
}

void local_api_custom_table_free(struct local_api_table *table)
{
    struct custom_table *t = (struct custom_table *)table;

    if (!t)
        return;
    json_decref(t->columns);
    free((void *)t->table.columns);
    free(t);
}

// --- CustomResourceDefinitions ---

static void crd_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    local_api_cell_name(cells, obj);
    local_api_cell_str(cells, kube_created(obj));
}

const struct local_api_table local_api_table_crds = {
    (const struct local_api_column[]){
        LOCAL_API_COLUMN_NAME,
        {"Created At", "date", 0, "Time of the creation of the object.", NULL},
        {0}},
    crd_cells, NULL};

// --- APIServices ---

static void apiservice_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    const char *name = codec_json_str(obj, "spec", "service", "name", NULL);
    const json_t *available = kube_condition(obj, "Available");
    const char *status = codec_json_str(available, "status", NULL);
    GS_AUTO_FREE char *service =
        name ? gs_format("%s/%s", codec_json_str(obj, "spec", "service", "namespace", NULL), name)
             : gs_strdup("Local");
    GS_AUTO_FREE char *text =
        gs_streq(status, "True")
            ? gs_strdup("True")
            : gs_format("%s (%s)", status ? status : "Unknown",
                        status ? codec_json_str(available, "reason", NULL) : "Pending");

    local_api_cell_name(cells, obj);
    local_api_cell_str(cells, service);
    local_api_cell_str(cells, text);
    local_api_cell_age(cells, obj, now_ms);
}

const struct local_api_table local_api_table_apiservices = {
    (const struct local_api_column[]){
        LOCAL_API_COLUMN_NAME,
        {"Service", "string", 0, "The reference to the service that hosts this API endpoint.",
         NULL},
        {"Available", "string", 0, "Whether this service is available.", NULL},
        LOCAL_API_COLUMN_AGE,
        {0}},
    apiservice_cells, NULL};
