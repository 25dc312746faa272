// SPDX-License-Identifier: Apache-2.0
#include "engine/watch.h"

#include "base/file.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"

#include <glob.h>
#include <xxhash.h>

enum {
    SETTLE_MS = 300, // several events of one change become one look
    MOST_LOOKS = 10, // at files that do not come to rest
    MAX_FOLDERS = 64,
    MAX_FILE = 64 * 1024 * 1024,
};

struct folder {
    uv_fs_event_t event; // first: freed by its close callback as the folder
    char *path;
};

struct engine_watch {
    uv_loop_t *loop;
    void (*changed)(void *arg);
    void *arg;
    char **globs; // the configuration's path first
    size_t n_globs;
    struct folder *folders[MAX_FOLDERS];
    size_t n_folders;
    uint64_t known, seen; // by the look before
    int looks;            // since they differ
    bool empty;           // a file was, at the last look
    uv_timer_t *settle, *poll;
    int64_t poll_ms;
};

// --- what the files hold ---

static void hash_file(struct engine_watch *w, XXH3_state_t *h, const char *path)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    XXH3_64bits_update(h, path, strlen(path) + 1);
    if (err)
        XXH3_64bits_update(h, "unreadable", 10);
    else
        XXH3_64bits_update(h, text.data, text.len);
    w->empty = w->empty || (!err && !text.len);
}

static uint64_t fingerprint(struct engine_watch *w)
{
    XXH3_state_t *h = XXH3_createState();
    if (!h)
        return w->known;
    XXH3_64bits_reset(h);
    w->empty = false;
    for (size_t i = 0; i < w->n_globs; i++) {
        glob_t found;
        if (glob(w->globs[i], GLOB_NOCHECK, NULL, &found) != 0)
            continue;
        for (size_t k = 0; k < found.gl_pathc; k++)
            hash_file(w, h, found.gl_pathv[k]);
        globfree(&found);
    }
    uint64_t sum = XXH3_64bits_digest(h);
    XXH3_freeState(h);
    return sum;
}

// A file that is being written is empty at first, then half there: what two looks agree on counts.
static void on_settled(uv_timer_t *t)
{
    struct engine_watch *w = t->data;
    uint64_t now = fingerprint(w), before = w->seen;
    w->seen = now;
    if (now == w->known) {
        w->looks = 0;
    } else if ((now != before || w->empty) && ++w->looks < MOST_LOOKS) {
        uv_timer_start(w->settle, on_settled, SETTLE_MS, 0);
    } else {
        w->looks = 0;
        w->known = now;
        w->changed(w->arg);
    }
}

static void on_event(uv_fs_event_t *event, const char *name, int events, int status)
{
    struct engine_watch *w = event->data;
    if (!uv_is_active((uv_handle_t *)w->settle))
        uv_timer_start(w->settle, on_settled, SETTLE_MS, 0);
}

// --- folders ---

static void free_folder(uv_handle_t *h)
{
    struct folder *f = (struct folder *)(void *)h;
    free(f->path);
    free(f);
}

static void watch_folder(struct engine_watch *w, const char *path)
{
    for (size_t i = 0; i < w->n_folders; i++)
        if (gs_streq(w->folders[i]->path, path))
            return;
    if (w->n_folders == MAX_FOLDERS)
        return; // the poll sees it
    struct folder *f = gs_alloc(sizeof(*f));
    f->path = gs_strdup(path);
    f->event.data = w;
    uv_fs_event_init(w->loop, &f->event);
    int rc = uv_fs_event_start(&f->event, on_event, path, 0);
    if (rc != 0) {
        gs_debug("engine", "%s is not watched (%s): looked at every %lld ms", path, uv_strerror(rc),
                 (long long)w->poll_ms);
        uv_close((uv_handle_t *)&f->event, free_folder);
        return;
    }
    w->folders[w->n_folders++] = f;
}

static void watch_folder_of(struct engine_watch *w, const char *path)
{
    GS_AUTO_FREE char *folder = gs_strdup(path);
    char *slash = strrchr(folder, '/');
    if (!slash) {
        watch_folder(w, ".");
        return;
    }
    slash[slash == folder] = '\0';
    watch_folder(w, folder);
}

// The folder of the pattern's part without wildcards, and those of what it matches now.
static void watch_glob(struct engine_watch *w, const char *pattern)
{
    glob_t found;
    GS_AUTO_FREE char *fixed = gs_strdup(pattern);
    fixed[strcspn(fixed, "*?[")] = '\0';
    watch_folder_of(w, fixed);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        watch_folder_of(w, found.gl_pathv[i]);
    globfree(&found);
}

static void drop_all(struct engine_watch *w)
{
    for (size_t i = 0; i < w->n_folders; i++)
        uv_close((uv_handle_t *)&w->folders[i]->event, free_folder);
    w->n_folders = 0;
    for (size_t i = 0; i < w->n_globs; i++)
        free(w->globs[i]);
    free(w->globs);
    w->globs = NULL;
    w->n_globs = 0;
}

void engine_watch_set(struct engine_watch *w, const char *path, const char *const *globs, size_t n)
{
    drop_all(w);
    w->globs = gs_alloc_array(n + 1, sizeof(*w->globs));
    w->globs[w->n_globs++] = gs_strdup(path);
    for (size_t i = 0; i < n; i++)
        w->globs[w->n_globs++] = gs_strdup(globs[i]);
    watch_folder_of(w, path);
    for (size_t i = 1; i < w->n_globs; i++)
        watch_glob(w, w->globs[i]);
    w->known = w->seen = fingerprint(w);
    w->looks = 0;
}

// --- life ---

static void free_handle(uv_handle_t *h)
{
    free(h);
}

static uv_timer_t *new_timer(struct engine_watch *w)
{
    uv_timer_t *t = gs_alloc(sizeof(*t));
    uv_timer_init(w->loop, t);
    t->data = w;
    return t;
}

struct engine_watch *engine_watch_new(uv_loop_t *loop, int64_t poll_ms, void (*changed)(void *arg),
                                      void *arg)
{
    struct engine_watch *w = gs_alloc(sizeof(*w));
    *w = (struct engine_watch){
        .loop = loop, .changed = changed, .arg = arg, .poll_ms = poll_ms > 0 ? poll_ms : 30000};
    w->settle = new_timer(w);
    w->poll = new_timer(w);
    uv_timer_start(w->poll, on_settled, (uint64_t)w->poll_ms, (uint64_t)w->poll_ms);
    return w;
}

void engine_watch_free(struct engine_watch *w)
{
    if (!w)
        return;
    drop_all(w);
    uv_close((uv_handle_t *)w->settle, free_handle);
    uv_close((uv_handle_t *)w->poll, free_handle);
    free(w);
}
