// SPDX-License-Identifier: Apache-2.0
// An Alertmanager object as prometheus-operator deploys it. The generated Secret has the
// configuration of spec.configSecret as it is: AlertmanagerConfig objects are not read.
#include "local/operator/operator_private.h"

#include "base/mem.h"
#include "kube/object.h"

#define PORT        9093
#define CONFIG_KEY  "alertmanager.yaml"
#define NO_RECEIVER "route:\n  receiver: \"null\"\nreceivers:\n- name: \"null\"\n"

static json_t *args_of(const json_t *spec)
{
    const char *url = operator_text(spec, "externalUrl", NULL);
    json_t *args = json_array();
    json_array_append_new(args, json_string("--config.file=/etc/alertmanager/config/" CONFIG_KEY));
    json_array_append_new(args, json_string("--storage.path=/alertmanager"));
    json_array_append_new(
        args, codec_json_strf("--data.retention=%s", operator_text(spec, "retention", "120h")));
    // Several replicas do not form a cluster: their addresses are not known to each other.
    json_array_append_new(args, json_string("--cluster.listen-address="));
    json_array_append_new(args, json_string("--web.listen-address=:9093"));
    if (url)
        json_array_append_new(args, codec_json_strf("--web.external-url=%s", url));
    json_array_append_new(
        args, codec_json_strf("--web.route-prefix=%s", operator_text(spec, "routePrefix", "/")));
    return args;
}

json_t *operator_alertmanager_set(const json_t *obj, const char *reloader)
{
    GS_AUTO_FREE char *secret = gs_format("alertmanager-%s-generated", kube_name(obj));
    const struct operator_set s = {.obj = obj,
                                   .app = "alertmanager",
                                   .repository = "quay.io/prometheus/alertmanager",
                                   .version = "v0.28.1",
                                   .port = PORT,
                                   .config_dir = "/etc/alertmanager/config",
                                   .data_dir = "/alertmanager",
                                   .reloader = reloader,
                                   .config_secret = secret,
                                   .config_file = CONFIG_KEY};
    GS_AUTO_FREE char *name = operator_set_name(&s);
    return operator_set_make(&s, name, operator_set_labels(&s),
                             args_of(json_object_get(obj, "spec")));
}

json_t *operator_alertmanager_service(const json_t *obj)
{
    return operator_governing_service(obj, "alertmanager", PORT);
}

json_t *operator_alertmanager_secret(const json_t *obj, const struct kube_cache *secrets)
{
    GS_AUTO_FREE char *usual = gs_format("alertmanager-%s", kube_name(obj));
    GS_AUTO_FREE char *name = gs_format("alertmanager-%s-generated", kube_name(obj));
    const json_t *from =
        kube_cache_get(secrets, kube_namespace(obj),
                       operator_text(json_object_get(obj, "spec"), "configSecret", usual));
    CODEC_AUTO_JSON json_t *none = json_pack("{s:s}", CONFIG_KEY, NO_RECEIVER);
    json_t *secret = operator_secret(obj, name, none);
    if (json_is_object(json_object_get(from, "data")))
        json_object_update(json_object_get(secret, "data"), json_object_get(from, "data"));
    return secret;
}
