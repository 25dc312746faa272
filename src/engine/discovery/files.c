// SPDX-License-Identifier: Apache-2.0
// file_sd_configs: JSON or YAML files with lists of targets. A changed file is read again. If a
// file cannot be read, its last targets are kept.
#include "engine/discovery/discovery.h"

#include "base/file.h"
#include "base/file_watch.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "engine/discovery/discovery_private.h"

enum { POLL_MS = 1000, EMPTY_FILE_MS = 1 };

#define MAX_FILE ((size_t)16 << 20)

struct discovered_file {
    size_t n_groups;
};

struct discovery_files {
    struct gs_file_watch *watch;
    struct gs_hmap *files;               // path -> struct discovered_file
    struct discovery_group_list changed; // groups of the files whose change is being reported
    bool reported;
    discovery_update_fn fn;
    void *arg;
};

// As in Prometheus, YAML scalars of any type are read as text, but JSON values must be strings.
static struct gs_error *load_target_file(const char *path, struct codec_yaml_docs *ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct codec_yaml_marks *marks = NULL;
    if (gs_ends(path, ".json"))
        return codec_yaml_load_file(path, ret);
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (!err)
        err = codec_yaml_parse_texts(gs_buf_slice(&text), path, ret, &marks);
    if (!err)
        codec_yaml_marks_free(marks);
    return err;
}

struct gs_error *discovery_files_load(const char *path, struct codec_yaml_docs *ret)
{
    struct codec_yaml_docs docs = {0};
    struct gs_error *err = load_target_file(path, &docs);
    if (!err && docs.len && (err = discovery_groups_check(docs.items[0].value)))
        err = gs_error_wrap(err, "%s", path);
    if (err)
        codec_yaml_docs_finish(&docs);
    else
        *ret = docs;
    return err;
}

static void read_target_file(struct discovery_group_list *l, const char *path,
                             struct discovered_file *f)
{
    struct codec_yaml_docs docs = {0};
    struct gs_error *err = discovery_files_load(path, &docs);
    if (err) {
        gs_warn("file_sd", "%s; the last targets are kept", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    const json_t *list = docs.len ? docs.items[0].value : NULL;
    discovery_groups_add(l, list, path, "__meta_filepath", f->n_groups);
    f->n_groups = json_array_size(list);
    codec_yaml_docs_finish(&docs);
}

// --- changes ---

static void remove_groups(struct discovery_files *s, const char *path, struct discovered_file *f)
{
    for (size_t i = 0; i < f->n_groups; i++)
        discovery_group_list_add(
            &s->changed, (struct discovery_group){
                             .source = discovery_format(&s->changed.arena, "%s:%zu", path, i)});
    f->n_groups = 0;
}

static void on_file_event(void *arg, const char *path, enum gs_file_event event)
{
    struct discovery_files *s = arg;
    struct discovered_file *f = gs_hmap_get_str(s->files, path);
    if (!f) {
        f = gs_alloc(sizeof(*f));
        gs_hmap_put_str(s->files, path, f);
    }
    if (event == GS_FILE_REMOVED)
        remove_groups(s, path, f);
    else
        read_target_file(&s->changed, path, f);
}

static void report_changed_files(void *arg)
{
    struct discovery_files *s = arg;
    struct discovery_group_list l = s->changed;
    s->changed = (struct discovery_group_list){0};
    if (l.len || !s->reported)
        s->fn(s->arg, l.items, l.len);
    s->reported = true;
    discovery_group_list_finish(&l);
}

struct discovery_files *discovery_files_new(uv_loop_t *loop,
                                            const struct engine_config_file_sd *cfg,
                                            discovery_update_fn fn, void *arg)
{
    struct discovery_files *s = gs_alloc(sizeof(*s));
    s->files = gs_hmap_new(free);
    s->fn = fn;
    s->arg = arg;
    const struct gs_file_watch_options o = {.loop = loop,
                                            .poll_ms = POLL_MS,
                                            .empty_after_ms = EMPTY_FILE_MS,
                                            .missing_is_change = true,
                                            .on_file = on_file_event,
                                            .on_change = report_changed_files,
                                            .arg = s};
    s->watch = gs_file_watch_new(&o);
    gs_file_watch_set_new(s->watch, cfg->files, cfg->n_files);
    return s;
}

void discovery_files_free(struct discovery_files *s)
{
    if (!s)
        return;
    gs_file_watch_free(s->watch);
    discovery_group_list_finish(&s->changed);
    gs_hmap_free(s->files);
    free(s);
}
