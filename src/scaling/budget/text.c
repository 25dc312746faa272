// SPDX-License-Identifier: Apache-2.0
// A decision as JSON and as one line, with the members that have the GPUs.
#include "budget/budget_private.h"

#include "base/mem.h"
#include "base/slice.h"

#include <string.h>

#define SHOWN_MEMBERS 20
#define SHOWN_MOVES   10

struct holder {
    const struct budget_member *member;
    int32_t share;
};

static int by_gpus(const void *a, const void *b)
{
    const struct holder *x = a, *y = b;
    int64_t mine = budget_used(x->member), theirs = budget_used(y->member);
    return mine != theirs ? (mine < theirs) - (mine > theirs)
                          : strcmp(x->member->key, y->member->key);
}

// Sorted; the caller frees it.
static struct holder *holders_of(const struct budget_group *group)
{
    struct holder *list = gs_alloc_array(group->n + 1, sizeof(*list));
    GS_AUTO_FREE int32_t *shares = gs_alloc_array(group->n + 1, sizeof(*shares));
    budget_share(group, shares);
    for (size_t i = 0; i < group->n; i++)
        list[i] = (struct holder){&group->members[i], shares[i]};
    qsort(list, group->n, sizeof(*list), by_gpus);
    return list;
}

// --- text ---

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static void add_holders(const struct budget_group *group, size_t member, struct gs_buf *out)
{
    GS_AUTO_FREE struct holder *list = holders_of(group);
    size_t shown = 0;
    for (size_t i = 0; i < group->n && shown < 3; i++) {
        int64_t gpus = budget_used(list[i].member);
        if (list[i].member == &group->members[member] || !gpus)
            continue;
        gs_buf_addf(out, "%s%s has %lld", shown ? ", " : "; ", list[i].member->key,
                    (long long)gpus);
        shown++;
    }
    if (group->others > 0)
        gs_buf_addf(out, "%spods without an autoscaler have %lld", shown ? ", " : "; ",
                    (long long)group->others);
    if (shown || group->others > 0)
        gs_buf_addf(out, " of %lld GPUs", (long long)group->gpus);
}

static void add_reason(const struct budget_result *r, int64_t now_ms, struct gs_buf *out)
{
    long long seconds = (long long)(r->until_ms > now_ms ? (r->until_ms - now_ms + 999) / 1000 : 0);
    if (r->reason == BUDGET_WAITS)
        gs_buf_addf(out, ", and %d when the GPUs are free", r->share);
    else if (r->reason == BUDGET_IDLE)
        gs_buf_addf(out, "; its GPUs are idle, and others want them: share %d until it is busy",
                    r->share);
    else if (r->reason == BUDGET_LENT)
        gs_buf_addf(out, ", and %d when GPUs that others lent while they were idle are back",
                    r->share);
    else if (r->reason == BUDGET_HOLD)
        gs_buf_addf(out, "; replicas that were taken come back in %lld s at the earliest", seconds);
    else if (r->reason == BUDGET_KEEPS)
        gs_buf_addf(out, ", share %d; replicas that were moved to it stay for %lld s", r->share,
                    seconds);
    else if (r->reason == BUDGET_FLOOR)
        gs_buf_addf(out, ", share %d; minReplicas are never taken", r->share);
}

// The newest move: who took what.
static void add_last_move(const struct budget_memory *m, const char *key, int64_t now_ms,
                          struct gs_buf *out)
{
    for (size_t i = m->n_moves; i-- > 0;) {
        const struct budget_move *move = &m->moves[i];
        if (move->gained || !*move->other || !gs_streq(move->key, key))
            continue;
        gs_buf_addf(out, "; %d replica%s taken for %s %lld s ago", move->replicas,
                    move->replicas == 1 ? " was" : "s were", move->other,
                    (long long)((now_ms - move->at_ms) / 1000));
        return;
    }
}

void budget_result_text(const struct budget_group *group, size_t member,
                        const struct budget_memory *m, const struct budget_result *r,
                        int64_t now_ms, struct gs_buf *out)
{
    const struct budget_member *me = &group->members[member];
    gs_buf_addf(out, "GPU budget %s: ", group->name);
    if (r->reason == BUDGET_WITHIN) {
        gs_buf_addf(out, "%d replica%s of %d GPU%s, within its share", r->replicas,
                    plural(r->replicas), me->gpus, plural(me->gpus));
        return;
    }
    gs_buf_addf(out, "%d of %d wanted replica%s", r->replicas, me->demand, plural(me->demand));
    add_reason(r, now_ms, out);
    add_holders(group, member, out);
    add_last_move(m, me->key, now_ms, out);
}

// --- JSON ---

static const char *reason_name(enum budget_reason reason)
{
    static const char *const names[BUDGET_REASONS] = {
        [BUDGET_WITHIN] = "within", [BUDGET_SHARE] = "share", [BUDGET_WAITS] = "waits",
        [BUDGET_HOLD] = "hold",     [BUDGET_KEEPS] = "keeps", [BUDGET_FLOOR] = "floor",
        [BUDGET_IDLE] = "idle",     [BUDGET_LENT] = "lent",
    };
    return names[reason];
}

static json_t *members_json(const struct budget_group *group)
{
    GS_AUTO_FREE struct holder *list = holders_of(group);
    json_t *out = json_array();
    for (size_t i = 0; i < group->n && i < SHOWN_MEMBERS; i++) {
        const struct budget_member *m = list[i].member;
        json_array_append_new(out, json_pack("{s:s, s:f, s:i, s:i, s:i, s:i, s:I, s:b}", "name",
                                             m->key, "priority", m->weight, "gpusPerReplica",
                                             (int)m->gpus, "replicas", (int)m->replicas, "demand",
                                             (int)m->demand, "share", (int)list[i].share, "gpus",
                                             (json_int_t)budget_used(m), "idle", (int)m->idle));
    }
    return out;
}

// Each as it was taken: when it arrives elsewhere, it is the same replica.
static json_t *moves_json(const struct budget_memory *m, int64_t now_ms)
{
    json_t *out = json_array();
    for (size_t i = m->n_moves; i-- > 0 && json_array_size(out) < SHOWN_MOVES;) {
        const struct budget_move *move = &m->moves[i];
        if (!move->gained)
            json_array_append_new(out, json_pack("{s:s, s:s, s:i, s:I}", "from", move->key, "to",
                                                 *move->other ? move->other : "others", "replicas",
                                                 (int)move->replicas, "ageMs",
                                                 (json_int_t)(now_ms - move->at_ms)));
    }
    return out;
}

json_t *budget_result_json(const struct budget_group *group, size_t member,
                           const struct budget_memory *m, const struct budget_result *r,
                           int64_t now_ms)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    json_t *out = json_object();
    budget_result_text(group, member, m, r, now_ms, &text);
    codec_json_set_str(out, "name", group->name);
    codec_json_set_int(out, "gpus", group->gpus);
    codec_json_set_int(out, "used", group->gpus - r->free);
    codec_json_set_int(out, "others", group->others);
    codec_json_set_int(out, "free", r->free);
    codec_json_set_int(out, "share", r->share);
    codec_json_set_int(out, "allowed", r->replicas);
    codec_json_set_str(out, "reason", reason_name(r->reason));
    codec_json_set_str(out, "text", text.data);
    json_object_set_new(out, "members", members_json(group));
    json_object_set_new(out, "moves", moves_json(m, now_ms));
    return out;
}
