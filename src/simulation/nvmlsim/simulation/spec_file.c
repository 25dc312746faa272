// SPDX-License-Identifier: Apache-2.0
// Specifications of simulated GPUs: "8xA100-SXM4-80GB", or a YAML file. Mistakes are reported with
// their line.
#include "nvmlsim/simulation/simulation.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/slice.h"
#include "codec/yaml.h"
#include "kube/quantity.h"

#include <libfyaml.h>

#define MAX_FILE        ((size_t)1024 * 1024)
#define MAX_TIME_SLICES 128
#define ITEM_PATH_SIZE  64

struct reader {
    const char *path;
    struct gs_slice text;
};

static int line_of_node(struct fy_node *node)
{
    while (node && !fy_node_is_scalar(node)) {
        struct fy_node_pair *pair = NULL;
        if (fy_node_is_mapping(node))
            pair = fy_node_mapping_get_by_index(node, 0);
        node = pair ? fy_node_pair_key(pair) : fy_node_sequence_get_by_index(node, 0);
    }
    struct fy_token *token = node ? fy_node_get_scalar_token(node) : NULL;
    const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;
    return mark ? mark->line + 1 : 0;
}

// The line of a value in the file, or of the nearest enclosing value with a line.
static int line_of(const struct reader *r, const char *where)
{
    struct fy_document *doc = fy_document_build_from_string(NULL, r->text.data, r->text.len);
    if (!doc)
        return 1;
    GS_AUTO_FREE char *path = gs_strdup(where);
    int line = 0;
    while (!line) {
        line = line_of_node(
            fy_node_by_path(fy_document_root(doc), path, strlen(path), FYNWF_DONT_FOLLOW));
        char *slash = strrchr(path, '/');
        if (!slash)
            break;
        *slash = 0;
    }
    fy_document_destroy(doc);
    return line ? line : 1;
}

static struct gs_error *spec_error(const struct reader *r, const char *item, const char *key,
                                   struct gs_error *err)
{
    GS_AUTO_FREE char *where = gs_format("%s%s%s", item, key ? "/" : "", key ? key : "");
    return gs_error_wrap(err, "%s:%d", r->path, line_of(r, where));
}

static struct gs_error *check_keys(const struct reader *r, const char *item, json_t *object,
                                   const char *const *known, size_t n)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        bool found = false;
        for (size_t i = 0; i < n; i++)
            found = found || gs_streq(key, known[i]);
        if (found)
            continue;
        bool plain =
            key[strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-")] == 0;
        return spec_error(
            r, item, plain && *key ? key : NULL,
            gs_error_new(
                GS_EINVAL,
                "unknown field \"%s\": want model, count, memory, timeSlicing.replicas, "
                "timeSlicing.renameByDefault, timeSlicing.failRequestsGreaterThanOne or mig of a "
                "GPU, and gpus, switches, cpus.count or cpus.cores of the machine",
                key));
    }
    return NULL;
}

// Reads an integer member within 1..max. *ret keeps its value if the member is absent.
static struct gs_error *read_count(const struct reader *r, const char *item, json_t *object,
                                   const char *key, int max, unsigned *ret)
{
    json_t *v = json_object_get(object, key);
    if (!v)
        return NULL;
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > max)
        return spec_error(r, item, key,
                          gs_error_new(GS_EINVAL, "%s: want a number from 1 to %d", key, max));
    *ret = (unsigned)json_integer_value(v);
    return NULL;
}

// Reads a truth value. *ret keeps its value if the member is absent.
static struct gs_error *read_truth(const struct reader *r, const char *item, json_t *object,
                                   const char *key, bool *ret)
{
    json_t *v = json_object_get(object, key);
    if (v && !json_is_boolean(v))
        return spec_error(r, item, key, gs_error_new(GS_EINVAL, "%s: want true or false", key));
    if (v)
        *ret = json_is_true(v);
    return NULL;
}

static struct gs_error *read_memory(const struct reader *r, const char *item, json_t *object,
                                    uint64_t *ret_mib)
{
    json_t *v = json_object_get(object, "memory");
    if (!v)
        return NULL;
    int64_t bytes = 0;
    struct gs_error *err = NULL;
    if (json_is_integer(v))
        bytes = json_integer_value(v);
    else if (json_is_string(v))
        err = kube_quantity_parse_value(gs_slice_of(json_string_value(v)), &bytes);
    if (!err && bytes < 1 << 20)
        err = gs_error_new(GS_EINVAL, "want a size such as 24Gi");
    if (err)
        return spec_error(r, item, "memory", gs_error_wrap(err, "memory"));
    *ret_mib = (uint64_t)bytes >> 20;
    return NULL;
}

static struct gs_error *read_model(const struct reader *r, const char *item, json_t *object,
                                   struct nvmlsim_gpu_spec *g)
{
    json_t *v = json_object_get(object, "model");
    if (!json_is_string(v))
        return spec_error(r, item, v ? "model" : NULL,
                          gs_error_new(GS_EINVAL, "a GPU needs a model, such as A100-SXM4-80GB"));
    struct gs_error *err = nvmlsim_gpu_spec_set_model(g, json_string_value(v));
    return err ? spec_error(r, item, "model", err) : NULL;
}

static struct gs_error *read_mig(const struct reader *r, const char *item, json_t *object,
                                 struct nvmlsim_gpu_spec *g)
{
    json_t *list = json_object_get(object, "mig"), *v;
    size_t i;
    if (!list)
        return NULL;
    if (!json_is_array(list) || json_array_size(list) > NVMLSIM_MAX_MIG)
        return spec_error(r, item, "mig",
                          gs_error_new(GS_EINVAL,
                                       "mig: want a list of at most %d profiles, such as "
                                       "[1g.10gb, 2g.20gb]",
                                       NVMLSIM_MAX_MIG));
    json_array_foreach (list, i, v) {
        const char *profile = json_string_value(v);
        if (!profile || strlen(profile) >= sizeof(g->mig[i].profile))
            return spec_error(
                r, item, "mig",
                gs_error_new(GS_EINVAL, "a MIG profile: want a name such as 1g.10gb"));
        memcpy(g->mig[i].profile, profile, strlen(profile) + 1);
    }
    g->n_mig = (unsigned)json_array_size(list);
    return NULL;
}

static struct gs_error *read_time_slicing(const struct reader *r, const char *item, json_t *object,
                                          struct nvmlsim_gpu_spec *g)
{
    static const char *const known[] = {"replicas", "renameByDefault",
                                        "failRequestsGreaterThanOne"};
    json_t *v = json_object_get(object, "timeSlicing");
    if (!v)
        return NULL;
    GS_AUTO_FREE char *where = gs_format("%s/timeSlicing", item);
    if (!json_is_object(v))
        return spec_error(r, where, NULL,
                          gs_error_new(GS_EINVAL, "timeSlicing: want {replicas: NUMBER}"));
    struct gs_error *err = check_keys(r, where, v, known, GS_ARRAY_LEN(known));
    if (!err)
        err = read_count(r, where, v, "replicas", MAX_TIME_SLICES, &g->time_slices);
    if (!err)
        err = read_truth(r, where, v, "renameByDefault", &g->slices_renamed);
    if (!err)
        err = read_truth(r, where, v, "failRequestsGreaterThanOne", &g->slices_single);
    return err;
}

static struct gs_error *read_gpu(const struct reader *r, size_t index, json_t *object,
                                 struct nvmlsim_spec *spec)
{
    static const char *const known[] = {"model", "count", "memory", "timeSlicing", "mig"};
    char item[ITEM_PATH_SIZE];
    snprintf(item, sizeof(item), "/gpus/%zu", index);
    if (!json_is_object(object))
        return spec_error(r, item, NULL, gs_error_new(GS_EINVAL, "a GPU: want model: NAME"));
    struct nvmlsim_gpu_spec g = {0};
    unsigned count = 1;
    struct gs_error *err = check_keys(r, item, object, known, GS_ARRAY_LEN(known));
    if (!err)
        err = read_count(r, item, object, "count", NVMLSIM_MAX_GPUS, &count);
    if (!err)
        err = read_memory(r, item, object, &g.memory_mib);
    if (!err)
        err = read_model(r, item, object, &g);
    if (!err)
        err = read_time_slicing(r, item, object, &g);
    if (!err)
        err = read_mig(r, item, object, &g);
    if (err)
        return err;
    err = nvmlsim_gpu_spec_check(&g);
    if (!err)
        err = nvmlsim_spec_add(spec, &g, count);
    return err ? spec_error(r, item, g.n_mig ? "mig" : NULL, err) : NULL;
}

// What the machine has besides GPUs: NVSwitches, and CPUs that DCGM reports.
static struct gs_error *read_machine(const struct reader *r, json_t *root,
                                     struct nvmlsim_spec *spec)
{
    static const char *const known[] = {"count", "cores"};
    json_t *cpus = json_object_get(root, "cpus");
    struct gs_error *err =
        read_count(r, "", root, "switches", NVMLSIM_MAX_SWITCHES, &spec->switches);
    if (err || !cpus)
        return err;
    if (!json_is_object(cpus))
        return spec_error(r, "", "cpus",
                          gs_error_new(GS_EINVAL, "cpus: want {count: NUMBER, cores: NUMBER}"));
    spec->cpus = spec->cores = 1;
    err = check_keys(r, "/cpus", cpus, known, GS_ARRAY_LEN(known));
    if (!err)
        err = read_count(r, "/cpus", cpus, "count", NVMLSIM_MAX_CPUS, &spec->cpus);
    if (!err)
        err = read_count(r, "/cpus", cpus, "cores", NVMLSIM_MAX_CORES / (int)spec->cpus,
                         &spec->cores);
    return err;
}

static struct gs_error *read_docs(const struct reader *r, const struct codec_yaml_docs *docs,
                                  struct nvmlsim_spec *spec)
{
    static const char *const known[] = {"gpus", "switches", "cpus"};
    json_t *root = docs->len == 1 ? docs->items[0].value : NULL;
    json_t *gpus = json_is_object(root) ? json_object_get(root, "gpus") : NULL, *gpu;
    size_t i;
    if (!json_is_array(gpus) || json_array_size(gpus) == 0)
        return gs_error_new(GS_EINVAL, "%s:%d: want one document with a list \"gpus:\"", r->path,
                            docs->len ? docs->items[docs->len - 1].line : 1);
    struct gs_error *err = check_keys(r, "", root, known, GS_ARRAY_LEN(known));
    if (!err)
        err = read_machine(r, root, spec);
    if (err)
        return err;
    json_array_foreach (gpus, i, gpu) {
        err = read_gpu(r, i, gpu, spec);
        if (err)
            return err;
    }
    return NULL;
}

static struct gs_error *load_file(const char *path, struct nvmlsim_spec *ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (err)
        return err;
    struct codec_yaml_docs docs = {0};
    struct reader r = {.path = path, .text = gs_buf_slice(&text)};
    err = codec_yaml_parse(r.text, path, &docs);
    if (err)
        return err;
    GS_AUTO_FREE struct nvmlsim_spec *spec = gs_alloc(sizeof(*spec));
    err = read_docs(&r, &docs, spec);
    codec_yaml_docs_finish(&docs);
    if (!err)
        *ret = *spec;
    return err;
}

struct gs_error *simulation_load_spec(const char *text_or_path, struct nvmlsim_spec *ret)
{
    bool is_path = strchr(text_or_path, '/') || gs_ends(text_or_path, ".yaml") ||
                   gs_ends(text_or_path, ".yml") || gs_ends(text_or_path, ".json");
    return is_path ? load_file(text_or_path, ret) : nvmlsim_spec_parse(text_or_path, ret);
}
