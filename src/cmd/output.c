// SPDX-License-Identifier: Apache-2.0
// The --output flag that several commands have, and the cluster that no setting names.
#include "base/slice.h"
#include "cmd/commands.h"
#include "codec/yaml.h"
#include "kube/kubeconfig.h"

struct gs_error *cmd_check_output(const char *output, const char *text)
{
    if (gs_streq(output, text) || gs_streq(output, "json") || gs_streq(output, "yaml"))
        return NULL;
    return gs_error_new(GS_EINVAL, "--output \"%s\": want %s, json or yaml", output, text);
}

void cmd_print_json(const char *output, const json_t *j, FILE *out)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (gs_streq(output, "yaml")) {
        codec_yaml_dump(j, &text);
    } else {
        codec_json_dump_pretty(j, &text);
        gs_buf_add_char(&text, '\n');
    }
    (void)fwrite(text.data, 1, text.len, out);
    (void)fflush(out);
}

void cmd_print_cluster(const char *kubeconfig, const char *context)
{
    GS_CLEANUP(kube_config_finish) struct kube_config c = {0};
    GS_AUTO_ERROR struct gs_error *err = kube_config_load(kubeconfig, context, &c);
    if (!err && c.up_dir)
        fprintf(stderr, "cluster: %s (of the gpuscale up in %s)\n", c.server, c.up_dir);
}
