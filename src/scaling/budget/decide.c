// SPDX-License-Identifier: Apache-2.0
// The decision for one member of a group. Shrinking comes before growing: what is taken is free
// when its pods have ended, and only then given. Each move binds for a time, so that a replica that
// is started again and again does not waste what it takes to start.
#include "budget/budget_private.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/slice.h"

#define NAMED 3 // members on the other side of a move

// How long GPUs that were taken count as such, in holds: until long after the first member may get
// them.
#define SPARE_HOLDS 10

// A move is remembered for so long, so that an explanation can name it after its hold.
#define REMEMBER_MS 600000

struct budget_memory *budget_memory_new(void)
{
    return gs_alloc(sizeof(struct budget_memory));
}

static void free_move(struct budget_move *m)
{
    free(m->key);
    free(m->other);
}

void budget_memory_free(struct budget_memory *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n_moves; i++)
        free_move(&m->moves[i]);
    for (size_t i = 0; i < m->n_spares; i++)
        free(m->spares[i].key);
    free(m->moves);
    free(m->spares);
    free(m);
}

void budget_memory_shift(struct budget_memory *m, int64_t ms)
{
    for (size_t i = 0; i < m->n_moves; i++) {
        m->moves[i].at_ms += ms;
        m->moves[i].until_ms += ms;
    }
    for (size_t i = 0; i < m->n_spares; i++)
        m->spares[i].until_ms += ms;
}

// --- what binds ---

// Replicas of a member that were moved and must stay, and when the first of them is free.
static int64_t held(const struct budget_memory *m, const char *key, bool gained, int64_t now_ms,
                    int64_t *ret_until_ms)
{
    int64_t sum = 0;
    *ret_until_ms = 0;
    for (size_t i = 0; i < m->n_moves; i++) {
        const struct budget_move *move = &m->moves[i];
        if (move->gained != gained || move->until_ms <= now_ms || !gs_streq(move->key, key))
            continue;
        sum += move->replicas;
        if (!*ret_until_ms || move->until_ms < *ret_until_ms)
            *ret_until_ms = move->until_ms;
    }
    return sum;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void shrink(const struct budget_member *m, const struct budget_memory *memory, bool over,
                   int64_t now_ms, struct budget_result *ret)
{
    int64_t until_ms = 0;
    int64_t floor = least(m->floor, m->replicas), wanted = least(m->demand, m->replicas);
    int64_t kept = over ? 0 : least(held(memory, m->key, true, now_ms, &until_ms), m->replicas);
    int64_t lower = most(ret->share, most(floor, kept));
    ret->replicas = (int32_t)least(wanted, lower);
    if (ret->share >= m->demand)
        return;
    ret->reason = ret->replicas <= ret->share ? BUDGET_SHARE
                  : kept > floor              ? BUDGET_KEEPS
                                              : BUDGET_FLOOR;
    if (ret->reason == BUDGET_KEEPS)
        ret->until_ms = until_ms;
}

// GPUs of pods that exist or may still be created, above those of the set replicas.
static int64_t surplus_of(const struct budget_member *m)
{
    return budget_committed(m) - m->ending - (int64_t)m->gpus * m->replicas;
}

// Whether all that is wanted fits beside all pods.
static bool has_plenty(const struct budget_group *group)
{
    int64_t sum = group->others;
    for (size_t i = 0; i < group->n; i++) {
        const struct budget_member *m = &group->members[i];
        sum += m->gpus * most(m->demand, m->replicas) + m->ending + surplus_of(m);
    }
    return sum <= group->gpus;
}

// Pods above the set replicas end sooner or later. Until they do, it cannot be seen which pods new
// replicas add.
static void grow(const struct budget_group *group, const struct budget_member *m,
                 const struct budget_memory *memory, int64_t now_ms, struct budget_result *ret)
{
    int64_t until_ms, fits = ret->free > 0 ? ret->free / m->gpus : 0;
    if (surplus_of(m) && !has_plenty(group))
        fits = 0;
    int64_t taken = held(memory, m->key, false, now_ms, &until_ms);
    int64_t goal = least(m->demand, ret->share);
    int64_t back = most(m->replicas, goal - taken);
    int64_t now = m->replicas + fits;
    ret->replicas = (int32_t)least(back, now);
    if (ret->replicas < goal && back < goal && back <= now) {
        ret->reason = BUDGET_HOLD;
        ret->until_ms = until_ms;
    } else if (ret->replicas < goal) {
        ret->reason = BUDGET_WAITS;
    } else if (goal < m->demand) {
        ret->reason = BUDGET_SHARE;
    }
}

void budget_decide(const struct budget_group *group, size_t member, const struct budget_memory *m,
                   int64_t now_ms, struct budget_result *ret)
{
    const struct budget_member *me = &group->members[member];
    GS_AUTO_FREE int32_t *shares = gs_alloc_array(group->n, sizeof(*shares));
    budget_share(group, shares);
    *ret = (struct budget_result){.share = shares[member], .free = budget_free(group)};
    if (ret->share > me->replicas && me->demand > me->replicas)
        grow(group, me, m, now_ms, ret);
    else
        shrink(me, m, ret->free < 0, now_ms, ret);
}

// --- moves ---

static void forget_expired(struct budget_memory *m, int64_t now_ms)
{
    size_t moves = 0, spares = 0;
    size_t oldest = m->n_moves < BUDGET_MAX_MOVES ? 0 : m->n_moves - BUDGET_MAX_MOVES + 1;
    for (size_t i = 0; i < m->n_moves; i++) {
        if (i >= oldest &&
            (m->moves[i].until_ms > now_ms || now_ms - m->moves[i].at_ms < REMEMBER_MS))
            m->moves[moves++] = m->moves[i];
        else
            free_move(&m->moves[i]);
    }
    oldest = m->n_spares < BUDGET_MAX_MOVES ? 0 : m->n_spares - BUDGET_MAX_MOVES + 1;
    for (size_t i = 0; i < m->n_spares; i++) {
        if (i >= oldest && m->spares[i].until_ms > now_ms)
            m->spares[spares++] = m->spares[i];
        else
            free(m->spares[i].key);
    }
    m->n_moves = moves;
    m->n_spares = spares;
}

static void add_move(struct budget_memory *m, const struct budget_member *me, bool gained,
                     int32_t replicas, char *other, int64_t now_ms)
{
    gs_grow(&m->moves, &m->moves_cap, m->n_moves, sizeof(*m->moves));
    m->moves[m->n_moves++] = (struct budget_move){.key = gs_strdup(me->key),
                                                  .other = other,
                                                  .gained = gained,
                                                  .replicas = replicas,
                                                  .at_ms = now_ms,
                                                  .until_ms = now_ms + me->hold_ms};
}

static void add_spare(struct budget_memory *m, const struct budget_member *me, int64_t gpus,
                      int64_t now_ms)
{
    gs_grow(&m->spares, &m->spares_cap, m->n_spares, sizeof(*m->spares));
    m->spares[m->n_spares++] = (struct budget_spare){
        .key = gs_strdup(me->key), .gpus = gpus, .until_ms = now_ms + SPARE_HOLDS * me->hold_ms};
}

// The first members as a text, each once.
struct names {
    const char *first[NAMED];
    size_t n;
    bool more;
};

static void add_name(struct names *names, const char *key)
{
    for (size_t i = 0; i < names->n; i++)
        if (gs_streq(names->first[i], key))
            return;
    if (names->n < NAMED)
        names->first[names->n++] = key;
    else
        names->more = true;
}

static char *join_names(const struct names *names)
{
    struct gs_buf out = {0};
    for (size_t i = 0; i < names->n; i++)
        gs_buf_addf(&out, "%s%s", i ? ", " : "", names->first[i]);
    if (names->more)
        gs_buf_add_str(&out, " and others");
    return gs_buf_take(&out);
}

// The members whose share is larger than what they have.
static char *names_of_takers(const struct budget_group *group, size_t member)
{
    GS_AUTO_FREE int32_t *shares = gs_alloc_array(group->n, sizeof(*shares));
    struct names names = {0};
    budget_share(group, shares);
    for (size_t i = 0; i < group->n; i++)
        if (i != member && shares[i] > group->members[i].replicas)
            add_name(&names, group->members[i].key);
    return join_names(&names);
}

// Takes GPUs that were taken before. Returns how many.
static int64_t take_spares(struct budget_memory *m, const struct budget_member *me, int64_t gpus,
                           struct names *names)
{
    int64_t taken = 0;
    for (size_t i = 0; i < m->n_spares && taken < gpus; i++) {
        struct budget_spare *s = &m->spares[i];
        int64_t part = s->gpus < gpus - taken ? s->gpus : gpus - taken;
        s->gpus -= part;
        taken += part;
        if (part && !gs_streq(s->key, me->key))
            add_name(names, s->key);
    }
    return taken;
}

void budget_note(struct budget_memory *m, const struct budget_group *group, size_t member,
                 int32_t replicas, int64_t now_ms)
{
    const struct budget_member *me = &group->members[member];
    int32_t change = replicas - me->replicas;
    forget_expired(m, now_ms);
    if (change < 0) {
        // What it does not want itself was not taken.
        int64_t taken = least(me->demand, me->replicas) - replicas;
        if (taken > 0) {
            add_move(m, me, false, (int32_t)taken, names_of_takers(group, member), now_ms);
            add_spare(m, me, taken * me->gpus, now_ms);
        }
    } else if (change > 0) {
        struct names names = {0};
        int64_t gpus = take_spares(m, me, (int64_t)change * me->gpus, &names);
        if (gpus > 0)
            add_move(m, me, true, (int32_t)((gpus + me->gpus - 1) / me->gpus), join_names(&names),
                     now_ms);
    }
}
