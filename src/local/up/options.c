// SPDX-License-Identifier: Apache-2.0
// Checks of the options of `gpuscale up` that need more than one of them, before anything starts.
#include "up/up_private.h"

#include "hpa/hpa.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct gs_error *up_options_check(const struct up_options *o)
{
    struct hpa_config unused = hpa_config_default();
    struct gs_error *err = o->hpa_compat ? hpa_config_follow(&unused, o->hpa_compat) : NULL;
    if (err)
        return gs_error_wrap(err, "--hpa-compat");
    if (o->exit_after_load && !o->load)
        return gs_error_new(GS_EINVAL, "--exit-after-load needs a load: give its command with "
                                       "--load, such as --load 'hey -z 60s \"$SERVICE_URL/\"'");
    if (o->after_load && !o->load)
        return gs_error_new(GS_EINVAL, "--after-load needs a load: give its command with --load");
    for (size_t i = 0; i < o->scrape_configs.len; i++)
        if (access(o->scrape_configs.items[i], R_OK) < 0)
            return gs_error_errno(errno, "--scrape-config %s", o->scrape_configs.items[i]);
    for (size_t i = 0; i < o->env.len; i++) {
        const char *item = o->env.items[i];
        if (!up_env_is_variable(item) && (*item == '=' || !up_env_shell(o)))
            return gs_error_new(GS_EINVAL, "--env %s: write NAME=VALUE", item);
    }
    if (up_env_shell(o) && (o->stop || o->reset))
        return gs_error_new(GS_EINVAL, "--env without a value prints the environment: it cannot be "
                                       "given with --stop or --reset");
    err = o->kube_context ? up_kube_context_check(o->kube_context) : NULL;
    if (err)
        return err;
    if (o->detach && o->stop)
        return gs_error_new(GS_EINVAL, "--detach and --stop cannot both be given");
    unsigned messages = 0;
    err = up_store_check(o);
    if (err)
        return err;
    err = engine_receiver_messages(&o->receivers, &messages);
    if (err)
        return err;
    CODEC_AUTO_JSON json_t *labels = json_object(), *taints = json_array();
    return up_node_parse(o, labels, taints);
}
