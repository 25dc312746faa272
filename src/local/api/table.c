// SPDX-License-Identifier: Apache-2.0
// Tables, and the cells that several printers share.
#include "local/api/table.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"

#include <inttypes.h>

static json_t *column_definition(const struct local_api_column *c)
{
    json_t *column = json_object();

    codec_json_set_str(column, "name", c->name);
    codec_json_set_str(column, "type", c->type);
    codec_json_set_str(column, "format",
                       c->format                      ? c->format
                       : strcmp(c->name, "Name") == 0 ? "name"
                                                      : "");
    codec_json_set_str(column, "description", c->doc ? c->doc : "");
    codec_json_set_int(column, "priority", c->priority);
    return column;
}

json_t *local_api_table_new(const struct local_api_table *t, const char *version, bool header)
{
    json_t *table = json_object();
    json_t *columns = json_array();

    codec_json_set_str(table, "kind", "Table");
    json_object_set_new(table, "apiVersion", codec_json_strf("meta.k8s.io/%s", version));
    json_object_set_new(table, "metadata", json_object());
    for (const struct local_api_column *c = t->columns; header && c->name; c++)
        json_array_append_new(columns, column_definition(c));
    json_object_set_new(table, "columnDefinitions", columns);
    json_object_set_new(table, "rows", json_array());
    return table;
}

json_t *local_api_partial_metadata(const json_t *obj, const char *version)
{
    json_t *partial = json_object();
    json_t *meta = json_object_get(obj, "metadata");

    codec_json_set_str(partial, "kind", "PartialObjectMetadata");
    json_object_set_new(partial, "apiVersion", codec_json_strf("meta.k8s.io/%s", version));
    if (meta)
        json_object_set(partial, "metadata", meta);
    return partial;
}

void local_api_table_add(json_t *table, const struct local_api_table *t, const char *version,
                         const json_t *stored, const json_t *served, const char *include)
{
    json_t *row = json_object();
    json_t *cells = json_array();

    if (t->add_custom_cells)
        t->add_custom_cells(t, served, cells, gs_unix_ms());
    else
        t->add_cells(stored, cells, gs_unix_ms());
    json_object_set_new(row, "cells", cells);
    if (gs_streq(include, "Object"))
        json_object_set(row, "object", (json_t *)served);
    else if (!gs_streq(include, "None"))
        json_object_set_new(row, "object", local_api_partial_metadata(served, version));
    json_array_append_new(json_object_get(table, "rows"), row);
}

// --- durations ---

char *local_api_format_duration(int64_t ms, char buf[LOCAL_API_AGE_SIZE])
{
    int64_t s = ms / 1000, m = s / 60, h = m / 60, d = h / 24;
    const int64_t year_h = 365 * 24;

    if (s < -1)
        snprintf(buf, LOCAL_API_AGE_SIZE, "<invalid>");
    else if (s < 0)
        snprintf(buf, LOCAL_API_AGE_SIZE, "0s");
    else if (s < 120)
        snprintf(buf, LOCAL_API_AGE_SIZE, "%" PRId64 "s", s);
    else if (m < 10 && s % 60)
        snprintf(buf, LOCAL_API_AGE_SIZE, "%" PRId64 "m%" PRId64 "s", m, s % 60);
    else if (m < 180)
        snprintf(buf, LOCAL_API_AGE_SIZE, "%" PRId64 "m", m);
    else if (h < 8 && m % 60)
        snprintf(buf, LOCAL_API_AGE_SIZE, "%" PRId64 "h%" PRId64 "m", h, m % 60);
    else if (h < 48)
        snprintf(buf, LOCAL_API_AGE_SIZE, "%" PRId64 "h", h);
    else if (d < 8 && h % 24)
        snprintf(buf, LOCAL_API_AGE_SIZE, "%" PRId64 "d%" PRId64 "h", d, h % 24);
    else if (h < 2 * year_h)
        snprintf(buf, LOCAL_API_AGE_SIZE, "%" PRId64 "d", d);
    else if (h < 8 * year_h && d % 365)
        snprintf(buf, LOCAL_API_AGE_SIZE, "%" PRId64 "y%" PRId64 "d", h / year_h, d % 365);
    else
        snprintf(buf, LOCAL_API_AGE_SIZE, "%" PRId64 "y", h / year_h);
    return buf;
}

char *local_api_format_age(const char *since, int64_t now_ms, char buf[LOCAL_API_AGE_SIZE])
{
    int64_t then = 0;
    GS_AUTO_ERROR struct gs_error *err =
        since && *since ? gs_parse_rfc3339(gs_slice_of(since), &then) : NULL;

    if (!since || !*since || err)
        snprintf(buf, LOCAL_API_AGE_SIZE, "<unknown>");
    else
        local_api_format_duration(now_ms - then, buf);
    return buf;
}

// --- cells ---

void local_api_cell_str(json_t *cells, const char *text)
{
    json_array_append_new(cells, json_string(text ? text : ""));
}

void local_api_cell_or(json_t *cells, const char *text, const char *fallback)
{
    local_api_cell_str(cells, text && *text ? text : fallback);
}

void local_api_cell_int(json_t *cells, int64_t n)
{
    json_array_append_new(cells, json_integer(n));
}

void local_api_cell_buf(json_t *cells, struct gs_buf *text, const char *fallback)
{
    local_api_cell_or(cells, text->data, fallback);
    gs_buf_finish(text);
}

void local_api_cell_name(json_t *cells, const json_t *obj)
{
    local_api_cell_str(cells, kube_name(obj));
}

void local_api_cell_age(json_t *cells, const json_t *obj, int64_t now_ms)
{
    char buf[LOCAL_API_AGE_SIZE];
    local_api_cell_str(cells, local_api_format_age(kube_created(obj), now_ms, buf));
}

void local_api_cell_map(json_t *cells, const json_t *map, const char *fallback)
{
    struct gs_buf text = {0};
    size_t n = json_object_size(map), i = 0;
    GS_AUTO_FREE const char **keys = gs_alloc_array(n + 1, sizeof *keys);
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)map, key, value)
        keys[i++] = key;
    qsort(keys, n, sizeof *keys, gs_compare_texts);
    for (i = 0; i < n; i++)
        gs_buf_addf(&text, "%s%s=%s", i ? "," : "", keys[i],
                    json_string_value(json_object_get(map, keys[i])));
    local_api_cell_buf(cells, &text, fallback);
}

static void join_members(const json_t *list, const char *key, struct gs_buf *out)
{
    size_t i;
    json_t *item;

    json_array_foreach ((json_t *)list, i, item) {
        const char *text = codec_json_str(item, key, NULL);
        gs_buf_addf(out, "%s%s", i ? "," : "", text ? text : "");
    }
}

void local_api_cell_containers(json_t *cells, const json_t *containers)
{
    struct gs_buf names = {0}, images = {0};

    join_members(containers, "name", &names);
    join_members(containers, "image", &images);
    local_api_cell_buf(cells, &names, "");
    local_api_cell_buf(cells, &images, "");
}

// --- kinds without columns of their own ---

static void plain_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    local_api_cell_name(cells, obj);
    local_api_cell_age(cells, obj, now_ms);
}

const struct local_api_table local_api_table_plain = {
    (const struct local_api_column[]){LOCAL_API_COLUMN_NAME, LOCAL_API_COLUMN_AGE, {0}},
    plain_cells};
