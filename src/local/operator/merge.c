// SPDX-License-Identifier: Apache-2.0
// The settings of all Prometheus objects for the one engine. Jobs and Alertmanagers are added up;
// what exists once is that of the oldest object.
#include "local/operator/operator_private.h"

#include "base/mem.h"
#include "kube/object.h"

struct merge {
    json_t *out, *jobs, *alertmanagers;
    struct gs_hmap *names; // of jobs -> the object that has it
    void (*problem)(void *arg, const json_t *obj, const char *text);
    void *arg;
};

static void add_job(struct merge *m, const json_t *obj, json_t *job)
{
    const char *name = codec_json_str(job, "job_name", NULL);
    json_t *other = name ? gs_hmap_get_str(m->names, name) : NULL;
    if (!other) {
        if (name)
            gs_hmap_put_str(m->names, name, (void *)(uintptr_t)obj);
        json_array_append(m->jobs, job);
        return;
    }
    GS_AUTO_FREE char *key = kube_key(other);
    GS_AUTO_FREE char *text = gs_format("additionalScrapeConfigs: the job %s of Prometheus %s has "
                                        "the same name: this one is not scraped",
                                        name, key);
    if (m->problem)
        m->problem(m->arg, obj, text);
}

static void add_once(json_t *list, json_t *item)
{
    size_t i;
    json_t *has;
    json_array_foreach (list, i, has)
        if (json_equal(has, item))
            return;
    json_array_append(list, item);
}

static void add_object(struct merge *m, const struct operator_followed *f)
{
    size_t i;
    json_t *item;
    const json_t *alerting = json_object_get(f->sections, "alerting");
    json_array_foreach (json_object_get(f->sections, "scrape_configs"), i, item)
        add_job(m, f->obj, item);
    json_array_foreach (json_object_get(alerting, "alertmanagers"), i, item)
        add_once(m->alertmanagers, item);
}

json_t *operator_merge(struct operator_followed *const *all, size_t n,
                       void (*problem)(void *arg, const json_t *obj, const char *text), void *arg)
{
    struct merge m = {.out = json_object(),
                      .jobs = json_array(),
                      .alertmanagers = json_array(),
                      .names = gs_hmap_new(NULL),
                      .problem = problem,
                      .arg = arg};
    json_t *alerting = json_object(), *relabel = NULL;
    for (size_t i = 0; i < n; i++)
        add_object(&m, all[i]);
    if (n && json_object_get(all[0]->sections, "global"))
        json_object_set(m.out, "global", json_object_get(all[0]->sections, "global"));
    if (n)
        relabel = codec_json_get(all[0]->sections, "alerting", "alert_relabel_configs", NULL);
    json_object_set_new(m.out, "scrape_configs", m.jobs);
    json_object_set_new(alerting, "alertmanagers", m.alertmanagers);
    if (relabel)
        json_object_set(alerting, "alert_relabel_configs", relabel);
    json_object_set_new(m.out, "alerting", alerting);
    gs_hmap_free(m.names);
    return m.out;
}
