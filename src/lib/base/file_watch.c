// SPDX-License-Identifier: Apache-2.0
// Reports changes of files and globs by their contents, not by their time: a Secret that kubelet
// mounts changes by a swapped link, and an editor may write the same text again.
// inotify only starts an inspection. A change is reported when two inspections 300 ms apart agree,
// so that a file that is being written is not read. Polling finds what inotify cannot see, such as
// network file systems.
#include "base/file_watch.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"

#include <glob.h>
#include <sys/stat.h>

enum {
    SETTLE_MS = 300,      // several events of one change become one inspection
    MAX_INSPECTIONS = 10, // of files that keep changing; then the change is reported
    POLL_MS = 30000,
    MAX_FOLDERS = 64,
    MAX_FILE = 64 * 1024 * 1024,
};
// A file that was written so recently may be written again without another modification time.
#define FRESH_NS (2 * GS_NS_PER_SEC)

struct folder {
    uv_fs_event_t event; // first: the close callback frees the folder by it
    char *path;
    dev_t device;
    ino_t inode;
    bool wanted;
};

struct contents {
    enum { FILE_MISSING, FILE_UNREADABLE, FILE_EMPTY, FILE_DATA } kind;
    uint64_t hash; // of FILE_DATA
};

struct watched_file {
    struct contents reported, seen; // seen: by the last inspection
    struct stat st;                 // when it was read last
    bool st_is_final;               // the same st means the same contents
    int64_t empty_since_ns;         // while seen is empty
    uint64_t inspection;            // the last one in which a pattern named it
};

struct gs_file_watch {
    struct gs_file_watch_options o;
    char **patterns;
    size_t n_patterns;
    struct gs_hmap *files; // path -> struct watched_file
    uint64_t inspection;
    bool unsettled;    // the last inspection differs from the one before
    bool half_written; // a file has become empty, which is not reported yet
    int unsettled_for; // inspections
    bool report_all;   // the next inspection is the first one, and reports what there is
    struct folder *folders[MAX_FOLDERS];
    size_t n_folders;
    struct gs_timer *settle, *poll; // NULL without a loop
};

// --- contents ---

static bool is_glob(const char *pattern)
{
    return strpbrk(pattern, "*?[") != NULL;
}

static bool same_contents(struct contents a, struct contents b)
{
    return a.kind == b.kind && a.hash == b.hash;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static bool is_fresh(const struct stat *st)
{
    int64_t written_ns = (int64_t)st->st_mtim.tv_sec * GS_NS_PER_SEC + st->st_mtim.tv_nsec;
    return gs_unix_ms() * GS_NS_PER_MS - written_ns < FRESH_NS;
}

static struct contents read_contents(const char *path, struct watched_file *f)
{
    struct stat st;
    GS_AUTO_BUF struct gs_buf text = {0};
    if (stat(path, &st) != 0) {
        f->st_is_final = false;
        return (struct contents){.kind = FILE_MISSING};
    }
    if (f->st_is_final && same_file(&st, &f->st))
        return f->seen;
    f->st = st;
    f->st_is_final = false;
    if (!S_ISREG(st.st_mode)) // a FIFO would block
        return (struct contents){.kind = FILE_UNREADABLE};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (err)
        return (struct contents){.kind = FILE_UNREADABLE};
    if (!text.len)
        return (struct contents){.kind = FILE_EMPTY};
    f->st_is_final = !is_fresh(&st);
    return (struct contents){.kind = FILE_DATA, .hash = gs_hash(text.data, text.len)};
}

static void inspect_file(struct gs_file_watch *w, const char *path)
{
    struct watched_file *f = gs_hmap_get_str(w->files, path);
    if (!f) {
        f = gs_alloc(sizeof(*f));
        gs_hmap_put_str(w->files, path, f);
    } else if (f->inspection == w->inspection) {
        return; // two patterns name it
    }
    f->inspection = w->inspection;
    struct contents now = read_contents(path, f);
    if (now.kind == FILE_EMPTY && f->seen.kind != FILE_EMPTY)
        f->empty_since_ns = gs_mono_ns();
    w->unsettled |= !same_contents(now, f->seen);
    f->seen = now;
}

static void inspect_pattern(struct gs_file_watch *w, const char *pattern)
{
    glob_t found;
    if (!is_glob(pattern)) {
        inspect_file(w, pattern);
        return;
    }
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        inspect_file(w, found.gl_pathv[i]);
    globfree(&found);
}

// What counts of the last inspection: what was reported, where the change is not one.
static struct contents reportable_contents(struct gs_file_watch *w, const struct watched_file *f)
{
    int64_t empty_ms = (gs_mono_ns() - f->empty_since_ns) / GS_NS_PER_MS;
    if (f->seen.kind == FILE_EMPTY && f->reported.kind != FILE_EMPTY &&
        (!w->o.empty_after_ms || empty_ms < w->o.empty_after_ms))
        return f->reported;
    if (f->seen.kind <= FILE_UNREADABLE && !w->o.missing_is_change)
        return f->reported;
    return f->seen;
}

// True: something is to be reported.
static bool inspect(struct gs_file_watch *w)
{
    bool changed = false;
    size_t pos = 0;
    struct gs_slice path;
    void *value;
    w->inspection++;
    w->unsettled = w->half_written = false;
    for (size_t i = 0; i < w->n_patterns; i++)
        inspect_pattern(w, w->patterns[i]);
    while (gs_hmap_next(w->files, &pos, &path, &value)) {
        struct watched_file *f = value;
        if (f->inspection != w->inspection && f->seen.kind != FILE_MISSING) {
            f->seen = (struct contents){.kind = FILE_MISSING};
            w->unsettled = true;
        }
        struct contents now = reportable_contents(w, f);
        changed |= !same_contents(now, f->reported);
        w->half_written |= f->seen.kind == FILE_EMPTY && !same_contents(now, f->seen);
    }
    return changed;
}

static enum gs_file_event event_of(struct contents before, struct contents now)
{
    return before.kind == FILE_MISSING ? GS_FILE_ADDED
           : now.kind == FILE_MISSING  ? GS_FILE_REMOVED
                                       : GS_FILE_CHANGED;
}

static bool was_removed(const struct gs_file_watch *w, const struct watched_file *f)
{
    return f->inspection != w->inspection && f->reported.kind == FILE_MISSING;
}

// Files that a glob matched once.
static void forget_files(struct gs_file_watch *w)
{
    size_t pos = 0;
    struct gs_slice path;
    void *value;
    while (gs_hmap_next(w->files, &pos, &path, &value))
        if (was_removed(w, value)) {
            free(gs_hmap_remove(w->files, path));
            pos = 0;
        }
}

static void report_files(struct gs_file_watch *w)
{
    size_t pos = 0;
    struct gs_slice path;
    void *value;
    while (gs_hmap_next(w->files, &pos, &path, &value)) {
        struct watched_file *f = value;
        struct contents before = f->reported;
        f->reported = reportable_contents(w, f);
        if (w->o.on_file && !same_contents(before, f->reported)) {
            GS_AUTO_FREE char *name = gs_slice_dup(path);
            w->o.on_file(w->o.arg, name, event_of(before, f->reported));
        }
    }
    forget_files(w);
}

// --- folders ---

static void start_settling(struct gs_file_watch *w);

static void on_folder_event(uv_fs_event_t *event, const char *name, int events, int status)
{
    struct gs_file_watch *w = event->data;
    (void)name;
    (void)events;
    (void)status;
    if (!gs_timer_is_active(w->settle))
        start_settling(w);
}

static void free_closed_folder(uv_handle_t *h)
{
    struct folder *f = (struct folder *)(void *)h;
    free(f->path);
    free(f);
}

static struct folder *find_folder(struct gs_file_watch *w, const char *path, const struct stat *st)
{
    for (size_t i = 0; i < w->n_folders; i++)
        if (gs_streq(w->folders[i]->path, path) && w->folders[i]->inode == st->st_ino &&
            w->folders[i]->device == st->st_dev)
            return w->folders[i];
    return NULL;
}

static void watch_folder(struct gs_file_watch *w, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return; // polling finds it
    struct folder *f = find_folder(w, path, &st);
    if (f) {
        f->wanted = true;
        return;
    }
    if (w->n_folders == MAX_FOLDERS)
        return;
    f = gs_alloc(sizeof(*f));
    *f = (struct folder){
        .path = gs_strdup(path), .device = st.st_dev, .inode = st.st_ino, .wanted = true};
    f->event.data = w;
    uv_fs_event_init(w->o.loop, &f->event);
    int rc = uv_fs_event_start(&f->event, on_folder_event, path, 0);
    if (rc != 0) {
        gs_debug("files", "%s cannot be watched (%s): its files are read every %lld ms", path,
                 uv_strerror(rc), (long long)w->o.poll_ms);
        uv_close((uv_handle_t *)&f->event, free_closed_folder);
        return;
    }
    w->folders[w->n_folders++] = f;
}

static void watch_parent(struct gs_file_watch *w, const char *path)
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

// The folder of the name, where a link is swapped, and that of the file itself.
static void watch_folders_of(struct gs_file_watch *w, const char *path)
{
    GS_AUTO_FREE char *target = realpath(path, NULL);
    watch_parent(w, path);
    if (target)
        watch_parent(w, target);
}

// The folder before the first wildcard, where files appear, and those of the matching files.
static void watch_pattern(struct gs_file_watch *w, const char *pattern)
{
    glob_t found;
    if (!is_glob(pattern)) {
        watch_folders_of(w, pattern);
        return;
    }
    GS_AUTO_FREE char *fixed = gs_strdup(pattern);
    fixed[strcspn(fixed, "*?[")] = '\0';
    watch_parent(w, fixed);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        watch_folders_of(w, found.gl_pathv[i]);
    globfree(&found);
}

// After each change: links may lead elsewhere, and folders may be others by the same name.
static void watch_folders(struct gs_file_watch *w)
{
    size_t n = 0;
    if (!w->o.loop)
        return;
    for (size_t i = 0; i < w->n_folders; i++)
        w->folders[i]->wanted = false;
    for (size_t i = 0; i < w->n_patterns; i++)
        watch_pattern(w, w->patterns[i]);
    for (size_t i = 0; i < w->n_folders; i++) {
        struct folder *f = w->folders[i];
        if (f->wanted)
            w->folders[n++] = f;
        else
            uv_close((uv_handle_t *)&f->event, free_closed_folder);
    }
    w->n_folders = n;
}

// --- turns ---

// on_change may free the watch: nothing follows it.
static void on_settled(void *arg)
{
    struct gs_file_watch *w = arg;
    bool changed = inspect(w), first = w->report_all;
    bool settled = first || (!w->unsettled && !w->half_written);
    w->report_all = false;
    if (!changed)
        w->unsettled_for = 0;
    if (changed && !settled && ++w->unsettled_for < MAX_INSPECTIONS) {
        start_settling(w);
        return;
    }
    if (w->half_written && w->o.empty_after_ms)
        start_settling(w);
    if (!changed && !first)
        return;
    w->unsettled_for = 0;
    report_files(w);
    watch_folders(w);
    if (w->o.on_change)
        w->o.on_change(w->o.arg);
}

static void start_settling(struct gs_file_watch *w)
{
    gs_timer_start(w->settle, on_settled, SETTLE_MS);
}

bool gs_file_watch_check(struct gs_file_watch *w)
{
    bool first = w->report_all;
    w->report_all = false;
    if (!inspect(w) && !first)
        return false;
    report_files(w);
    watch_folders(w);
    return true;
}

// --- life ---

static void free_patterns(struct gs_file_watch *w)
{
    for (size_t i = 0; i < w->n_patterns; i++)
        free(w->patterns[i]);
    free(w->patterns);
    w->patterns = NULL;
    w->n_patterns = 0;
}

static void set_patterns(struct gs_file_watch *w, const char *const *patterns, size_t n)
{
    struct gs_hmap *old = w->files;
    char **copies = gs_alloc_array(n + 1, sizeof(*copies));
    size_t n_copies = 0;
    for (size_t i = 0; i < n; i++)
        if (patterns[i] && *patterns[i])
            copies[n_copies++] = gs_strdup(patterns[i]);
    free_patterns(w);
    w->patterns = copies;
    w->n_patterns = n_copies;
    w->files = gs_hmap_new(free);
    w->unsettled_for = 0;
    gs_hmap_free(old);
    watch_folders(w);
}

void gs_file_watch_set(struct gs_file_watch *w, const char *const *patterns, size_t n)
{
    size_t pos = 0;
    struct gs_slice path;
    void *value;
    set_patterns(w, patterns, n);
    inspect(w);
    while (gs_hmap_next(w->files, &pos, &path, &value)) {
        struct watched_file *f = value;
        f->reported = f->seen;
    }
}

void gs_file_watch_set_new(struct gs_file_watch *w, const char *const *patterns, size_t n)
{
    set_patterns(w, patterns, n);
    w->report_all = true;
    if (w->o.loop)
        gs_timer_start(w->settle, on_settled, 0);
}

struct gs_file_watch *gs_file_watch_new(const struct gs_file_watch_options *o)
{
    struct gs_file_watch *w = gs_alloc(sizeof(*w));
    *w = (struct gs_file_watch){.o = *o, .files = gs_hmap_new(free)};
    if (w->o.poll_ms <= 0)
        w->o.poll_ms = POLL_MS;
    if (!o->loop)
        return w;
    w->settle = gs_timer_new(o->loop, w);
    w->poll = gs_timer_new(o->loop, w);
    gs_timer_repeat(w->poll, on_settled, (uint64_t)w->o.poll_ms, (uint64_t)w->o.poll_ms);
    return w;
}

void gs_file_watch_free(struct gs_file_watch *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->n_folders; i++)
        uv_close((uv_handle_t *)&w->folders[i]->event, free_closed_folder);
    gs_timer_free(w->settle);
    gs_timer_free(w->poll);
    free_patterns(w);
    gs_hmap_free(w->files);
    free(w);
}
