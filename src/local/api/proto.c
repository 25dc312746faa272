// SPDX-License-Identifier: Apache-2.0
// Bodies in Kubernetes' protobuf form: the magic "k8s\0" and runtime.Unknown around the object.
// client-go sends it; responses are JSON.
#include "local/api/proto.h"

#include "base/mem.h"

// The two fields of runtime.Unknown, or of its TypeMeta, that count.
struct texts {
    struct gs_slice first, second;
};

static struct gs_error *read_texts(struct gs_slice message, struct texts *ret)
{
    while (message.len > 0) {
        struct codec_proto_token t;
        struct gs_error *err = codec_proto_next(&message, &t);
        if (err)
            return err;
        if (t.number == 1)
            ret->first = t.bytes;
        else if (t.number == 2)
            ret->second = t.bytes;
    }
    return NULL;
}

static json_t *string_of(struct gs_slice s)
{
    return json_stringn(s.data ? s.data : "", s.len);
}

struct gs_error *local_api_proto_decode(struct gs_slice body, json_t **ret)
{
    static const char magic[] = {'k', '8', 's', 0};
    static const struct kube_proto_options strict = {0};
    struct texts unknown = {0}, meta = {0}; // type and object; API version and kind

    if (body.len < sizeof magic || memcmp(body.data, magic, sizeof magic) != 0)
        return gs_error_new(GS_EPROTO, "the body does not start as Kubernetes' protobuf form does");
    struct gs_slice rest = gs_slice_make(body.data + sizeof magic, body.len - sizeof magic);
    struct gs_error *err = read_texts(rest, &unknown);
    if (!err)
        err = read_texts(unknown.first, &meta);
    if (err)
        return err;
    GS_AUTO_FREE char *api_version = gs_slice_dup(meta.first);
    GS_AUTO_FREE char *kind = gs_slice_dup(meta.second);
    const struct kube_type *type = local_api_proto_request_type(api_version, kind);
    if (!type)
        type = kube_schema_find(api_version, kind);
    if (!type)
        return gs_error_new(GS_ENOTSUP, "%s of %s is not known in protobuf form here: send JSON",
                            kind, api_version);
    CODEC_AUTO_JSON json_t *obj = json_object();
    if (json_object_set_new(obj, "kind", string_of(meta.second)) != 0 ||
        json_object_set_new(obj, "apiVersion", string_of(meta.first)) != 0)
        return gs_error_new(GS_EPROTO, "kind and apiVersion must be UTF-8");
    err = kube_proto_decode(type, unknown.second, &strict, obj);
    if (!err)
        *ret = GS_TAKE(obj);
    return err;
}
