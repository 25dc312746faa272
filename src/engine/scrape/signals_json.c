// SPDX-License-Identifier: Apache-2.0
// The targets that are pods, and what the pages of inference engines among them have.
#include "engine/scrape/scrape_private.h"

#include "base/clock.h"

static void each_target_of(const struct scrape_job *j,
                           void (*fn)(void *arg, const struct scrape_job *j,
                                      const struct scrape_target *t),
                           void *arg)
{
    size_t pos = 0;
    void *t;
    while (gs_hmap_next(j->targets, &pos, NULL, &t))
        if (scrape_target_signals(t))
            fn(arg, j, t);
}

static void each_pod_target(const struct scrape_manager *m, const char *except_set,
                            void (*fn)(void *arg, const struct scrape_job *j,
                                       const struct scrape_target *t),
                            void *arg)
{
    for (const struct scrape_set *s = m->sets; s; s = s->next)
        for (size_t i = 0; i < s->n && !(except_set && gs_streq(s->name, except_set)); i++)
            each_target_of(s->jobs[i], fn, arg);
}

struct pod_visit {
    void (*fn)(void *arg, const char *ns, const char *pod, const char *url, const char *engine);
    void *arg;
};

static void visit_pod(void *arg, const struct scrape_job *j, const struct scrape_target *t)
{
    const struct pod_visit *v = arg;
    const struct scrape_signals *s = scrape_target_signals(t);
    const char *ns, *pod;
    (void)j;
    scrape_signals_pod(s, &ns, &pod);
    v->fn(v->arg, ns, pod, scrape_target_spec(t)->url, signals_page_engine(scrape_signals_page(s)));
}

void scrape_manager_each_pod(const struct scrape_manager *m, const char *except_set,
                             void (*fn)(void *arg, const char *ns, const char *pod, const char *url,
                                        const char *engine),
                             void *arg)
{
    struct pod_visit v = {fn, arg};
    each_pod_target(m, except_set, visit_pod, &v);
}

static void add_signals(void *arg, const struct scrape_job *j, const struct scrape_target *t)
{
    const struct scrape_signals *s = scrape_target_signals(t);
    struct scrape_target_state state;
    char text[GS_RFC3339_SIZE];
    const char *ns, *pod;
    json_t *out = signals_page_json(scrape_signals_page(s));
    if (!out)
        return;
    scrape_signals_pod(s, &ns, &pod);
    scrape_target_state(t, &state);
    codec_json_set_str(out, "namespace", ns);
    codec_json_set_str(out, "pod", pod);
    codec_json_set_str(out, "scrapePool", j->cfg->job_name);
    codec_json_set_str(out, "scrapeUrl", scrape_target_spec(t)->url);
    codec_json_set_str(out, "health", state.up ? "up" : "down");
    codec_json_set_str(out, "lastError", state.error ? state.error : "");
    codec_json_set_str(out, "lastScrape", gs_format_rfc3339_micro(state.last_ms * 1000, text));
    json_array_append_new(arg, out);
}

json_t *scrape_signals_json(const struct scrape_manager *m)
{
    json_t *list = json_array();
    each_pod_target(m, NULL, add_signals, list);
    return list;
}
