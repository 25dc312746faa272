// SPDX-License-Identifier: Apache-2.0
// --previous-owner=[GROUP=]TARGET: connects to the delegates.
#include "adapter/adapter_private.h"

#include "base/log.h"
#include "base/mem.h"

#define ACCOUNT_TOKEN "/var/run/secrets/kubernetes.io/serviceaccount/token"

// Returns a URL unchanged and converts "NAMESPACE/SERVICE[:PORT]" to the URL of the Service. Caller
// frees.
static char *url_of(const char *target)
{
    const char *slash = strchr(target, '/');
    if (strstr(target, "://") || !slash || slash == target || !slash[1] || strchr(slash + 1, '/'))
        return gs_strdup(target);
    const char *colon = strchr(slash, ':');
    int n = (int)(colon ? colon - slash - 1 : (ptrdiff_t)strlen(slash + 1));
    return gs_format("https://%.*s.%.*s.svc%s", n, slash + 1, (int)(slash - target), target,
                     colon ? colon : "");
}

static const char *given(const char *s)
{
    return s && *s ? s : NULL;
}

static struct gs_error *connect_delegate(struct adapter *a, const char *target,
                                         struct adapter_api_delegate **ret)
{
    const struct adapter_options *o = &a->o;
    GS_AUTO_FREE char *url = url_of(target);
    const char *token = given(o->previous_token_file), *cert = given(o->previous_cert_file);
    if (!token && !cert && access(ACCOUNT_TOKEN, R_OK) == 0)
        token = ACCOUNT_TOKEN;
    const struct adapter_api_delegate_options p = {
        .url = url,
        .endpoint = {.ca.file = given(o->previous_ca_file),
                     .cert.file = cert,
                     .key.file = given(o->previous_key_file),
                     .credentials.file = token,
                     .insecure_skip_verify = o->previous_insecure,
                     .proxy_from_environment = true},
        .front_proxy = o->previous_front_proxy};
    if (p.front_proxy && !cert)
        return gs_error_new(GS_EINVAL, "--previous-owner-front-proxy needs "
                                       "--previous-owner-client-cert-file and -key-file");
    if (p.endpoint.insecure_skip_verify)
        gs_warn("adapter", "the certificate of the previous owner %s is not verified", target);
    return adapter_api_delegate_new(a->loop, &p, ret);
}

static struct gs_error *take_group(struct adapter *a, struct gs_slice group,
                                   struct adapter_api_delegate *p, const char *flag)
{
    static const char *const custom[] = {ADAPTER_API_CUSTOM "/v1beta1",
                                         ADAPTER_API_CUSTOM "/v1beta2", NULL};
    static const char *const external[] = {ADAPTER_API_EXTERNAL "/v1beta1", NULL};
    static const char *const resource[] = {ADAPTER_API_RESOURCE "/v1beta1", NULL};
    const struct {
        const char *name;
        struct adapter_api_delegate **slot;
        const char *const *versions;
    } groups[] = {{ADAPTER_API_CUSTOM, &a->delegate_custom, custom},
                  {ADAPTER_API_EXTERNAL, &a->delegate_external, external},
                  {ADAPTER_API_RESOURCE, &a->delegate_resource, resource}};
    for (size_t i = 0; i < GS_ARRAY_LEN(groups); i++) {
        if (!gs_slice_eq_str(group, groups[i].name))
            continue;
        if (*groups[i].slot)
            return gs_error_new(GS_EINVAL,
                                "--previous-owner=%s: a previous owner of %s is already set", flag,
                                groups[i].name);
        *groups[i].slot = p;
        for (size_t k = 0; groups[i].versions[k]; k++)
            adapter_api_delegate_follow(p, groups[i].versions[k]);
        gs_info("adapter", "requests of %s that no rule serves are forwarded to %s", groups[i].name,
                adapter_api_delegate_name(p));
        return NULL;
    }
    return gs_error_new(GS_EINVAL,
                        "--previous-owner=%s: want " ADAPTER_API_CUSTOM ", " ADAPTER_API_EXTERNAL
                        " or " ADAPTER_API_RESOURCE " in front of =",
                        flag);
}

struct gs_error *adapter_make_delegates(struct adapter *a)
{
    const struct gs_opt_list *list = &a->o.previous_owners;
    a->delegates = gs_alloc_array(list->len + 1, sizeof(struct adapter_api_delegate *));
    for (size_t i = 0; i < list->len; i++) {
        const char *flag = list->items[i], *equals = strchr(flag, '=');
        struct adapter_api_delegate *p = NULL;
        struct gs_error *err = connect_delegate(a, equals ? equals + 1 : flag, &p);
        if (err)
            return gs_error_wrap(err, "--previous-owner");
        a->delegates[a->n_delegates++] = p;
        if (equals) {
            err = take_group(a, gs_slice_make(flag, (size_t)(equals - flag)), p, flag);
        } else {
            err = take_group(a, GS_SLICE(ADAPTER_API_CUSTOM), p, flag);
            if (!err)
                err = take_group(a, GS_SLICE(ADAPTER_API_EXTERNAL), p, flag);
        }
        if (err)
            return err;
    }
    return NULL;
}

void adapter_free_delegates(struct adapter *a)
{
    for (size_t i = 0; i < a->n_delegates; i++)
        adapter_api_delegate_free(a->delegates[i]);
    free(a->delegates);
}
