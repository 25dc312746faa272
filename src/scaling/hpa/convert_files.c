// SPDX-License-Identifier: Apache-2.0
// Manifests with autoscalers of any API version, converted to another one.
#include "hpa/convert.h"

#include "base/mem.h"
#include "codec/yaml.h"

#include <errno.h>
#include <stdio.h>

#define MAX_INPUT ((size_t)64 << 20)

static bool is_hpa(const json_t *obj)
{
    const char *api = codec_json_str(obj, "apiVersion", NULL);
    return gs_streq(codec_json_str(obj, "kind", NULL), "HorizontalPodAutoscaler") && api &&
           gs_starts(api, "autoscaling/");
}

// The autoscaler in the requested version; other objects are unchanged.
static struct gs_error *convert_object(const json_t *obj, const char *version, json_t **ret)
{
    if (!is_hpa(obj)) {
        *ret = json_incref((json_t *)obj);
        return NULL;
    }
    CODEC_AUTO_JSON json_t *v2 = NULL;
    struct gs_error *err = hpa_to_v2(obj, &v2);
    if (!err)
        err = hpa_from_v2(v2, version, ret);
    if (!err && !json_object_get(obj, "status"))
        json_object_del(*ret, "status");
    const char *name = codec_json_str(obj, "metadata", "name", NULL);
    return err ? gs_error_wrap(err, "HorizontalPodAutoscaler %s", name ? name : "") : NULL;
}

static struct gs_error *add_converted(json_t *items, const json_t *obj, const char *version)
{
    const json_t *list = json_object_get(obj, "items");
    const char *kind = codec_json_str(obj, "kind", NULL);
    if (kind && gs_ends(kind, "List") && json_is_array(list)) {
        struct gs_error *err = NULL;
        for (size_t i = 0; !err && i < json_array_size(list); i++)
            err = add_converted(items, json_array_get(list, i), version);
        return err;
    }
    json_t *converted = NULL;
    struct gs_error *err = convert_object(obj, version, &converted);
    if (!err)
        json_array_append_new(items, converted);
    return err;
}

static struct gs_error *read_docs(const char *path, struct codec_yaml_docs *ret)
{
    if (!gs_streq(path, "-"))
        return codec_yaml_load_file(path, ret);
    GS_AUTO_BUF struct gs_buf text = {.limit = MAX_INPUT};
    char part[65536];
    for (size_t n; (n = fread(part, 1, sizeof(part), stdin)) > 0;)
        gs_buf_add(&text, part, n);
    if (ferror(stdin))
        return gs_error_errno(errno, "standard input");
    if (text.overflow)
        return gs_error_new(GS_ELIMIT, "standard input is longer than %zu bytes", MAX_INPUT);
    return codec_yaml_parse(gs_buf_slice(&text), "standard input", ret);
}

static struct gs_error *add_file(json_t *items, const char *path, const char *version)
{
    struct codec_yaml_docs docs = {0};
    struct gs_error *err = read_docs(path, &docs);
    for (size_t i = 0; !err && i < docs.len; i++) {
        err = add_converted(items, docs.items[i].value, version);
        if (err)
            err = gs_error_wrap(err, "%s:%d", path, docs.items[i].line);
    }
    codec_yaml_docs_finish(&docs);
    return err;
}

struct gs_error *hpa_convert_files(const char *const *paths, size_t n, const char *version,
                                   json_t **ret)
{
    static const char *const versions[] = {"v2", "v1", "v2beta2", "v2beta1"};
    bool known = false;
    for (size_t i = 0; i < GS_ARRAY_LEN(versions); i++)
        known = known || gs_streq(version, versions[i]);
    if (!known)
        return gs_error_new(GS_EINVAL, "--output-version \"%s\": want v2, v1, v2beta2 or v2beta1",
                            version);
    CODEC_AUTO_JSON json_t *items = json_array();
    struct gs_error *err = NULL;
    for (size_t i = 0; !err && i < n; i++)
        err = add_file(items, paths[i], version);
    if (err)
        return err;
    *ret = json_array_size(items) == 1
               ? json_incref(json_array_get(items, 0))
               : json_pack("{s:s, s:s, s:O}", "apiVersion", "v1", "kind", "List", "items", items);
    return NULL;
}
