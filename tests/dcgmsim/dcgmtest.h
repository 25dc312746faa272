// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the simulated DCGM: the library loaded as a foreign program loads it, and
// sets of simulated GPUs of their own.
#pragma once

#include "nvmlsim/simtest.h"

#include "nvmlsim/dcgm_calls.h"
#include "nvmlsim/simulation/simulation.h"

static struct dcgm {
    void *library;
#define DCGM_MEMBER(name, arguments) int(*name) arguments;
    DCGM_CALLS(DCGM_MEMBER)
#undef DCGM_MEMBER
    dcgm_field_by_id_fn *field_by_id;
    dcgm_error_string_fn *error_string;
    int (*is_simulated)(void);
} dc;

static inline int load_dcgm(void **state)
{
    char path[4096];
    const char *root = getenv("GPUSCALE_BUILD_ROOT");
    snprintf(path, sizeof(path), "%s/src/simulation/dcgmsim/libgpuscale-dcgmsim.so",
             root ? root : "build");
    dc.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!dc.library)
        fail_msg("%s", dlerror());
#define DCGM_LOOKUP(name, arguments)                                                               \
    *(void **)&dc.name = dlsym(dc.library, #name);                                                 \
    assert_non_null(dc.name);
    DCGM_CALLS(DCGM_LOOKUP)
#undef DCGM_LOOKUP
    *(void **)&dc.field_by_id = dlsym(dc.library, "DcgmFieldGetById");
    *(void **)&dc.error_string = dlsym(dc.library, "errorString");
    *(void **)&dc.is_simulated = dlsym(dc.library, "gpuscaleDcgmIsSimulated");
    return 0;
}

static inline int unload_dcgm(void **state)
{
    return dlclose(dc.library);
}

static inline dcgm_handle embed(void)
{
    dcgm_handle h = 0;
    assert_int_equal(dc.dcgmInit(), 0);
    assert_int_equal(dc.dcgmStartEmbedded(DCGM_MODE_AUTO, &h), 0);
    return h;
}

static inline void end_embedded(dcgm_handle h)
{
    assert_int_equal(dc.dcgmStopEmbedded(h), 0);
    assert_int_equal(dc.dcgmShutdown(), 0);
}

static inline int try_connect(dcgm_handle *ret)
{
    struct dcgm_connect_v2 p = {.version = DCGM_CONNECT_V2};
    assert_int_equal(dc.dcgmInit(), 0);
    return dc.dcgmConnect_v2("127.0.0.1:5555", &p, ret);
}

struct watch {
    dcgm_handle handle;
    dcgm_group group;
    dcgm_field_group fields;
};

static inline int try_watch(dcgm_handle h, const struct dcgm_entity_pair *entities, unsigned n,
                            const uint16_t *ids, int n_ids, struct watch *ret)
{
    static int number;
    char name[32];
    snprintf(name, sizeof(name), "watch-%d", number++);
    ret->handle = h;
    assert_int_equal(dc.dcgmGroupCreate(h, DCGM_GROUP_EMPTY, name, &ret->group), 0);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(dc.dcgmGroupAddEntity(h, ret->group, entities[i].group, entities[i].id),
                         0);
    int rc = dc.dcgmFieldGroupCreate(h, n_ids, ids, name, &ret->fields);
    return rc ? rc : dc.dcgmWatchFields(h, ret->group, ret->fields, 10000, 60, 0);
}

static inline void end_watch(const struct watch *w)
{
    assert_int_equal(dc.dcgmUnwatchFields(w->handle, w->group, w->fields), 0);
    assert_int_equal(dc.dcgmFieldGroupDestroy(w->handle, w->fields), 0);
    assert_int_equal(dc.dcgmGroupDestroy(w->handle, w->group), 0);
}

static inline struct dcgm_value_v2 read_flagged(dcgm_handle h, struct dcgm_entity_pair e,
                                                uint16_t field, uint32_t flags)
{
    struct dcgm_value_v2 v;
    assert_int_equal(dc.dcgmEntitiesGetLatestValues(h, &e, 1, &field, 1, flags, &v), 0);
    assert_int_equal(v.version, DCGM_VALUE_V2);
    assert_int_equal(v.field_id, field);
    return v;
}

static inline struct dcgm_value_v2 read_latest(dcgm_handle h, struct dcgm_entity_pair e,
                                               uint16_t field)
{
    return read_flagged(h, e, field, 0);
}

static inline struct dcgm_entity_pair entity(unsigned group, unsigned id)
{
    return (struct dcgm_entity_pair){group, id};
}

static inline struct dcgm_entity_pair gpu(unsigned id)
{
    return entity(DCGM_ENTITY_GPU, id);
}

// Waits for a watched value that is not blank.
static inline struct dcgm_value_v2 await_value(dcgm_handle h, struct dcgm_entity_pair e,
                                               uint16_t field)
{
    for (int i = 0; i < 3000; i++) {
        struct dcgm_value_v2 v = read_latest(h, e, field);
        bool blank = v.field_type == DCGM_TYPE_DOUBLE ? v.value.dbl >= DCGM_BLANK_DOUBLE
                                                      : v.value.i64 >= DCGM_BLANK_INT64;
        if (v.status == 0 && !blank)
            return v;
        sleep_ms(10);
    }
    fail_msg("field %u has no value", field);
    return (struct dcgm_value_v2){0};
}
