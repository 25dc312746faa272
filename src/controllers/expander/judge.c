// SPDX-License-Identifier: Apache-2.0
// One request of the Cluster Autoscaler becomes a decision: read the options, make an offer of
// each, let nodes_decide choose, and record why. On any problem the answer has all options, so
// that the Cluster Autoscaler's next expander chooses: an expander must never prevent a scale-up.
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "expander/expander_private.h"
#include "nodes/wire/wire.h"

#include <stdlib.h>

enum {
    MAX_VALUES = 3000000, // of all pods of a request together
    LOGGED = 5,           // options in a line of the log
    RECORDED = 200,       // options of a decision at /api/v1/decisions
};

// What a request becomes.
struct judgement {
    struct expander_request request;
    json_t **nodes;       // of the options; NULL: none was sent
    json_t **pods;        // of the request
    const json_t **lists; // the pods of all options in a row
    struct nodes_offer *offers;
    char **names;
    struct nodes_decision decision;
    bool decided;
};

static void finish(struct judgement *j)
{
    if (j->decided)
        nodes_decision_finish(&j->decision);
    for (size_t i = 0; j->nodes && i < j->request.n_options; i++)
        json_decref(j->nodes[i]);
    for (size_t i = 0; j->pods && i < j->request.n_pods; i++)
        json_decref(j->pods[i]);
    for (size_t i = 0; j->names && i < j->request.n_options; i++)
        free(j->names[i]);
    free(j->nodes);
    free(j->pods);
    free(j->lists);
    free(j->offers);
    free(j->names);
    expander_request_finish(&j->request);
}

// --- objects ---

static struct gs_error *read_pods(struct judgement *j)
{
    const struct expander_request *r = &j->request;
    size_t budget = MAX_VALUES;
    struct gs_error *err = NULL;
    j->pods = gs_alloc_array(r->n_pods + 1, sizeof(*j->pods));
    for (size_t i = 0; i < r->n_pods && !err; i++)
        err = wire_read_pod_within(r->pods[i], &budget, &j->pods[i]);
    return err;
}

static struct gs_error *read_nodes(struct judgement *j)
{
    const struct expander_request *r = &j->request;
    struct gs_error *err = NULL;
    j->nodes = gs_alloc_array(r->n_options + 1, sizeof(*j->nodes));
    for (size_t i = 0; i < r->n_options && !err; i++)
        if (r->options[i].node.len)
            err = wire_read_node(r->options[i].node, &j->nodes[i]);
    return err;
}

// --- offers ---

static void make_offer(const struct expander *e, struct judgement *j, size_t i, const json_t **list)
{
    const struct expander_request_option *o = &j->request.options[i];
    struct nodes_offer *offer = &j->offers[i];
    j->names[i] = gs_slice_dup(o->group);
    offer->group.name = j->names[i];
    offer->group.node = j->nodes[i];
    offer->group.pool = e->pools ? expander_pool_of(e->pools, o->group, j->nodes[i]) : NULL;
    offer->count = o->nodes > 0 ? (size_t)o->nodes : 1;
    offer->group.max = offer->count; // the Cluster Autoscaler keeps the limits
    offer->pods = list;
    offer->n_pods = o->n_pods;
    for (size_t k = 0; k < o->n_pods; k++)
        list[k] = j->pods[o->pods[k]];
    if (e->cluster)
        expander_cluster_describe(e->cluster, &offer->group);
}

static void make_offers(const struct expander *e, struct judgement *j)
{
    const struct expander_request *r = &j->request;
    size_t n = 0;
    for (size_t i = 0; i < r->n_options; i++)
        n += r->options[i].n_pods;
    j->lists = gs_alloc_array(n + 1, sizeof(*j->lists));
    j->offers = gs_alloc_array(r->n_options + 1, sizeof(*j->offers));
    j->names = gs_alloc_array(r->n_options + 1, sizeof(*j->names));
    n = 0;
    for (size_t i = 0; i < r->n_options; i++) {
        make_offer(e, j, i, j->lists + n);
        n += r->options[i].n_pods;
    }
}

// NULL: the decision has a chosen option.
static struct gs_error *decide(const struct expander *e, struct gs_slice request,
                               struct judgement *j)
{
    struct gs_error *err = expander_request_read(request, &j->request);
    if (err || !j->request.n_options)
        return err;
    err = read_pods(j);
    if (!err)
        err = read_nodes(j);
    if (err)
        return err;
    make_offers(e, j);
    const struct nodes_choice_settings settings = {.policy = e->policy, .now_ms = gs_unix_ms()};
    nodes_rate(j->offers, j->request.n_options, &settings, &j->decision);
    j->decided = true;
    if (j->decision.chosen >= j->decision.n_options)
        return gs_error_new(GS_ENOTFOUND, "no option can be chosen: %s",
                            j->decision.text ? j->decision.text : "");
    return NULL;
}

// --- records ---

static int compare_options(const void *a, const void *b, void *arg)
{
    const struct nodes_decision *d = arg;
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    const struct nodes_option *x = &d->options[i], *y = &d->options[k];
    if ((i == d->chosen) != (k == d->chosen))
        return i == d->chosen ? -1 : 1;
    if ((x->state == NODES_OPTION_USABLE) != (y->state == NODES_OPTION_USABLE))
        return x->state == NODES_OPTION_USABLE ? -1 : 1;
    if (x->score < y->score || x->score > y->score)
        return x->score < y->score ? -1 : 1;
    return (i > k) - (i < k);
}

// Indexes of the options: the chosen one, then the best ones.
static size_t *rank(const struct nodes_decision *d)
{
    size_t *ranks = gs_alloc_array(d->n_options + 1, sizeof(*ranks));
    for (size_t i = 0; i < d->n_options; i++)
        ranks[i] = i;
    qsort_r(ranks, d->n_options, sizeof(*ranks), compare_options,
            (void *)(uintptr_t)(const void *)d);
    return ranks;
}

// The decision's own text, or one of the best options if it would be long.
static char *summarize(const struct nodes_decision *d)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (d->n_options <= LOGGED)
        return gs_strdup(d->text);
    GS_AUTO_FREE size_t *ranks = rank(d);
    gs_buf_addf(
        &text, "%zu pods without a node. Policy %s chose %s: %s. The next ones:", d->n_pending,
        nodes_policy_name(d->policy), d->options[ranks[0]].group->name, d->options[ranks[0]].text);
    for (size_t i = 1; i < LOGGED; i++)
        gs_buf_addf(&text, " %s: %s%s", d->options[ranks[i]].group->name, d->options[ranks[i]].text,
                    i + 1 < LOGGED ? ";" : ".");
    return gs_buf_take(&text);
}

// Keeps the best options of a decision with many.
static void shorten(const struct nodes_decision *d, json_t *described)
{
    GS_AUTO_FREE char *text = d->chosen < d->n_options ? summarize(d) : NULL;
    if (text)
        codec_json_set_str(described, "text", text);
    else if (d->n_options > LOGGED)
        json_object_del(described, "text");
    if (d->n_options <= RECORDED)
        return;
    GS_AUTO_FREE size_t *ranks = rank(d);
    json_t *all = json_object_get(described, "options"), *best = json_array();
    for (size_t i = 0; i < RECORDED; i++)
        json_array_append(best, json_array_get(all, ranks[i]));
    json_object_set_new(described, "options", best);
    codec_json_set_int(described, "optionsNotShown", (int64_t)(d->n_options - RECORDED));
}

static const char *form_name(enum expander_form form)
{
    return form == EXPANDER_FORM_OLD    ? "up to 1.33"
           : form == EXPANDER_FORM_BOTH ? "1.34"
                                        : "from 1.35";
}

static json_t *describe(const struct expander *e, const struct judgement *j, const char *problem,
                        int64_t took_ns)
{
    char when[GS_RFC3339_SIZE];
    json_t *d = j->decided ? nodes_decision_json(&j->decision) : json_object();
    if (j->decided)
        shorten(&j->decision, d);
    codec_json_set_str(d, "time", gs_format_rfc3339_micro(gs_unix_ms() * 1000, when));
    codec_json_set_str(d, "policy", nodes_policy_name(e->policy));
    codec_json_set_str(d, "clusterAutoscaler", form_name(j->request.form));
    codec_json_set_int(d, "pods", (int64_t)j->request.n_pods);
    codec_json_set_str(d, "answer", problem ? "all" : "chosen");
    codec_json_set_str(d, "problem", problem);
    json_object_set_new(d, "tookMilliseconds", json_real((double)took_ns / 1e6));
    return d;
}

static void log_decision(const struct judgement *j, int64_t took_ns)
{
    const struct nodes_decision *d = &j->decision;
    GS_AUTO_FREE char *text = summarize(d);
    gs_info("expander", "%s (%zu options, %zu pods, %.1f ms)", text, d->n_options,
            j->request.n_pods, (double)took_ns / 1e6);
    for (size_t i = 0; i < d->n_options; i++)
        gs_debug("expander", "%s: %s", d->options[i].group->name, d->options[i].text);
}

static enum expander_result answer_all(struct expander *e, struct gs_slice request,
                                       struct judgement *j, const char *problem, int64_t started,
                                       struct gs_buf *out, char **ret_why)
{
    GS_AUTO_ERROR struct gs_error *err =
        j->request.n_options ? NULL : expander_request_read_groups(request, &j->request);
    int64_t took = gs_mono_ns() - started;
    if (err) {
        gs_warn("expander", "a request was refused: %s", problem);
        expander_record_add(e->record, EXPANDER_REFUSED, NULL, NULL, took);
        *ret_why = gs_strdup(problem);
        return EXPANDER_REFUSED;
    }
    for (size_t i = 0; i < j->request.n_options; i++)
        expander_answer_add(out, &j->request.options[i]);
    gs_warn("expander", "the answer is all %zu options: %s", j->request.n_options, problem);
    expander_record_add(e->record, EXPANDER_ALL, j->decided ? &j->decision : NULL,
                        describe(e, j, problem, took), took);
    return EXPANDER_ALL;
}

enum expander_result expander_answer(struct expander *e, struct gs_slice request,
                                     struct gs_buf *out, char **ret_why)
{
    struct judgement j = {0};
    enum expander_result result = EXPANDER_CHOSEN;
    int64_t started = gs_mono_ns();
    GS_AUTO_ERROR struct gs_error *err = decide(e, request, &j);
    if (err) {
        result = answer_all(e, request, &j, gs_error_message(err), started, out, ret_why);
    } else if (j.decided) {
        expander_answer_add(out, &j.request.options[j.decision.chosen]);
        int64_t took = gs_mono_ns() - started;
        log_decision(&j, took);
        expander_record_add(e->record, result, &j.decision, describe(e, &j, NULL, took), took);
    }
    finish(&j);
    return result;
}
