// SPDX-License-Identifier: Apache-2.0
// The file of promtool's --http.config.file, which contains only HTTP client settings.
#include "base/file.h"
#include "base/mem.h"
#include "net/endpoint/endpoint_private.h"

#define MAX_FILE ((size_t)1 << 20)

struct endpoint_file {
    struct gs_arena arena;
    struct endpoint_settings http;
};

static struct gs_error *parse_http_file(struct gs_slice text, const char *path, const char *dir,
                                        struct endpoint_file *f)
{
    static const struct codec_field none[] = {{0}};
    struct codec_yaml_docs docs = {0};
    GS_CLEANUP(codec_yaml_marks_freep) struct codec_yaml_marks *marks = NULL;
    struct gs_error *err = codec_yaml_parse_texts(text, path, &docs, &marks);
    if (err)
        return err;
    struct codec_reader r = {.name = path, .base_dir = dir, .marks = marks, .arena = &f->arena};
    const json_t *top = docs.len ? docs.items[0].value : NULL;
    if (docs.len > 1)
        codec_reader_fail(&r, docs.items[1].value, "expected one YAML document with HTTP settings");
    endpoint_read_with(&r, top, none, "the HTTP settings", NULL, &f->http);
    // Ignoring a setting would send requests that the file does not describe.
    if (r.n_ignored && !r.err)
        r.err = gs_error_new(GS_ENOTSUP, "%s", r.ignored[0]);
    codec_yaml_docs_finish(&docs);
    free(r.ignored);
    return r.err;
}

struct gs_error *endpoint_file_load(const char *path, struct endpoint_file **ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (err)
        return err;
    const char *slash = strrchr(path, '/');
    GS_AUTO_FREE char *dir = gs_strndup(path, slash ? (size_t)(slash - path) : 0);
    struct endpoint_file *f = gs_alloc(sizeof(*f));
    err = parse_http_file(gs_buf_slice(&text), path, slash ? (*dir ? dir : "/") : NULL, f);
    if (err)
        endpoint_file_free(f);
    else
        *ret = f;
    return err;
}

const struct endpoint_settings *endpoint_file_settings(const struct endpoint_file *f)
{
    return &f->http;
}

void endpoint_file_free(struct endpoint_file *f)
{
    if (!f)
        return;
    gs_arena_finish(&f->arena);
    free(f);
}
