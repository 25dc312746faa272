// SPDX-License-Identifier: Apache-2.0
// The metrics that are exported: a CSV file of dcgm-exporter (name, type, help). Rows that cannot
// be provided are left out with a warning.
#include "exporter/counters_private.h"

#include "base/buf.h"
#include "base/mem.h"
#include "dcgm/fields.h"
#include "exporter/render.h"

enum {
    MAX_ROWS = 1024,
    COLUMNS = 3,
    MAX_NAMED = 64, // names in a warning
    MAX_NAME = 128, // characters of a DCGM name
};

// --- rows ---

void exporter_counter_finish(struct exporter_counter *c)
{
    free(c->name);
    free(c->type);
    free(c->help);
}

void exporter_counters_finish(struct exporter_counters *c)
{
    for (size_t i = 0; i < c->len; i++)
        exporter_counter_finish(&c->rows[i]);
    for (size_t i = 0; i < c->n_warnings; i++)
        free(c->warnings[i]);
    free(c->rows);
    free(c->warnings);
    *c = (struct exporter_counters){0};
}

void exporter_counters_warn(struct exporter_counters *c, char *text)
{
    gs_grow(&c->warnings, &c->cap_warnings, c->n_warnings, sizeof(*c->warnings));
    c->warnings[c->n_warnings++] = text;
}

// Names of rows that are left out for the same reason.
struct left_out {
    struct gs_buf names;
    size_t n;
};

static void leave_out(struct left_out *l, const char *name)
{
    if (l->n < MAX_NAMED)
        gs_buf_addf(&l->names, "%s%s", l->n ? ", " : "", name);
    l->n++;
}

static void warn_of_left_out(struct exporter_counters *c, const struct left_out *l,
                             const char *reason)
{
    GS_AUTO_FREE char *more =
        l->n > MAX_NAMED ? gs_format(" and %zu more", l->n - MAX_NAMED) : gs_strdup("");
    if (l->n)
        exporter_counters_warn(c,
                               gs_format("%zu field%s ignored (%s): %s%s", l->n,
                                         l->n == 1 ? " is" : "s are", reason, l->names.data, more));
    c->n_left_out += l->n;
}

void exporter_counters_add(struct exporter_counters *c, struct exporter_counter row)
{
    gs_grow(&c->rows, &c->cap, c->len, sizeof(*c->rows));
    c->rows[c->len++] = row;
}

void exporter_counters_add_field(struct exporter_counters *c, enum gpu_field f, const char *name,
                                 const char *type, const char *help)
{
    const struct gpu_field_info *info = gpu_field_info(f);
    type = type ? type : info->type;
    exporter_counters_add(
        c, (struct exporter_counter){
               .kind = gs_streq(type, "label") ? EXPORTER_COUNTER_LABEL : EXPORTER_COUNTER_FIELD,
               .field = f,
               .id = info->id,
               .name = gs_strdup(name ? name : info->name),
               .type = gs_strdup(type),
               .help = gs_strdup(help ? help : info->help),
           });
}

static int compare_counters(const void *a, const void *b)
{
    const struct exporter_counter *x = a, *y = b;
    bool x_label = x->kind == EXPORTER_COUNTER_LABEL, y_label = y->kind == EXPORTER_COUNTER_LABEL;
    if (x_label != y_label)
        return x_label ? 1 : -1;
    if (x_label)
        return strcmp(x->name, y->name);
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return strcmp(x->name, y->name); // two names of one field
}

void exporter_counters_sort(struct exporter_counters *c)
{
    if (c->len)
        qsort(c->rows, c->len, sizeof(*c->rows), compare_counters);
    c->n_families = 0;
    while (c->n_families < c->len && c->rows[c->n_families].kind != EXPORTER_COUNTER_LABEL)
        c->n_families++;
}

bool exporter_counters_have(const struct exporter_counters *c, enum exporter_counter_kind kind)
{
    for (size_t i = 0; i < c->len; i++)
        if (c->rows[i].kind == kind)
            return true;
    return false;
}

void exporter_counters_wanted(const struct exporter_counters *c, bool *ret)
{
    memset(ret, 0, GPU_F_COUNT * sizeof(*ret));
    for (size_t i = 0; i < c->len; i++) {
        if (c->rows[i].field < GPU_F_COUNT)
            ret[c->rows[i].field] = true;
        if (c->rows[i].kind == EXPORTER_COUNTER_EXP_HEALTH)
            exporter_health_wanted(ret);
    }
    ret[GPU_F_XID_ERRORS] = true; // logged
    // Inputs of the families per process and container.
    ret[GPU_F_FB_USED] = ret[GPU_F_GPU_UTIL] = true;
}

// Values that are compared with those of processes must be equally recent.
static bool is_of_processes(enum gpu_field f)
{
    enum gpu_group g = gpu_field_info(f)->group;
    return g == GPU_G_UTILIZATION || g == GPU_G_CODECS || g == GPU_G_MEMORY;
}

size_t exporter_counters_dcgm_ids(const struct exporter_counters *c, uint16_t *ret, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < c->len && n < cap; i++)
        if (c->rows[i].kind == EXPORTER_COUNTER_DCGM && (!n || ret[n - 1] != c->rows[i].id))
            ret[n++] = (uint16_t)c->rows[i].id;
    return n;
}

void exporter_counters_intervals(const struct exporter_counters *c, int64_t *ret)
{
    bool seen[GPU_F_COUNT] = {0};
    memset(ret, 0, GPU_F_COUNT * sizeof(*ret));
    for (size_t i = 0; i < c->len; i++) { // the shortest interval of its rows
        const struct exporter_counter *row = &c->rows[i];
        if (row->field == GPU_F_COUNT || is_of_processes(row->field))
            continue;
        if (!seen[row->field] || row->every_ns < ret[row->field])
            ret[row->field] = row->every_ns;
        seen[row->field] = true;
    }
}

// --- the file ---

// Reads a field of a CSV record like Go's encoding/csv. False: a stray or missing quote.
static bool read_cell(struct gs_slice *line, struct gs_buf *ret, bool *ret_more)
{
    gs_buf_clear(ret);
    gs_buf_add(ret, "", 0);
    const char *p = line->data, *end = p + line->len;
    const char *first = p;
    while (first < end && *first == ' ') // Go does not accept a quote after a blank
        first++;
    bool quoted = first < end && *first == '"';
    p = quoted ? first : p;
    if (quoted) {
        for (p++;; p++) {
            if (p == end)
                return false;
            if (*p == '"' && (p + 1 == end || p[1] != '"'))
                break;
            p += *p == '"';
            gs_buf_add_char(ret, *p);
        }
        p++;
    }
    for (; p < end && *p != ','; p++) {
        if ((quoted && *p != ' ') || *p == '"')
            return false;
        if (!quoted)
            gs_buf_add_char(ret, *p);
    }
    *ret_more = p < end;
    p += p < end;
    *line = gs_slice_make(p, (size_t)(end - p));
    return true;
}

static struct gs_slice trim_spaces(struct gs_slice s)
{
    while (s.len && s.data[0] == ' ')
        s = gs_slice_make(s.data + 1, s.len - 1);
    while (s.len && s.data[s.len - 1] == ' ')
        s.len--;
    return s;
}

static struct gs_error *read_record(struct gs_slice line, unsigned number, char **ret_cells)
{
    GS_AUTO_BUF struct gs_buf cell = {0};
    unsigned n = 0;
    for (bool more = true; more; n++) {
        if (!read_cell(&line, &cell, &more))
            return gs_error_new(GS_EINVAL, "line %u: unbalanced quotes", number);
        if (n < COLUMNS)
            ret_cells[n] = gs_slice_dup(trim_spaces(gs_buf_slice(&cell)));
    }
    if (n != COLUMNS)
        return gs_error_new(GS_EINVAL,
                            "line %u has %u columns; want 3: field, Prometheus type, help (a help "
                            "text with a comma in quotes)",
                            number, n);
    return NULL;
}

static bool known_type(const char *type)
{
    static const char *const types[] = {"gauge", "counter", "histogram", "summary", "label"};
    for (size_t i = 0; i < GS_ARRAY_LEN(types); i++)
        if (gs_streq(type, types[i]))
            return true;
    return false;
}

// Metrics that dcgm-exporter computes itself.
static bool add_computed(struct exporter_counters *c, char *const *cells)
{
    static const struct {
        const char *name;
        enum exporter_counter_kind kind;
        enum gpu_field field;
        int id;
    } rows[] = {
        {"DCGM_EXP_XID_ERRORS_COUNT", EXPORTER_COUNTER_EXP_XIDS, GPU_F_XID_ERRORS, 9001},
        {"DCGM_EXP_CLOCK_EVENTS_COUNT", EXPORTER_COUNTER_EXP_CLOCK_EVENTS,
         GPU_F_CLOCKS_EVENT_REASONS, 9002},
        {"DCGM_EXP_GPU_HEALTH_STATUS", EXPORTER_COUNTER_EXP_HEALTH, GPU_F_XID_ERRORS, 9003},
        {"DCGM_EXP_P2P_STATUS", EXPORTER_COUNTER_EXP_P2P, GPU_F_NVLINK_P2P, 9004},
        {"DCGM_EXP_XID_ERRORS_TOTAL", EXPORTER_COUNTER_EXP_XIDS_TOTAL, GPU_F_XID_ERRORS, 9005},
        {"DCGM_EXP_CLOCK_EVENTS_TOTAL", EXPORTER_COUNTER_EXP_CLOCK_EVENTS_TOTAL,
         GPU_F_CLOCKS_EVENT_REASONS, 9006},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (!gs_streq(cells[0], rows[i].name))
            continue;
        exporter_counters_add(c, (struct exporter_counter){rows[i].kind, rows[i].field, rows[i].id,
                                                           gs_strdup(cells[0]), gs_strdup(cells[1]),
                                                           gs_strdup(cells[2])});
        return true;
    }
    return false;
}

bool exporter_counters_have_name(const struct exporter_counters *c, const char *name)
{
    for (size_t i = 0; i < c->len; i++)
        if (gs_streq(c->rows[i].name, name))
            return true;
    return false;
}

// Whether it has the form of a name of DCGM.
static bool is_dcgm_name(const char *name)
{
    if (!gs_starts(name, DCGM_FIELD_PREFIX))
        return false;
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return !name[len] && len > strlen(DCGM_FIELD_PREFIX) && len <= MAX_NAME;
}

struct parser {
    struct exporter_counters counters;
    struct left_out unknown, not_nvml;
    size_t n_rows; // also those that are left out
    bool dcgm;     // there is a source of the fields that only DCGM has
};

static void leave_out_repeated(struct exporter_counters *c, const char *name, unsigned number)
{
    exporter_counters_warn(
        c, gs_format("line %u: %s occurs twice; the first row is used", number, name));
    c->n_left_out++;
}

// A field that NVML does not provide. Only numbers make metrics.
static void take_dcgm_field(struct parser *p, char *const *cells, unsigned number)
{
    const struct dcgm_field *d = dcgm_field_by_name(cells[0]);
    bool numeric = d && (d->type == 'i' || d->type == 'd') && !gs_streq(cells[1], "label");
    if (!d)
        leave_out(&p->unknown, cells[0]);
    else if (!p->dcgm || !numeric)
        leave_out(&p->not_nvml, cells[0]);
    else if (exporter_counters_have_name(&p->counters, cells[0]))
        leave_out_repeated(&p->counters, cells[0], number);
    else
        exporter_counters_add(&p->counters,
                              (struct exporter_counter){EXPORTER_COUNTER_DCGM, GPU_F_COUNT, d->id,
                                                        gs_strdup(cells[0]), gs_strdup(cells[1]),
                                                        gs_strdup(cells[2])});
}

static struct gs_error *take_record(struct parser *p, char *const *cells, unsigned number)
{
    struct exporter_counters *c = &p->counters;
    if (add_computed(c, cells))
        return NULL;
    if (!known_type(cells[1]))
        return gs_error_new(GS_EINVAL,
                            "line %u: type \"%s\" of %s: want gauge, counter, histogram, summary "
                            "or label",
                            number, cells[1], cells[0]);
    enum gpu_field f = exporter_counters_find_field(cells[0]);
    if (f == GPU_F_COUNT && is_dcgm_name(cells[0])) {
        take_dcgm_field(p, cells, number);
        return NULL;
    }
    if (f == GPU_F_COUNT)
        return gs_error_new(GS_EINVAL,
                            "line %u: unknown field \"%s\" (gpuscale exporter --list-fields "
                            "shows all)",
                            number, cells[0]);
    if (gpu_field_info(f)->kind == GPU_TEXT && !gs_streq(cells[1], "label")) {
        exporter_counters_warn(
            c, gs_format("line %u: %s is ignored: its value is a text, so its type must be label",
                         number, cells[0]));
        c->n_left_out++;
    } else if (exporter_counters_have_name(c, cells[0])) {
        leave_out_repeated(c, cells[0], number);
    } else {
        exporter_counters_add_field(c, f, cells[0], cells[1], cells[2]);
    }
    return NULL;
}

static struct gs_error *take_line(struct parser *p, struct gs_slice line, unsigned number)
{
    if (line.len && line.data[line.len - 1] == '\r')
        line.len--;
    if (!line.len || line.data[0] == '#')
        return NULL;
    if (p->n_rows++ == MAX_ROWS)
        return gs_error_new(GS_ELIMIT, "more than %d rows", MAX_ROWS);
    char *cells[COLUMNS] = {0};
    struct gs_error *err = read_record(line, number, cells);
    if (!err)
        err = take_record(p, cells, number);
    for (size_t i = 0; i < COLUMNS; i++)
        free(cells[i]);
    return err;
}

struct gs_error *exporter_counters_parse(struct gs_slice text, struct exporter_counters *ret)
{
    return exporter_counters_parse_with(text, false, ret);
}

struct gs_error *exporter_counters_parse_with(struct gs_slice text, bool dcgm,
                                              struct exporter_counters *ret)
{
    struct parser p = {.dcgm = dcgm};
    struct gs_error *err = NULL;
    for (unsigned number = 1; text.data && !err; number++)
        err = take_line(&p, gs_slice_cut(&text, '\n'), number);
    if (!err && !p.n_rows)
        err = gs_error_new(GS_EINVAL, "the file defines no metrics");
    warn_of_left_out(&p.counters, &p.not_nvml, "not provided by NVML");
    warn_of_left_out(&p.counters, &p.unknown,
                     "unknown to this version; gpuscale exporter --list-fields shows all");
    gs_buf_finish(&p.not_nvml.names);
    gs_buf_finish(&p.unknown.names);
    if (err) {
        exporter_counters_finish(&p.counters);
        return err;
    }
    exporter_counters_check_ratio(&p.counters);
    exporter_counters_sort(&p.counters);
    *ret = p.counters;
    return NULL;
}
