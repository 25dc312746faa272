// SPDX-License-Identifier: Apache-2.0
// The order in which commands look for the engine of their cluster.
#include "kube/engine_url.h"

#include "base/mem.h"
#include "base/slice.h"

#include <stdlib.h>

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static struct kube_engine_url named(const char *url, enum kube_engine_origin origin,
                                    const char *reason)
{
    return (struct kube_engine_url){
        .url = gs_strdup(url), .origin = origin, .reason = reason ? gs_strdup(reason) : NULL};
}

char *kube_engine_url_of_kubeconfig(const char *kubeconfig, const char *context)
{
    GS_CLEANUP(kube_config_finish) struct kube_config c = {0};
    GS_AUTO_ERROR struct gs_error *err = kube_config_load(kubeconfig, context, &c);
    return err ? NULL : GS_TAKE(c.engine_url);
}

// An up that no setting names is named in the reason, because the user did not choose it.
static bool find_in_kubeconfig(const char *kubeconfig, const char *context,
                               struct kube_engine_url *ret)
{
    GS_CLEANUP(kube_config_finish) struct kube_config c = {0};
    GS_AUTO_ERROR struct gs_error *err = kube_config_load(kubeconfig, context, &c);
    if (err || !c.engine_url)
        return false;
    *ret = named(c.engine_url, KUBE_ENGINE_OF_KUBECONFIG, "of the kubeconfig");
    if (c.up_dir) {
        free(ret->reason);
        ret->reason = gs_format("of the gpuscale up in %s", c.up_dir);
    }
    return true;
}

void kube_engine_url_find(const char *flag, const char *kubeconfig, const char *context,
                          struct kube_engine_url *ret)
{
    const char *ours = variable("GPUSCALE_URL"), *theirs = variable("PROMETHEUS_URL");
    if (flag && *flag && !gs_streq(flag, ours))
        *ret = named(flag, KUBE_ENGINE_OF_FLAG, NULL);
    else if (ours)
        *ret = named(ours, KUBE_ENGINE_OF_GPUSCALE_URL, "of $GPUSCALE_URL");
    else if (theirs)
        *ret = named(theirs, KUBE_ENGINE_OF_PROMETHEUS_URL, "of $PROMETHEUS_URL");
    else if (!find_in_kubeconfig(kubeconfig, context, ret))
        *ret = named(KUBE_ENGINE_DEFAULT_URL, KUBE_ENGINE_OF_DEFAULT,
                     "the default; set --url, or KUBECONFIG or GPUSCALE_URL to what gpuscale up "
                     "prints");
}

static struct gs_error *use_service(const char *kubeconfig, const char *context,
                                    const json_t *service, struct kube_engine_url *u)
{
    struct kube_config c = {0};
    struct gs_error *err = kube_config_load(kubeconfig, context, &c);
    if (!err)
        err = kube_config_login(&c);
    if (err) {
        kube_config_finish(&c);
        return err;
    }
    GS_AUTO_FREE char *path = kube_engine_service_path(service);
    size_t n = strlen(c.server);
    while (n && c.server[n - 1] == '/')
        n--;
    kube_engine_url_finish(u);
    u->url = gs_format("%.*s%s", (int)n, c.server, path);
    u->origin = KUBE_ENGINE_OF_SERVICE;
    u->reason = gs_format("of the Service %s/%s in the cluster",
                          codec_json_str(service, "metadata", "namespace", NULL),
                          codec_json_str(service, "metadata", "name", NULL));
    u->cluster = c;
    u->settings = kube_config_endpoint(&u->cluster);
    return NULL;
}

// Without a kubeconfig or a Service, u stays as it is, and its reason says what was searched.
static struct gs_error *find_service(const char *kubeconfig, const char *context,
                                     struct kube_engine_url *u)
{
    struct kube_session s;
    CODEC_AUTO_JSON json_t *service = NULL;
    struct gs_error *err = kube_session_open(&s, kubeconfig, context, "find");
    bool open = !err;
    if (open)
        err = kube_engine_service_find(&s, &service);
    kube_session_close(&s);
    if (!err)
        return use_service(kubeconfig, context, service, u);
    if (open && gs_error_code(err) == GS_EINVAL)
        return err;
    if (open || gs_error_code(err) != GS_ENOTFOUND) { // a kubeconfig exists
        char *reason = gs_format("%s; %s", u->reason, gs_error_message(err));
        free(u->reason);
        u->reason = reason;
        u->searched = gs_strdup(gs_error_message(err));
    }
    gs_error_free(err);
    return NULL;
}

struct gs_error *kube_engine_url_locate(const char *flag, const char *kubeconfig,
                                        const char *context, struct kube_engine_url *ret)
{
    kube_engine_url_find(flag, kubeconfig, context, ret);
    if (ret->origin != KUBE_ENGINE_OF_DEFAULT)
        return NULL;
    struct gs_error *err = find_service(kubeconfig, context, ret);
    if (err)
        kube_engine_url_finish(ret);
    return err;
}

void kube_engine_url_finish(struct kube_engine_url *u)
{
    free(u->url);
    free(u->reason);
    free(u->searched);
    kube_config_finish(&u->cluster);
    *u = (struct kube_engine_url){0};
}

void kube_engine_url_move(struct kube_engine_url *from, struct kube_engine_url *to)
{
    *to = *from;
    *from = (struct kube_engine_url){0};
    if (to->origin == KUBE_ENGINE_OF_SERVICE)
        to->settings = kube_config_endpoint(&to->cluster);
}

const char *kube_engine_url_reason(const struct kube_engine_url *u)
{
    return u->reason;
}

const struct endpoint_settings *kube_engine_url_settings(const struct kube_engine_url *u)
{
    return u->origin == KUBE_ENGINE_OF_SERVICE ? &u->settings : NULL;
}

char *kube_engine_url_source(const struct kube_engine_url *u)
{
    if (!u->reason)
        return NULL;
    if (u->origin != KUBE_ENGINE_OF_DEFAULT)
        return gs_format("source: %s (%s)", u->url, u->reason);
    return gs_format("source: %s (the default%s%s)", u->url, u->searched ? "; " : "",
                     u->searched ? u->searched : "");
}
