// SPDX-License-Identifier: Apache-2.0
// Fetches all ConfigMaps, Secrets and tokens that a container or its volumes name, at once.
// Objects that do not exist are null in the result; whether that is an error depends on
// `optional`.
#include "local/kubelet/podenv.h"

#include "base/mem.h"

struct item {
    struct kubelet_env_fetch *fetch;
    char *key; // "configmaps/name"
    struct kube_request *request;
};

struct kubelet_env_fetch {
    json_t *sources;
    struct item *items;
    size_t len, pending;
    struct gs_error *err; // the first
    void (*done)(void *arg, const json_t *sources, const struct gs_error *err);
    void *arg;
};

static void fetch_free(struct kubelet_env_fetch *f)
{
    for (size_t i = 0; i < f->len; i++)
        free(f->items[i].key);
    free(f->items);
    json_decref(f->sources);
    gs_error_free(f->err);
    free(f);
}

static void on_reply(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct item *item = arg;
    struct kubelet_env_fetch *f = item->fetch;
    item->request = NULL;
    if (!err) {
        json_object_set(f->sources, item->key, body);
    } else if (status == 404) {
        json_object_set_new(f->sources, item->key, json_null());
    } else if (!f->err) {
        f->err = gs_error_wrap(err, "reading %s", item->key);
        err = NULL;
    }
    gs_error_free(err);
    if (--f->pending)
        return;
    f->done(f->arg, f->sources, f->err);
    fetch_free(f);
}

static struct kube_request *start_request(struct kube_client *client, const char *ns,
                                          const char *key, const json_t *value, struct item *item)
{
    const char *name = strchr(key, '/') + 1;
    const char *account = codec_json_str(value, "serviceAccount", NULL);
    if (gs_starts(key, "tokens/"))
        return kube_create_sub(client, KUBE_SERVICEACCOUNTS, ns, account, "token",
                               json_object_get(value, "body"), on_reply, item);
    return kube_get(client, gs_starts(key, "secrets/") ? KUBE_SECRETS : KUBE_CONFIGMAPS, ns, name,
                    NULL, on_reply, item);
}

struct kubelet_env_fetch *
kubelet_env_fetch_start(struct kube_client *client, const char *ns, const json_t *refs,
                        void (*done)(void *arg, const json_t *sources, const struct gs_error *err),
                        void *arg)
{
    struct kubelet_env_fetch *f = gs_alloc(sizeof(*f));
    f->sources = json_copy((json_t *)refs);
    f->items = gs_alloc_array(json_object_size(refs), sizeof(*f->items));
    f->done = done;
    f->arg = arg;
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)refs, key, value) {
        struct item *item = &f->items[f->len++];
        *item = (struct item){.fetch = f, .key = gs_strdup(key)};
        f->pending++;
        item->request = start_request(client, ns, key, value, item);
    }
    return f;
}

void kubelet_env_fetch_cancel(struct kubelet_env_fetch *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->len; i++)
        kube_request_cancel(f->items[i].request);
    fetch_free(f);
}
