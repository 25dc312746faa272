// SPDX-License-Identifier: Apache-2.0
// Reads the states of Helm releases: labels of the Secrets in which Helm 3 keeps them. Their
// contents, which may be large and secret, are neither requested nor kept.
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"
#include "kube/session.h"

#define PATH "/api/v1/secrets?labelSelector=owner%3Dhelm&limit=1000"

static json_t *labels_of(const json_t *secret)
{
    static const char *const labels[] = {"name", "status", "version", "modifiedAt"};
    json_t *out = json_object();
    for (size_t i = 0; i < GS_ARRAY_LEN(labels); i++)
        codec_json_set_str(out, labels[i], kube_label(secret, labels[i]));
    return out;
}

static json_t *releases_of(const json_t *list)
{
    json_t *items = json_array();
    size_t i;
    const json_t *secret;
    json_array_foreach (json_object_get(list, "items"), i, secret) {
        json_t *metadata = json_object();
        codec_json_set_str(metadata, "namespace", kube_namespace(secret));
        codec_json_set_str(metadata, "name", kube_name(secret));
        codec_json_set_str(metadata, "creationTimestamp", kube_created(secret));
        json_object_set_new(metadata, "labels", labels_of(secret));
        json_array_append_new(items, json_pack("{s:o}", "metadata", metadata));
    }
    return json_pack("{s:o}", "items", items);
}

void doctor_gather_helm(struct kube_session *s, json_t *facts)
{
    static const char accept[] =
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    GS_AUTO_BUF struct gs_buf body = {0};
    CODEC_AUTO_JSON json_t *list = NULL;
    int status = doctor_get_as(s, PATH, accept, &body);
    struct gs_error *err = codec_json_parse(gs_buf_slice(&body), false, &list);
    bool ok = status == 200 && !err;
    gs_error_free(err);
    json_t *releases = ok ? releases_of(list) : json_object();
    if (!ok)
        json_object_set_new(releases, "unknown", doctor_excerpt(status, &body));
    codec_json_set(facts, releases, "kubernetes", "helmreleases", NULL);
}
