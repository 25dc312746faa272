// SPDX-License-Identifier: Apache-2.0
// A kubelet with real processes on the real API server (memory store), in a folder of its own.
#pragma once

#include "local/api_harness.h"

#include "base/clock.h"
#include "kube/object.h"
#include "local/kubelet.h"
#include "patience.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NODE "node-1"

struct fixture {
    struct harness h;
    struct kube_client *client;
    struct local_cluster *cluster;
    struct kubelet *kubelet;
    char dir[64], socket[96];
    char *exe;
    bool stopped;
};

static inline void fixture_start_kubelet(struct fixture *f)
{
    static const char *const devices[] = {"GPU-aaa::0", "GPU-aaa::1", "GPU-bbb"};
    static const char *const extra[] = {"EXTRA=from-up", NULL};
    static const struct local_image images[] = {
        {"sleeper", "sh -c 'echo mapped; exec sleep 1000'"},
        {"echo/*", "/bin/echo prefix"},
        {"script:*", "sh"},
    };
    f->cluster = local_cluster_new(&f->h.loop, f->client, NODE, f->dir);
    CODEC_AUTO_JSON json_t *labels = json_pack("{s:s}", "gpu", "t4");
    CODEC_AUTO_JSON json_t *taints =
        json_pack("[{s:s, s:s}]", "key", "soft", "effect", "PreferNoSchedule");
    const struct local_kubelet_config cfg = {
        .self_exe = f->exe,
        .images = images,
        .n_images = GS_ARRAY_LEN(images),
        .device_ids = devices,
        .n_devices = GS_ARRAY_LEN(devices),
        .node_labels = labels,
        .node_taints = taints,
        .podresources_socket = f->socket,
        .extra_env = extra,
        .work_dir = f->dir,
        .api_port = 6443,
    };
    struct gs_error *err = kubelet_new(f->cluster, f->h.api, &cfg, &f->kubelet);
    if (err)
        fail_msg("%s", gs_error_message(err));
}

static inline int fixture_open(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    const char *build = getenv("GPUSCALE_BUILD_ROOT");
    GS_AUTO_FREE char *exe = gs_format("%s/src/cmd/gpuscale", build ? build : "build");
    f->exe = realpath(exe, NULL);
    assert_non_null(f->exe);
    strcpy(f->dir, "/tmp/gpuscale-kubelet-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->socket, sizeof(f->socket), "%s/podresources.sock", f->dir);
    // With a CA, each pod has the volume with the token of its service account.
    harness_open_with(&f->h,
                      &(struct local_api_config){.node_name = "here", .ca_pem = "-- the CA --\n"});
    f->client = kube_client_new(f->h.client);
    fixture_start_kubelet(f);
    *state = f;
    return 0;
}

// Not UV_RUN_ONCE: it would sleep after a timer that ran what we wait for.
static inline void tick(struct fixture *f)
{
    uv_run(&f->h.loop, UV_RUN_NOWAIT);
    usleep(2000);
}

static inline void fixture_stopped(void *arg)
{
    ((struct fixture *)arg)->stopped = true;
}

static inline void fixture_stop(struct fixture *f, unsigned timeout_ms)
{
    f->stopped = false;
    kubelet_stop(f->kubelet, timeout_ms, fixture_stopped, f);
    while (!f->stopped)
        tick(f);
}

static inline void fixture_end_kubelet(struct fixture *f)
{
    kubelet_free(f->kubelet);
    local_cluster_free(f->cluster);
    f->kubelet = NULL;
    f->cluster = NULL;
}

static inline int fixture_close(void **state)
{
    struct fixture *f = *state;
    fixture_stop(f, 200);
    fixture_end_kubelet(f);
    kube_client_free(f->client);
    harness_close(&f->h);
    GS_AUTO_FREE char *command = gs_format("rm -rf %s", f->dir);
    assert_int_equal(system(command), 0);
    free(f->exe);
    free(f);
    return 0;
}

// Single quotes stand for double ones, so that JSON reads well in C.
static inline char *requote(const char *text)
{
    char *copy = gs_strdup(text);
    for (char *at = copy; *at; at++)
        if (*at == '\'')
            *at = '"';
    return copy;
}

// spec: what is in "spec" beside nodeName, without the braces.
static inline void create_pod(struct fixture *f, const char *name, const char *annotations,
                              const char *spec)
{
    GS_AUTO_FREE char *text =
        gs_format("{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s','namespace':'default',"
                  "'annotations':{%s}},'spec':{'nodeName':'" NODE "',%s}}",
                  name, annotations, spec);
    GS_AUTO_FREE char *body = requote(text);
    AUTO_REPLY struct reply r = request(&f->h, "POST", "/api/v1/namespaces/default/pods", body);
    assert_status(r, 201);
}

static inline struct reply get_pod(struct fixture *f, const char *name)
{
    GS_AUTO_FREE char *path = gs_format("/api/v1/namespaces/default/pods/%s", name);
    return request(&f->h, "GET", path, NULL);
}

// GET …/log with a query; the whole text.
static inline struct reply get_log(struct fixture *f, const char *name, const char *query)
{
    GS_AUTO_FREE char *path = gs_format("/api/v1/namespaces/default/pods/%s/log%s", name, query);
    return request(&f->h, "GET", path, NULL);
}

static inline const json_t *container_status(const json_t *pod, size_t i)
{
    return json_array_get(codec_json_get(pod, "status", "containerStatuses", NULL), i);
}

typedef bool (*pod_check)(const json_t *pod, const void *arg);

// Waits until the pod satisfies the check; returns it (new reference).
static inline json_t *wait_pod(struct fixture *f, const char *name, const char *what,
                               pod_check check, const void *arg)
{
    GS_AUTO_FREE char *last = NULL;
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; tick(f)) {
        AUTO_REPLY struct reply r = get_pod(f, name);
        if (r.status == 200 && check(r.body, arg))
            return json_incref(r.body);
        free(last);
        last = gs_strdup(r.text);
    }
    fail_msg("pod %s is not %s: %s", name, what, last);
    return NULL;
}

static inline void await_pod(struct fixture *f, const char *name, const char *what, pod_check check,
                             const void *arg)
{
    json_decref(wait_pod(f, name, what, check, arg));
}

static inline bool has_phase(const json_t *pod, const void *arg)
{
    return gs_streq(codec_json_str(pod, "status", "phase", NULL), arg);
}

static inline bool is_ready(const json_t *pod, const void *arg)
{
    (void)arg;
    return kube_condition_true(pod, "Ready");
}

static inline bool has_waiting_reason(const json_t *pod, const void *arg)
{
    return gs_streq(codec_json_str(container_status(pod, 0), "state", "waiting", "reason", NULL),
                    arg);
}

static inline bool has_restarts(const json_t *pod, const void *arg)
{
    return codec_json_int(container_status(pod, 0), 0, "restartCount", NULL) >= *(const int *)arg &&
           codec_json_get(container_status(pod, 0), "state", "running", NULL);
}

static inline void wait_pod_gone(struct fixture *f, const char *name)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; tick(f)) {
        AUTO_REPLY struct reply r = get_pod(f, name);
        if (r.status == 404)
            return;
    }
    fail_msg("pod %s is still there", name);
}

static inline void delete_pod(struct fixture *f, const char *name, const char *query)
{
    GS_AUTO_FREE char *path = gs_format("/api/v1/namespaces/default/pods/%s%s", name, query);
    AUTO_REPLY struct reply r = request(&f->h, "DELETE", path, NULL);
    assert_status(r, 200);
}

// Waits for an event with this reason and text.
static inline void wait_event(struct fixture *f, const char *reason, const char *part)
{
    GS_AUTO_FREE char *last = NULL;
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; tick(f)) {
        AUTO_REPLY struct reply r = request(&f->h, "GET", "/api/v1/events", NULL);
        size_t i;
        json_t *e;
        json_array_foreach (codec_json_get(r.body, "items", NULL), i, e) {
            const char *message = codec_json_str(e, "message", NULL);
            if (gs_streq(codec_json_str(e, "reason", NULL), reason) && message &&
                strstr(message, part))
                return;
        }
        free(last);
        last = gs_strdup(r.text);
    }
    fail_msg("no event %s \"%s\": %s", reason, part, last);
}

// Waits until the log of the pod holds the text; returns all of it.
static inline char *wait_log(struct fixture *f, const char *name, const char *part)
{
    GS_AUTO_FREE char *last = NULL;
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; tick(f)) {
        AUTO_REPLY struct reply r = get_log(f, name, "");
        if (r.status == 200 && strstr(r.text, part))
            return gs_strdup(r.text);
        free(last);
        last = gs_strdup(r.text);
    }
    fail_msg("the log of %s lacks \"%s\": %s", name, part, last);
    return NULL;
}

static inline void await_log(struct fixture *f, const char *name, const char *part)
{
    free(wait_log(f, name, part));
}

static inline bool process_is_gone(pid_t pid)
{
    return kill(pid, 0) < 0;
}

static inline void wait_process_gone(struct fixture *f, pid_t pid)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; tick(f))
        if (process_is_gone(pid))
            return;
    fail_msg("process %d is still there", (int)pid);
}
