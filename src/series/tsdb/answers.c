// SPDX-License-Identifier: Apache-2.0
// Evaluates slow regular expressions before a search, with pauses: for the label values of given
// series, of those with the rarest label that the search requires, or else for all values of the
// label. Values that appear during the pauses are left to the search; there are few.
#include "tsdb/tsdb_private.h"

#include "base/mem.h"

#define VALUES_A_CALL 4 // between two calls of go_on: a match can take two milliseconds

static bool is_slow(const struct tsdb_matcher *m)
{
    return m->regex && tsdb_regex_can_be_slow(m->regex);
}

bool tsdb_matchers_can_be_slow(const struct tsdb_matcher *m, size_t n)
{
    bool slow = false;
    for (size_t i = 0; i < n; i++)
        slow = slow || is_slow(&m[i]);
    return slow;
}

struct collection {
    struct tsdb *db;
    bool (*go_on)(void *arg);
    void *arg;
    size_t evaluated;
};

// answers: those of m, which are the caller's.
static bool answer(struct collection *c, const struct tsdb_matcher *m, unsigned char *answers,
                   uint32_t value)
{
    if (value >= m->n_answers || answers[value] != TSDB_ANSWER_UNKNOWN)
        return true;
    bool matches = tsdb_matcher_matches(m, tsdb_symbol_text(c->db->symbols, value));
    answers[value] = matches ? TSDB_ANSWER_YES : TSDB_ANSWER_NO;
    return ++c->evaluated % VALUES_A_CALL || c->go_on(c->arg);
}

static bool answer_series(struct collection *c, const struct tsdb_matcher *m,
                          unsigned char *answers, uint32_t name, const struct tsdb_refs *refs)
{
    bool ok = true;
    for (size_t i = 0; i < refs->len && ok; i++)
        ok =
            answer(c, m, answers, tsdb_labels_get(tsdb_series_labels(c->db, refs->items[i]), name));
    return ok;
}

static bool answer_values(struct collection *c, const struct tsdb_matcher *m,
                          unsigned char *answers, uint32_t name)
{
    size_t n;
    GS_AUTO_FREE uint32_t *values = tsdb_index_values(c->db, name, &n);
    bool ok = answer(c, m, answers, TSDB_SYMBOL_EMPTY);
    for (size_t i = 0; i < n && ok; i++)
        ok = answer(c, m, answers, values[i]);
    return ok;
}

static bool answer_matcher(struct collection *c, struct tsdb_matcher *m,
                           const struct tsdb_refs *refs)
{
    uint32_t name = tsdb_symbol_find(c->db->symbols, m->name);
    m->n_answers = tsdb_symbols_end(c->db->symbols);
    unsigned char *answers = gs_alloc(m->n_answers);
    m->answers = answers;
    if (name == TSDB_NO_SYMBOL)
        return answer(c, m, answers, TSDB_SYMBOL_EMPTY);
    return refs ? answer_series(c, m, answers, name, refs) : answer_values(c, m, answers, name);
}

// refs NULL: all values.
static bool answer_all(struct collection *c, struct tsdb_matcher *own, size_t n_m,
                       const struct tsdb_refs *refs)
{
    bool ok = true;
    for (size_t i = 0; i < n_m && ok; i++)
        if (is_slow(&own[i]))
            ok = answer_matcher(c, &own[i], refs);
    return ok;
}

struct gs_error *tsdb_answers_collect(struct tsdb *db, const struct tsdb_matcher *m, size_t n_m,
                                      const struct tsdb_refs *among, bool (*go_on)(void *arg),
                                      void *arg, struct tsdb_answers *ret)
{
    *ret = (struct tsdb_answers){.matchers = m, .n = n_m};
    if (!tsdb_matchers_can_be_slow(m, n_m))
        return NULL;
    GS_CLEANUP(tsdb_refs_finish) struct tsdb_refs refs = {0};
    struct collection c = {.db = db, .go_on = go_on, .arg = arg};
    ret->db = db;
    tsdb_isolation_begin(db, &ret->hold);
    ret->matchers = ret->own = gs_alloc_array(n_m, sizeof(*ret->own));
    memcpy(ret->own, m, n_m * sizeof(*ret->own));
    if (!among && tsdb_index_equal(db, m, n_m, &refs))
        among = &refs;
    bool ok = answer_all(&c, ret->own, n_m, among);
    return ok ? NULL : gs_error_new(GS_EUNAVAIL, "the search was canceled");
}

void tsdb_answers_finish(struct tsdb_answers *a)
{
    if (!a->db)
        return;
    for (size_t i = 0; i < a->n; i++)
        free((unsigned char *)(uintptr_t)a->own[i].answers);
    free(a->own);
    tsdb_isolation_end(a->db, &a->hold);
    *a = (struct tsdb_answers){0};
}
