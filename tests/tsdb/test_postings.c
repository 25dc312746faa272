// SPDX-License-Identifier: Apache-2.0
// Lists of series, compared with a table of bits.
#include "tsdb/tsdb_private.h"

#include "base/mem.h"
#include "unit.h"

enum { NUMBERS = 3000 };

struct model {
    struct tsdb_postings list;
    bool has[NUMBERS];
    uint32_t scale; // numbers of the list are multiples of this
    uint32_t random;
};

static unsigned pick(struct model *m, unsigned n)
{
    m->random = m->random * 1664525 + 1013904223;
    return (m->random >> 12) % n;
}

static void add(struct model *m, unsigned i)
{
    if (m->has[i])
        return;
    m->has[i] = true;
    tsdb_postings_add(&m->list, i * m->scale);
}

static void add_some(struct model *m)
{
    unsigned n = pick(m, 8) ? pick(m, 5) : pick(m, NUMBERS / 2), from = pick(m, NUMBERS);
    unsigned step = 1 + pick(m, 3);
    for (unsigned i = 0; i < n; i++)
        add(m, pick(m, 2) ? pick(m, NUMBERS) : (from + i * step) % NUMBERS);
}

// Also asks for the removal of numbers that are not in the list.
static void remove_some(struct model *m)
{
    tsdb_ref refs[NUMBERS];
    size_t n = 0;
    unsigned from = pick(m, NUMBERS), until = from + (pick(m, 8) ? pick(m, 20) : pick(m, NUMBERS));
    unsigned one_of = 1 + pick(m, 4);
    for (unsigned i = from; i < until && i < NUMBERS; i++) {
        if (pick(m, one_of))
            continue;
        refs[n++] = i * m->scale;
        m->has[i] = false;
    }
    tsdb_postings_remove(&m->list, refs, n);
}

static void expect(struct model *m)
{
    struct tsdb_refs refs = {0};
    size_t n = 0;
    tsdb_postings_read(&m->list, &refs);
    assert_int_equal(refs.len, m->list.len);
    for (unsigned i = 0; i < NUMBERS; i++)
        if (m->has[i]) {
            assert_true(n < refs.len);
            assert_int_equal(refs.items[n++], i * m->scale);
        }
    assert_int_equal(n, refs.len);
    tsdb_refs_finish(&refs);
}

static void test_random_changes(void **state)
{
    static const uint32_t scales[] = {1, 8, 100, 40000, 1400000};
    (void)state;
    for (size_t k = 0; k < GS_ARRAY_LEN(scales); k++) {
        struct model m = {.scale = scales[k], .random = (uint32_t)k};
        for (int i = 0; i < 1500; i++) {
            add_some(&m);
            if (pick(&m, 2))
                remove_some(&m);
            if (!pick(&m, 3))
                expect(&m);
        }
        expect(&m);
        tsdb_postings_finish(&m.list);
    }
}

// A list of neighbours takes a byte for each.
static void test_neighbours_take_a_byte(void **state)
{
    struct tsdb_postings list = {0};
    (void)state;
    for (tsdb_ref i = 0; i < 100000; i++)
        tsdb_postings_add(&list, 5 + i * 8);
    assert_true(tsdb_postings_bytes(&list) < 120000);
    tsdb_postings_finish(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_changes),
        cmocka_unit_test(test_neighbours_take_a_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
