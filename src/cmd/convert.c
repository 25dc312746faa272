// SPDX-License-Identifier: Apache-2.0
// `gpuscale check convert`, also `gpuscale convert`: converts autoscalers in manifests between API
// versions.
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
    size_t n_args = (size_t)argc, n = o->files.len + n_args;
    (void)ret_exit;
    if (!n)
        return gs_error_new(GS_EINVAL, "check convert needs a FILE (-: standard input)");
    GS_AUTO_FREE const char **files = gs_alloc_array(n, sizeof(*files));
    for (size_t i = 0; i < n; i++)
        files[i] = i < o->files.len ? o->files.items[i] : argv[i - o->files.len];
    CODEC_AUTO_JSON json_t *list = NULL;
    struct gs_error *err = hpa_convert_files(files, n, o->version, &list);
    if (err)
        return err;
    cmd_print_json("json", list, stdout);
    return NULL;
}

static const struct gs_opt opts[] = {
    {"filename", GS_OPT_STRINGS, offsetof(struct convert_opts, files), "FILE", .alias = "f",
     .help = "Manifest, YAML or JSON, with any number of objects. -: standard input. Repeatable. "
             "The same as an argument."},
    {"output-version", GS_OPT_STRING, offsetof(struct convert_opts, version), "VERSION", "v2",
     .help = "API version to convert to: v2, v1, v2beta2 or v2beta1."},
    {0},
};

const struct gs_command cmd_convert = {
    .name = "convert",
    .within = "check",
    .args = "FILE…",
    .summary = "Convert autoscalers between API versions.",
    .description =
        "Writes the objects of the files as JSON, with every HorizontalPodAutoscaler converted to "
        "another version of its API (autoscaling/v2 by default), as the API server converts it. "
        "Other objects are not changed. Kubernetes 1.25 and 1.26 removed v2beta1 and v2beta2.\n\n"
        "gpuscale convert dashboards and gpuscale convert rules change the names of GPU metrics in "
        "files between dcgm-exporter 4.8 and 4.9. gpuscale convert scaledobject converts "
        "ScaledObjects of KEDA to autoscalers, and back.",
    .examples = "gpuscale check convert hpa.yaml | kubectl apply -f -\n"
                "kubectl get hpa -o yaml | gpuscale check convert - --output-version=v1",
    .opts = opts,
    .opts_size = sizeof(struct convert_opts),
    .min_args = 0,
    .max_args = -1,
    .run = run_convert,
};
