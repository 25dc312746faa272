// SPDX-License-Identifier: Apache-2.0
// The status file of a container, written by pod-shim: process numbers with start times, exit
// code, or the error of the start. It outlives the kubelet, which reads it after a restart.
#include "local/kubelet/shim.h"

#include "base/file.h"
#include "base/num.h"

#define MAX_STATUS_FILE 4096
#define MESSAGE         "message "

enum key {
    SHIM_PID,
    SHIM_START,
    PID,
    START,
    STARTED_MS,
    FINISHED_MS,
    EXIT_CODE,
    EXEC_ERRNO,
    N_KEYS
};

static const char *const key_names[N_KEYS] = {
    "shim-pid",   "shim-start",  "pid",       "start",
    "started-ms", "finished-ms", "exit-code", "exec-errno",
};

struct gs_error *kubelet_shim_status_write(const char *path, const struct kubelet_shim_status *s)
{
    const int64_t values[N_KEYS] = {
        s->shim_pid,   (int64_t)s->shim_start_ticks,
        s->pid,        (int64_t)s->start_ticks,
        s->started_ms, s->finished_ms,
        s->exit_code,  s->exec_errno,
    };
    GS_AUTO_BUF struct gs_buf text = {0};
    for (size_t i = 0; i < N_KEYS; i++)
        gs_buf_addf(&text, "%s %lld\n", key_names[i], (long long)values[i]);
    if (*s->message)
        gs_buf_addf(&text, MESSAGE "%s\n", s->message);
    return gs_file_write_atomic(path, 0600, gs_buf_slice(&text));
}

static struct gs_error *parse_line(struct gs_slice line, int64_t values[N_KEYS])
{
    struct gs_slice key = gs_slice_cut(&line, ' ');
    for (size_t i = 0; i < N_KEYS; i++)
        if (gs_slice_eq_str(key, key_names[i]))
            return gs_parse_i64(line, 0, INT64_MAX, &values[i]);
    return gs_error_new(GS_EINVAL, "unknown key \"" GS_SLICE_FMT "\"", GS_SLICE_ARG(key));
}

struct gs_error *kubelet_shim_status_read(const char *path, struct kubelet_shim_status *ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_STATUS_FILE, &text);
    if (err)
        return err;
    int64_t v[N_KEYS] = {0};
    struct gs_slice message = {0};
    for (struct gs_slice rest = gs_buf_slice(&text); rest.data && rest.len;) {
        struct gs_slice line = gs_slice_cut(&rest, '\n');
        if (gs_slice_starts(line, MESSAGE))
            message = gs_slice_make(line.data + strlen(MESSAGE), line.len - strlen(MESSAGE));
        else
            err = parse_line(line, v);
        if (err)
            return gs_error_wrap(err, "%s", path);
    }
    *ret = (struct kubelet_shim_status){
        .shim_pid = (pid_t)v[SHIM_PID],
        .shim_start_ticks = (uint64_t)v[SHIM_START],
        .pid = (pid_t)v[PID],
        .start_ticks = (uint64_t)v[START],
        .started_ms = v[STARTED_MS],
        .finished_ms = v[FINISHED_MS],
        .exit_code = (int)v[EXIT_CODE],
        .exec_errno = (int)v[EXEC_ERRNO],
    };
    snprintf(ret->message, sizeof(ret->message), GS_SLICE_FMT, GS_SLICE_ARG(message));
    return NULL;
}
