// SPDX-License-Identifier: Apache-2.0
// The file of the pools: the keys of nodes/pool.h, and the commands.
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/names.h"
#include "node_provider/node_provider_private.h"

#define MAX_WORDS      200
#define MAX_NAME       40 // of a pool: the name of a machine is also a label value
#define MAX_TIMEOUT_MS (24 * 3600 * INT64_C(1000))

// Keys of a pool that nodes/pool.h does not have.
struct pool_extra {
    struct node_provider_commands commands;
    const char *const *hosts;
    size_t n_hosts;
    const char *provider_id, *unknown;
    struct node_provider_options_spec options;
    bool has_options;
};

struct top_extra {
    struct node_provider_commands commands;
    const char *gpu_label;
};

const char *node_provider_action_name(enum node_provider_action action)
{
    static const char *const names[NODE_PROVIDER_N_ACTIONS] = {"create", "delete", "list"};
    return names[action];
}

// --- commands ---

// A list of words, or a script.
static void read_argv(struct codec_reader *r, const json_t *v, void *out)
{
    struct node_provider_argv *a = out;
    if (json_is_string(v)) {
        const char **items = codec_reader_alloc(r, 3 * sizeof(*items));
        items[0] = "/bin/sh";
        items[1] = "-c";
        items[2] = codec_read_text(r, v);
        if (gs_slice_trim(gs_slice_of(items[2])).len == 0)
            codec_reader_fail(r, v, "the script is empty");
        *a = (struct node_provider_argv){items, 3};
        return;
    }
    if (!json_is_array(v)) {
        codec_reader_fail(r, v, "want a command, as a list of words or as a script");
        return;
    }
    codec_read_texts(r, v, &a->items, &a->n);
    if (!r->err && (a->n == 0 || !*a->items[0]))
        codec_reader_fail(r, v, "the command is empty");
    if (!r->err && a->n > MAX_WORDS)
        codec_reader_fail(r, v, "more than %d words", MAX_WORDS);
}

static void read_timeout(struct codec_reader *r, const json_t *v, void *out)
{
    const int64_t ms = codec_read_duration(r, v);
    if (!r->err && (ms <= 0 || ms > MAX_TIMEOUT_MS))
        codec_reader_fail(r, v, "want a timeout between 1ms and 24h");
    *(int64_t *)out = ms;
}

static void read_all_timeouts(struct codec_reader *r, const json_t *v, void *out)
{
    struct node_provider_commands *c = out;
    int64_t ms = 0;
    read_timeout(r, v, &ms);
    for (size_t i = 0; i < NODE_PROVIDER_N_ACTIONS; i++)
        if (c->timeout_ms[i] == 0)
            c->timeout_ms[i] = ms;
}

static void read_concurrency(struct codec_reader *r, const json_t *v, void *out)
{
    char *end = NULL;
    const char *text = codec_read_text(r, v);
    const long n = strtol(text, &end, 10);
    if (!*text || *end || n < 1 || n > 1000)
        codec_reader_fail(r, v, "\"%s\": want a number from 1 to 1000", text);
    else
        *(size_t *)out = (size_t)n;
}

static void read_env(struct codec_reader *r, const json_t *v, void *out)
{
    struct node_provider_commands *c = out;
    const char *key;
    json_t *item;
    if (!codec_reader_is_mapping(r, v, "env"))
        return;
    const char **env = codec_reader_alloc(r, (json_object_size(v) + 1) * sizeof(*env));
    size_t n = 0;
    json_object_foreach ((json_t *)v, key, item) {
        if (strchr(key, '=') || !*key)
            codec_reader_fail(r, item, "\"%s\" is not the name of a variable", key);
        env[n++] = codec_reader_format(r, "%s=%s", key, codec_read_text(r, item));
    }
    c->env = env;
    c->n_env = n;
}

#define AT(field) offsetof(struct node_provider_commands, field)
static const struct codec_field command_fields[] = {
    {"create", CODEC_FIELD_CUSTOM, AT(argv[NODE_PROVIDER_CREATE]), read_argv},
    {"delete", CODEC_FIELD_CUSTOM, AT(argv[NODE_PROVIDER_DELETE]), read_argv},
    {"list", CODEC_FIELD_CUSTOM, AT(argv[NODE_PROVIDER_LIST]), read_argv},
    {"createTimeout", CODEC_FIELD_CUSTOM, AT(timeout_ms[NODE_PROVIDER_CREATE]), read_timeout},
    {"deleteTimeout", CODEC_FIELD_CUSTOM, AT(timeout_ms[NODE_PROVIDER_DELETE]), read_timeout},
    {"listTimeout", CODEC_FIELD_CUSTOM, AT(timeout_ms[NODE_PROVIDER_LIST]), read_timeout},
    {"timeout", CODEC_FIELD_CUSTOM, 0, read_all_timeouts},
    {"concurrency", CODEC_FIELD_CUSTOM, AT(concurrency), read_concurrency},
    {"env", CODEC_FIELD_CUSTOM, 0, read_env},
    {0},
};
#undef AT

static void read_commands(struct codec_reader *r, const json_t *v, void *out)
{
    if (codec_reader_is_mapping(r, v, "commands"))
        codec_read_mapping(r, v, command_fields, "commands", out);
}

// --- pools ---

static void read_hosts(struct codec_reader *r, const json_t *v, void *out)
{
    struct pool_extra *e = out;
    codec_read_texts(r, v, &e->hosts, &e->n_hosts);
    for (size_t i = 0; !r->err && i < e->n_hosts; i++) {
        GS_AUTO_BUF struct gs_buf why = {0};
        if (!kube_check_dns_subdomain(gs_slice_of(e->hosts[i]), &why))
            codec_reader_fail(r, json_array_get(v, i), "host \"%.80s\": %s", e->hosts[i], why.data);
        for (size_t k = 0; k < i; k++)
            if (gs_streq(e->hosts[i], e->hosts[k]))
                codec_reader_fail(r, json_array_get(v, i), "host %s is listed twice", e->hosts[i]);
    }
    if (!r->err && e->n_hosts == 0)
        codec_reader_fail(r, v, "hosts is empty");
}

static void read_provider_id(struct codec_reader *r, const json_t *v, void *out)
{
    const char *text = codec_read_text(r, v);
    if (!node_provider_is_provider_id(text) || !strstr(text, "$NAME"))
        codec_reader_fail(
            r, v, "providerID \"%.80s\": want a text without blanks that contains $NAME", text);
    *(const char **)out = text;
}

static void read_unknown(struct codec_reader *r, const json_t *v, void *out)
{
    const char *text = codec_read_text(r, v);
    if (!gs_streq(text, "adopt") && !gs_streq(text, "ignore"))
        codec_reader_fail(r, v, "unknownMachines \"%.40s\": want adopt or ignore", text);
    *(const char **)out = text;
}

static void read_share(struct codec_reader *r, const json_t *v, void *out)
{
    const char *text = codec_read_text(r, v);
    double share = 0;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_double(gs_slice_of(text), &share);
    if (err || !(share >= 0 && share <= 1))
        codec_reader_fail(r, v, "\"%.40s\": want a number from 0 to 1", text);
    else
        *(double *)out = share;
}

static void read_time(struct codec_reader *r, const json_t *v, void *out)
{
    const int64_t ms = codec_read_duration(r, v);
    if (!r->err && (ms < 0 || ms > 7 * MAX_TIMEOUT_MS))
        codec_reader_fail(r, v, "want a duration of at most 7d");
    *(int64_t *)out = ms;
}

static void read_options(struct codec_reader *r, const json_t *v, void *out)
{
#define AT(field) offsetof(struct node_provider_options_spec, field)
    static const struct codec_field fields[] = {
        {"scaleDownUtilizationThreshold", CODEC_FIELD_CUSTOM, AT(utilization), read_share},
        {"scaleDownGpuUtilizationThreshold", CODEC_FIELD_CUSTOM, AT(gpu_utilization), read_share},
        {"scaleDownUnneededTime", CODEC_FIELD_CUSTOM, AT(unneeded_ms), read_time},
        {"scaleDownUnreadyTime", CODEC_FIELD_CUSTOM, AT(unready_ms), read_time},
        {"maxNodeProvisionTime", CODEC_FIELD_CUSTOM, AT(provision_ms), read_time},
        {0},
    };
#undef AT
    struct pool_extra *e = out;
    if (!codec_reader_is_mapping(r, v, "options"))
        return;
    e->has_options = true;
    e->options = (struct node_provider_options_spec){-1, -1, -1, -1, -1};
    codec_read_mapping(r, v, fields, "options", &e->options);
}

static const struct codec_field pool_fields[] = {
    {"options", CODEC_FIELD_CUSTOM, 0, read_options},
    {"commands", CODEC_FIELD_CUSTOM, offsetof(struct pool_extra, commands), read_commands},
    {"hosts", CODEC_FIELD_CUSTOM, 0, read_hosts},
    {"providerID", CODEC_FIELD_CUSTOM, offsetof(struct pool_extra, provider_id), read_provider_id},
    {"unknownMachines", CODEC_FIELD_CUSTOM, offsetof(struct pool_extra, unknown), read_unknown},
    {0},
};

static void read_gpu_label(struct codec_reader *r, const json_t *v, void *out)
{
    const char *text = codec_read_text(r, v);
    GS_AUTO_BUF struct gs_buf why = {0};
    if (*text && !kube_check_label_key(gs_slice_of(text), &why))
        codec_reader_fail(r, v, "gpuLabel \"%.80s\": %s", text, why.data);
    *(const char **)out = text;
}

static const struct codec_field top_fields[] = {
    {"commands", CODEC_FIELD_CUSTOM, offsetof(struct top_extra, commands), read_commands},
    {"gpuLabel", CODEC_FIELD_CUSTOM, offsetof(struct top_extra, gpu_label), read_gpu_label},
    {0},
};

// --- specifications ---

// Settings of the pool, then those of the file, then the defaults.
static void merge_commands(struct gs_arena *arena, struct node_provider_commands *c,
                           const struct node_provider_commands *top)
{
    static const int64_t timeouts[NODE_PROVIDER_N_ACTIONS] = {600000, 600000, 60000};
    for (size_t i = 0; i < NODE_PROVIDER_N_ACTIONS; i++) {
        if (c->argv[i].n == 0)
            c->argv[i] = top->argv[i];
        if (c->timeout_ms[i] == 0)
            c->timeout_ms[i] = top->timeout_ms[i] ? top->timeout_ms[i] : timeouts[i];
    }
    if (c->concurrency == 0)
        c->concurrency = top->concurrency ? top->concurrency : 10;
    const char **env = gs_arena_alloc(arena, (top->n_env + c->n_env + 1) * sizeof(*env));
    for (size_t i = 0; i < top->n_env; i++)
        env[i] = top->env[i];
    for (size_t i = 0; i < c->n_env; i++)
        env[top->n_env + i] = c->env[i];
    c->env = env;
    c->n_env += top->n_env;
}

static struct gs_error *check_spec(const struct node_provider_spec *s)
{
    const char *where = s->pool->where;
    if (strlen(s->name) > MAX_NAME)
        return gs_error_new(GS_EINVAL, "%s: pool %s: the name has more than %d characters", where,
                            s->name, MAX_NAME);
    for (size_t i = 0; i < NODE_PROVIDER_N_ACTIONS; i++)
        if (s->commands.argv[i].n == 0)
            return gs_error_new(GS_EINVAL,
                                "%s: pool %s has no %s command: set commands.%s in the pool or at "
                                "the top of the file",
                                where, s->name, node_provider_action_name(i),
                                node_provider_action_name(i));
    if (s->n_hosts > 0 && s->max > s->n_hosts)
        return gs_error_new(GS_EINVAL, "%s: pool %s: max is %zu, but there are %zu hosts", where,
                            s->name, s->max, s->n_hosts);
    if (s->max > NODE_PROVIDER_MAX_MACHINES)
        return gs_error_new(GS_EINVAL, "%s: pool %s: max is larger than %d", where, s->name,
                            NODE_PROVIDER_MAX_MACHINES);
    return NULL;
}

// A host in two pools would be switched by both.
static struct gs_error *check_hosts(const struct node_provider_file *f)
{
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *seen = gs_hmap_new(NULL);
    for (size_t i = 0; i < f->pools.len; i++)
        for (size_t k = 0; k < f->specs[i].n_hosts; k++) {
            const struct node_provider_spec *other = gs_hmap_get_str(seen, f->specs[i].hosts[k]);
            if (other)
                return gs_error_new(GS_EINVAL, "%s: host %s belongs to the pool %s, too",
                                    f->specs[i].pool->where, f->specs[i].hosts[k], other->name);
            gs_hmap_put_str(seen, f->specs[i].hosts[k], &f->specs[i]);
        }
    return NULL;
}

static struct gs_error *complete_spec(struct node_provider_file *f, size_t i,
                                      const struct top_extra *top)
{
    struct node_provider_spec *s = &f->specs[i];
    const struct nodes_pool *p = &f->pools.items[i];
    const struct pool_extra *e = p->extra;
    *s = (struct node_provider_spec){
        .name = p->name,
        .min = p->min,
        .max = p->max,
        .pool = p,
        .commands = e->commands,
        .hosts = e->hosts,
        .n_hosts = e->n_hosts,
        .provider_id = e->provider_id ? e->provider_id : "gpuscale://$POOL/$NAME",
        .ignore_unknown = gs_streq(e->unknown, "ignore"),
        .taints = node_provider_taints_text(&f->pools.arena, p),
        .options =
            e->has_options ? e->options : (struct node_provider_options_spec){-1, -1, -1, -1, -1},
    };
    merge_commands(&f->pools.arena, &s->commands, &top->commands);
    CODEC_AUTO_JSON json_t *node = node_provider_template(p, f->gpu_label);
    s->labels = node_provider_labels_text(&f->pools.arena, node);
    const char *type = codec_json_str(node, "metadata", "labels", f->gpu_label, NULL);
    s->gpu_type = gs_arena_strdup(&f->pools.arena, type ? type : "");
    return check_spec(s);
}

struct gs_error *node_provider_file_parse(const char *path, struct gs_slice text,
                                          struct node_provider_file **ret)
{
    GS_CLEANUP(node_provider_file_freep) struct node_provider_file *f = gs_alloc(sizeof(*f));
    struct top_extra top = {0};
    const struct nodes_pools_extra extra = {.fields = pool_fields,
                                            .size = sizeof(struct pool_extra),
                                            .top_fields = top_fields,
                                            .top = &top};
    f->dir = gs_folder_of(path);
    struct gs_error *err = nodes_pools_parse(&f->pools, text, path, &extra);
    if (err)
        return err;
    if (f->pools.len == 0)
        return gs_error_new(GS_EINVAL, "%s: no pools", path);
    f->gpu_label = top.gpu_label ? top.gpu_label : NODE_PROVIDER_GPU_LABEL;
    f->specs = gs_alloc_array(f->pools.len, sizeof(*f->specs));
    for (size_t i = 0; !err && i < f->pools.len; i++)
        err = complete_spec(f, i, &top);
    if (!err)
        err = check_hosts(f);
    if (!err)
        *ret = GS_TAKE(f);
    return err;
}

struct gs_error *node_provider_file_load(const char *path, struct node_provider_file **ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, NODES_MAX_POOL_FILE, &text);
    return err ? err : node_provider_file_parse(path, gs_buf_slice(&text), ret);
}

void node_provider_file_free(struct node_provider_file *f)
{
    if (!f)
        return;
    nodes_pools_finish(&f->pools);
    free(f->dir);
    free(f->specs);
    free(f);
}

// --- runs ---

static const char *env_text(struct gs_arena *arena, const char *name, const char *value)
{
    GS_AUTO_FREE char *text = gs_format("%s=%s", name, value);
    return gs_arena_strdup(arena, text);
}

struct node_provider_command_spec node_provider_command_spec(struct node_provider_pool *p,
                                                             enum node_provider_action action,
                                                             const struct node_provider_machine *m,
                                                             struct gs_arena *arena)
{
    const struct node_provider_spec *s = p->spec;
    char gpus[32];
    snprintf(gpus, sizeof(gpus), "%zu", s->pool->gpus);
    const char *const own[][2] = {
        {"GPUSCALE_ACTION", node_provider_action_name(action)},
        {"GPUSCALE_POOL", s->name},
        {"GPUSCALE_NAME", m ? m->name : ""},
        {"GPUSCALE_PROVIDER_ID", m ? m->provider_id : ""},
        {"GPUSCALE_LABELS", s->labels},
        {"GPUSCALE_TAINTS", s->taints},
        {"GPUSCALE_GPUS", gpus},
        {"GPUSCALE_GPU_MODEL", s->pool->gpu_model ? s->pool->gpu_model : ""},
        {"GPUSCALE_MACHINE_TYPE", s->pool->machine_type ? s->pool->machine_type : ""},
    };
    const size_t n_hosts = s->n_hosts > 0;
    const char **env =
        gs_arena_alloc(arena, (s->commands.n_env + GS_ARRAY_LEN(own) + n_hosts) * sizeof(*env));
    size_t n = 0;
    for (size_t i = 0; i < s->commands.n_env; i++)
        env[n++] = s->commands.env[i];
    for (size_t i = 0; i < GS_ARRAY_LEN(own); i++)
        env[n++] = env_text(arena, own[i][0], own[i][1]);
    if (n_hosts) {
        GS_AUTO_BUF struct gs_buf hosts = {0};
        for (size_t i = 0; i < s->n_hosts; i++)
            gs_buf_addf(&hosts, "%s%s", i ? " " : "", s->hosts[i]);
        env[n++] = env_text(arena, "GPUSCALE_HOSTS", hosts.data);
    }
    GS_AUTO_FREE char *label =
        m ? gs_format("%s/%s: %s", s->name, m->name, node_provider_action_name(action))
          : gs_format("%s: list", s->name);
    return (struct node_provider_command_spec){
        .argv = s->commands.argv[action].items,
        .n_argv = s->commands.argv[action].n,
        .env = env,
        .n_env = n,
        .cwd = p->fleet->config.file->dir,
        .label = gs_arena_strdup(arena, label),
        .timeout_ms = s->commands.timeout_ms[action],
    };
}
