// SPDX-License-Identifier: Apache-2.0
// `gpuscale convert`: converts autoscalers in manifests between API versions.
#include "hpa/convert.h"
#include "base/mem.h"
#include "cmd/commands.h"

#include <stdio.h>

struct convert_opts {
    struct gs_opt_list files;
    const char *version;
};

static struct gs_error *run_convert(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct convert_opts *o = opts;
    (void)argc, (void)argv, (void)ret_exit;
    if (!o->files.len)
        return gs_error_new(GS_EINVAL, "convert needs -f FILE (-f -: standard input)");
    CODEC_AUTO_JSON json_t *list = NULL;
    struct gs_error *err = hpa_convert_files(o->files.items, o->files.len, o->version, &list);
    if (err)
        return err;
    cmd_print_json("json", list, stdout);
    return NULL;
}

static const struct gs_opt opts[] = {
    {"filename", GS_OPT_STRINGS, offsetof(struct convert_opts, files), "FILE", .alias = "f",
     .help = "Manifest, YAML or JSON, with any number of objects. -: standard input. Repeatable."},
    {"output-version", GS_OPT_STRING, offsetof(struct convert_opts, version), "VERSION", "v2",
     .help = "API version to convert to: v2, v1, v2beta2 or v2beta1."},
    {0},
};

const struct gs_command cmd_convert = {
    .name = "convert",
    .args = NULL,
    .summary = "Convert autoscalers between API versions.",
    .description =
        "Writes the objects of the files as JSON, with every HorizontalPodAutoscaler converted to "
        "another version of its API (autoscaling/v2 by default), as the API server converts it. "
        "Other objects are not changed. Kubernetes 1.25 and 1.26 removed v2beta1 and v2beta2.",
    .examples = "gpuscale convert -f hpa.yaml | kubectl apply -f -\n"
                "kubectl get hpa -o yaml | gpuscale convert -f - --output-version=v1",
    .opts = opts,
    .opts_size = sizeof(struct convert_opts),
    .min_args = 0,
    .max_args = 0,
    .run = run_convert,
};
