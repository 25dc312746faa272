// SPDX-License-Identifier: Apache-2.0
// The file of --config-file (versions 1 and 2, as dcgm-exporter's): metrics, the sampling interval
// and watch groups. Unknown keys are errors.
#include "exporter/daemon/daemon_private.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "codec/yaml.h"

#include <inttypes.h>

enum { MAX_FILE = 1024 * 1024, MAX_FIELDS = 1024 };

struct gs_error *daemon_file_check_keys(const json_t *obj, const char *const *keys,
                                        const char *where)
{
    const char *key;
    json_t *value;
    if (!json_is_object(obj))
        return gs_error_new(GS_EINVAL, "%s: want a mapping", where);
    json_object_foreach ((json_t *)(uintptr_t)obj, key, value) {
        size_t i = 0;
        while (keys[i] && strcmp(keys[i], key) != 0)
            i++;
        if (!keys[i])
            return gs_error_new(GS_EINVAL, "%s: field %s not found", where, key);
    }
    return NULL;
}

char *daemon_file_text(const json_t *obj, const char *key)
{
    const json_t *value = json_object_get(obj, key);
    if (json_is_integer(value))
        return gs_format("%" PRId64, (int64_t)json_integer_value(value));
    const char *text = json_string_value(value);
    return gs_slice_dup(gs_slice_trim(gs_slice_of(text ? text : "")));
}

struct gs_error *daemon_file_interval(const json_t *obj, const char *where, const char *key,
                                      int64_t *ret_ms)
{
    GS_AUTO_FREE char *text = daemon_file_text(obj, key);
    int64_t ns = 0;
    struct gs_error *err = NULL;
    if (strspn(text, "0123456789") == strlen(text))
        err = gs_error_new(GS_EINVAL, "missing unit in duration \"%s\"", text);
    else
        err = gs_parse_duration(gs_slice_of(text), &ns);
    if (!err && ns <= 0)
        err = gs_error_new(GS_EINVAL, "must be greater than 0");
    if (!err && ns % GS_NS_PER_MS)
        err = gs_error_new(GS_EINVAL, "must be expressed in whole milliseconds or larger");
    if (err)
        return gs_error_wrap(err, "%s.%s", where, key);
    *ret_ms = ns / GS_NS_PER_MS;
    return NULL;
}

// --- metrics ---

static void add_column(struct gs_buf *row, const char *text, char end)
{
    gs_buf_add_char(row, '"');
    for (; *text; text++) {
        if (*text == '"')
            gs_buf_add_char(row, '"');
        if (*text == '\n' || *text == '\r') // a row is one line
            gs_buf_add_char(row, ' ');
        else
            gs_buf_add_char(row, *text);
    }
    gs_buf_add_char(row, '"');
    gs_buf_add_char(row, end);
}

static bool is_repeated(const json_t *fields, size_t at, const char *name)
{
    bool repeated = false;
    for (size_t i = 0; i < at && !repeated; i++) {
        GS_AUTO_FREE char *other = daemon_file_text(json_array_get(fields, i), "name");
        repeated = gs_streq(other, name);
    }
    return repeated;
}

static struct gs_error *read_field(const json_t *fields, size_t i, struct gs_buf *rows)
{
    static const char *const keys[] = {"name", "prometheusType", "help", NULL};
    GS_AUTO_FREE char *where = gs_format("metrics.fields[%zu]", i);
    const json_t *field = json_array_get(fields, i);
    struct gs_error *err = daemon_file_check_keys(field, keys, where);
    if (err)
        return err;
    GS_AUTO_FREE char *name = daemon_file_text(field, "name");
    GS_AUTO_FREE char *type = daemon_file_text(field, "prometheusType");
    GS_AUTO_FREE char *help = daemon_file_text(field, "help");
    const char *missing = !*name ? "name" : !*type ? "prometheusType" : !*help ? "help" : NULL;
    if (missing)
        return gs_error_new(GS_EINVAL, "%s.%s is required", where, missing);
    if (is_repeated(fields, i, name))
        return gs_error_new(GS_EINVAL, "%s.name duplicates metrics.fields: \"%s\"", where, name);
    add_column(rows, name, ',');
    add_column(rows, type, ',');
    add_column(rows, help, '\n');
    return NULL;
}

static struct gs_error *read_exporter_metrics(const json_t *metrics, struct daemon_file *f)
{
    const json_t *value = json_object_get(metrics, "enableExporterMetrics");
    if (value && !json_is_null(value) && !json_is_boolean(value))
        return gs_error_new(GS_EINVAL, "metrics.enableExporterMetrics: want true or false");
    f->exporter_metrics = json_is_true(value);
    return NULL;
}

// In version 2, metrics may be those of the default file.
static struct gs_error *read_metrics(const json_t *metrics, int version, struct daemon_file *f)
{
    static const char *const keys[] = {"file", "fields", NULL};
    static const char *const keys_2[] = {"file", "fields", "enableExporterMetrics", NULL};
    struct gs_error *err = daemon_file_check_keys(metrics, version == 1 ? keys : keys_2, "metrics");
    if (!err)
        err = read_exporter_metrics(metrics, f);
    if (err)
        return err;
    GS_AUTO_FREE char *file = daemon_file_text(metrics, "file");
    const json_t *fields = json_object_get(metrics, "fields");
    size_t n = json_array_size(fields);
    if (fields && !json_is_null(fields) && !json_is_array(fields))
        return gs_error_new(GS_EINVAL, "metrics.fields: want a list");
    if (*file ? n > 0 : !n && version == 1)
        return gs_error_new(GS_EINVAL, "metrics must specify exactly one of file or fields");
    if (n > MAX_FIELDS)
        return gs_error_new(GS_ELIMIT, "metrics.fields: more than %d", MAX_FIELDS);
    for (size_t i = 0; i < n && !err; i++)
        err = read_field(fields, i, &f->rows);
    if (!err && *file)
        f->counters_file = GS_TAKE(file);
    return err;
}

// --- collection ---

static struct gs_error *read_collection(const json_t *collection, struct daemon_file *f)
{
    static const char *const keys[] = {"interval", "watchGroups", NULL};
    struct gs_error *err = daemon_file_check_keys(collection, keys, "collection");
    if (!err && json_object_get(collection, "interval"))
        err = daemon_file_interval(collection, "collection", "interval", &f->interval_ms);
    return err ? err
               : daemon_watch_groups_read(json_object_get(collection, "watchGroups"), &f->groups);
}

// --- file ---

static const json_t *section(const json_t *doc, const char *key)
{
    const json_t *value = json_object_get(doc, key);
    return json_is_null(value) ? NULL : value;
}

static struct gs_error *read_version_1(const json_t *doc, struct daemon_file *f)
{
    static const char *const keys[] = {"version", "metrics", "collection", NULL};
    struct gs_error *err = daemon_file_check_keys(doc, keys, "configuration");
    const json_t *metrics = section(doc, "metrics"), *collection = section(doc, "collection");
    if (!err && metrics)
        err = read_metrics(metrics, 1, f);
    return err || !collection ? err : read_collection(collection, f);
}

// Limits of the server and of DCGM's watches are accepted: this server has its own, and nothing is
// watched.
static struct gs_error *read_version_2(const json_t *doc, struct daemon_file *f)
{
    static const char *const keys[] = {"version", "server",      "sources",
                                       "metrics", "collections", NULL};
    struct gs_error *err = daemon_file_check_keys(doc, keys, "configuration");
    const json_t *metrics = section(doc, "metrics");
    if (!err && metrics)
        err = read_metrics(metrics, 2, f);
    return err ? err
               : daemon_collections_read(section(doc, "collections"), &f->interval_ms, &f->groups);
}

static struct gs_error *read_document(const json_t *doc, struct daemon_file *f)
{
    json_int_t version = json_integer_value(json_object_get(doc, "version"));
    if (version == 2)
        return read_version_2(doc, f);
    struct gs_error *err = read_version_1(doc, f);
    if (!err && version != 1)
        err = gs_error_new(GS_EINVAL, "version must be 1 or 2");
    return err;
}

struct gs_error *daemon_file_parse(struct gs_slice text, const char *name, struct daemon_file *ret)
{
    GS_CLEANUP(codec_yaml_docs_finish) struct codec_yaml_docs docs = {0};
    struct daemon_file f = {0};
    struct gs_error *err = codec_yaml_parse(text, name, &docs);
    if (err)
        return gs_error_wrap(err, "--config-file");
    if (docs.len != 1)
        err = gs_error_new(GS_EINVAL, docs.len ? "multiple YAML documents are not supported"
                                               : "the file is empty");
    else
        err = read_document(docs.items[0].value, &f);
    if (err) {
        daemon_file_finish(&f);
        return gs_error_wrap(err, "--config-file %s", name);
    }
    *ret = f;
    return NULL;
}

struct gs_error *daemon_file_load(const char *path, struct daemon_file *ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (err)
        return gs_error_wrap(err, "--config-file");
    return daemon_file_parse(gs_buf_slice(&text), path, ret);
}

void daemon_file_finish(struct daemon_file *f)
{
    free(f->counters_file);
    gs_buf_finish(&f->rows);
    daemon_watch_groups_finish(&f->groups);
    *f = (struct daemon_file){0};
}
