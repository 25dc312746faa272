// SPDX-License-Identifier: Apache-2.0
// Logs once when a watched resource cannot be read, and once when it can again. A resource that
// the cluster does not serve is not an error.
#include "kube/cache.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"

enum { CHECK_EVERY_MS = 5000 };

struct kube_watch_errors {
    struct gs_timer *timer;
    const struct kube_cache *cache;
    char *component, *what, *logged;
};

static void check_watch_error(void *arg)
{
    struct kube_watch_errors *w = arg;
    const char *error = kube_cache_error(w->cache);
    if (error && strstr(error, "could not find the requested resource"))
        error = NULL;
    if (error && !gs_streq(error, w->logged))
        gs_warn(w->component, "%s cannot be read: %s", w->what, error);
    if (!error && w->logged && kube_cache_synced(w->cache))
        gs_info(w->component, "%s can be read again", w->what);
    free(w->logged);
    w->logged = gs_strdup(error);
}

struct kube_watch_errors *kube_watch_errors_new(uv_loop_t *loop, const struct kube_cache *cache,
                                                const char *component, const char *what)
{
    struct kube_watch_errors *w = gs_alloc(sizeof(*w));
    w->cache = cache;
    w->component = gs_strdup(component);
    w->what = gs_strdup(what);
    w->timer = gs_timer_new(loop, w);
    gs_timer_repeat(w->timer, check_watch_error, CHECK_EVERY_MS, CHECK_EVERY_MS);
    gs_timer_unref(w->timer); // the timer must not keep the program running
    return w;
}

void kube_watch_errors_free(struct kube_watch_errors *w)
{
    if (!w)
        return;
    free(w->component);
    free(w->what);
    free(w->logged);
    gs_timer_free(w->timer);
    free(w);
}
