// SPDX-License-Identifier: Apache-2.0
// Two files. pod-in-progress has the pod that is being handled: "UID NAMESPACE/NAME" in its first
// line, or an empty line. It is written before and after each piece of work, so it is only written
// into the page cache, which outlives the process. skipped-pods.json changes at starts and
// deletions only:
//   {"suspect": UID of the pod at the last abnormal end, "skipped": {UID: "NAMESPACE/NAME", …}}
#include "local/kubelet/start_guard.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/slice.h"
#include "codec/json.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { MAX_PROGRESS = 1024, MAX_SKIPPED_BYTES = 64 * 1024, MAX_SKIPPED = 100 };

struct kubelet_guard {
    char *skipped_path;
    int fd;         // pod-in-progress
    unsigned depth; // of kubelet_guard_enter
    json_t *state;  // skipped-pods.json
};

static json_t *skipped(const struct kubelet_guard *g)
{
    return json_object_get(g->state, "skipped");
}

static void write_state(const struct kubelet_guard *g)
{
    GS_AUTO_FREE char *text = codec_json_text(g->state);
    GS_AUTO_ERROR struct gs_error *err =
        gs_file_write_atomic(g->skipped_path, 0600, gs_slice_of(text));
    if (err)
        gs_warn("kubelet", "%s", gs_error_message(err));
}

// A file that is missing or damaged skips nothing.
static json_t *read_state(const char *path)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    json_t *state = NULL;
    struct gs_error *err = gs_file_read(path, MAX_SKIPPED_BYTES, &text);
    if (!err)
        err = codec_json_parse(gs_buf_slice(&text), false, &state);
    if (!err && !json_is_object(json_object_get(state, "skipped")))
        err = gs_error_new(GS_EINVAL, "it has no object \"skipped\"");
    if (!err)
        return state;
    if (gs_error_code(err) != GS_ENOTFOUND) {
        gs_warn(
            "kubelet",
            "%s is damaged and is deleted: %s. Pods during which gpuscale has ended start again",
            path, gs_error_message(err));
        (void)unlink(path);
    }
    gs_error_free(err);
    json_decref(state);
    return json_pack("{s:{}}", "skipped");
}

// The process has ended during this pod.
static void blame(struct kubelet_guard *g, const char *uid, const char *name)
{
    const char *suspect = codec_json_str(g->state, "suspect", NULL);
    if (!gs_streq(suspect, uid)) {
        gs_warn("kubelet", "the last run ended while it handled pod %s", name);
        json_object_set_new(g->state, "suspect", json_string(uid));
    } else if (json_object_size(skipped(g)) < MAX_SKIPPED) {
        json_object_set_new(skipped(g), uid, json_string(name));
        json_object_del(g->state, "suspect");
    }
    write_state(g);
}

static void log_skipped(const struct kubelet_guard *g)
{
    const char *uid;
    json_t *name;
    json_object_foreach (skipped(g), uid, name)
        gs_warn("kubelet", "pod %s: " KUBELET_SKIPPED_MESSAGE, json_string_value(name));
}

// Writes the first line of pod-in-progress.
static void write_progress(const struct kubelet_guard *g, const char *line)
{
    // Without it only this protection is missing.
    (void)!pwrite(g->fd, line, strlen(line), 0);
}

static void read_progress(struct kubelet_guard *g)
{
    char line[MAX_PROGRESS + 1];
    ssize_t n = pread(g->fd, line, MAX_PROGRESS, 0);
    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    char *name = strchr(line, ' ');
    if (!name)
        return;
    *name++ = '\0';
    blame(g, line, name);
    write_progress(g, "\n");
}

struct gs_error *kubelet_guard_open(const char *dir, struct kubelet_guard **ret)
{
    GS_AUTO_FREE char *path = gs_format("%s/pod-in-progress", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return gs_error_errno(errno, "%s", path);
    struct kubelet_guard *g = gs_alloc(sizeof(*g));
    g->fd = fd;
    g->skipped_path = gs_format("%s/skipped-pods.json", dir);
    g->state = read_state(g->skipped_path);
    read_progress(g);
    log_skipped(g);
    *ret = g;
    return NULL;
}

void kubelet_guard_free(struct kubelet_guard *g)
{
    if (!g)
        return;
    close(g->fd);
    free(g->skipped_path);
    json_decref(g->state);
    free(g);
}

void kubelet_guard_enter(struct kubelet_guard *g, const char *uid, const char *ns, const char *name)
{
    if (g->depth++ > 0)
        return;
    GS_AUTO_FREE char *line = gs_format("%s %s/%s\n", uid, ns, name);
    write_progress(g, line);
}

void kubelet_guard_leave(struct kubelet_guard *g)
{
    if (--g->depth == 0)
        write_progress(g, "\n");
}

bool kubelet_guard_skips(const struct kubelet_guard *g, const char *uid)
{
    return json_object_get(skipped(g), uid) != NULL;
}

void kubelet_guard_started(struct kubelet_guard *g, const char *uid)
{
    if (!gs_streq(codec_json_str(g->state, "suspect", NULL), uid))
        return;
    json_object_del(g->state, "suspect");
    write_state(g);
}

void kubelet_guard_forget(struct kubelet_guard *g, const char *uid)
{
    kubelet_guard_started(g, uid);
    if (json_object_del(skipped(g), uid) == 0)
        write_state(g);
}
