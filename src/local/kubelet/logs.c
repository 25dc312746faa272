// SPDX-License-Identifier: Apache-2.0
// The log of a container for `kubectl logs`, with following, rotation, previous instances and
// times. Errors are those of the kubelet. Reading is by polling, in small parts, so that a large
// log does not stop the loop, and only as fast as the client reads.
#include "local/kubelet/logs.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "kube/status.h"
#include "local/kubelet/kubelet_private.h"
#include "local/kubelet/pod_worker.h"
#include "local/kubelet/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum {
    CHUNK = 64 * 1024,
    CHUNKS_A_TURN = 4,
    MAX_QUEUED = 1024 * 1024, // bytes that the client has not taken yet
    POLL_MS = 100,
    BUSY_MS = 1,
};

struct log_options {
    bool follow, previous, timestamps;
    int64_t tail;                // lines; -1: all
    int64_t limit_bytes;         // -1: none
    char since[GS_RFC3339_SIZE]; // "": from the beginning
};

struct kubelet_log_stream {
    struct kubelet *k; // NULL after its end
    struct kubelet_log_stream *prev, *next;
    struct http_stream *out; // NULL after its end
    struct gs_timer *timer;
    struct log_options o;
    char *uid, *container, *path;
    unsigned instance;
    int fd;
    bool old_file;         // reads path.1 first
    bool middle_of_line;   // the last entry was a partial one
    struct gs_buf entries; // the start of an entry whose end has not been read
};

// --- parameters ---

static struct gs_error *number_param(struct http_exchange *x, const char *name, int64_t min,
                                     int64_t *ret)
{
    const char *text = http_query(x, name);
    if (!text)
        return NULL;
    struct gs_error *err = gs_parse_i64(gs_slice_of(text), min, INT64_MAX, ret);
    return err ? gs_error_wrap(err, "%s", name) : NULL;
}

static struct gs_error *since_params(struct http_exchange *x, struct log_options *o)
{
    int64_t seconds = -1, from_ms = 0;
    const char *time = http_query(x, "sinceTime");
    struct gs_error *err = number_param(x, "sinceSeconds", 1, &seconds);
    if (err)
        return err;
    if (time && seconds >= 0)
        return gs_error_new(GS_EINVAL,
                            "at most one of `sinceTime` or `sinceSeconds` may be specified");
    if (time)
        err = gs_parse_rfc3339(gs_slice_of(time), &from_ms);
    else if (seconds >= 0 && seconds < gs_unix_ms() / 1000) // more: from the beginning
        from_ms = gs_unix_ms() - seconds * 1000;
    if (!err && from_ms)
        gs_format_rfc3339_micro(from_ms * 1000, o->since);
    return err;
}

static struct gs_error *parse_options(struct http_exchange *x, struct log_options *ret)
{
    struct log_options o = {
        .follow = local_api_query_bool(x, "follow"),
        .previous = local_api_query_bool(x, "previous"),
        .timestamps = local_api_query_bool(x, "timestamps"),
        .tail = -1,
        .limit_bytes = -1,
    };
    struct gs_error *err = number_param(x, "tailLines", 0, &o.tail);
    if (!err)
        err = number_param(x, "limitBytes", 1, &o.limit_bytes);
    if (!err)
        err = since_params(x, &o);
    if (!err)
        *ret = o;
    return err;
}

static void add_names(const json_t *pod, const char *list, struct gs_buf *out)
{
    size_t i;
    json_t *c;
    json_array_foreach (codec_json_get(pod, "spec", list, NULL), i, c) {
        const char *name = codec_json_str(c, "name", NULL);
        gs_buf_addf(out, "%s%s", i ? " " : "", name ? name : "");
    }
}

struct gs_error *kubelet_choose_container(struct http_exchange *x, const json_t *pod,
                                          const char **ret)
{
    const char *given = http_query(x, "container");
    const json_t *all = codec_json_get(pod, "spec", "containers", NULL);
    if (!given || !*given) {
        if (json_array_size(all) == 1) {
            *ret = codec_json_str(json_array_get(all, 0), "name", NULL);
            return NULL;
        }
        GS_AUTO_BUF struct gs_buf names = {0}, init = {0};
        add_names(pod, "containers", &names);
        add_names(pod, "initContainers", &init);
        return gs_error_new(
            GS_EINVAL, "a container name must be specified for pod %s, choose one of: [%s]%s%s%s",
            kube_name(pod), names.len ? names.data : "",
            init.len ? " or one of the init containers: [" : "", init.len ? init.data : "",
            init.len ? "]" : "");
    }
    *ret = given;
    return NULL;
}

// Which instance's log is meant. Source: the kubelet's rules for `kubectl logs`.
static struct gs_error *choose_instance(const struct kubelet_container *c, bool previous,
                                        unsigned *ret)
{
    const char *pod = c->worker->name;
    bool waits = c->state == KUBELET_WAITING;
    if (previous && (!c->has_run || (!waits && c->restart_count == 0)))
        return gs_error_new(GS_EINVAL,
                            "previous terminated container \"%s\" in pod \"%s\" not found", c->name,
                            pod);
    if (!c->has_run) {
        const char *why = kubelet_container_waiting_reason(c);
        if (gs_streq(why, "ErrImagePull"))
            why = "image can't be pulled";
        else if (gs_streq(why, "ImagePullBackOff"))
            why = "trying and failing to pull image";
        return gs_error_new(GS_EINVAL, "container \"%s\" in pod \"%s\" is waiting to start: %s",
                            c->name, pod, why);
    }
    *ret = previous && !waits ? c->restart_count - 1 : c->restart_count;
    return NULL;
}

// --- sending ---

static void close_file(struct kubelet_log_stream *s)
{
    gs_closep(&s->fd);
    s->fd = -1;
}

static void stream_free(struct kubelet_log_stream *s)
{
    if (s->prev)
        s->prev->next = s->next;
    else if (s->k)
        s->k->log_streams = s->next;
    if (s->next)
        s->next->prev = s->prev;
    close_file(s);
    gs_timer_free(s->timer);
    gs_buf_finish(&s->entries);
    free(s->uid);
    free(s->container);
    free(s->path);
    free(s);
}

static void on_log_timer(void *arg);

// The caller may be writing, so the memory is freed in a later turn of the loop.
static void on_close(void *arg)
{
    struct kubelet_log_stream *s = arg;
    s->out = NULL;
    gs_timer_start(s->timer, on_log_timer, 0);
}

static void end(struct kubelet_log_stream *s)
{
    if (s->out)
        http_stream_end(s->out);
}

static bool is_running(const struct kubelet_log_stream *s)
{
    struct kubelet_worker *w = s->k ? gs_hmap_get_str(s->k->workers, s->uid) : NULL;
    const struct kubelet_container *c = w ? kubelet_worker_find(w, s->container) : NULL;
    return c && (c->process || w->is_static) && c->restart_count == s->instance;
}

// One entry of the log file, "stamp stream tag text", as the client wants it.
static void format_entry(struct kubelet_log_stream *s, struct gs_slice entry, struct gs_buf *out)
{
    struct gs_slice text = entry;
    struct gs_slice stamp = gs_slice_cut(&text, ' ');
    gs_slice_cut(&text, ' '); // the stream
    struct gs_slice tag = gs_slice_cut(&text, ' ');
    if (!text.data)
        return;
    size_t n = strnlen(s->o.since, sizeof(s->o.since));
    if (n > 1 && stamp.len >= n && memcmp(stamp.data, s->o.since, n - 1) < 0)
        return;
    if (s->o.timestamps && !s->middle_of_line)
        gs_buf_addf(out, GS_SLICE_FMT " ", GS_SLICE_ARG(stamp));
    gs_buf_add_slice(out, text);
    s->middle_of_line = gs_slice_eq(tag, GS_SLICE("P"));
    if (!s->middle_of_line)
        gs_buf_add_char(out, '\n');
}

static void send_entries(struct kubelet_log_stream *s)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    size_t used = 0;
    for (const char *nl; s->entries.len > used &&
                         (nl = memchr(s->entries.data + used, '\n', s->entries.len - used));) {
        const char *start = s->entries.data + used;
        format_entry(s, gs_slice_make(start, (size_t)(nl - start)), &out);
        used = (size_t)(nl - s->entries.data) + 1;
    }
    gs_buf_consume(&s->entries, used);
    struct gs_slice bytes = gs_buf_slice(&out);
    if (s->o.limit_bytes >= 0 && (int64_t)bytes.len >= s->o.limit_bytes) {
        bytes.len = (size_t)s->o.limit_bytes;
        s->o.limit_bytes = 0;
    } else if (s->o.limit_bytes > 0) {
        s->o.limit_bytes -= (int64_t)bytes.len;
    }
    if (bytes.len && s->out)
        http_stream_write(s->out, bytes);
    if (s->o.limit_bytes == 0)
        end(s);
}

// At the end of a file: the next one to read, if any. Rotation gives the path to a new file.
static bool next_file(struct kubelet_log_stream *s)
{
    struct stat now, open_one;
    bool rotated = !s->old_file && fstat(s->fd, &open_one) == 0 && stat(s->path, &now) == 0 &&
                   now.st_ino != open_one.st_ino;
    if (!s->old_file && !rotated)
        return false;
    int fd = open(s->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    close_file(s);
    s->fd = fd;
    s->old_file = false;
    return true;
}

// false at the end of what is there now.
static bool read_some(struct kubelet_log_stream *s)
{
    char chunk[CHUNK];
    ssize_t n;
    do
        n = read(s->fd, chunk, sizeof(chunk));
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return next_file(s);
    gs_buf_add(&s->entries, chunk, (size_t)n);
    send_entries(s);
    return true;
}

static void on_log_timer(void *arg)
{
    struct kubelet_log_stream *s = arg;
    bool more = true;
    // Asked before reading: what it wrote last is in the file when it is not running.
    bool last = !s->o.follow || !is_running(s);
    for (int i = 0; s->out && more && i < CHUNKS_A_TURN && http_stream_pending(s->out) < MAX_QUEUED;
         i++)
        more = read_some(s);
    if (!s->out) {
        stream_free(s);
        return;
    }
    if (!more && last)
        end(s);
    else
        gs_timer_start(s->timer, on_log_timer, more ? BUSY_MS : POLL_MS);
}

// Opens the file with the first requested line and seeks to it.
static struct gs_error *open_log(struct kubelet_log_stream *s)
{
    GS_AUTO_FREE char *old = gs_format("%s.1", s->path);
    s->fd = open(s->path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0)
        return gs_error_errno(errno, "reading the log of container \"%s\"", s->container);
    int64_t found = s->o.tail < 0 ? 0 : kubelet_log_tail_seek(s->fd, s->o.tail);
    if (s->o.tail >= 0 && found >= s->o.tail)
        return NULL;
    int fd = open(old, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    close_file(s);
    s->fd = fd;
    s->old_file = true;
    if (s->o.tail >= 0)
        kubelet_log_tail_seek(fd, s->o.tail - found);
    return NULL;
}

static struct gs_error *start(struct kubelet *k, struct kubelet_container *c,
                              const struct log_options *o, struct http_exchange *x)
{
    unsigned instance = 0;
    const char *fixed = kubelet_static_log_path(k, c->worker->pod);
    struct gs_error *err = choose_instance(c, o->previous, &instance);
    if (err)
        return err;
    struct kubelet_log_stream *s = gs_alloc(sizeof(*s));
    *s = (struct kubelet_log_stream){
        .k = k,
        .next = k->log_streams,
        .o = *o,
        .uid = gs_strdup(c->worker->uid),
        .container = gs_strdup(c->name),
        .path = fixed ? gs_strdup(fixed) : kubelet_container_file(c, instance, "log"),
        .instance = instance,
        .fd = -1,
    };
    if (s->next)
        s->next->prev = s;
    k->log_streams = s;
    s->timer = gs_timer_new(k->cluster->loop, s);
    err = open_log(s);
    if (err) {
        stream_free(s);
        return err;
    }
    s->out = http_reply_stream(x, 200, "text/plain", on_close, s);
    gs_timer_start(s->timer, on_log_timer, 0);
    return NULL;
}

void kubelet_logs_handle(void *kubelet, const json_t *pod, struct http_exchange *x)
{
    struct kubelet *k = kubelet;
    const char *uid = kube_uid(pod);
    struct kubelet_worker *w = uid ? gs_hmap_get_str(k->workers, uid) : NULL;
    const char *name = NULL;
    struct log_options o;
    struct gs_error *err = parse_options(x, &o);
    if (!err)
        err = kubelet_choose_container(x, pod, &name);
    struct kubelet_container *c = w && name ? kubelet_worker_find(w, name) : NULL;
    if (!err && !w)
        err = gs_error_new(GS_EINVAL, "pod %s does not have a host assigned", kube_name(pod));
    if (!err && !c)
        err = gs_error_new(GS_EINVAL, "container %s is not valid for pod %s", name, kube_name(pod));
    if (!err)
        err = start(k, c, &o, x);
    if (!err)
        return;
    bool bad = gs_error_code(err) == GS_EINVAL;
    kube_reply_failure(x, bad ? 400 : 500, bad ? "BadRequest" : "InternalError", "%s",
                       gs_error_message(err));
    gs_error_free(err);
}

void kubelet_logs_close_all(struct kubelet *k)
{
    for (struct kubelet_log_stream *s = k->log_streams, *next; s; s = next) {
        next = s->next;
        s->k = NULL;
        s->prev = s->next = NULL;
        end(s);
    }
    k->log_streams = NULL;
}
