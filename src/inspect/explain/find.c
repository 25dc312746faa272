// SPDX-License-Identifier: Apache-2.0
// Finds the autoscaler that is meant: by the workload that it scales, and, if the name does not
// exist, by the namespaces that have it, so that the error names them.
#include "explain/explain_private.h"

#include "base/mem.h"
#include "kube/object.h"

#include <strings.h>

enum { MAX_NAMES = 8 };
#define LIST_QUERY "limit=2000"

// "deployments" and "deploy" are Deployment.
static bool is_kind(const char *word, const char *kind)
{
    static const char *const shorts[][2] = {
        {"deploy", "Deployment"}, {"sts", "StatefulSet"}, {"rs", "ReplicaSet"}};
    size_t n = strcspn(word, ".");
    for (size_t i = 0; i < GS_ARRAY_LEN(shorts); i++)
        if (strlen(shorts[i][0]) == n && strncasecmp(word, shorts[i][0], n) == 0)
            return gs_streq(kind, shorts[i][1]);
    size_t len = kind ? strlen(kind) : 0;
    bool plural = n == len + 1 && (word[n - 1] == 's' || word[n - 1] == 'S');
    return len && (n == len || plural) && strncasecmp(word, kind, len) == 0;
}

static bool scales(const json_t *hpa, const char *kind, const char *name)
{
    const json_t *target = codec_json_get(hpa, "spec", "scaleTargetRef", NULL);
    return is_kind(kind, codec_json_str(target, "kind", NULL)) &&
           gs_streq(codec_json_str(target, "name", NULL), name);
}

static void add_name(struct gs_buf *out, size_t *n, const char *name)
{
    if (*n < MAX_NAMES)
        gs_buf_addf(out, "%s%s", *n ? ", " : "", name);
    else if (*n == MAX_NAMES)
        gs_buf_add_str(out, ", …");
    ++*n;
}

// "Deployment/web" of each autoscaler, for the error.
static struct gs_error *no_autoscaler_of(const json_t *hpas, const char *ns, const char *kind,
                                         const char *name)
{
    GS_AUTO_BUF struct gs_buf others = {0};
    size_t i, n = 0;
    const json_t *hpa;
    json_array_foreach (json_object_get(hpas, "items"), i, hpa) {
        GS_AUTO_FREE char *target =
            gs_format("%s/%s", codec_json_str(hpa, "spec", "scaleTargetRef", "kind", NULL),
                      codec_json_str(hpa, "spec", "scaleTargetRef", "name", NULL));
        add_name(&others, &n, target);
    }
    return gs_error_new(GS_ENOTFOUND,
                        "no HorizontalPodAutoscaler in the namespace \"%s\" scales %s/%s%s%s", ns,
                        kind, name, n ? "; those in it scale " : "", n ? others.data : "");
}

static struct gs_error *choose_hpa(const json_t *hpas, const char *ns, const char *kind,
                                   const char *name, char **ret)
{
    GS_AUTO_BUF struct gs_buf found = {0};
    size_t i, n = 0;
    const json_t *hpa, *only = NULL;
    json_array_foreach (json_object_get(hpas, "items"), i, hpa) {
        if (!scales(hpa, kind, name))
            continue;
        only = hpa;
        add_name(&found, &n, kube_name(hpa));
    }
    if (!n)
        return no_autoscaler_of(hpas, ns, kind, name);
    if (n > 1)
        return gs_error_new(GS_EINVAL,
                            "%zu autoscalers in the namespace \"%s\" scale %s/%s: name one of %s",
                            n, ns, kind, name, found.data);
    *ret = gs_strdup(kube_name(only));
    return NULL;
}

struct gs_error *explain_find_hpa(const struct explain_cluster *o, const char *kind,
                                  const char *name, char **ret)
{
    struct kube_session s;
    CODEC_AUTO_JSON json_t *hpas = NULL;
    struct gs_error *err = kube_session_open(&s, o->kubeconfig, o->context, "explain");
    const char *ns = o->ns ? o->ns : s.ns;
    if (!err)
        err = kube_session_list(&s, KUBE_HPAS, ns, LIST_QUERY, EXPLAIN_TIMEOUT_MS, &hpas);
    if (!err)
        err = choose_hpa(hpas, ns, kind, name, ret);
    kube_session_close(&s);
    return err;
}

// --- names that do not exist ---

// The names of the objects, or the namespaces of those with this name.
static size_t list_names(const json_t *list, const char *name, struct gs_buf *out)
{
    size_t i, n = 0;
    const json_t *object;
    json_array_foreach (json_object_get(list, "items"), i, object) {
        if (!name)
            add_name(out, &n, kube_name(object));
        else if (gs_streq(kube_name(object), name))
            add_name(out, &n, kube_namespace(object));
    }
    return n;
}

static bool lists_name(const json_t *list, const char *name)
{
    size_t i;
    const json_t *object;
    json_array_foreach (json_object_get(list, "items"), i, object)
        if (gs_streq(kube_name(object), name))
            return true;
    return false;
}

static json_t *list(struct kube_session *s, struct kube_gvr r, const char *ns)
{
    json_t *all = NULL;
    GS_AUTO_ERROR struct gs_error *err =
        kube_session_list(s, r, ns, LIST_QUERY, EXPLAIN_TIMEOUT_MS, &all);
    return err ? NULL : all;
}

// What to write instead: "the namespace does not exist", or the names that do. NULL: nothing helps.
static char *hint(struct kube_session *s, struct kube_gvr r, const char *ns, const char *name)
{
    CODEC_AUTO_JSON json_t *everywhere = list(s, r, NULL), *namespaces = NULL, *here = NULL;
    GS_AUTO_BUF struct gs_buf text = {0};
    if (list_names(everywhere, name, &text))
        return gs_format("it is in the namespace %s: use -n", text.data);
    namespaces = list(s, KUBE_NAMESPACES, NULL);
    if (namespaces && !lists_name(namespaces, ns)) {
        (void)list_names(namespaces, NULL, &text);
        return gs_format("the namespace \"%s\" does not exist; namespaces: %s", ns,
                         text.data ? text.data : "none");
    }
    here = list(s, r, ns);
    return list_names(here, NULL, &text) ? gs_format("those in it: %s", text.data) : NULL;
}

struct gs_error *explain_not_found(const struct explain_cluster *o, struct kube_gvr r,
                                   const char *name, struct gs_error *err)
{
    struct kube_session s;
    if (gs_error_code(err) != GS_ENOTFOUND)
        return err;
    GS_AUTO_ERROR struct gs_error *closed =
        kube_session_open(&s, o->kubeconfig, o->context, "explain");
    const char *ns = closed ? NULL : o->ns ? o->ns : s.ns;
    GS_AUTO_FREE char *text = ns ? hint(&s, r, ns, name) : NULL;
    if (ns) {
        struct gs_error *full =
            gs_error_new(GS_ENOTFOUND, "%s in the namespace \"%s\"%s%s", gs_error_message(err), ns,
                         text ? "; " : "", text ? text : "");
        gs_error_free(err);
        err = full;
    }
    kube_session_close(&s);
    return err;
}
