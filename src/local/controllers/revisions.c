// SPDX-License-Identifier: Apache-2.0
// The history of the templates of a DaemonSet or StatefulSet, as ControllerRevisions. `kubectl
// rollout history` and `undo` read them.
#include "base/hmap.h"
#include "base/mem.h"
#include "base/random.h"
#include "kube/object.h"
#include "local/controllers/controllers_private.h"

#define HISTORY_LIMIT 10

void controllers_template_hash(const char *text, char out[16])
{
    uint32_t hash = (uint32_t)gs_hash(text, strlen(text));
    char digits[16];
    int n = snprintf(digits, sizeof(digits), "%u", hash);
    for (int i = 0; i < n; i++)
        out[i] = gs_name_letter((unsigned char)digits[i]);
    out[n] = '\0';
}

static int64_t number_of(const json_t *revision)
{
    return codec_json_int(revision, 0, "revision", NULL);
}

const char *controllers_revision_hash(const json_t *revision)
{
    return kube_label(revision, CONTROLLERS_REVISION_LABEL);
}

// The patch that sets the template, as Kubernetes stores it.
static json_t *data_of(const json_t *owner)
{
    json_t *data = json_object();
    json_t *template = json_deep_copy(codec_json_get(owner, "spec", "template", NULL));
    if (json_is_null(codec_json_get(template, "metadata", "creationTimestamp", NULL)))
        codec_json_del(template, "metadata", "creationTimestamp", NULL);
    codec_json_set_str(template, "$patch", "replace");
    codec_json_set(data, template, "spec", "template", NULL);
    return data;
}

json_t *controllers_revision_template(const json_t *revision)
{
    json_t *template = json_deep_copy(codec_json_get(revision, "data", "spec", "template", NULL));
    if (!template)
        template = json_object();
    json_object_del(template, "$patch");
    return template;
}

static int compare_revisions(const void *pa, const void *pb)
{
    const json_t *a = *(const json_t *const *)pa, *b = *(const json_t *const *)pb;
    if (number_of(a) != number_of(b))
        return number_of(a) < number_of(b) ? -1 : 1;
    return controllers_compare_age(a, b);
}

// True if orphans were adopted.
static bool find_revisions(struct local_cluster *c, struct local_reconcile *w, const json_t *owner,
                           const struct kube_selector *selector, struct controllers_revisions *ret)
{
    bool adopted = false;
    size_t pos = 0;
    const json_t *r;
    while ((r = kube_cache_next(c->revisions, &pos))) {
        if (!gs_streq(kube_namespace(r), kube_namespace(owner)) || kube_is_deleting(r))
            continue;
        const json_t *ref = kube_controller_ref(r);
        if (ref && gs_streq(codec_json_str(ref, "uid", NULL), kube_uid(owner))) {
            gs_grow(&ret->items, &ret->cap, ret->len, sizeof(*ret->items));
            ret->items[ret->len++] = r;
        } else if (!ref && !kube_is_deleting(owner) &&
                   kube_selector_matches(selector, codec_json_get(r, "metadata", "labels", NULL))) {
            controllers_patch_owners(w, KUBE_REVISIONS, r, owner, NULL);
            adopted = true;
        }
    }
    if (ret->len)
        qsort(ret->items, ret->len, sizeof(*ret->items), compare_revisions);
    return adopted;
}

static void copy_annotations(const json_t *owner, json_t *revision)
{
    json_t *annotations = json_object();
    const char *key;
    json_t *value;
    json_object_foreach (codec_json_get(owner, "metadata", "annotations", NULL), key, value) {
        if (strcmp(key, "kubectl.kubernetes.io/last-applied-configuration") != 0)
            json_object_set(annotations, key, value);
    }
    codec_json_set(revision, annotations, "metadata", "annotations", NULL);
}

static void create_revision(struct local_cluster *c, struct local_reconcile *w, const json_t *owner,
                            json_t *data, int64_t number)
{
    const char *ns = kube_namespace(owner);
    GS_AUTO_FREE char *text = json_dumps(data, JSON_COMPACT | JSON_SORT_KEYS);
    GS_AUTO_FREE char *name = NULL;
    char hash[16];
    controllers_template_hash(text, hash);
    name = gs_format("%s-%s", kube_name(owner), hash);
    // Another template or owner has the name: other salts give other hashes.
    for (int salt = 1; kube_cache_get(c->revisions, ns, name); salt++) {
        GS_AUTO_FREE char *salted = gs_format("%s%d", text, salt);
        controllers_template_hash(salted, hash);
        free(name);
        name = gs_format("%s-%s", kube_name(owner), hash);
    }
    CODEC_AUTO_JSON json_t *r = json_object();
    codec_json_set_str(r, "apiVersion", "apps/v1");
    codec_json_set_str(r, "kind", "ControllerRevision");
    codec_json_set(r, json_string(name), "metadata", "name", NULL);
    codec_json_set(r, json_string(ns), "metadata", "namespace", NULL);
    json_t *labels =
        json_deep_copy(codec_json_get(owner, "spec", "template", "metadata", "labels", NULL));
    codec_json_set(r, labels ? labels : json_object(), "metadata", "labels", NULL);
    codec_json_set(r, json_string(hash), "metadata", "labels", CONTROLLERS_REVISION_LABEL, NULL);
    copy_annotations(owner, r);
    codec_json_set(r, json_pack("[o]", kube_make_controller_ref(owner)), "metadata",
                   "ownerReferences", NULL);
    json_object_set(r, "data", data);
    codec_json_set_int(r, "revision", number);
    local_reconcile_create(w, KUBE_REVISIONS, ns, r, NULL, NULL);
}

bool controllers_revisions_sync(struct local_cluster *c, struct local_reconcile *w,
                                const json_t *owner, const struct kube_selector *selector,
                                struct controllers_revisions *ret)
{
    if (find_revisions(c, w, owner, selector, ret))
        return false;
    CODEC_AUTO_JSON json_t *data = data_of(owner);
    int64_t highest = 0;
    for (size_t i = 0; i < ret->len; i++) {
        highest = number_of(ret->items[i]);
        if (json_equal(json_object_get(ret->items[i], "data"), data))
            ret->latest = ret->items[i];
    }
    if (!ret->latest) {
        create_revision(c, w, owner, data, highest + 1);
        return false;
    }
    if (number_of(ret->latest) == highest)
        return true;
    CODEC_AUTO_JSON json_t *changed = json_deep_copy(ret->latest);
    codec_json_set_int(changed, "revision", highest + 1);
    local_reconcile_update(w, KUBE_REVISIONS, changed, NULL, NULL, NULL);
    return false;
}

void controllers_revisions_finish(struct controllers_revisions *r)
{
    free(r->items);
    *r = (struct controllers_revisions){0};
}

static bool in_use(const json_t *revision, const struct controllers_pods *pods)
{
    for (size_t i = 0; i < pods->len; i++) {
        const char *hash = kube_label(pods->items[i], CONTROLLERS_REVISION_LABEL);
        if (gs_streq(hash, controllers_revision_hash(revision)) ||
            gs_streq(hash, kube_name(revision)))
            return true;
    }
    return false;
}

void controllers_revisions_truncate(struct local_reconcile *w, const json_t *owner,
                                    const struct controllers_revisions *r,
                                    const struct controllers_pods *pods, const char *keep)
{
    int64_t limit = codec_json_int(owner, HISTORY_LIMIT, "spec", "revisionHistoryLimit", NULL);
    int64_t unused = 0;
    for (int pass = 0; pass < 2; pass++) // counts, then deletes
        for (size_t i = 0; i < r->len; i++) {
            const json_t *revision = r->items[i];
            if (revision == r->latest || gs_streq(kube_name(revision), keep) ||
                in_use(revision, pods))
                continue;
            if (pass == 0)
                unused++;
            else if (unused-- > limit)
                local_reconcile_delete(w, KUBE_REVISIONS, kube_namespace(revision),
                                       kube_name(revision), NULL, NULL);
        }
}
