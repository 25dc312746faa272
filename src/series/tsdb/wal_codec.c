// SPDX-License-Identifier: Apache-2.0
// Records of the log: magic, length, hash, type, payload, all little-endian. After damage, the
// reader searches for the next magic with a valid hash.
#include "tsdb/wal.h"

#include "base/hmap.h"
#include "tsdb/chunk.h"

#define ABSENT (1 << 3 | TSDB_DECIMAL_OTHER)

static void put_u32(uint8_t *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

size_t tsdb_wal_record_begin(struct gs_buf *out, enum tsdb_wal_type type)
{
    size_t start = out->len;
    uint8_t head[TSDB_WAL_RECORD_HEAD] = {0};
    put_u32(head, TSDB_WAL_RECORD_MAGIC);
    head[12] = (uint8_t)type;
    gs_buf_add(out, head, sizeof(head));
    return start;
}

void tsdb_wal_record_end(struct gs_buf *out, size_t start)
{
    uint8_t *head = (uint8_t *)out->data + start;
    size_t payload = out->len - start - TSDB_WAL_RECORD_HEAD;
    put_u32(head + 4, (uint32_t)payload);
    put_u32(head + 8, (uint32_t)gs_hash(head + 12, payload + 1));
}

void tsdb_wal_put_varint(struct gs_buf *out, uint64_t v)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        bytes[n++] = (uint8_t)(v | 0x80);
    bytes[n++] = (uint8_t)v;
    gs_buf_add(out, bytes, n);
}

void tsdb_wal_put_signed(struct gs_buf *out, int64_t v)
{
    tsdb_wal_put_varint(out, tsdb_decimal_zigzag(v));
}

void tsdb_wal_put_text(struct gs_buf *out, struct gs_slice s)
{
    tsdb_wal_put_varint(out, s.len);
    gs_buf_add_slice(out, s);
}

// --- values ---

// *hint: the decimals of the previous value, which often has the same number of them.
static size_t put_value(uint8_t *out, double v, unsigned *hint)
{
    int64_t n;
    if (tsdb_is_absent(v) || tsdb_is_stale_inline(v)) {
        *out = tsdb_is_absent(v) ? ABSENT : TSDB_DECIMAL_OTHER;
        return 1;
    }
    int places = tsdb_decimal_fewest_places(v, *hint, &n);
    if (places < 0)
        return tsdb_decimal_put_raw(out, v);
    if (places)
        *hint = (unsigned)places;
    return tsdb_decimal_put(out, (unsigned)places, n);
}

void tsdb_wal_put_values(struct gs_buf *out, const double *v, size_t n)
{
    uint8_t bytes[64 * TSDB_DECIMAL_MAX_BYTES];
    unsigned hint = 0;
    for (size_t i = 0; i < n;) {
        size_t len = 0;
        for (size_t end = n - i < 64 ? n : i + 64; i < end; i++)
            len += put_value(bytes + len, v[i], &hint);
        gs_buf_add(out, bytes, len);
    }
}

void tsdb_wal_put_value(struct gs_buf *out, double v)
{
    tsdb_wal_put_values(out, &v, 1);
}

// --- reading ---

static uint8_t get_byte(struct tsdb_wal_cursor *c)
{
    if (c->at == c->end) {
        c->bad = true;
        return 0;
    }
    return *c->at++;
}

uint64_t tsdb_wal_get_varint(struct tsdb_wal_cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = get_byte(c);
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return v;
    }
    c->bad = true;
    return 0;
}

int64_t tsdb_wal_get_signed(struct tsdb_wal_cursor *c)
{
    return tsdb_decimal_unzigzag(tsdb_wal_get_varint(c));
}

struct gs_slice tsdb_wal_get_text(struct tsdb_wal_cursor *c)
{
    uint64_t len = tsdb_wal_get_varint(c);
    if (c->bad || len > (size_t)(c->end - c->at)) {
        c->bad = true;
        return (struct gs_slice){NULL, 0};
    }
    struct gs_slice s = gs_slice_make(c->at, (size_t)len);
    c->at += len;
    return s;
}

double tsdb_wal_get_value(struct tsdb_wal_cursor *c)
{
    uint8_t first = get_byte(c);
    unsigned form = first & 7;
    if (first == TSDB_DECIMAL_RAW) {
        if (c->end - c->at < 8) {
            c->bad = true;
            return 0;
        }
        uint64_t bits = get_u32(c->at) | (uint64_t)get_u32(c->at + 4) << 32;
        c->at += 8;
        return tsdb_decimal_of_bits(bits);
    }
    if (form == TSDB_DECIMAL_OTHER)
        return first == ABSENT ? tsdb_absent() : tsdb_stale_marker();
    uint64_t z = (first >> 3) & 0xf;
    unsigned shift = 4;
    for (uint8_t byte = first; byte & 0x80; shift += 7) {
        byte = get_byte(c);
        if (shift > 57) {
            c->bad = true;
            return 0;
        }
        z |= (uint64_t)(byte & 0x7f) << shift;
    }
    return (double)tsdb_decimal_unzigzag(z) / tsdb_decimal_powers[form];
}

static bool record_at(struct gs_slice segment, size_t pos, struct tsdb_wal_record *ret,
                      size_t *ret_end)
{
    if (segment.len - pos < TSDB_WAL_RECORD_HEAD)
        return false;
    const uint8_t *head = (const uint8_t *)segment.data + pos;
    size_t len = get_u32(head + 4);
    if (get_u32(head) != TSDB_WAL_RECORD_MAGIC || len > TSDB_WAL_MAX_RECORD ||
        len > segment.len - pos - TSDB_WAL_RECORD_HEAD ||
        get_u32(head + 8) != (uint32_t)gs_hash(head + 12, len + 1))
        return false;
    const uint8_t *payload = head + TSDB_WAL_RECORD_HEAD;
    *ret = (struct tsdb_wal_record){(enum tsdb_wal_type)head[12], {payload, payload + len, false}};
    *ret_end = pos + TSDB_WAL_RECORD_HEAD + len;
    return true;
}

bool tsdb_wal_next_record(struct gs_slice segment, size_t *pos, struct tsdb_wal_record *ret,
                          bool *ret_skipped)
{
    uint8_t magic[4];
    put_u32(magic, TSDB_WAL_RECORD_MAGIC);
    *ret_skipped = false;
    while (*pos < segment.len) {
        size_t end;
        if (record_at(segment, *pos, ret, &end)) {
            *pos = end;
            return true;
        }
        *ret_skipped = true;
        const char *from = segment.data + *pos + 1;
        const char *next = memmem(from, segment.len - *pos - 1, magic, sizeof(magic));
        *pos = next ? (size_t)(next - segment.data) : segment.len;
    }
    return false;
}
