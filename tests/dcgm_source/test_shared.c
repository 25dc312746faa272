// SPDX-License-Identifier: Apache-2.0
// The memory that the reader shares with its parent: complete reads, and garbage.
#include "unit.h"

#include "base/mem.h"
#include "dcgm_source/shared.h"

#include <stdlib.h>

static void write_read(struct dcgm_source_shared *m, uint32_t n)
{
    struct dcgm_source_half *h = dcgm_source_shared_begin(m);
    h->n_entities = n;
    h->n_values = n;
    for (uint32_t i = 0; i < n; i++) {
        h->entities[i] =
            (struct dcgm_entity){DCGM_ENTITY_GPU, i, DCGM_SOURCE_NO_PARENT, 0, 0, "", ""};
        h->values[i] = (struct dcgm_value){.entity = i, .field = 1001};
    }
    h->read_ns = 7;
    dcgm_source_shared_end(m);
}

static void test_a_complete_read_is_taken_once(void **state)
{
    (void)state;
    GS_AUTO_FREE struct dcgm_source_shared *m = gs_alloc(sizeof(*m));
    uint64_t sequence = 0;
    int64_t read_ns = 0;
    assert_null(dcgm_source_shared_take(m, &sequence, &read_ns));
    for (uint32_t n = 1; n < 4; n++) {
        write_read(m, n);
        struct dcgm_latest *l = dcgm_source_shared_take(m, &sequence, &read_ns);
        assert_non_null(l);
        assert_int_equal(l->n_values, n);
        assert_int_equal(read_ns, 7);
        assert_null(dcgm_source_shared_take(m, &sequence, &read_ns));
        dcgm_latest_free(l);
    }
}

static void test_an_unfinished_read_is_not_taken(void **state)
{
    (void)state;
    GS_AUTO_FREE struct dcgm_source_shared *m = gs_alloc(sizeof(*m));
    uint64_t sequence = 0;
    int64_t read_ns;
    write_read(m, 2);
    struct dcgm_source_half *h = dcgm_source_shared_begin(m);
    h->n_values = 5;
    struct dcgm_latest *l = dcgm_source_shared_take(m, &sequence, &read_ns); // the older half
    assert_int_equal(l->n_values, 2);
    dcgm_latest_free(l);
    m->halves[0].sequence = m->halves[1].sequence = 0;
    sequence = 0;
    assert_null(dcgm_source_shared_take(m, &sequence, &read_ns));
}

static void test_garbage_is_bounded(void **state)
{
    (void)state;
    GS_AUTO_FREE struct dcgm_source_shared *m = gs_alloc(sizeof(*m));
    srand(1);
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < sizeof(*m) / sizeof(int); i += 3)
            ((int *)m)[i] = rand();
        struct dcgm_source_half *h = &m->halves[1];
        m->sequence = h->sequence = 2 * (uint64_t)round + 1;
        h->n_entities = (uint32_t)rand() % (DCGM_SOURCE_MAX_ENTITIES + 2);
        h->n_values = (uint32_t)rand() % (DCGM_SOURCE_MAX_VALUES + 2);
        h->n_text = round ? (uint32_t)rand() % (DCGM_SOURCE_MAX_TEXT + 2) : UINT32_MAX;
        m->report_sequence = 2 * (uint64_t)round + 2;
        uint64_t sequence = 0;
        int64_t read_ns;
        struct dcgm_source_report r;
        assert_true(dcgm_source_shared_take_report(m, &sequence, &r));
        assert_in_range(r.state, DCGM_SOURCE_UNUSED, DCGM_SOURCE_DOWN);
        assert_true(strlen(r.problem) < sizeof(r.problem) && strlen(r.version) < sizeof(r.version));
        sequence = 0;
        struct dcgm_latest *l = dcgm_source_shared_take(m, &sequence, &read_ns);
        for (size_t i = 0; l && i < l->n_values; i++) {
            assert_true(l->values[i].entity < l->n_entities);
            const char *text = dcgm_source_text(l, &l->values[i]);
            assert_true(!text || strlen(text) < l->n_text);
            (void)dcgm_source_value(l, &l->values[i], 0);
        }
        for (size_t i = 0; l && i < l->n_entities; i++)
            assert_true(l->entities[i].parent < i ||
                        l->entities[i].parent == DCGM_SOURCE_NO_PARENT);
        assert_true(round || !l);
        dcgm_latest_free(l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_complete_read_is_taken_once),
        cmocka_unit_test(test_an_unfinished_read_is_not_taken),
        cmocka_unit_test(test_garbage_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
