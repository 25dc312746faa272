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
    for (size_t i = 0; i < m->n_loans; i++)
        free(m->loans[i].key);
    for (size_t i = 0; i < m->n_transfers; i++) {
        free(m->transfers[i].from);
        free(m->transfers[i].to);
    }
    free(m->transfers);
    free(m->moves);
    free(m->spares);
    free(m->loans);
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
    for (size_t i = 0; i < m->n_loans; i++)
        m->loans[i].at_ms += ms;
    for (size_t i = 0; i < m->n_transfers; i++)
        m->transfers[i].since_ms += ms;
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
    ret->reason = ret->replicas <= ret->share ? (m->idle ? BUDGET_IDLE : BUDGET_SHARE)
                  : kept > floor              ? BUDGET_KEEPS
                                              : BUDGET_FLOOR;
    if (ret->reason == BUDGET_KEEPS)
        ret->until_ms = until_ms;
}

// GPUs of pods that exist or may still be created, above those of the set replicas.
static int64_t surplus_of(const struct budget_member *m)
{
    return budget_used(m) - m->ending - (int64_t)m->gpus * m->replicas;
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

// --- loans ---

static struct budget_loan *loan_of(const struct budget_memory *m, const char *key)
{
    for (size_t i = 0; i < m->n_loans; i++)
        if (gs_streq(m->loans[i].key, key))
            return &m->loans[i];
    return NULL;
}

// GPUs that other members lent while they were idle, and want now.
static int64_t owed_to_others(const struct budget_group *group, const struct budget_member *me,
                              const struct budget_memory *memory)
{
    int64_t sum = 0;
    if (!memory->n_loans)
        return 0;
    GS_AUTO_FREE int32_t *shares = gs_alloc_array(group->n, sizeof(*shares));
    budget_share(group, shares);
    for (size_t i = 0; i < group->n; i++) {
        const struct budget_member *m = &group->members[i];
        const struct budget_loan *loan = m == me || m->idle ? NULL : loan_of(memory, m->key);
        if (loan)
            sum += m->gpus * most(0, least(loan->replicas, shares[i] - m->replicas));
    }
    return sum;
}

static void lend(struct budget_memory *m, const char *key, int32_t replicas, int64_t now_ms)
{
    struct budget_loan *loan = loan_of(m, key);
    if (!loan && m->n_loans == BUDGET_MAX_MOVES)
        return;
    if (!loan) {
        gs_grow(&m->loans, &m->loans_cap, m->n_loans, sizeof(*m->loans));
        loan = &m->loans[m->n_loans++];
        *loan = (struct budget_loan){.key = gs_strdup(key)};
    }
    loan->replicas += replicas;
    loan->at_ms = now_ms;
}

// change: of the replicas of a member. One that grows has got them back, and one that shrinks
// although it is busy does not want them.
static void settle(struct budget_memory *m, const struct budget_member *me, int32_t change)
{
    struct budget_loan *loan = me->idle ? NULL : loan_of(m, me->key);
    if (!loan || !change)
        return;
    loan->replicas = change < 0 || change > loan->replicas ? 0 : loan->replicas - change;
    if (loan->replicas)
        return;
    free(loan->key);
    *loan = m->loans[--m->n_loans];
}

// --- growth ---

// Pods above the set replicas end sooner or later. Until they do, it cannot be seen which pods new
// replicas add.
static void grow(const struct budget_group *group, const struct budget_member *m,
                 const struct budget_memory *memory, int64_t now_ms, struct budget_result *ret)
{
    int64_t owed = owed_to_others(group, m, memory);
    int64_t until_ms, fits = ret->free > owed ? (ret->free - owed) / m->gpus : 0;
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
        ret->reason = owed && ret->free >= m->gpus ? BUDGET_LENT : BUDGET_WAITS;
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
    for (size_t i = m->n_loans; i-- > 0;) {
        if (now_ms - m->loans[i].at_ms < BUDGET_LOAN_MS)
            continue;
        free(m->loans[i].key);
        m->loans[i] = m->loans[--m->n_loans];
    }
}

// lent: GPUs that were idle, which are no reason to keep anything where it is.
static void add_move(struct budget_memory *m, const struct budget_member *me, bool gained,
                     bool lent, int32_t replicas, char *other, int64_t now_ms)
{
    gs_grow(&m->moves, &m->moves_cap, m->n_moves, sizeof(*m->moves));
    m->moves[m->n_moves++] = (struct budget_move){.key = gs_strdup(me->key),
                                                  .other = other,
                                                  .gained = gained,
                                                  .replicas = replicas,
                                                  .at_ms = now_ms,
                                                  .until_ms = now_ms + (lent ? 0 : me->hold_ms)};
}

static void add_spare(struct budget_memory *m, const struct budget_member *me, int64_t gpus,
                      int64_t now_ms)
{
    gs_grow(&m->spares, &m->spares_cap, m->n_spares, sizeof(*m->spares));
    m->spares[m->n_spares++] =
        (struct budget_spare){.key = gs_strdup(me->key),
                              .lent = me->idle,
                              .gpus = gpus,
                              .until_ms = now_ms + SPARE_HOLDS * me->hold_ms};
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

static void count_transfer(struct budget_memory *m, const char *from, const char *to, bool lent,
                           int64_t gpus, int64_t now_ms)
{
    struct budget_transfer *t = NULL;
    bool full = m->n_transfers + 1 >= BUDGET_MAX_MOVES;
    for (size_t i = 0; i < m->n_transfers && !t; i++)
        if (m->transfers[i].lent == lent && gs_streq(m->transfers[i].from, from) &&
            gs_streq(m->transfers[i].to, to))
            t = &m->transfers[i];
    if (!t && full && !gs_streq(from, BUDGET_OTHERS)) {
        count_transfer(m, BUDGET_OTHERS, BUDGET_OTHERS, false, gpus, now_ms);
        return;
    }
    if (!t) {
        gs_grow(&m->transfers, &m->transfers_cap, m->n_transfers, sizeof(*m->transfers));
        t = &m->transfers[m->n_transfers++];
        *t = (struct budget_transfer){
            .from = gs_strdup(from), .to = gs_strdup(to), .lent = lent, .since_ms = now_ms};
    }
    t->gpus += gpus;
}

const struct budget_transfer *budget_transfers(const struct budget_memory *m, size_t *ret_n)
{
    *ret_n = m->n_transfers;
    return m->transfers;
}

// Takes GPUs that were taken before. Returns how many; *ret_lent: of these from idle members.
static int64_t take_spares(struct budget_memory *m, const struct budget_member *me, int64_t gpus,
                           struct names *names, int64_t now_ms, int64_t *ret_lent)
{
    int64_t taken = 0;
    for (size_t i = 0; i < m->n_spares && taken < gpus; i++) {
        struct budget_spare *s = &m->spares[i];
        int64_t part = least(s->gpus, gpus - taken);
        s->gpus -= part;
        taken += part;
        *ret_lent += s->lent ? part : 0;
        if (!part || gs_streq(s->key, me->key))
            continue;
        add_name(names, s->key);
        count_transfer(m, s->key, me->key, s->lent, part, now_ms);
    }
    return taken;
}

static int32_t replicas_of(const struct budget_member *m, int64_t gpus)
{
    return (int32_t)((gpus + m->gpus - 1) / m->gpus);
}

static void note_growth(struct budget_memory *m, const struct budget_member *me, int32_t change,
                        int64_t now_ms)
{
    struct names names = {0};
    int64_t lent = 0, gpus = take_spares(m, me, (int64_t)change * me->gpus, &names, now_ms, &lent);
    if (gpus > lent)
        add_move(m, me, true, false, replicas_of(me, gpus - lent), join_names(&names), now_ms);
    if (lent > 0)
        add_move(m, me, true, true, replicas_of(me, lent), join_names(&names), now_ms);
}

void budget_note(struct budget_memory *m, const struct budget_group *group, size_t member,
                 int32_t replicas, int64_t now_ms)
{
    const struct budget_member *me = &group->members[member];
    int32_t change = replicas - me->replicas;
    // What it does not want itself was not taken.
    int32_t taken = change < 0 ? (int32_t)least(me->demand, me->replicas) - replicas : 0;
    forget_expired(m, now_ms);
    settle(m, me, change);
    if (taken > 0) {
        add_move(m, me, false, me->idle, taken, names_of_takers(group, member), now_ms);
        add_spare(m, me, (int64_t)taken * me->gpus, now_ms);
    }
    if (taken > 0 && me->idle)
        lend(m, me->key, taken, now_ms);
    if (change > 0)
        note_growth(m, me, change, now_ms);
}
