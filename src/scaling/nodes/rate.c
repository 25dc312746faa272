// SPDX-License-Identifier: Apache-2.0
// Options that another autoscaler has computed.
#include "base/mem.h"
#include "nodes/nodes_private.h"

// The index of a pod in the snapshot; each object is added once.
static size_t index_of(struct nodes_snapshot *s, struct gs_hmap *seen, const json_t *pod)
{
    struct gs_slice key = gs_slice_make(&pod, sizeof(pod));
    uintptr_t at = (uintptr_t)gs_hmap_get(seen, key);
    if (at)
        return at - 1;
    size_t index = nodes_snapshot_add_pod(s, pod);
    gs_hmap_put(seen, key, (void *)(uintptr_t)(index + 1));
    return index;
}

static void set_state(struct nodes_option *o, size_t node, const struct nodes_offer *offer)
{
    if (offer->group.blocked)
        o->state = NODES_OPTION_BLOCKED;
    else if (node == NODES_NONE || !offer->count || !offer->n_pods)
        o->state = NODES_OPTION_FITS_NO_POD;
    else
        o->state = NODES_OPTION_USABLE;
}

// A group in back-off is an option only if there is no other one: the other autoscaler has decided
// that it may grow.
static void leave_out_backoffs(struct nodes_decision *d, int64_t now_ms)
{
    size_t others = 0;
    for (size_t i = 0; i < d->n_options; i++)
        others += d->options[i].state == NODES_OPTION_USABLE &&
                  !nodes_backoff_active(&d->options[i].group->backoff, now_ms);
    for (size_t i = 0; i < d->n_options && others; i++)
        if (d->options[i].state == NODES_OPTION_USABLE &&
            nodes_backoff_active(&d->options[i].group->backoff, now_ms))
            d->options[i].state = NODES_OPTION_BACKOFF;
}

// Each form is pending as often as the largest offer has it.
static void count_pending(struct nodes_contest *c)
{
    for (size_t i = 0; i < c->d->n_options; i++)
        for (size_t k = 0; k < c->bids[i].n_mix; k++) {
            const struct nodes_share *share = &c->bids[i].mix[k];
            if (share->n > c->pending[share->form])
                c->pending[share->form] = share->n;
        }
}

void nodes_rate(const struct nodes_offer *offers, size_t n_offers,
                const struct nodes_choice_settings *settings, struct nodes_decision *ret)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    struct gs_hmap *seen = gs_hmap_new(NULL);
    size_t *nodes = gs_alloc_array(n_offers + 1, sizeof(*nodes));
    for (size_t i = 0; i < n_offers; i++) {
        CODEC_AUTO_JSON json_t *node = nodes_group_node(&offers[i].group, settings);
        nodes[i] = node ? nodes_snapshot_add_template(s, node, offers[i].group.name) : NODES_NONE;
        for (size_t k = 0; k < offers[i].n_pods; k++)
            index_of(s, seen, offers[i].pods[k]);
    }
    struct nodes_contest c;
    nodes_contest_init(&c, s, n_offers, settings, ret);
    for (size_t i = 0; i < n_offers; i++) {
        struct nodes_option *o = &ret->options[i];
        struct nodes_bid *b = &c.bids[i];
        *o = (struct nodes_option){.group = &offers[i].group, .count = offers[i].count};
        o->pods = gs_alloc_array(offers[i].n_pods + 1, sizeof(size_t));
        for (size_t k = 0; k < offers[i].n_pods; k++)
            o->pods[k] = index_of(s, seen, offers[i].pods[k]);
        b->n_mix = nodes_count_forms(s, o->pods, offers[i].n_pods, &b->mix);
        for (size_t k = 0; k < offers[i].n_pods; k++)
            o->pods[o->n_pods++] = k; // of the offer, not of the snapshot
        b->node = nodes[i];
        set_state(o, nodes[i], &offers[i]);
    }
    leave_out_backoffs(ret, settings->now_ms);
    count_pending(&c);
    ret->n_pending = s->n_pods;
    nodes_contest_weigh(&c);
    nodes_contest_judge(&c);
    nodes_contest_finish(&c);
    gs_hmap_free(seen);
    free(nodes);
    nodes_snapshot_free(s);
}
