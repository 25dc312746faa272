// SPDX-License-Identifier: Apache-2.0
// How the front proxy (the kube-apiserver's aggregator) is recognized: from flags, or from the
// ConfigMap kube-system/extension-apiserver-authentication, which is watched, because its CA is
// rotated.
#include "adapter/api/api_private.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/cache.h"

#define MAX_PEM  ((size_t)4 * 1024 * 1024)
#define MAP_NS   "kube-system"
#define MAP_NAME "extension-apiserver-authentication"

static void names_finish(struct adapter_api_auth_names *n)
{
    for (size_t i = 0; i < n->n; i++)
        free(n->items[i]);
    n->n = 0;
}

static void names_set(struct adapter_api_auth_names *n, const char *const *items, size_t len)
{
    names_finish(n);
    for (size_t i = 0; i < len && n->n < ADAPTER_API_AUTH_MAX_NAMES; i++)
        n->items[n->n++] = gs_strdup(items[i]);
}

void adapter_api_front_proxy_finish(struct adapter_api_front_proxy *p)
{
    adapter_api_ca_set_free(p->ca);
    names_finish(&p->user_headers);
    names_finish(&p->group_headers);
    names_finish(&p->extra_prefixes);
    names_finish(&p->allowed);
    *p = (struct adapter_api_front_proxy){0};
}

// --- the ConfigMap ---

static void read_names(const json_t *map, const char *key, struct adapter_api_auth_names *ret)
{
    const char *text = codec_json_str(map, "data", key, NULL);
    CODEC_AUTO_JSON json_t *list = NULL;
    size_t i;
    json_t *item;
    names_finish(ret);
    gs_error_free(text ? codec_json_parse(gs_slice_of(text), true, &list) : NULL);
    json_array_foreach (list, i, item)
        if (json_is_string(item) && ret->n < ADAPTER_API_AUTH_MAX_NAMES)
            ret->items[ret->n++] = gs_strdup(json_string_value(item));
}

static struct adapter_api_ca_set *read_ca(const json_t *map, const char *key)
{
    const char *pem = codec_json_str(map, "data", key, NULL);
    struct adapter_api_ca_set *set = NULL;
    struct gs_error *err = pem ? adapter_api_ca_set_new(pem, &set) : NULL;
    if (err)
        gs_warn("adapter", MAP_NS "/" MAP_NAME ", %s: %s", key, gs_error_message(err));
    gs_error_free(err);
    return set;
}

static void take_map(struct adapter_api_auth *a, const json_t *map)
{
    gs_hmap_clear(a->verdicts);
    adapter_api_auth_cache_clear(a);
    if (!a->own_client_ca) {
        adapter_api_ca_set_free(a->client_ca);
        a->client_ca = map ? read_ca(map, "client-ca-file") : NULL;
    }
    if (a->own_proxy)
        return;
    adapter_api_front_proxy_finish(&a->proxy);
    if (!map)
        return;
    a->proxy.ca = read_ca(map, "requestheader-client-ca-file");
    read_names(map, "requestheader-username-headers", &a->proxy.user_headers);
    read_names(map, "requestheader-group-headers", &a->proxy.group_headers);
    read_names(map, "requestheader-extra-headers-prefix", &a->proxy.extra_prefixes);
    read_names(map, "requestheader-allowed-names", &a->proxy.allowed);
    gs_info("adapter", "authentication by front proxy " MAP_NS "/" MAP_NAME " is %s",
            a->proxy.ca ? "on" : "off: the ConfigMap has no requestheader-client-ca-file");
}

static void on_map_change(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    const json_t *obj = new_obj ? new_obj : old_obj;
    if (gs_streq(codec_json_str(obj, "metadata", "name", NULL), MAP_NAME))
        take_map(arg, new_obj);
}

static void report_ready(struct adapter_api_auth *a, struct gs_error *err)
{
    a->on_ready(a->ready_arg, err);
}

static void on_first_map(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct adapter_api_auth *a = arg;
    a->first = NULL;
    if (!err)
        take_map(a, body);
    if (err && status != 404 && !a->o.tolerate_lookup_failure) {
        report_ready(
            a,
            gs_error_wrap(err, "reading the ConfigMap " MAP_NS "/" MAP_NAME
                               " (bind the role extension-apiserver-authentication-reader, or pass "
                               "--authentication-tolerate-lookup-failure)"));
        return;
    }
    if (err)
        gs_warn("adapter", "the ConfigMap " MAP_NS "/" MAP_NAME " cannot be read: %s",
                gs_error_message(err));
    gs_error_free(err);
    struct kube_cache_handlers h = {.on_change = on_map_change, .arg = a};
    a->map = kube_cache_new(a->loop, a->o.authn, KUBE_CONFIGMAPS, MAP_NS,
                            "fieldSelector=metadata.name%3D" MAP_NAME);
    kube_cache_add_handlers(a->map, &h);
    kube_cache_start(a->map);
    report_ready(a, NULL);
}

void adapter_api_front_proxy_follow(struct adapter_api_auth *a)
{
    a->first = kube_get(a->o.authn, KUBE_CONFIGMAPS, MAP_NS, MAP_NAME, NULL, on_first_map, a);
}

// --- flags ---

static struct gs_error *load_ca(const char *path, struct adapter_api_ca_set **ret)
{
    GS_AUTO_BUF struct gs_buf pem = {0};
    struct gs_error *err = gs_file_read(path, MAX_PEM, &pem);
    if (!err)
        err = adapter_api_ca_set_new(pem.data ? pem.data : "", ret);
    return err ? gs_error_wrap(err, "%s", path) : NULL;
}

struct gs_error *adapter_api_front_proxy_take_flags(struct adapter_api_auth *a)
{
    const struct adapter_api_auth_options *o = &a->o;
    struct gs_error *err = NULL;
    if (o->client_ca_file) {
        a->own_client_ca = true;
        err = load_ca(o->client_ca_file, &a->client_ca);
    }
    if (err || !o->requestheader_ca_file)
        return err;
    a->own_proxy = true;
    names_set(&a->proxy.user_headers, o->username_headers, o->n_username_headers);
    names_set(&a->proxy.group_headers, o->group_headers, o->n_group_headers);
    names_set(&a->proxy.extra_prefixes, o->extra_prefixes, o->n_extra_prefixes);
    names_set(&a->proxy.allowed, o->allowed_names, o->n_allowed_names);
    return load_ca(o->requestheader_ca_file, &a->proxy.ca);
}
