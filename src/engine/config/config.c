// SPDX-License-Identifier: Apache-2.0
// Reads prometheus.yml of Prometheus 3 by tables of fields. Sections are read in the order in
// which they depend on each other: global first. All texts live in the configuration's arena.
#include "engine/config/config.h"

#include "base/file.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "engine/config/config_private.h"

#include <glob.h>

#define MAX_FILE           ((size_t)16 << 20)
#define DEFAULT_TIMEOUT_MS 10000

// --- the top of the file ---

#define AT(member) offsetof(struct engine_config, member)

// The name after '$', parsed like Go's os.Expand. *ret_len: the bytes that it occupies, with
// braces.
static struct gs_slice variable_name(const char *s, size_t *ret_len)
{
    static const char special[] = "*#$@!?-0123456789";
    static const char word[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    *ret_len = 1;
    if (*s == '{') {
        const char *end = strchr(s, '}');
        if (!end)
            return gs_slice_make("", 0); // the brace is dropped, as in Go
        *ret_len = (size_t)(end + 1 - s);
        return gs_slice_make(s + 1, *ret_len - 2);
    }
    if (*s && strchr(special, *s))
        return gs_slice_make(s, 1);
    *ret_len = strspn(s, word);
    return gs_slice_make(s, *ret_len);
}

// Replaces ${NAME} and $NAME by environment variables, and $$ by $.
static const char *expand_environment(struct codec_reader *r, const json_t *at, const char *text)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    for (size_t len; *text; text += len) {
        len = strcspn(text, "$");
        gs_buf_add(&out, text, len);
        if (!text[len])
            break;
        text += len + 1;
        struct gs_slice name = variable_name(text, &len);
        if (!len)
            gs_buf_add_char(&out, '$');
        if (!name.len)
            continue;
        GS_AUTO_FREE char *variable = gs_slice_dup(name);
        const char *value = gs_streq(variable, "$") ? "$" : getenv(variable);
        if (value)
            gs_buf_add_str(&out, value);
        else
            codec_reader_note(r, at, "the environment variable %s of external_labels is not set",
                              variable);
    }
    return codec_reader_format(r, "%s", out.data ? out.data : "");
}

static void read_external(struct codec_reader *r, const json_t *value, void *out)
{
    struct engine_config *c = out;
    engine_config_labels(r, value, &c->external_labels, &c->n_external_labels);
    struct metrics_label *labels = (struct metrics_label *)(uintptr_t)c->external_labels;
    size_t n = 0;
    for (size_t i = 0; i < c->n_external_labels; i++) {
        struct metrics_label l = labels[i];
        l.value =
            gs_slice_of(expand_environment(r, json_object_get(value, l.name.data), l.value.data));
        if (l.value.len)
            labels[n++] = l;
    }
    c->n_external_labels = n;
}

static bool read_switch(struct codec_reader *r, const json_t *obj, const char *key, bool fallback)
{
    const json_t *value = json_object_get(obj, key);
    const char *text = value && !json_is_null(value) ? codec_read_text(r, value) : NULL;
    return text ? gs_streq(text, "true") || gs_streq(text, "yes") || gs_streq(text, "on")
                : fallback;
}

static void read_histograms(struct codec_reader *r, const json_t *obj,
                            const struct engine_config_scrape_config *global,
                            struct engine_config_scrape_config *s)
{
    s->native_histograms =
        read_switch(r, obj, "scrape_native_histograms", global->native_histograms);
    s->classic_histograms =
        read_switch(r, obj, "always_scrape_classic_histograms", global->classic_histograms);
    s->convert_histograms =
        read_switch(r, obj, "convert_classic_histograms_to_nhcb", global->convert_histograms);
}

static void read_global(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"scrape_interval", CODEC_FIELD_DURATION, AT(scrape_interval_ms), NULL},
        {"scrape_timeout", CODEC_FIELD_DURATION, AT(scrape_timeout_ms), NULL},
        {"evaluation_interval", CODEC_FIELD_DURATION, AT(evaluation_interval_ms), NULL},
        {"external_labels", CODEC_FIELD_CUSTOM, 0, read_external},
        {"query_log_file", CODEC_FIELD_IGNORED, 0, codec_check_text},
        {"scrape_failure_log_file", CODEC_FIELD_IGNORED, 0, codec_check_text},
        {"rule_query_offset", CODEC_FIELD_DURATION, AT(rule_query_offset_ms), NULL},
        {"scrape_protocols", CODEC_FIELD_CUSTOM, AT(defaults), engine_config_read_protocols},
        {"body_size_limit", CODEC_FIELD_BYTES, AT(defaults.body_size_limit), NULL},
        {"sample_limit", CODEC_FIELD_COUNT, AT(defaults.sample_limit), NULL},
        {"target_limit", CODEC_FIELD_COUNT, AT(defaults.target_limit), NULL},
        {"label_limit", CODEC_FIELD_COUNT, AT(defaults.label_limit), NULL},
        {"label_name_length_limit", CODEC_FIELD_COUNT, AT(defaults.label_name_length_limit), NULL},
        {"label_value_length_limit", CODEC_FIELD_COUNT, AT(defaults.label_value_length_limit),
         NULL},
        {"keep_dropped_targets", CODEC_FIELD_COUNT, AT(defaults.keep_dropped_targets), NULL},
        {"metric_name_validation_scheme", CODEC_FIELD_TEXT, AT(defaults.validation_scheme), NULL},
        {"metric_name_escaping_scheme", CODEC_FIELD_TEXT, AT(defaults.escaping_scheme), NULL},
        {"scrape_native_histograms", CODEC_FIELD_IGNORED, 0, codec_check_bool},
        {"extra_scrape_metrics", CODEC_FIELD_IGNORED, 0, codec_check_bool},
        // Limits of the feature query-cost, without which they have no effect in Prometheus.
        {"query_max_series", CODEC_FIELD_UNUSED, 0, codec_check_count},
        {"query_max_samples_read", CODEC_FIELD_UNUSED, 0, codec_check_count},
        {"query_max_duration", CODEC_FIELD_UNUSED, 0, codec_check_duration},
        {"convert_classic_histograms_to_nhcb", CODEC_FIELD_IGNORED, 0, codec_check_bool},
        {"always_scrape_classic_histograms", CODEC_FIELD_UNUSED, 0, codec_check_bool},
        {0},
    };
    struct engine_config *c = out;
    codec_read_mapping(r, value, fields, "global", c);
    if (json_object_get(value, "scrape_timeout") && c->scrape_timeout_ms > c->scrape_interval_ms)
        codec_reader_fail(r, value, "global scrape timeout greater than scrape interval");
    read_histograms(r, value, &c->defaults, &c->defaults);
    engine_config_check_global_names(r, value, &c->defaults);
    bool legacy = engine_config_check_validation(r, value, c->defaults.validation_scheme);
    for (size_t i = 0; legacy && i < c->n_external_labels; i++)
        if (!metrics_is_plain_label(c->external_labels[i].name))
            codec_reader_fail(r, json_object_get(value, "external_labels"),
                              "\"%s\" is not a valid label name", c->external_labels[i].name.data);
}

// As in Prometheus, only the last path element can contain wildcards.
static void read_globs(struct codec_reader *r, const json_t *value, const char *kind,
                       const char *const **ret, size_t *ret_n)
{
    codec_read_texts(r, value, ret, ret_n);
    const char **globs = (const char **)(uintptr_t)*ret;
    for (size_t i = 0; i < *ret_n && !r->err; i++) {
        const char *star = strchr(globs[i], '*');
        if (star && strchr(star, '/'))
            codec_reader_fail(r, json_array_get(value, i), "invalid %s file path \"%s\"", kind,
                              globs[i]);
        globs[i] = codec_reader_path(r, globs[i]);
    }
}

static void read_rule_files(struct codec_reader *r, const json_t *value, void *out)
{
    struct engine_config *c = out;
    read_globs(r, value, "rule", &c->rule_files, &c->n_rule_files);
}

static void read_scrape_files(struct codec_reader *r, const json_t *value, void *out)
{
    struct engine_config *c = out;
    read_globs(r, value, "scrape config", &c->scrape_config_files, &c->n_scrape_config_files);
}

static void read_alertmanagers(struct codec_reader *r, const json_t *value, void *out)
{
    struct engine_config *c = out;
    codec_read_list(r, value, sizeof(*c->alertmanagers), engine_config_read_alertmanager,
                    &c->alertmanagers, &c->n_alertmanagers);
}

static void read_alerting(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"alert_relabel_configs", CODEC_FIELD_CUSTOM, AT(alert_relabel),
         engine_config_read_relabels},
        {"alertmanagers", CODEC_FIELD_CUSTOM, 0, read_alertmanagers},
        {0},
    };
    codec_read_mapping(r, value, fields, "alerting", out);
}

static void read_remote_writes(struct codec_reader *r, const json_t *value, void *out)
{
    struct engine_config *c = out;
    codec_read_list(r, value, sizeof(*c->remote_writes), engine_config_read_remote_write,
                    &c->remote_writes, &c->n_remote_writes);
    for (size_t i = 1; i < c->n_remote_writes && !r->err; i++)
        for (size_t k = 0; k < i && c->remote_writes[i].name; k++)
            if (gs_streq(c->remote_writes[i].name, c->remote_writes[k].name))
                codec_reader_fail(r, json_array_get(value, i),
                                  "found multiple remote write configs with job name \"%s\"",
                                  c->remote_writes[i].name);
}

static void read_scrapes(struct codec_reader *r, const json_t *value, void *out)
{
    struct engine_config *c = out;
    codec_read_list(r, value, sizeof(*c->scrapes), engine_config_read_scrape, &c->scrapes,
                    &c->n_scrapes);
}

static const struct codec_field top_fields[] = {
    // Read before this table, because the other sections use its defaults.
    {"global", CODEC_FIELD_UNUSED, 0, NULL},
    {"rule_files", CODEC_FIELD_CUSTOM, 0, read_rule_files},
    {"scrape_configs", CODEC_FIELD_CUSTOM, 0, read_scrapes},
    {"alerting", CODEC_FIELD_CUSTOM, 0, read_alerting},
    {"remote_write", CODEC_FIELD_CUSTOM, 0, read_remote_writes},
    {"scrape_config_files", CODEC_FIELD_CUSTOM, 0, read_scrape_files},
    {"remote_read", CODEC_FIELD_CUSTOM, 0, engine_config_check_remote_read},
    {"storage", CODEC_FIELD_CUSTOM, 0, engine_config_read_storage},
    {"tracing", CODEC_FIELD_CUSTOM, 0, engine_config_check_tracing},
    {"otlp", CODEC_FIELD_CUSTOM, 0, engine_config_read_otlp},
    {"runtime", CODEC_FIELD_CUSTOM, AT(log_level), engine_config_read_runtime},
    {0},
};

static void default_to(size_t *limit, size_t global)
{
    if (!*limit)
        *limit = global;
}

static void fill_limits(struct engine_config_scrape_config *l,
                        const struct engine_config_scrape_config *global)
{
    default_to(&l->body_size_limit, global->body_size_limit);
    default_to(&l->sample_limit, global->sample_limit);
    default_to(&l->target_limit, global->target_limit);
    default_to(&l->label_limit, global->label_limit);
    default_to(&l->label_name_length_limit, global->label_name_length_limit);
    default_to(&l->label_value_length_limit, global->label_value_length_limit);
    default_to(&l->keep_dropped_targets, global->keep_dropped_targets);
}

static void fill_timing(struct codec_reader *r, const json_t *at, const struct engine_config *c,
                        struct engine_config_scrape_config *s)
{
    if (!s->interval_ms)
        s->interval_ms = c->scrape_interval_ms;
    if (s->timeout_ms > s->interval_ms)
        codec_reader_fail(r, at,
                          "scrape timeout greater than scrape interval for scrape config with job "
                          "name \"%s\"",
                          s->job_name);
    int64_t most = engine_config_max_timeout(s->interval_ms);
    if (!s->timeout_ms)
        s->timeout_ms = c->scrape_timeout_ms < most ? c->scrape_timeout_ms : most;
}

// names: the job names that are already used.
static void fill_defaults(struct codec_reader *r, const json_t *list, const struct engine_config *c,
                          const struct engine_config_scrape_config *scrapes, size_t n,
                          struct gs_hmap *names)
{
    struct engine_config_scrape_config *s =
        (struct engine_config_scrape_config *)(uintptr_t)scrapes;
    for (size_t i = 0; i < n && !r->err; i++) {
        const json_t *at = json_array_get(list, i);
        fill_limits(&s[i], &c->defaults);
        fill_timing(r, at, c, &s[i]);
        read_histograms(r, at, &c->defaults, &s[i]);
        engine_config_check_names(r, at, &s[i], &c->defaults);
        if (!r->err)
            s[i].shown = engine_config_show_scrape(r, at, &s[i], &c->defaults);
        if (!r->err && gs_hmap_get_str(names, s[i].job_name))
            codec_reader_fail(r, at, "found multiple scrape configs with job name \"%s\"",
                              s[i].job_name);
        if (!r->err)
            gs_hmap_put_str(names, s[i].job_name, s);
    }
}

// --- scrape_config_files ---

static void append_scrapes(struct codec_reader *r, struct engine_config *c,
                           const struct engine_config *more)
{
    struct engine_config_scrape_config *all =
        codec_reader_alloc(r, (c->n_scrapes + more->n_scrapes) * sizeof(*all));
    if (c->n_scrapes)
        memcpy(all, c->scrapes, c->n_scrapes * sizeof(*all));
    if (more->n_scrapes)
        memcpy(all + c->n_scrapes, more->scrapes, more->n_scrapes * sizeof(*all));
    c->scrapes = all;
    c->n_scrapes += more->n_scrapes;
}

static void read_scrape_docs(struct codec_reader *r, const struct codec_yaml_docs *docs,
                             struct engine_config *c, struct gs_hmap *names)
{
    static const struct codec_field fields[] = {
        {"scrape_configs", CODEC_FIELD_CUSTOM, 0, read_scrapes}, {0}};
    struct engine_config more = {0};
    if (docs->len > 1)
        codec_reader_fail(r, docs->items[1].value,
                          "expected one YAML document with scrape configs");
    if (!docs->len)
        return;
    const json_t *top = docs->items[0].value;
    codec_read_mapping(r, top, fields, "a file of scrape configs", &more);
    fill_defaults(r, json_object_get(top, "scrape_configs"), c, more.scrapes, more.n_scrapes,
                  names);
    append_scrapes(r, c, &more);
}

static char *folder_of(const char *path)
{
    GS_AUTO_FREE char *dir = gs_folder_of(path);
    char *base = realpath(dir, NULL);
    return base ? base : GS_TAKE(dir);
}

// The reader of the main file is used: it reports the other file's name until this function
// returns.
static void read_scrape_file(struct codec_reader *r, const char *path, struct engine_config *c,
                             struct gs_hmap *names)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_CLEANUP(codec_yaml_marks_freep) struct codec_yaml_marks *marks = NULL;
    GS_AUTO_FREE char *dir = folder_of(path);
    struct codec_yaml_docs docs = {0};
    const struct codec_reader main_file = *r;
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (!err)
        err = codec_yaml_parse_texts(gs_buf_slice(&text), path, &docs, &marks);
    if (err) {
        r->err = err;
        return;
    }
    r->name = path;
    r->base_dir = dir;
    r->marks = marks;
    read_scrape_docs(r, &docs, c, names);
    r->name = main_file.name;
    r->base_dir = main_file.base_dir;
    r->marks = main_file.marks;
    codec_yaml_docs_finish(&docs);
}

static void read_scrape_config_files(struct codec_reader *r, struct engine_config *c,
                                     struct gs_hmap *names)
{
    for (size_t i = 0; i < c->n_scrape_config_files && !r->err; i++) {
        glob_t found;
        if (glob(c->scrape_config_files[i], 0, NULL, &found) != 0)
            continue; // an empty file is not an error
        for (size_t k = 0; k < found.gl_pathc && !r->err; k++)
            read_scrape_file(r, found.gl_pathv[k], c, names);
        globfree(&found);
    }
}

// What scrape configs do not contain, where names are legacy.
static void check_legacy_names(struct codec_reader *r, const json_t *top,
                               const struct engine_config *c)
{
    const json_t *alerting = json_object_get(top, "alerting"),
                 *managers = json_object_get(alerting, "alertmanagers"),
                 *writes = json_object_get(top, "remote_write");
    engine_config_check_legacy_relabels(r, alerting, "alert_relabel_configs", &c->alert_relabel);
    for (size_t i = 0; i < c->n_alertmanagers; i++) {
        const json_t *at = json_array_get(managers, i);
        engine_config_check_legacy_relabels(r, at, "relabel_configs", &c->alertmanagers[i].relabel);
        engine_config_check_legacy_relabels(r, at, "alert_relabel_configs",
                                            &c->alertmanagers[i].alert_relabel);
    }
    for (size_t i = 0; i < c->n_remote_writes; i++)
        engine_config_check_legacy_relabels(r, json_array_get(writes, i), "write_relabel_configs",
                                            &c->remote_writes[i].write_relabel);
}

static void read_top(struct codec_reader *r, const json_t *top, bool opens_files,
                     struct engine_config *c)
{
    c->scrape_interval_ms = c->evaluation_interval_ms = 60000;
    c->max_exemplars = 100000;
    engine_config_default_otlp(&c->otlp);
    const json_t *global = json_object_get(top, "global");
    if (global)
        read_global(r, global, c);
    // As in Prometheus, an interval below the default timeout shortens the timeout.
    if (!c->scrape_timeout_ms)
        c->scrape_timeout_ms =
            c->scrape_interval_ms < DEFAULT_TIMEOUT_MS ? c->scrape_interval_ms : DEFAULT_TIMEOUT_MS;
    codec_read_mapping(r, top, top_fields, "the configuration", c);
    if (!r->err && gs_streq(c->defaults.validation_scheme, "legacy"))
        check_legacy_names(r, top, c);
    struct gs_hmap *names = gs_hmap_new(NULL);
    fill_defaults(r, json_object_get(top, "scrape_configs"), c, c->scrapes, c->n_scrapes, names);
    if (opens_files)
        read_scrape_config_files(r, c, names);
    gs_hmap_free(names);
}

// --- the whole ---

void engine_config_set_yields(struct engine_config *c)
{
    struct engine_config_scrape_config *jobs =
        (struct engine_config_scrape_config *)(uintptr_t)c->scrapes;
    for (size_t i = 0; i < c->n_scrapes; i++)
        jobs[i].yields = true;
}

void engine_config_free(struct engine_config *c)
{
    if (!c)
        return;
    struct engine_config_owned *own = c->own;
    for (size_t i = 0; i < own->n_regexes; i++)
        tsdb_regex_free(own->regexes[i]);
    free(own->regexes);
    free(own->ignored);
    gs_arena_finish(&own->arena);
    free(own);
    free(c);
}

static struct gs_error *read_config_docs(struct engine_config *c,
                                         const struct codec_yaml_docs *docs,
                                         const struct codec_yaml_marks *marks, const char *name,
                                         const char *base_dir, bool opens_files)
{
    struct engine_config_owned *own = c->own;
    struct codec_reader r = {
        .name = name, .base_dir = base_dir, .marks = marks, .arena = &own->arena, .user = own};
    if (docs->len > 1)
        codec_reader_fail(&r, docs->items[1].value, "expected one YAML document");
    if (docs->len && !json_is_object(docs->items[0].value))
        codec_reader_fail(&r, docs->items[0].value, "the configuration must be a mapping");
    read_top(&r, docs->len ? docs->items[0].value : NULL, opens_files, c);
    own->ignored = r.ignored;
    c->ignored = r.ignored;
    c->n_ignored = r.n_ignored;
    return r.err;
}

static char *show(struct gs_arena *arena, const struct codec_yaml_docs *docs)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    if (docs->len)
        engine_config_print_redacted(docs->items[0].value, &out);
    return gs_arena_strndup(arena, out.data ? out.data : "", out.len);
}

static struct gs_error *parse_config_text(struct gs_slice text, const char *name,
                                          const char *base_dir, bool opens_files,
                                          struct engine_config **ret)
{
    struct codec_yaml_docs docs = {0};
    struct codec_yaml_marks *marks;
    if (text.len > MAX_FILE)
        return gs_error_new(GS_ELIMIT, "%s: larger than %zu bytes", name, MAX_FILE);
    struct gs_error *err = codec_yaml_parse_texts(text, name, &docs, &marks);
    if (err)
        return err;
    struct engine_config *c = gs_alloc(sizeof(*c));
    struct engine_config_owned *own = c->own = gs_alloc(sizeof(*own));
    c->text = gs_arena_strndup(&own->arena, text.data ? text.data : "", text.len);
    c->shown = show(&own->arena, &docs);
    err = read_config_docs(c, &docs, marks, name, base_dir, opens_files);
    codec_yaml_marks_free(marks);
    codec_yaml_docs_finish(&docs);
    if (err) {
        engine_config_free(c);
        return err;
    }
    *ret = c;
    return NULL;
}

struct gs_error *engine_config_parse(struct gs_slice text, const char *name, const char *base_dir,
                                     struct engine_config **ret)
{
    return parse_config_text(text, name, base_dir, false, ret);
}

struct gs_error *engine_config_from_document(const json_t *document, const char *name,
                                             const char *base_dir,
                                             const struct codec_yaml_marks *marks,
                                             struct engine_config **ret)
{
    struct codec_yaml_doc doc = {.value = (json_t *)(uintptr_t)document};
    const struct codec_yaml_docs docs = {.items = &doc, .len = 1};
    struct engine_config *c = gs_alloc(sizeof(*c));
    c->own = gs_alloc(sizeof(struct engine_config_owned));
    struct gs_error *err = read_config_docs(c, &docs, marks, name, base_dir, false);
    if (err)
        engine_config_free(c);
    else
        *ret = c;
    return err;
}

struct gs_error *engine_config_from_json(const json_t *document, const char *name,
                                         struct engine_config **ret)
{
    return engine_config_from_document(document, name, NULL, NULL, ret);
}

struct gs_error *engine_config_load(const char *path, struct engine_config **ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (err)
        return err;
    GS_AUTO_FREE char *dir = folder_of(path);
    struct engine_config *c;
    err = parse_config_text(gs_buf_slice(&text), path, dir, true, &c);
    if (err)
        return err;
    c->path = gs_arena_strdup(&((struct engine_config_owned *)c->own)->arena, path);
    *ret = c;
    return NULL;
}
