// SPDX-License-Identifier: Apache-2.0
// OpenAPI documents for the kinds with a schema, generated on the first request and cached.
#include "kube/schema.h"

#include "base/mem.h"
#include "local/api/api_private.h"
#include "local/api/crd.h"

#include <inttypes.h>

struct document {
    struct gs_buf bytes;
    uint64_t hash;
};

static void document_free(void *arg)
{
    struct document *d = arg;
    gs_buf_finish(&d->bytes);
    free(d);
}

// --- the list of what is served ---

static struct kube_openapi_resource *all_resources(const struct local_api *api, size_t *ret_n)
{
    const struct local_api_resource *r;
    size_t n = 0;

    for (size_t i = 0; (r = local_api_nth_resource(api, i)); i++)
        for (size_t v = 0; r->versions[v]; v++)
            n++;
    struct kube_openapi_resource *all = gs_alloc_array(n, sizeof *all);
    n = 0;
    for (size_t i = 0; (r = local_api_nth_resource(api, i)); i++)
        for (size_t v = 0; r->versions[v]; v++)
            all[n++] = (struct kube_openapi_resource){
                r->group, r->versions[v], r->plural,
                r->kind,  r->namespaced,  r->custom ? local_api_custom_schema(r->custom) : NULL};
    *ret_n = n;
    return all;
}

static bool serves(const struct kube_openapi_resource *r, size_t n, const char *group,
                   const char *version)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(r[i].group, group) == 0 && strcmp(r[i].version, version) == 0)
            return true;
    return false;
}

// --- documents by name: "v2", "v2 protobuf", "/openapi/v3", "/openapi/v3/apis/apps/v1" ---

// name is "/openapi/v3/api/v1" or "/openapi/v3/apis/GROUP/VERSION". NULL: no such group-version.
static json_t *make_group_version(const char *name, const struct kube_openapi_resource *r, size_t n)
{
    bool core = strcmp(name, "/openapi/v3/api/v1") == 0;
    const char *prefix = "/openapi/v3/apis/";

    if (core)
        return kube_openapi_v3("", "v1", r, n);
    if (!gs_starts(name, prefix))
        return NULL;
    struct gs_slice version = gs_slice_of(name + strlen(prefix));
    struct gs_slice group = gs_slice_cut(&version, '/');
    GS_AUTO_FREE char *group_text = gs_slice_dup(group);
    GS_AUTO_FREE char *version_text = gs_slice_dup(version);
    return serves(r, n, group_text, version_text) ? kube_openapi_v3(group_text, version_text, r, n)
                                                  : NULL;
}

static struct document *make_document(const struct local_api *api, const char *name)
{
    size_t n;
    GS_AUTO_FREE struct kube_openapi_resource *r = all_resources(api, &n);
    CODEC_AUTO_JSON json_t *json = gs_starts(name, "v2") ? kube_openapi_v2(r, n)
                                   : strcmp(name, "/openapi/v3") == 0
                                       ? kube_openapi_v3_index(r, n)
                                       : make_group_version(name, r, n);

    if (!json)
        return NULL;
    struct document *d = gs_alloc(sizeof *d);
    if (strcmp(name, "v2 protobuf") == 0)
        kube_openapi_v2_encode(json, &d->bytes);
    else
        codec_json_dump(json, &d->bytes);
    d->hash = gs_hash(d->bytes.data, d->bytes.len);
    return d;
}

static const struct document *get_document(struct local_api *api, const char *name)
{
    if (!api->openapi)
        api->openapi = gs_hmap_new(document_free);
    struct document *d = gs_hmap_get_str(api->openapi, name);
    if (!d) {
        d = make_document(api, name);
        if (d)
            gs_hmap_put_str(api->openapi, name, d);
    }
    return d;
}

static void reply_document(struct http_exchange *x, const struct document *d, const char *type)
{
    GS_AUTO_FREE char *tag = gs_format("\"%016" PRIX64 "\"", d->hash);
    const char *known = http_header(x, "If-None-Match");

    http_add_header(x, "Etag", tag);
    http_add_header(x, "Vary", "Accept");
    if (gs_streq(known, tag))
        http_reply(x, 304, type, (struct gs_slice){0});
    else
        http_reply(x, 200, type, gs_buf_slice(&d->bytes));
}

void local_api_openapi(struct local_api *api, struct http_exchange *x, const char *path)
{
    const char *accept = http_header(x, "Accept");
    bool v2 = strcmp(path, "/openapi/v2") == 0;
    bool protobuf = v2 && accept && strstr(accept, KUBE_OPENAPI_V2_ACCEPT);
    GS_AUTO_FREE char *name = gs_strdup(protobuf ? "v2 protobuf" : v2 ? "v2" : path);
    size_t len = strlen(name);

    if (len > 1 && name[len - 1] == '/')
        name[len - 1] = '\0';
    const struct document *d = get_document(api, name);
    if (d)
        reply_document(x, d, protobuf ? KUBE_OPENAPI_V2_TYPE : "application/json");
    else
        kube_reply_failure(x, 404, "NotFound", "the server could not find the requested resource");
}
