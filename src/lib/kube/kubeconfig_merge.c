// SPDX-License-Identifier: Apache-2.0
// Entries of gpuscale in a kubeconfig of the user, beside those of others: added and removed under
// the lock file of kubectl, and never in a file that cannot be read completely. As kubectl, it
// keeps all values, but no comments.
#include "kube/kubeconfig.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "kube/kube_private.h"
#include "kube/up_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_LIMIT (4 * 1024 * 1024)
enum { LOCK_WAIT_MS = 3000, LOCK_POLL_MS = 50 };

static const struct {
    const char *list, *member;
} lists[] = {{"clusters", "cluster"}, {"users", "user"}, {"contexts", "context"}};

struct change {
    const char *file; // as the user names it
    char *path;       // without symbolic links
    char *lock;       // NULL: not taken
    bool exists;
    struct stat st;
    json_t *doc;
};

// --- the file and its lock ---

// client-go creates FILE.lock, writes FILE, and removes FILE.lock.
static struct gs_error *take_lock(struct change *c)
{
    GS_AUTO_FREE char *path = gs_format("%s.lock", c->file);
    for (int waited = 0;; waited += LOCK_POLL_MS) {
        int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0) {
            close(fd);
            c->lock = GS_TAKE(path);
            return NULL;
        }
        if (errno != EEXIST)
            return gs_error_errno(errno, "%s", path);
        if (waited >= LOCK_WAIT_MS)
            return gs_error_new(
                GS_EEXIST, "%s exists: another program writes %s. If none does, remove the lock",
                path, c->file);
        nanosleep(&(struct timespec){.tv_nsec = LOCK_POLL_MS * GS_NS_PER_MS}, NULL);
    }
}

static void change_finish(struct change *c)
{
    if (c->lock)
        unlink(c->lock);
    free(c->lock);
    free(c->path);
    json_decref(c->doc);
}

static struct gs_error *make_parent(const char *file)
{
    GS_AUTO_FREE char *folder = gs_folder_of(file);
    return gs_mkdir_p(folder, 0700);
}

static struct gs_error *check_lists(const struct change *c)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(lists); i++) {
        const json_t *list = json_object_get(c->doc, lists[i].list);
        if (list && !json_is_null(list) && !json_is_array(list))
            return gs_error_new(GS_EINVAL,
                                "%s is not a kubeconfig: %s is no list. It is not changed", c->file,
                                lists[i].list);
    }
    return NULL;
}

static struct gs_error *parse(struct change *c, struct gs_slice text)
{
    GS_CLEANUP(codec_yaml_docs_finish) struct codec_yaml_docs docs = {0};
    struct gs_error *err = codec_yaml_parse(text, c->file, &docs);
    if (err)
        return gs_error_wrap(err, "the kubeconfig cannot be read, and is not changed");
    if (docs.len == 0 || (docs.len == 1 && json_is_null(docs.items[0].value))) {
        c->doc = json_pack("{s:s, s:s}", "apiVersion", "v1", "kind", "Config");
        return NULL;
    }
    if (docs.len != 1 || !json_is_object(docs.items[0].value))
        return gs_error_new(
            GS_EINVAL, "%s is not a kubeconfig: expected one mapping. It is not changed", c->file);
    c->doc = json_incref(docs.items[0].value);
    return check_lists(c);
}

static struct gs_error *read_locked(struct change *c)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    c->path = realpath(c->file, NULL);
    c->exists = c->path && stat(c->path, &c->st) == 0;
    if (!c->exists && errno != ENOENT)
        return gs_error_errno(errno, "%s", c->file);
    if (!c->path)
        c->path = gs_strdup(c->file);
    if (c->exists && !S_ISREG(c->st.st_mode))
        return gs_error_new(GS_EINVAL, "%s is not a regular file", c->file);
    struct gs_error *err = c->exists ? gs_file_read(c->path, FILE_LIMIT, &text) : NULL;
    if (!err)
        err = parse(c, gs_buf_slice(&text));
    if (text.data)
        explicit_bzero(text.data, text.len);
    return err;
}

// Keeps mode and owner of the file.
static struct gs_error *write_locked(const struct change *c)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    codec_yaml_dump(c->doc, &text);
    struct gs_error *err = gs_file_write_atomic(c->path, c->exists ? c->st.st_mode & 07777 : 0600,
                                                gs_buf_slice(&text));
    explicit_bzero(text.data, text.len);
    bool foreign = c->exists && (c->st.st_uid != geteuid() || c->st.st_gid != getegid());
    if (!err && foreign && chown(c->path, c->st.st_uid, c->st.st_gid) < 0 && geteuid() == 0)
        err = gs_error_errno(errno, "the owner of %s", c->path);
    return err;
}

// --- entries ---

static json_t *find_named(const json_t *doc, const char *list, const char *name, size_t *ret_at)
{
    json_t *entry;
    size_t i;
    json_array_foreach (json_object_get(doc, list), i, entry) {
        if (gs_streq(codec_json_str(entry, "name", NULL), name)) {
            *ret_at = i;
            return entry;
        }
    }
    return NULL;
}

static void remove_named(json_t *doc, const char *list, const char *name)
{
    size_t at;
    while (find_named(doc, list, name, &at))
        json_array_remove(json_object_get(doc, list), at);
}

static void add_entry(json_t *doc, const char *list, json_t *entry)
{
    json_t *entries = json_object_get(doc, list);
    if (!json_is_array(entries)) {
        entries = json_array();
        json_object_set_new(doc, list, entries);
    }
    json_array_append(entries, entry);
}

// What gpuscale wrote into its context: {dataDir, previousContext}. NULL: it is of another program.
static const json_t *note_of(const json_t *context)
{
    return kube_config_extension(json_object_get(context, "context"), KUBE_CONFIG_EXTENSION);
}

static struct gs_error *check_names(const struct change *c, const char *name, const char *owner,
                                    char **ret_previous)
{
    size_t at;
    const char *current = codec_json_str(c->doc, "current-context", NULL);
    const json_t *context = find_named(c->doc, "contexts", name, &at), *note = note_of(context);
    const char *dir = codec_json_str(note, "dataDir", NULL);
    bool used = context || find_named(c->doc, "clusters", name, &at) ||
                find_named(c->doc, "users", name, &at);
    if (used && !dir)
        return gs_error_new(
            GS_EEXIST,
            "%s has an entry \"%s\" that is not of gpuscale up: choose another name "
            "with --kube-context=NAME",
            c->file, name);
    if (dir && !gs_streq(dir, owner) && kube_up_runs(dir))
        return gs_error_new(
            GS_EEXIST,
            "the context \"%s\" in %s is of the gpuscale up that runs in %s: choose "
            "another name with --kube-context=NAME",
            name, c->file, dir);
    const char *previous =
        gs_streq(current, name) ? codec_json_str(note, "previousContext", NULL) : current;
    *ret_previous = previous ? gs_strdup(previous) : NULL;
    return NULL;
}

static json_t *new_entries(const char *name, const char *owner, const char *previous,
                           const struct kube_config *k)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_CLEANUP(codec_yaml_docs_finish) struct codec_yaml_docs docs = {0};
    kube_config_text(name, k, &text);
    struct gs_error *err = codec_yaml_parse(gs_buf_slice(&text), "kubeconfig", &docs);
    gs_assert(!err && docs.len == 1);
    explicit_bzero(text.data, text.len);
    json_t *context = json_array_get(json_object_get(docs.items[0].value, "contexts"), 0);
    json_t *note = json_object();
    codec_json_set_str(note, "dataDir", owner);
    if (previous)
        codec_json_set_str(note, "previousContext", previous);
    codec_json_set(context,
                   json_pack("[{s:s, s:o}]", "name", KUBE_CONFIG_EXTENSION, "extension", note),
                   "context", "extensions", NULL);
    return json_incref(docs.items[0].value);
}

static struct gs_error *merge(struct change *c, const char *name, const char *owner,
                              const struct kube_config *k)
{
    GS_AUTO_FREE char *previous = NULL;
    struct gs_error *err = check_names(c, name, owner, &previous);
    if (err)
        return err;
    CODEC_AUTO_JSON json_t *entries = new_entries(name, owner, previous, k);
    for (size_t i = 0; i < GS_ARRAY_LEN(lists); i++) {
        remove_named(c->doc, lists[i].list, name);
        add_entry(c->doc, lists[i].list,
                  json_array_get(json_object_get(entries, lists[i].list), 0));
    }
    codec_json_set_str(c->doc, "current-context", name);
    return write_locked(c);
}

struct gs_error *kube_config_merge(const char *file, const char *name, const char *owner,
                                   const struct kube_config *k)
{
    GS_CLEANUP(change_finish) struct change c = {.file = file};
    struct gs_error *err = make_parent(file);
    if (!err)
        err = take_lock(&c);
    if (!err)
        err = read_locked(&c);
    return err ? err : merge(&c, name, owner, k);
}

// --- removal ---

static void go_back(json_t *doc, const char *name, const char *previous)
{
    size_t at;
    if (!gs_streq(codec_json_str(doc, "current-context", NULL), name))
        return;
    bool exists = previous && find_named(doc, "contexts", previous, &at);
    codec_json_set_str(doc, "current-context", exists ? previous : "");
}

struct gs_error *kube_config_unmerge(const char *file, const char *name, const char *owner)
{
    GS_CLEANUP(change_finish) struct change c = {.file = file};
    size_t at;
    if (access(file, F_OK) < 0 && errno == ENOENT)
        return NULL;
    struct gs_error *err = take_lock(&c);
    if (!err)
        err = read_locked(&c);
    if (err)
        return err;
    const json_t *note = note_of(find_named(c.doc, "contexts", name, &at));
    if (!gs_streq(codec_json_str(note, "dataDir", NULL), owner))
        return NULL;
    const char *text = codec_json_str(note, "previousContext", NULL);
    GS_AUTO_FREE char *previous = text ? gs_strdup(text) : NULL;
    for (size_t i = 0; i < GS_ARRAY_LEN(lists); i++)
        remove_named(c.doc, lists[i].list, name);
    go_back(c.doc, name, previous);
    return write_locked(&c);
}

// --- which file ---

static bool is_same_file(const char *a, const char *b)
{
    GS_AUTO_FREE char *real_a = realpath(a, NULL), *real_b = b ? realpath(b, NULL) : NULL;
    return real_a && real_b ? gs_streq(real_a, real_b) : gs_streq(a, b);
}

char *kube_config_file_to_change(const char *except)
{
    const char *list = getenv("KUBECONFIG"), *home = getenv("HOME");
    struct gs_slice rest = gs_slice_of(list && *list ? list : NULL);
    GS_AUTO_FREE char *last = NULL;
    while (rest.data) {
        GS_AUTO_FREE char *path = gs_slice_dup(gs_slice_cut(&rest, ':'));
        if (!*path || is_same_file(path, except))
            continue;
        if (access(path, F_OK) == 0)
            return GS_TAKE(path);
        free(last);
        last = GS_TAKE(path);
    }
    return last ? GS_TAKE(last) : gs_format("%s/.kube/config", home ? home : "");
}
