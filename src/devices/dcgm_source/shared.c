// SPDX-License-Identifier: Apache-2.0
// The protocol of the shared memory: the reader publishes complete reads, and the parent copies one
// without waiting. A number that changes during the copy makes the copy worthless.
#include "dcgm_source/shared.h"

#include "base/mem.h"

#include <string.h>

// --- reader ---

struct dcgm_source_half *dcgm_source_shared_begin(struct dcgm_source_shared *m)
{
    uint64_t next = atomic_load(&m->sequence) + 1;
    struct dcgm_source_half *half = &m->halves[next & 1];
    atomic_store(&half->sequence, 0);
    atomic_thread_fence(memory_order_seq_cst);
    half->n_entities = half->n_values = half->n_text = 0;
    return half;
}

void dcgm_source_shared_end(struct dcgm_source_shared *m)
{
    uint64_t next = atomic_load(&m->sequence) + 1;
    atomic_store(&m->halves[next & 1].sequence, next);
    atomic_store(&m->sequence, next);
}

void dcgm_source_shared_report(struct dcgm_source_shared *m, const struct dcgm_source_report *r)
{
    atomic_fetch_add(&m->report_sequence, 1);
    m->report = *r;
    atomic_fetch_add(&m->report_sequence, 1);
}

// --- parent ---

// The strings of the copy are terminated, and its references are within it.
static void make_valid(struct dcgm_latest *l)
{
    size_t kept = 0;
    l->texts[l->n_text - 1] = 0;
    for (size_t i = 0; i < l->n_entities; i++) {
        struct dcgm_entity *e = &l->entities[i];
        e->uuid[sizeof(e->uuid) - 1] = 0;
        e->pci_bus_id[sizeof(e->pci_bus_id) - 1] = 0;
        if (e->parent >= i) // parents come first
            e->parent = DCGM_SOURCE_NO_PARENT;
    }
    for (size_t i = 0; i < l->n_values; i++)
        if (l->values[i].entity < l->n_entities)
            l->values[kept++] = l->values[i];
    l->n_values = kept;
}

// Each count is read once: the reader may change it at any time.
static struct dcgm_latest *copy_half(const struct dcgm_source_half *half, int64_t *ret_read_ns)
{
    size_t n_entities = half->n_entities, n_values = half->n_values, n_text = half->n_text;
    if (n_entities > DCGM_SOURCE_MAX_ENTITIES || n_values > DCGM_SOURCE_MAX_VALUES ||
        n_text > DCGM_SOURCE_MAX_TEXT)
        return NULL;
    struct dcgm_latest *l = dcgm_latest_new(n_entities, n_values, n_text);
    memcpy(l->entities, half->entities, n_entities * sizeof(*l->entities));
    memcpy(l->values, half->values, n_values * sizeof(*l->values));
    memcpy(l->texts, half->texts, n_text);
    *ret_read_ns = half->read_ns;
    make_valid(l);
    return l;
}

struct dcgm_latest *dcgm_source_shared_take(const struct dcgm_source_shared *m, uint64_t *sequence,
                                            int64_t *ret_read_ns)
{
    uint64_t newest = atomic_load(&m->sequence);
    const struct dcgm_source_half *half = &m->halves[newest & 1];
    if (newest == *sequence || atomic_load(&half->sequence) != newest)
        return NULL;
    struct dcgm_latest *l = copy_half(half, ret_read_ns);
    atomic_thread_fence(memory_order_seq_cst);
    if (l && atomic_load(&half->sequence) != newest) {
        dcgm_latest_free(l);
        return NULL;
    }
    *sequence = newest;
    return l;
}

bool dcgm_source_shared_take_report(const struct dcgm_source_shared *m, uint64_t *sequence,
                                    struct dcgm_source_report *ret)
{
    uint64_t before = atomic_load(&m->report_sequence);
    if (before == *sequence || before & 1)
        return false;
    struct dcgm_source_report r = m->report;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&m->report_sequence) != before)
        return false;
    r.problem[sizeof(r.problem) - 1] = 0;
    r.prof_problem[sizeof(r.prof_problem) - 1] = 0;
    r.version[sizeof(r.version) - 1] = 0;
    r.library_version[sizeof(r.library_version) - 1] = 0;
    if ((unsigned)r.state > DCGM_SOURCE_DOWN)
        r.state = DCGM_SOURCE_DOWN;
    *sequence = before;
    *ret = r;
    return true;
}
