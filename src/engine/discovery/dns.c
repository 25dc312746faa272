// SPDX-License-Identifier: Apache-2.0
// dns_sd_configs: looks up the records of names at each interval. On a lookup failure the targets
// are kept. On NXDOMAIN they are removed.
#include "engine/discovery/discovery.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "engine/discovery/discovery_private.h"
#include "net/dns/dns.h"

#define MAX_AT_ONCE      16
#define DEFAULT_REFRESH  INT64_C(30000) // if the configuration says 0
#define FIRST_REFRESH_MS 1

struct sd_name {
    struct discovery_dns *sd;
    const char *name; // borrowed from the configuration
    struct dns_lookup *lookup;
    char *problem; // the last logged error; NULL: none
};

struct discovery_dns {
    uv_loop_t *loop;
    const struct engine_config_dns_sd *cfg;
    const struct dns_config *servers; // NULL: the system's servers
    struct discovery_stats *stats;
    struct discovery_counter *counter;
    discovery_update_fn fn;
    void *arg;
    struct sd_name *names;
    size_t n_begun, n_ended; // lookups of the current refresh; equal: no refresh is in progress
    struct discovery_group_list found;
    int64_t begun_ns;
    bool reported;
    struct gs_timer *timer;
};

// --- targets ---

// Removes the trailing dot of an absolute name.
static const char *host_of(struct gs_arena *a, const char *target)
{
    size_t len = strlen(target);
    while (len && target[len - 1] == '.')
        len--;
    return gs_arena_strndup(a, target, len);
}

static struct discovery_labels labels_of(struct gs_arena *a, const char *name, size_t port,
                                         const struct dns_record *r)
{
    struct discovery_labels l = {.arena = a};
    const char *target = gs_arena_strdup(a, r->target);
    bool srv = r->type == DNS_SRV;
    discovery_labels_add(
        &l, "__address__",
        discovery_join_host_port(a, host_of(a, target), (int64_t)(srv ? r->port : port)));
    discovery_labels_add(&l, "__meta_dns_name", name);
    if (srv) {
        discovery_labels_add(&l, "__meta_dns_srv_record_target", target);
        discovery_labels_addf(&l, "__meta_dns_srv_record_port", "%u", r->port);
    } else if (r->type == DNS_MX) {
        discovery_labels_add(&l, "__meta_dns_mx_record_target", target);
    } else if (r->type == DNS_NS) {
        discovery_labels_add(&l, "__meta_dns_ns_record_target", target);
    }
    return l;
}

static void add_answer(struct discovery_dns *s, const char *name, const struct dns_answer *answer)
{
    struct gs_arena *a = &s->found.arena;
    const char *kept = gs_arena_strdup(a, name);
    const struct metrics_label **targets = gs_arena_alloc(a, (answer->n + 1) * sizeof(*targets));
    size_t *counts = gs_arena_alloc(a, (answer->n + 1) * sizeof(*counts));
    for (size_t i = 0; i < answer->n; i++) {
        struct discovery_labels l = labels_of(a, kept, s->cfg->port, &answer->records[i]);
        targets[i] = l.items;
        counts[i] = l.len;
    }
    discovery_group_list_add(&s->found, (struct discovery_group){.source = kept,
                                                                 .targets = targets,
                                                                 .n_target_labels = counts,
                                                                 .n_targets = answer->n});
}

// --- a refresh ---

// Logs each error once. Takes ownership of err.
static void report_dns_groups(struct sd_name *n, struct gs_error *err)
{
    const char *text = err ? gs_error_message(err) : NULL;
    if (text && !gs_streq(text, n->problem))
        gs_warn("dns_sd", "%s: lookup failed, the last targets are kept: %s", n->name, text);
    free(n->problem);
    n->problem = gs_strdup(text);
    gs_error_free(err);
}

static void end_refresh(struct discovery_dns *s)
{
    bool first = !s->reported;
    struct discovery_group_list found = s->found;
    s->found = (struct discovery_group_list){0};
    s->reported = true;
    discovery_stats_refreshed(s->counter, s->begun_ns, false);
    if (found.len || first)
        s->fn(s->arg, found.items, found.len);
    discovery_group_list_finish(&found);
}

static void start_lookups(struct discovery_dns *s);

static void on_dns_answer(void *arg, const struct dns_answer *answer, struct gs_error *err)
{
    struct sd_name *n = arg;
    struct discovery_dns *s = n->sd;
    n->lookup = NULL;
    s->n_ended++;
    if (s->stats) {
        s->stats->dns_lookups++;
        s->stats->dns_lookup_failures += err != NULL;
    }
    if (!err)
        add_answer(s, n->name, answer);
    report_dns_groups(n, err);
    start_lookups(s);
    if (s->n_ended == s->cfg->n_names)
        end_refresh(s);
}

static void start_lookups(struct discovery_dns *s)
{
    while (s->n_begun < s->cfg->n_names && s->n_begun - s->n_ended < MAX_AT_ONCE) {
        struct sd_name *n = &s->names[s->n_begun++];
        n->lookup = dns_lookup_start(s->loop, s->servers, n->name, (enum dns_type)s->cfg->type,
                                     on_dns_answer, n);
    }
}

static void on_dns_refresh(void *arg)
{
    struct discovery_dns *s = arg;
    if (s->n_ended < s->n_begun) // the previous refresh is still in progress
        return;
    s->begun_ns = gs_mono_ns();
    s->n_begun = s->n_ended = 0;
    start_lookups(s);
}

// --- life ---

static void start_dns_refresh(struct discovery_dns *s, const struct engine_config_dns_sd *cfg)
{
    int64_t interval = cfg->refresh_ms ? cfg->refresh_ms : DEFAULT_REFRESH;
    s->cfg = cfg;
    s->n_begun = s->n_ended = 0;
    s->names = gs_alloc_array(cfg->n_names, sizeof(*s->names));
    for (size_t i = 0; i < cfg->n_names; i++)
        s->names[i] = (struct sd_name){.sd = s, .name = cfg->names[i]};
    gs_timer_repeat(s->timer, on_dns_refresh, FIRST_REFRESH_MS, (uint64_t)interval);
}

static void end_dns_refresh(struct discovery_dns *s)
{
    for (size_t i = 0; i < s->cfg->n_names; i++) {
        dns_lookup_cancel(s->names[i].lookup);
        free(s->names[i].problem);
    }
    free(s->names);
    discovery_group_list_finish(&s->found);
}

struct discovery_dns *discovery_dns_new(uv_loop_t *loop, const struct engine_config_dns_sd *cfg,
                                        const struct dns_config *servers,
                                        struct discovery_stats *stats,
                                        struct discovery_counter *counter, discovery_update_fn fn,
                                        void *arg)
{
    struct discovery_dns *s = gs_alloc(sizeof(*s));
    s->loop = loop;
    s->servers = servers;
    s->stats = stats;
    s->counter = counter;
    s->fn = fn;
    s->arg = arg;
    s->timer = gs_timer_new(loop, s);
    start_dns_refresh(s, cfg);
    return s;
}

void discovery_dns_reconfigure(struct discovery_dns *s, const struct engine_config_dns_sd *cfg)
{
    end_dns_refresh(s);
    start_dns_refresh(s, cfg);
}

void discovery_dns_free(struct discovery_dns *s)
{
    if (!s)
        return;
    end_dns_refresh(s);
    discovery_stats_close(s->counter);
    gs_timer_close(s->timer, free);
}
