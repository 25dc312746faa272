// SPDX-License-Identifier: Apache-2.0
// file_sd_configs: JSON or YAML files with lists of targets. Looked at each second: what changed in
// size, time or inode is read again; a file that cannot be read keeps its last targets.
#include "engine/discovery/discovery.h"

#include "base/file.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "engine/discovery/discovery_private.h"

#include <glob.h>
#include <sys/stat.h>

enum { LOOK_EVERY_MS = 1000, FIRST_LOOK_MS = 1 };

#define MAX_FILE ((size_t)16 << 20)

struct sd_file {
    struct stat seen;
    size_t n_groups;
    uint64_t pass;
};

struct discovery_files {
    char **globs;
    size_t n_globs;
    struct gs_hmap *files; // path -> struct sd_file
    uint64_t pass;
    uv_timer_t *timer;
    discovery_update_fn fn;
    void *arg;
};

// As Prometheus' decoders: YAML gives every scalar as its text, JSON only what is a text.
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

static void read_file(struct discovery_group_list *l, const char *path, struct sd_file *f)
{
    struct codec_yaml_docs docs = {0};
    struct gs_error *err = discovery_files_load(path, &docs);
    if (err) {
        gs_warn("file_sd", "%s; the last targets stay", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    const json_t *list = docs.len ? docs.items[0].value : NULL;
    discovery_groups_add(l, list, path, "__meta_filepath", f->n_groups);
    f->n_groups = json_array_size(list);
    codec_yaml_docs_finish(&docs);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_dev == b->st_dev &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void look_at(struct discovery_files *s, const char *path, struct discovery_group_list *l)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return;
    struct sd_file *f = gs_hmap_get_str(s->files, path);
    bool is_new = !f;
    if (is_new) {
        f = gs_alloc(sizeof(*f));
        gs_hmap_put_str(s->files, path, f);
    }
    f->pass = s->pass;
    if (!is_new && same_file(&f->seen, &st))
        return;
    f->seen = st;
    read_file(l, path, f);
}

static void forget_gone(struct discovery_files *s, struct discovery_group_list *l)
{
    size_t pos = 0;
    struct gs_slice path;
    void *value;
    while (gs_hmap_next(s->files, &pos, &path, &value)) {
        struct sd_file *f = value;
        for (size_t i = 0; f->pass != s->pass && i < f->n_groups; i++)
            discovery_group_list_add(l, (struct discovery_group){.source = discovery_format(
                                                                     &l->arena, GS_SLICE_FMT ":%zu",
                                                                     GS_SLICE_ARG(path), i)});
        if (f->pass != s->pass)
            f->n_groups = 0;
    }
}

static void on_files_poll(uv_timer_t *timer)
{
    struct discovery_files *s = timer->data;
    struct discovery_group_list l = {0};
    s->pass++;
    for (size_t i = 0; i < s->n_globs; i++) {
        glob_t found;
        if (glob(s->globs[i], 0, NULL, &found) != 0)
            continue;
        for (size_t k = 0; k < found.gl_pathc; k++)
            look_at(s, found.gl_pathv[k], &l);
        globfree(&found);
    }
    forget_gone(s, &l);
    if (l.len || s->pass == 1)
        s->fn(s->arg, l.items, l.len);
    discovery_group_list_finish(&l);
}

struct discovery_files *discovery_files_new(uv_loop_t *loop,
                                            const struct engine_config_file_sd *cfg,
                                            discovery_update_fn fn, void *arg)
{
    struct discovery_files *s = gs_alloc(sizeof(*s));
    s->globs = gs_alloc_array(cfg->n_files + 1, sizeof(*s->globs));
    for (size_t i = 0; i < cfg->n_files; i++)
        s->globs[s->n_globs++] = gs_strdup(cfg->files[i]);
    s->files = gs_hmap_new(free);
    s->fn = fn;
    s->arg = arg;
    s->timer = gs_alloc(sizeof(*s->timer));
    uv_timer_init(loop, s->timer);
    s->timer->data = s;
    uv_timer_start(s->timer, on_files_poll, FIRST_LOOK_MS, LOOK_EVERY_MS);
    return s;
}

static void free_handle(uv_handle_t *h)
{
    free(h);
}

void discovery_files_free(struct discovery_files *s)
{
    if (!s)
        return;
    uv_close((uv_handle_t *)s->timer, free_handle);
    for (size_t i = 0; i < s->n_globs; i++)
        free(s->globs[i]);
    free(s->globs);
    gs_hmap_free(s->files);
    free(s);
}
