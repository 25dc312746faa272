// SPDX-License-Identifier: Apache-2.0
// prometheus-config-reloader and configmap-reload. The metrics engine follows its configuration by
// itself; other programs of the pod, such as Alertmanager, are called when their files change.
#include "base/mem.h"
#include "kube/object.h"
#include "local/standin/standin_private.h"

enum { MAX_FOLDERS = 16 };

static void watch(struct standin_session *s, const char *flag, bool is_file)
{
    const char *path;
    for (size_t i = 0; i < MAX_FOLDERS && (path = standin_flag_nth(s, flag, i)); i++) {
        const char *slash = strrchr(path, '/');
        GS_AUTO_FREE char *folder =
            is_file && slash ? gs_strndup(path, (size_t)(slash - path)) : gs_strdup(path);
        if (*folder)
            standin_watch(s, folder);
    }
}

void standin_reloader_start(struct standin_session *s)
{
    const char *url = standin_flag(s, "reload-url");
    struct standin_call *call = NULL;
    if (!url)
        url = standin_flag(s, "webhook-url");
    if (s->init) {
        standin_log(s, "gpuscale: the metrics engine follows its configuration by itself");
        standin_exit(s, 0);
        return;
    }
    if (!url)
        return;
    GS_AUTO_ERROR struct gs_error *err =
        standin_call_new(s, url, standin_flag(s, "webhook-method"), NULL, NULL, &call);
    if (err) {
        standin_log(s, "gpuscale: %s", gs_error_message(err));
        return;
    }
    s->state = call;
    watch(s, "watched-dir", false);
    watch(s, "volume-dir", false);
    watch(s, "config-file", true);
}

// Whether the pod's Prometheus is the engine of `up`.
static bool reloads_engine(const struct standin_session *s)
{
    const struct standin_session *other;
    TAILQ_FOREACH (other, &s->server->sessions, link)
        if (other->role && other->role->forward && !other->runs_itself &&
            gs_streq(kube_uid(other->pod), kube_uid(s->pod)))
            return true;
    return false;
}

void standin_reloader_changed(struct standin_session *s)
{
    if (s->state && !reloads_engine(s))
        standin_call_soon(s->state);
}

void standin_reloader_end(struct standin_session *s)
{
    standin_call_free(s->state);
}
