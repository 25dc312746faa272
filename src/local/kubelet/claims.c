// SPDX-License-Identifier: Apache-2.0
// PersistentVolumeClaims are bound at once to a volume of their own: a folder of the data
// directory, and a PersistentVolume object pvc-UID. Both are deleted with the claim. A folder that
// is in use is deleted at the next start.
#include "local/kubelet/volumes.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/event.h"
#include "kube/object.h"
#include "local/kubelet/pod_worker.h"

#include <dirent.h>

#define PROVISIONER "gpuscale.dev/folder"

enum { RETRY_MS = 2000 };

static const struct kube_gvr claims_gvr = {"", "v1", "persistentvolumeclaims"};
static const struct kube_gvr volumes_gvr = {"", "v1", "persistentvolumes"};

struct kubelet_claims {
    struct kubelet *k;
    struct gs_hmap *binding; // UID -> struct binding
    struct gs_timer *retry;
};

// One request for a claim.
struct binding {
    struct kubelet_claims *claims;
    char *uid, *ns, *name;
    json_t *claim;
    struct kube_request *request;
};

static void binding_free(struct binding *b)
{
    kube_request_cancel(b->request);
    json_decref(b->claim);
    free(b->uid);
    free(b->ns);
    free(b->name);
    free(b);
}

static void forget(struct binding *b)
{
    gs_hmap_remove_str(b->claims->binding, b->uid);
    binding_free(b);
}

static char *volume_name(const json_t *claim)
{
    return gs_format("pvc-%s", kube_uid(claim));
}

static char *folder_of(const struct kubelet *k, const char *volume)
{
    return gs_format("%s/" KUBELET_DIR_CLAIMS "/%s", k->data_dir, volume);
}

static bool is_bound(const json_t *claim)
{
    return gs_streq(kube_phase(claim), "Bound");
}

struct gs_error *kubelet_claim_folder(const struct kubelet *k, const char *ns, const char *name,
                                      char **ret)
{
    const json_t *claim = kube_cache_get(k->cluster->claims, ns, name);
    if (!claim)
        return gs_error_new(GS_ENOTFOUND, "persistentvolumeclaim \"%s\" not found", name);
    if (!is_bound(claim))
        return gs_error_new(GS_EUNAVAIL, "PVC is not bound");
    GS_AUTO_FREE char *volume = volume_name(claim);
    if (!gs_streq(codec_json_str(claim, "spec", "volumeName", NULL), volume))
        return gs_error_new(GS_ENOTSUP,
                            "persistentvolumeclaim \"%s\" is bound to another volume "
                            "than %s",
                            name, volume);
    *ret = folder_of(k->first, volume);
    return gs_mkdir_p(*ret, 0700);
}

// --- binding ---

static json_t *make_volume(const struct kubelet *k, const json_t *claim, const char *name)
{
    const json_t *spec = json_object_get(claim, "spec");
    GS_AUTO_FREE char *path = folder_of(k, name);
    json_t *volume = json_pack(
        "{s:s, s:s, s:{s:s, s:{s:s}}, s:{s:O*, s:O*, s:O*, s:s, s:{s:s, s:s}, s:{s:s, s:s, s:s, "
        "s:s, s:s}}}",
        "apiVersion", "v1", "kind", "PersistentVolume", "metadata", "name", name, "annotations",
        "pv.kubernetes.io/provisioned-by", PROVISIONER, "spec", "accessModes",
        json_object_get(spec, "accessModes"), "storageClassName",
        json_object_get(spec, "storageClassName"), "volumeMode",
        json_object_get(spec, "volumeMode"), "persistentVolumeReclaimPolicy", "Delete", "hostPath",
        "path", path, "type", "DirectoryOrCreate", "claimRef", "apiVersion", "v1", "kind",
        "PersistentVolumeClaim", "namespace", kube_namespace(claim), "name", kube_name(claim),
        "uid", kube_uid(claim));
    json_t *storage = codec_json_get(spec, "resources", "requests", NULL);
    codec_json_set(volume, storage ? json_incref(storage) : json_object(), "spec", "capacity",
                   NULL);
    return volume;
}

static void on_bound(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct binding *b = arg;
    (void)body;
    b->request = NULL;
    // Tried again by bind_all.
    if (err && status != 404 && status != 409)
        gs_warn("kubelet", "binding the claim %s/%s: %s", b->ns, b->name, gs_error_message(err));
    gs_error_free(err);
    forget(b);
}

static void patch_claim(struct binding *b, const char *subresource, json_t *patch)
{
    codec_json_set(patch, json_string(b->uid), "metadata", "uid", NULL);
    b->request = kube_patch(b->claims->k->cluster->client, claims_gvr, b->ns, b->name, subresource,
                            KUBE_MERGE_PATCH, patch, on_bound, b);
    json_decref(patch);
}

static void on_provisioned(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct binding *b = arg;
    b->request = NULL;
    if (err && status != 409) { // 409: by a former attempt
        on_bound(b, status, body, err);
        return;
    }
    gs_error_free(err);
    GS_AUTO_FREE char *volume = volume_name(b->claim);
    CODEC_AUTO_JSON json_t *bound = json_pack("{s:{s:s}}", "status", "phase", "Bound");
    kube_patch(b->claims->k->cluster->client, volumes_gvr, NULL, volume, "status", KUBE_MERGE_PATCH,
               bound, NULL, NULL);
    kube_event(b->claims->k->recorder, b->claim, "Normal", "ProvisioningSucceeded",
               "Successfully provisioned volume %s", volume);
    patch_claim(b, NULL,
                json_pack("{s:{s:{s:s, s:s}}, s:{s:s}}", "metadata", "annotations",
                          "pv.kubernetes.io/bind-completed", "yes",
                          "volume.kubernetes.io/storage-provisioner", PROVISIONER, "spec",
                          "volumeName", volume));
}

// One step; the change of the object leads to the next.
static void step(struct binding *b)
{
    struct kubelet *k = b->claims->k;
    const json_t *spec = json_object_get(b->claim, "spec");
    GS_AUTO_FREE char *volume = volume_name(b->claim);
    if (!codec_json_str(spec, "volumeName", NULL)) {
        CODEC_AUTO_JSON json_t *object = make_volume(k, b->claim, volume);
        b->request = kube_create(k->cluster->client, volumes_gvr, NULL, object, on_provisioned, b);
        return;
    }
    patch_claim(b, "status",
                json_pack("{s:{s:s, s:O*, s:O*}}", "status", "phase", "Bound", "accessModes",
                          json_object_get(spec, "accessModes"), "capacity",
                          codec_json_get(spec, "resources", "requests", NULL)));
}

static void bind_claim(struct kubelet_claims *claims, const json_t *claim)
{
    GS_AUTO_FREE char *volume = volume_name(claim);
    const char *given = codec_json_str(claim, "spec", "volumeName", NULL);
    const char *uid = kube_uid(claim);
    if (!uid || is_bound(claim) || kube_is_deleting(claim) || (given && !gs_streq(given, volume)) ||
        gs_hmap_get_str(claims->binding, uid))
        return;
    struct binding *b = gs_alloc(sizeof(*b));
    *b = (struct binding){.claims = claims,
                          .uid = gs_strdup(uid),
                          .ns = gs_strdup(kube_namespace(claim)),
                          .name = gs_strdup(kube_name(claim)),
                          .claim = json_incref((json_t *)claim)};
    gs_hmap_put_str(claims->binding, uid, b);
    step(b);
}

// --- deletion ---

static bool pod_uses(const json_t *pod, const char *ns, const char *name)
{
    size_t i;
    json_t *volume;
    if (!gs_streq(kube_namespace(pod), ns))
        return false;
    json_array_foreach (codec_json_get(pod, "spec", "volumes", NULL), i, volume)
        if (gs_streq(codec_json_str(volume, "persistentVolumeClaim", "claimName", NULL), name))
            return true;
    return false;
}

static bool in_use(const struct kubelet *first, const json_t *claim)
{
    for (const struct kubelet *k = first; k; k = k->next) {
        size_t pos = 0;
        struct gs_slice key;
        void *value;
        while (gs_hmap_next(k->workers, &pos, &key, &value)) {
            const struct kubelet_worker *w = value;
            if (pod_uses(w->pod, kube_namespace(claim), kube_name(claim)))
                return true;
        }
    }
    return false;
}

static void remove_volume(struct kubelet *k, const json_t *claim)
{
    GS_AUTO_FREE char *volume = volume_name(claim);
    GS_AUTO_FREE char *folder = folder_of(k, volume);
    kube_delete(k->cluster->client, volumes_gvr, NULL, volume, 0, NULL, NULL);
    if (!in_use(k, claim))
        gs_remove_tree(folder);
}

static void on_change(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct kubelet_claims *claims = arg;
    if (old_obj && (!new_obj || !gs_streq(kube_uid(old_obj), kube_uid(new_obj))))
        remove_volume(claims->k, old_obj);
    if (new_obj)
        bind_claim(claims, new_obj);
}

static bool is_claimed(const struct kubelet *k, const char *volume)
{
    size_t pos = 0;
    for (const json_t *claim; (claim = kube_cache_next(k->cluster->claims, &pos));) {
        GS_AUTO_FREE char *name = volume_name(claim);
        if (gs_streq(name, volume))
            return true;
    }
    return false;
}

static void bind_all(void *arg)
{
    struct kubelet_claims *claims = arg;
    size_t pos = 0;
    for (const json_t *claim; (claim = kube_cache_next(claims->k->cluster->claims, &pos));)
        bind_claim(claims, claim);
    gs_timer_start(claims->retry, bind_all, RETRY_MS);
}

// Folders of claims that were deleted while a pod used them, or without this program.
static void on_synced(void *arg)
{
    struct kubelet_claims *claims = arg;
    GS_AUTO_FREE char *path = gs_format("%s/" KUBELET_DIR_CLAIMS, claims->k->data_dir);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        GS_AUTO_FREE char *folder = gs_format("%s/%s", path, e->d_name);
        if (gs_starts(e->d_name, "pvc-") && !is_claimed(claims->k, e->d_name))
            gs_remove_tree(folder);
    }
    if (dir)
        closedir(dir);
}

struct kubelet_claims *kubelet_claims_new(struct kubelet *k)
{
    struct kubelet_claims *claims = gs_alloc(sizeof(*claims));
    claims->k = k;
    claims->binding = gs_hmap_new(NULL);
    claims->retry = gs_timer_new(k->cluster->loop, claims);
    struct kube_cache_handlers handlers = {
        .on_change = on_change, .on_synced = on_synced, .arg = claims};
    kube_cache_add_handlers(k->cluster->claims, &handlers);
    bind_all(claims);
    return claims;
}

void kubelet_claims_free(struct kubelet_claims *claims)
{
    if (!claims)
        return;
    kube_cache_remove_handlers(claims->k->cluster->claims, claims);
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(claims->binding, &pos, &key, &value))
        binding_free(value);
    gs_hmap_free(claims->binding);
    gs_timer_free(claims->retry);
    free(claims);
}
