// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/hmap.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 5000 };

static struct gs_slice key_of(int i, char buf[16])
{
    return gs_slice_make(buf, (size_t)snprintf(buf, 16, "key-%d", i));
}

// Compared with a plain array, with random insertions, replacements and removals.
static void test_behaves_like_an_array(void **state)
{
    static int model[KEYS];
    struct gs_hmap *m = gs_hmap_new(free);
    srand(3);
    char buf[16];
    size_t n = 0;
    for (int step = 0; step < 100000; step++) {
        int i = rand() % KEYS;
        if (rand() % 3) {
            int *v = gs_alloc(sizeof(*v));
            *v = step + 1;
            n += !model[i];
            model[i] = *v;
            gs_hmap_put(m, key_of(i, buf), v);
        } else {
            int *v = gs_hmap_remove(m, key_of(i, buf));
            assert_int_equal(v ? *v : 0, model[i]);
            n -= model[i] != 0;
            model[i] = 0;
            free(v);
        }
    }
    assert_int_equal(gs_hmap_len(m), n);
    for (int i = 0; i < KEYS; i++) {
        int *v = gs_hmap_get(m, key_of(i, buf));
        assert_int_equal(v ? *v : 0, model[i]);
    }
    size_t pos = 0, seen = 0;
    while (gs_hmap_next(m, &pos, NULL, NULL))
        seen++;
    assert_int_equal(seen, n);
    gs_hmap_free(m);
}

static void test_empty(void **state)
{
    struct gs_hmap *m = gs_hmap_new(NULL);
    size_t pos = 0;
    assert_null(gs_hmap_get_str(m, "x"));
    assert_null(gs_hmap_remove_str(m, "x"));
    assert_false(gs_hmap_next(m, &pos, NULL, NULL));
    gs_hmap_put_str(m, "", m);
    assert_ptr_equal(gs_hmap_get_str(m, ""), m);
    gs_hmap_free(m);
    gs_hmap_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_behaves_like_an_array),
                                       cmocka_unit_test(test_empty)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
