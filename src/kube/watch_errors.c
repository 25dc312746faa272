// SPDX-License-Identifier: Apache-2.0
#include "kube/watch_errors.h"

#include "base/log.h"
#include "base/mem.h"

enum { LOOK_EVERY_MS = 5000 };

struct kube_watch_errors {
    uv_timer_t timer; // first: freed by its close callback as the whole
    const struct kube_cache *cache;
    char *component, *what, *told;
};

static void on_timer(uv_timer_t *timer)
{
    struct kube_watch_errors *w = timer->data;
    const char *error = kube_cache_error(w->cache);
    if (error && strstr(error, "could not find the requested resource"))
        error = NULL;
    if (error && !gs_streq(error, w->told))
        gs_warn(w->component, "%s cannot be seen: %s", w->what, error);
    if (!error && w->told && kube_cache_synced(w->cache))
        gs_info(w->component, "%s can be seen again", w->what);
    free(w->told);
    w->told = gs_strdup(error);
}

struct kube_watch_errors *kube_watch_errors_new(uv_loop_t *loop, const struct kube_cache *cache,
                                                const char *component, const char *what)
{
    struct kube_watch_errors *w = gs_alloc(sizeof(*w));
    w->cache = cache;
    w->component = gs_strdup(component);
    w->what = gs_strdup(what);
    uv_timer_init(loop, &w->timer);
    w->timer.data = w;
    uv_timer_start(&w->timer, on_timer, LOOK_EVERY_MS, LOOK_EVERY_MS);
    uv_unref((uv_handle_t *)&w->timer); // looking alone is no reason to run on
    return w;
}

static void free_handle(uv_handle_t *h)
{
    free(h);
}

void kube_watch_errors_free(struct kube_watch_errors *w)
{
    if (!w)
        return;
    free(w->component);
    free(w->what);
    free(w->told);
    uv_close((uv_handle_t *)&w->timer, free_handle);
}
