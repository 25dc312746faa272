// SPDX-License-Identifier: Apache-2.0
// Defaults, and the annotation of a Service.
#include "activator/activator_private.h"

#include "base/mem.h"
#include "kube/object.h"

struct activator_config activator_config_default(void)
{
    return (struct activator_config){.identity = "gpuscale",
                                     .listen = "127.0.0.1",
                                     .advertise = "127.0.0.1",
                                     .max_services = 256,
                                     .max_held = 1000,
                                     .max_bytes = 64 * 1024,
                                     .max_total_bytes = 8 * 1024 * 1024,
                                     .hold_ms = 600 * 1000,
                                     .silent_ms = 10 * 1000,
                                     .per_endpoint = 8};
}

static struct gs_error *check_service(const json_t *service)
{
    const char *type = codec_json_str(service, "spec", "type", NULL);
    if (gs_streq(type ? type : "", "ExternalName"))
        return gs_error_new(GS_EINVAL, "a Service of the type ExternalName has no endpoints");
    if (gs_streq(codec_json_str(service, "spec", "clusterIP", NULL), "None"))
        return gs_error_new(GS_EINVAL,
                            "clients of a headless Service connect to pods, so that its "
                            "connections cannot be held: use a Service with a ClusterIP");
    if (json_array_size(codec_json_get(service, "spec", "ports", NULL)) > ACTIVATOR_MAX_PORTS)
        return gs_error_new(GS_EINVAL, "it has more than %d ports", ACTIVATOR_MAX_PORTS);
    return NULL;
}

struct gs_error *activator_target_read(const json_t *service, struct activator_target *ret)
{
    const char *text = kube_annotation(service, ACTIVATOR_ANNOTATION);
    const char *slash = text ? strchr(text, '/') : NULL;
    if (!slash || slash == text || !slash[1] || strchr(slash + 1, '/'))
        return gs_error_new(GS_EINVAL,
                            "annotation " ACTIVATOR_ANNOTATION " \"%.100s\": write KIND/NAME, such "
                            "as Deployment/api",
                            text ? text : "");
    struct gs_error *err = check_service(service);
    if (err)
        return gs_error_wrap(err, "annotation " ACTIVATOR_ANNOTATION);
    ret->kind = gs_strndup(text, (size_t)(slash - text));
    ret->name = gs_strdup(slash + 1);
    return NULL;
}

void activator_target_finish(struct activator_target *t)
{
    free(t->kind);
    free(t->name);
    *t = (struct activator_target){0};
}
