// SPDX-License-Identifier: Apache-2.0
// `gpuscale convert scaledobject`: ScaledObjects of KEDA as autoscalers with rules, and back.
#include "adapter/scaledobject/scaledobject.h"
#include "base/file.h"
#include "base/mem.h"
#include "cmd/commands.h"
#include "codec/yaml.h"
#include "hpa/convert.h"
#include "kube/object.h"

#include <errno.h>
#include <stdio.h>

struct convert_scaledobject_opts {
    const char *rules, *write_rules, *server, *scaler;
};

static void convert_one(const struct convert_scaledobject_opts *o, const json_t *object,
                        const struct adapter_config *rules, struct scaledobject_result *r)
{
    const char *kind = kube_kind(object);
    const struct scaledobject_sources sources = {
        .rules = rules, .server = o->server, .scaler = o->scaler};
    if (gs_streq(kind, "ScaledObject"))
        scaledobject_to_hpa(object, r);
    else if (gs_streq(kind, "HorizontalPodAutoscaler"))
        scaledobject_from_hpa(object, &sources, r);
    else
        gs_buf_addf(&r->notes,
                    "%s%s%s: not converted: want a ScaledObject or a "
                    "HorizontalPodAutoscaler\n",
                    kind ? kind : "an object without kind", kube_name(object) ? " " : "",
                    kube_name(object) ? kube_name(object) : "");
}

static void convert_all(const struct convert_scaledobject_opts *o, const json_t *objects,
                        const struct adapter_config *rules, struct scaledobject_result *r)
{
    const json_t *items = json_object_get(objects, "items"), *object;
    size_t i;
    if (!items)
        convert_one(o, objects, rules, r);
    json_array_foreach (items, i, object)
        convert_one(o, object, rules, r);
}

static struct gs_error *write_rules(const struct convert_scaledobject_opts *o, const json_t *rules)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    CODEC_AUTO_JSON json_t *config = json_pack("{s:O}", "externalRules", rules);
    if (!json_array_size(rules))
        return NULL;
    if (!o->write_rules)
        return gs_error_new(GS_EINVAL,
                            "the autoscalers need %zu rule%s of the adapter: set "
                            "--write-rules=FILE",
                            json_array_size(rules), json_array_size(rules) == 1 ? "" : "s");
    codec_yaml_dump(config, &text);
    return gs_file_write_atomic(o->write_rules, 0644, gs_buf_slice(&text));
}

static struct gs_error *print_objects(const json_t *objects)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    const json_t *object;
    size_t i;
    json_array_foreach (objects, i, object) {
        gs_buf_add_str(&text, i ? "---\n" : "");
        codec_yaml_dump(object, &text);
    }
    if (fwrite(text.data ? text.data : "", 1, text.len, stdout) != text.len || fflush(stdout) != 0)
        return gs_error_new(GS_EIO, "standard output: %s", strerror(errno));
    return NULL;
}

static struct gs_error *run_convert_scaledobject(const void *opts, int argc, char **argv,
                                                 int *ret_exit)
{
    const struct convert_scaledobject_opts *o = opts;
    GS_CLEANUP(scaledobject_result_finish) struct scaledobject_result r;
    GS_CLEANUP(adapter_config_freep) struct adapter_config *rules = NULL;
    CODEC_AUTO_JSON json_t *objects = NULL;
    scaledobject_result_init(&r);
    struct gs_error *err =
        hpa_convert_files((const char *const *)argv, (size_t)argc, "v2", &objects);
    if (!err && o->rules)
        err = adapter_config_load(o->rules, NULL, &rules);
    if (err)
        return err;
    convert_all(o, objects, rules, &r);
    err = write_rules(o, r.rules);
    if (!err)
        err = print_objects(r.objects);
    fprintf(stderr, "%s%s", r.notes.len ? r.notes.data : "", r.problems.len ? r.problems.data : "");
    if (err)
        return err;
    fprintf(stderr, "%zu object%s converted, %zu problem%s\n", json_array_size(r.objects),
            json_array_size(r.objects) == 1 ? "" : "s", r.n_problems, r.n_problems == 1 ? "" : "s");
    if (!json_array_size(r.objects) && !r.n_problems)
        return gs_error_new(GS_ENOTFOUND, "no ScaledObject and no HorizontalPodAutoscaler in %s%s",
                            argv[0], argc > 1 ? " and the other files" : "");
    *ret_exit = r.n_problems ? 1 : 0;
    return NULL;
}

static const struct gs_opt opts[] = {
    {"write-rules", GS_OPT_STRING, offsetof(struct convert_scaledobject_opts, write_rules), "FILE",
     .help = "File for the rules of the adapter, which is replaced. Required if a trigger is "
             "converted to a rule."},
    {"rules", GS_OPT_STRING, offsetof(struct convert_scaledobject_opts, rules), "FILE",
     .help = "Configuration of the adapter with the rules of External metrics, for triggers."},
    {"server", GS_OPT_STRING, offsetof(struct convert_scaledobject_opts, server), "URL",
     .help = "Address of Prometheus for triggers (serverAddress)."},
    {"scaler", GS_OPT_STRING, offsetof(struct convert_scaledobject_opts, scaler), "HOST:PORT",
     .help = "Address of gpuscale's scaler for KEDA, for triggers of Object metrics, and of "
             "External metrics without a rule (scalerAddress)."},
    {0},
};

const struct gs_command cmd_convert_scaledobject = {
    .name = "scaledobject",
    .within = "convert",
    .args = "FILE…",
    .summary = "Convert KEDA's ScaledObjects to autoscalers with rules of the adapter, and back.",
    .description =
        "A ScaledObject becomes a HorizontalPodAutoscaler: triggers of the type prometheus become "
        "External metrics with a rule, cpu and memory become Resource metrics, and those of "
        "gpuscale's scaler Object metrics. A "
        "HorizontalPodAutoscaler becomes a ScaledObject. The objects are printed as YAML. Each "
        "field is converted, kept in the annotation " SCALEDOBJECT_ANNOTATION ", or reported on "
        "standard error. An object with a trigger that cannot be converted is not printed, and the "
        "exit code is 1. FILE may be - for standard input.",
    .examples = "gpuscale convert scaledobject so.yaml --write-rules=rules.yaml > hpa.yaml\n"
                "kubectl get so -A -o yaml | gpuscale convert scaledobject - --write-rules=r.yaml\n"
                "gpuscale convert scaledobject hpa.yaml --rules=config.yaml "
                "--server=http://prometheus:9090",
    .opts = opts,
    .opts_size = sizeof(struct convert_scaledobject_opts),
    .min_args = 1,
    .max_args = -1,
    .run = run_convert_scaledobject,
};
