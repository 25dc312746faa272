// SPDX-License-Identifier: Apache-2.0
// The ring is an array that grows up to the maximum. Each exemplar has the number of the next one
// of its series. Numbers stay valid when the array moves, and because the oldest exemplar of the
// ring is the oldest of its series, the lists of series need no second direction.
#include "tsdb/exemplars.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "tsdb/tsdb_private.h"

#include <xxhash.h>

#define MAX_BYTES_EACH ((size_t)2048)
#define FIRST_CAP      ((size_t)64)
#define MAX_CHAR_BYTES 4 // of a character in UTF-8
#define MAX_BYTES      ((size_t)TSDB_EXEMPLAR_MAX_CHARS * MAX_CHAR_BYTES)
#define MAX_LABELS     TSDB_EXEMPLAR_MAX_CHARS
#define STEPS_A_CALL   64 // exemplars and compared selectors between two calls of go_on

struct chain { // the exemplars of a series
    uint64_t oldest, newest;
    size_t key_len;
    char key[]; // its encoded labels
};

struct entry {
    struct chain *chain;
    char *labels; // encoded
    double value;
    int64_t t_ms;
    uint64_t next; // of the chain; 0: none
    uint32_t labels_len;
    bool has_t;
};

struct decoded { // labels
    struct metrics_label *items;
    size_t n, cap;
};

struct tsdb_exemplars {
    struct entry *items; // a ring
    size_t cap, head, n, max, bytes;
    uint64_t first;                // number of the oldest
    struct gs_hmap *chains;        // encoded labels -> struct chain
    struct gs_buf key, encoded;    // of the exemplar that is added
    struct decoded series, labels; // of the exemplar that is read
    uint64_t appended, out_of_order;
};

// --- encoded labels ---
// As Prometheus keeps them: the order of exemplars of the same time depends on the hash of these
// bytes.

static void add_string(struct gs_buf *out, struct gs_slice s)
{
    if (s.len < 255) {
        gs_buf_add_char(out, (char)s.len);
    } else {
        const char size[] = {(char)255, (char)s.len, (char)(s.len >> 8), (char)(s.len >> 16)};
        gs_buf_add(out, size, sizeof(size));
    }
    gs_buf_add_slice(out, s);
}

static struct gs_slice take_string(struct gs_slice *from)
{
    const unsigned char *p = (const unsigned char *)from->data;
    size_t len = p[0], at = 1;
    if (len == 255) {
        len = p[1] | (size_t)p[2] << 8 | (size_t)p[3] << 16;
        at = 4;
    }
    gs_assert(at + len <= from->len);
    struct gs_slice s = gs_slice_make(from->data + at, len);
    *from = gs_slice_make(from->data + at + len, from->len - at - len);
    return s;
}

static void decode(struct gs_slice from, struct decoded *d)
{
    d->n = 0;
    while (from.len) {
        gs_grow(&d->items, &d->cap, d->n, sizeof(*d->items));
        d->items[d->n].name = take_string(&from);
        d->items[d->n++].value = take_string(&from);
    }
}

static int compare_keys(const void *a, const void *b)
{
    struct gs_slice l = *(const struct gs_slice *)a, r = *(const struct gs_slice *)b;
    while (l.len && r.len) {
        int order = gs_slice_compare(take_string(&l), take_string(&r));
        if (order)
            return order;
    }
    return (l.len > 0) - (r.len > 0);
}

static void encode_series(const struct tsdb *db, tsdb_ref ref, struct gs_buf *out)
{
    struct tsdb_labels l = tsdb_series_labels(db, ref);
    gs_buf_clear(out);
    for (size_t i = 0; i < tsdb_labels_len(l); i++) {
        struct metrics_label label = tsdb_labels_text_at(db->symbols, l, i);
        add_string(out, label.name);
        add_string(out, label.value);
    }
}

// As Go counts them, apart from invalid bytes, which the callers refuse.
static size_t count_chars(struct gs_slice s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += ((unsigned char)s.data[i] & 0xc0) != 0x80;
    return n;
}

static int compare_names(const void *a, const void *b)
{
    const struct metrics_label *x = a, *y = b;
    return gs_slice_compare(x->name, y->name);
}

// Sorts and encodes the labels.
static enum tsdb_exemplar_result encode(const struct tsdb_exemplar *e, struct gs_buf *out)
{
    struct metrics_label sorted[MAX_LABELS];
    size_t n = 0, chars = 0, bytes = 0;
    gs_buf_clear(out);
    for (size_t i = 0; i < e->n_labels; i++) {
        const struct metrics_label *l = &e->labels[i];
        if (!l->value.len)
            continue;
        bytes += l->name.len + l->value.len;
        chars += count_chars(l->name) + count_chars(l->value);
        if (chars > TSDB_EXEMPLAR_MAX_CHARS || bytes > MAX_BYTES || n == MAX_LABELS)
            return TSDB_EXEMPLAR_TOO_LONG;
        sorted[n++] = *l;
    }
    if (n)
        qsort(sorted, n, sizeof(*sorted), compare_names);
    for (size_t i = 0; i < n; i++) {
        if (i && gs_slice_eq(sorted[i].name, sorted[i - 1].name))
            return TSDB_EXEMPLAR_NOT_UNIQUE;
        add_string(out, sorted[i].name);
        add_string(out, sorted[i].value);
    }
    return TSDB_EXEMPLAR_ADDED;
}

// --- the ring ---

static struct entry *entry_at(const struct tsdb_exemplars *x, uint64_t number)
{
    size_t at = x->head + (size_t)(number - x->first);
    return &x->items[at < x->cap ? at : at - x->cap];
}

static size_t chain_bytes(const struct chain *c)
{
    return sizeof(*c) + 2 * c->key_len; // the map has a copy
}

static void drop_oldest(struct tsdb_exemplars *x)
{
    struct entry *e = entry_at(x, x->first);
    struct chain *c = e->chain;
    x->bytes -= sizeof(*e) + e->labels_len;
    free(GS_TAKE(e->labels));
    c->oldest = e->next;
    if (!c->oldest) {
        x->bytes -= chain_bytes(c);
        free(gs_hmap_remove(x->chains, gs_slice_make(c->key, c->key_len)));
    }
    x->head = x->head + 1 < x->cap ? x->head + 1 : 0;
    x->first++;
    x->n--;
}

static void move_ring(struct tsdb_exemplars *x, size_t cap)
{
    gs_assert(x->n <= cap);
    struct entry *items = gs_alloc_array(cap ? cap : 1, sizeof(*items));
    for (size_t i = 0; i < x->n; i++)
        items[i] = *entry_at(x, x->first + i);
    free(x->items);
    x->items = items;
    x->cap = cap;
    x->head = 0;
}

static void make_room(struct tsdb_exemplars *x)
{
    if (x->n == x->max)
        drop_oldest(x);
    if (x->n < x->cap)
        return;
    size_t cap = x->cap ? x->cap * 2 : FIRST_CAP;
    move_ring(x, cap < x->max ? cap : x->max);
}

void tsdb_exemplars_set_max(struct tsdb *db, size_t max)
{
    struct tsdb_exemplars *x = db->exemplars;
    if (!x && !max)
        return;
    if (!x) {
        x = db->exemplars = gs_alloc(sizeof(*x));
        x->chains = gs_hmap_new(free);
        x->first = 1;
    }
    if (max > SIZE_MAX / MAX_BYTES_EACH)
        max = SIZE_MAX / MAX_BYTES_EACH;
    while (x->n > max)
        drop_oldest(x);
    x->max = max;
    if (x->cap > max)
        move_ring(x, max);
}

size_t tsdb_exemplars_max(const struct tsdb *db)
{
    return db->exemplars ? db->exemplars->max : 0;
}

void tsdb_exemplars_finish(struct tsdb *db)
{
    struct tsdb_exemplars *x = db->exemplars;
    if (!x)
        return;
    while (x->n)
        drop_oldest(x);
    gs_hmap_free(x->chains);
    gs_buf_finish(&x->key);
    gs_buf_finish(&x->encoded);
    free(x->series.items);
    free(x->labels.items);
    free(x->items);
    free(x);
    db->exemplars = NULL;
}

// --- adding ---

// Prometheus' rules. labels: encoded.
static enum tsdb_exemplar_result compare_with_newest(const struct entry *newest,
                                                     const struct tsdb_exemplar *e,
                                                     struct gs_slice labels)
{
    struct gs_slice known = gs_slice_make(newest->labels, newest->labels_len);
    bool same_time = (!e->has_t && !newest->has_t) || e->t_ms == newest->t_ms;
    if (same_time && e->value == newest->value && gs_slice_eq(known, labels))
        return TSDB_EXEMPLAR_DUPLICATE;
    if (e->t_ms != newest->t_ms)
        return e->t_ms < newest->t_ms ? TSDB_EXEMPLAR_OUT_OF_ORDER : TSDB_EXEMPLAR_ADDED;
    if (e->value < newest->value ||
        (e->value == newest->value &&
         XXH64(labels.data, labels.len, 0) < XXH64(known.data, known.len, 0)))
        return TSDB_EXEMPLAR_OUT_OF_ORDER;
    return TSDB_EXEMPLAR_ADDED;
}

static struct chain *new_chain(struct tsdb_exemplars *x, struct gs_slice key)
{
    struct chain *c = gs_alloc(sizeof(*c) + key.len);
    c->key_len = key.len;
    memcpy(c->key, key.data, key.len);
    gs_hmap_put(x->chains, key, c);
    x->bytes += chain_bytes(c);
    return c;
}

static void append(struct tsdb_exemplars *x, const struct tsdb_exemplar *e, struct gs_slice labels)
{
    struct gs_slice key = gs_buf_slice(&x->key);
    make_room(x); // may drop the series
    struct chain *c = gs_hmap_get(x->chains, key);
    if (!c)
        c = new_chain(x, key);
    uint64_t number = x->first + x->n++;
    if (c->oldest)
        entry_at(x, c->newest)->next = number;
    else
        c->oldest = number;
    c->newest = number;
    *entry_at(x, number) = (struct entry){.chain = c,
                                          .labels = gs_strndup(labels.data, labels.len),
                                          .labels_len = (uint32_t)labels.len,
                                          .value = e->value,
                                          .t_ms = e->t_ms,
                                          .has_t = e->has_t};
    x->bytes += sizeof(struct entry) + labels.len;
    x->appended++;
    while (x->bytes > x->max * MAX_BYTES_EACH && x->n > 1)
        drop_oldest(x);
}

enum tsdb_exemplar_result tsdb_exemplars_add(struct tsdb *db, tsdb_ref ref,
                                             const struct tsdb_exemplar *e)
{
    struct tsdb_exemplars *x = db->exemplars;
    if (!x || !x->max)
        return TSDB_EXEMPLAR_OFF;
    enum tsdb_exemplar_result result = encode(e, &x->encoded);
    if (result != TSDB_EXEMPLAR_ADDED)
        return result;
    struct gs_slice labels = gs_buf_slice(&x->encoded);
    encode_series(db, ref, &x->key);
    const struct chain *c = gs_hmap_get(x->chains, gs_buf_slice(&x->key));
    if (c)
        result = compare_with_newest(entry_at(x, c->newest), e, labels);
    if (result == TSDB_EXEMPLAR_ADDED)
        append(x, e, labels);
    x->out_of_order += result == TSDB_EXEMPLAR_OUT_OF_ORDER;
    return result;
}

// --- reading ---

static bool matches(const struct decoded *series, const struct tsdb_exemplar_selector *s)
{
    for (size_t i = 0; i < s->n; i++) {
        struct gs_slice value = gs_slice_make("", 0);
        for (size_t k = 0; k < series->n; k++)
            if (gs_slice_eq(series->items[k].name, s->matchers[i].name))
                value = series->items[k].value;
        if (!tsdb_matcher_matches(&s->matchers[i], value))
            return false;
    }
    return true;
}

// Other requests can read during a call of go_on, so each reader has its own decoded labels.
struct reader {
    struct tsdb_exemplars *x;
    const struct tsdb_exemplar_query *q;
    struct decoded series, labels;
    struct gs_slice *keys; // of the series that were found
    size_t n_keys, keys_cap;
    uint64_t end; // the number of the first exemplar that is not read
    size_t steps;
};

static bool go_on(struct reader *r, size_t steps)
{
    r->steps += steps;
    if (r->steps < STEPS_A_CALL)
        return true;
    r->steps = 0;
    return !r->q->go_on || r->q->go_on(r->q->arg);
}

static bool matches_any(struct reader *r, const struct chain *c)
{
    const struct tsdb_exemplar_query *q = r->q;
    if (entry_at(r->x, c->oldest)->t_ms > q->maxt || entry_at(r->x, c->newest)->t_ms < q->mint)
        return false;
    decode(gs_slice_make(c->key, c->key_len), &r->series);
    for (size_t i = 0; i < q->n_selectors; i++)
        if (matches(&r->series, &q->selectors[i]))
            return true;
    return false;
}

static struct tsdb_exemplar read_entry(const struct entry *e, struct decoded *labels)
{
    decode(gs_slice_make(e->labels, e->labels_len), labels);
    return (struct tsdb_exemplar){.labels = labels->items,
                                  .n_labels = labels->n,
                                  .value = e->value,
                                  .t_ms = e->t_ms,
                                  .has_t = e->has_t};
}

// Compares each series at its oldest exemplar. If that is dropped meanwhile, the series can be
// found twice. False: go_on returned false.
static bool find_series(struct reader *r)
{
    struct tsdb_exemplars *x = r->x;
    for (uint64_t k = x->first; k < r->end && k < x->first + x->n; k++) {
        const struct chain *c = entry_at(x, k)->chain;
        bool compared = c->oldest == k;
        if (compared && matches_any(r, c)) {
            gs_grow(&r->keys, &r->keys_cap, r->n_keys, sizeof(*r->keys));
            r->keys[r->n_keys++] = gs_slice_make(gs_strndup(c->key, c->key_len), c->key_len);
        }
        if (!go_on(r, compared ? r->q->n_selectors : 1))
            return false;
        if (k < x->first)
            k = x->first - 1;
    }
    return true;
}

// Calls fn for the exemplars of a series. False: go_on returned false.
static bool read_series(struct reader *r, struct gs_slice key)
{
    struct tsdb_exemplars *x = r->x;
    const struct chain *c = gs_hmap_get(x->chains, key);
    bool is_first = true;
    decode(key, &r->series);
    const struct tsdb_exemplar_series s = {r->series.items, r->series.n};
    for (uint64_t k = c ? c->oldest : 0; k && k < r->end;) {
        const struct entry *e = entry_at(x, k);
        if (e->t_ms >= r->q->mint && e->t_ms <= r->q->maxt) {
            const struct tsdb_exemplar shown = read_entry(e, &r->labels);
            r->q->fn(r->q->arg, &s, &shown, is_first);
            is_first = false;
        }
        if (!go_on(r, 1))
            return false;
        if (k >= x->first && k < x->first + x->n) {
            k = entry_at(x, k)->next;
        } else { // it was dropped
            c = gs_hmap_get(x->chains, key);
            k = c ? c->oldest : 0;
        }
    }
    return true;
}

bool tsdb_exemplars_query(const struct tsdb *db, const struct tsdb_exemplar_query *q)
{
    struct reader r = {.x = db->exemplars, .q = q};
    if (!r.x)
        return true;
    r.end = r.x->first + r.x->n;
    bool ok = find_series(&r);
    if (r.n_keys)
        qsort(r.keys, r.n_keys, sizeof(*r.keys), compare_keys);
    for (size_t i = 0; i < r.n_keys && ok; i++)
        if (!i || !gs_slice_eq(r.keys[i], r.keys[i - 1]))
            ok = read_series(&r, r.keys[i]);
    for (size_t i = 0; i < r.n_keys; i++)
        free((char *)(uintptr_t)r.keys[i].data);
    free(r.keys);
    free(r.series.items);
    free(r.labels.items);
    return ok;
}

void tsdb_exemplars_select(const struct tsdb *db, const struct tsdb_exemplar_selector *selectors,
                           size_t n, int64_t mint, int64_t maxt,
                           void (*fn)(void *arg, const struct tsdb_exemplar_series *s,
                                      const struct tsdb_exemplar *e, bool is_first),
                           void *arg)
{
    const struct tsdb_exemplar_query q = {
        .selectors = selectors, .n_selectors = n, .mint = mint, .maxt = maxt, .fn = fn, .arg = arg};
    (void)tsdb_exemplars_query(db, &q);
}

uint64_t tsdb_exemplars_end(const struct tsdb *db)
{
    const struct tsdb_exemplars *x = db->exemplars;
    return x ? x->first + x->n : 1;
}

bool tsdb_exemplars_next(const struct tsdb *db, uint64_t *number,
                         struct tsdb_exemplar_series *ret_s, struct tsdb_exemplar *ret_e)
{
    struct tsdb_exemplars *x = db->exemplars;
    if (!x || *number >= x->first + x->n)
        return false;
    if (*number < x->first)
        *number = x->first;
    const struct entry *e = entry_at(x, (*number)++);
    decode(gs_slice_make(e->chain->key, e->chain->key_len), &x->series);
    *ret_s = (struct tsdb_exemplar_series){x->series.items, x->series.n};
    *ret_e = read_entry(e, &x->labels);
    return true;
}

uint64_t tsdb_exemplars_first_of(const struct tsdb *db, tsdb_ref ref, uint64_t from)
{
    struct tsdb_exemplars *x = db->exemplars;
    if (!x || from >= x->first + x->n)
        return 0;
    encode_series(db, ref, &x->key);
    const struct chain *c = gs_hmap_get(x->chains, gs_buf_slice(&x->key));
    if (!c || c->newest < from)
        return 0;
    // The one after an exemplar of the same series is found without a search.
    const struct entry *before = from > x->first ? entry_at(x, from - 1) : NULL;
    uint64_t number = before && before->chain == c ? before->next : c->oldest;
    while (number < from)
        number = entry_at(x, number)->next;
    return number;
}

void tsdb_exemplars_stats(const struct tsdb *db, struct tsdb_exemplar_stats *ret)
{
    const struct tsdb_exemplars *x = db->exemplars;
    *ret = (struct tsdb_exemplar_stats){0};
    if (x)
        *ret = (struct tsdb_exemplar_stats){.max = x->max,
                                            .n = x->n,
                                            .series = gs_hmap_len(x->chains),
                                            .bytes = x->bytes,
                                            .appended = x->appended,
                                            .out_of_order = x->out_of_order,
                                            .oldest_ms = x->n ? entry_at(x, x->first)->t_ms : 0};
}
