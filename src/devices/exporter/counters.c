// SPDX-License-Identifier: Apache-2.0
// The metrics that are exported: a CSV file of dcgm-exporter (name, type, help), or the built-in
// files of that program. Rows that NVML cannot provide are left out with a warning.
#include "exporter/counters.h"

#include "base/buf.h"
#include "base/mem.h"
#include "exporter/render.h"

enum {
    MAX_ROWS = 1024,
    COLUMNS = 3,
    MAX_NAMED = 64, // names in a warning
    MAX_NAME = 128, // characters of a DCGM name
};

// --- names ---

struct name_row {
    const char *name;
    const char *type; // NULL: the field's own
    enum gpu_field field;
    bool listed;      // in 1.x-compatibility-metrics.csv
    const char *help; // help of that file; NULL: the field's own
};

// Names of dcgm-exporter 1.x.
static const struct name_row old_names[] = {
    {"dcgm_sm_clock", NULL, GPU_F_SM_CLOCK, true},
    {"dcgm_memory_clock", NULL, GPU_F_MEM_CLOCK, true},
    {"dcgm_memory_temp", NULL, GPU_F_MEMORY_TEMP, true},
    {"dcgm_gpu_temp", NULL, GPU_F_GPU_TEMP, true},
    {"dcgm_power_usage", NULL, GPU_F_POWER_USAGE, true},
    {"dcgm_total_energy_consumption", NULL, GPU_F_TOTAL_ENERGY, true},
    {"dcgm_pcie_tx_throughput", NULL, GPU_F_PCIE_TX, false},
    {"dcgm_pcie_rx_throughput", NULL, GPU_F_PCIE_RX, false},
    {"dcgm_pcie_replay_counter", NULL, GPU_F_PCIE_REPLAY, true},
    {"dcgm_gpu_utilization", NULL, GPU_F_GPU_UTIL, true},
    {"dcgm_mem_copy_utilization", NULL, GPU_F_MEM_COPY_UTIL, true},
    {"dcgm_enc_utilization", NULL, GPU_F_ENC_UTIL, true},
    {"dcgm_dec_utilization", NULL, GPU_F_DEC_UTIL, true},
    {"dcgm_xid_errors", NULL, GPU_F_XID_ERRORS, true},
    {"dcgm_power_violation", NULL, GPU_F_POWER_VIOLATION, false},
    {"dcgm_thermal_violation", NULL, GPU_F_THERMAL_VIOLATION, false},
    {"dcgm_sync_boost_violation", NULL, GPU_F_SYNC_BOOST_VIOLATION, false},
    {"dcgm_board_limit_violation", NULL, GPU_F_BOARD_LIMIT_VIOLATION, false},
    {"dcgm_low_util_violation", NULL, GPU_F_LOW_UTIL_VIOLATION, false},
    {"dcgm_reliability_violation", NULL, GPU_F_RELIABILITY_VIOLATION, false},
    {"dcgm_fb_free", NULL, GPU_F_FB_FREE, true},
    {"dcgm_fb_used", NULL, GPU_F_FB_USED, true},
    {"dcgm_ecc_sbe_volatile_total", NULL, GPU_F_ECC_SBE_VOL, false},
    {"dcgm_ecc_dbe_volatile_total", NULL, GPU_F_ECC_DBE_VOL, false},
    {"dcgm_ecc_sbe_aggregate_total", NULL, GPU_F_ECC_SBE_AGG, false},
    {"dcgm_ecc_dbe_aggregate_total", NULL, GPU_F_ECC_DBE_AGG, false},
    {"dcgm_retired_pages_sbe", NULL, GPU_F_RETIRED_SBE, false},
    {"dcgm_retired_pages_dbe", NULL, GPU_F_RETIRED_DBE, false},
    {"dcgm_retired_pages_pending", NULL, GPU_F_RETIRED_PENDING, false},
    {"dcgm_nvlink_flit_crc_error_count_total", NULL, GPU_F_NVLINK_CRC_FLIT, false},
    {"dcgm_nvlink_data_crc_error_count_total", NULL, GPU_F_NVLINK_CRC_DATA, false},
    {"dcgm_nvlink_replay_error_count_total", NULL, GPU_F_NVLINK_REPLAY, false},
    {"dcgm_nvlink_recovery_error_count_total", NULL, GPU_F_NVLINK_RECOVERY, false},
    {"dcgm_nvlink_bandwidth_total", NULL, GPU_F_NVLINK_BANDWIDTH, true,
     "Total number of NVLink bandwidth counters for all lanes"},
    {"dcgm_fi_prof_gr_engine_active", NULL, GPU_F_PROF_GR_ENGINE_ACTIVE, true,
     "Ratio of time the graphics engine is active (in %)."},
    {"dcgm_fi_prof_sm_active", NULL, GPU_F_PROF_SM_ACTIVE, false},
    {"dcgm_fi_prof_sm_occupancy", NULL, GPU_F_PROF_SM_OCCUPANCY, false},
    {"dcgm_fi_prof_pipe_tensor_active", NULL, GPU_F_PROF_PIPE_TENSOR_ACTIVE, true,
     "Ratio of cycles the tensor (HMMA) pipe is active (in %)."},
    {"dcgm_fi_prof_dram_active", NULL, GPU_F_PROF_DRAM_ACTIVE, true,
     "Ratio of cycles the device memory interface is active sending or receiving data (in %)."},
    {"dcgm_fi_prof_pcie_tx_bytes", "counter", GPU_F_PROF_PCIE_TX_BYTES, true,
     "Total number of bytes transmitted through PCIe TX via NVML."},
    {"dcgm_fi_prof_pcie_rx_bytes", "counter", GPU_F_PROF_PCIE_RX_BYTES, true,
     "Total number of bytes received through PCIe RX via NVML."},
};

// The active rows of default-counters.csv and dcp-metrics-included.csv, which are identical.
static const enum gpu_field default_fields[] = {
    GPU_F_DRIVER_VERSION,
    GPU_F_SM_CLOCK,
    GPU_F_MEM_CLOCK,
    GPU_F_MEMORY_TEMP,
    GPU_F_GPU_TEMP,
    GPU_F_POWER_USAGE,
    GPU_F_TOTAL_ENERGY,
    GPU_F_PCIE_REPLAY,
    GPU_F_GPU_UTIL,
    GPU_F_MEM_COPY_UTIL,
    GPU_F_ENC_UTIL,
    GPU_F_DEC_UTIL,
    GPU_F_XID_ERRORS,
    GPU_F_FB_FREE,
    GPU_F_FB_USED,
    GPU_F_FB_RESERVED,
    GPU_F_UNCORRECTABLE_REMAPPED,
    GPU_F_CORRECTABLE_REMAPPED,
    GPU_F_ROW_REMAP_FAILURE,
    GPU_F_NVLINK_BANDWIDTH,
    GPU_F_VGPU_LICENSE,
    GPU_F_PROF_GR_ENGINE_ACTIVE,
    GPU_F_PROF_PIPE_TENSOR_ACTIVE,
    GPU_F_PROF_DRAM_ACTIVE,
    GPU_F_PROF_PCIE_TX_BYTES,
    GPU_F_PROF_PCIE_RX_BYTES,
};

// --- rows ---

static void counter_finish(struct exporter_counter *c)
{
    free(c->name);
    free(c->type);
    free(c->help);
}

void exporter_counters_finish(struct exporter_counters *c)
{
    for (size_t i = 0; i < c->len; i++)
        counter_finish(&c->rows[i]);
    for (size_t i = 0; i < c->n_warnings; i++)
        free(c->warnings[i]);
    free(c->rows);
    free(c->warnings);
    *c = (struct exporter_counters){0};
}

static void warn(struct exporter_counters *c, char *text)
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
        warn(c, gs_format("%zu field%s ignored (%s): %s%s", l->n, l->n == 1 ? " is" : "s are",
                          reason, l->names.data, more));
    c->n_left_out += l->n;
}

static void add_counter(struct exporter_counters *c, struct exporter_counter row)
{
    gs_grow(&c->rows, &c->cap, c->len, sizeof(*c->rows));
    c->rows[c->len++] = row;
}

static void add_field(struct exporter_counters *c, enum gpu_field f, const char *name,
                      const char *type, const char *help)
{
    const struct gpu_field_info *info = gpu_field_info(f);
    type = type ? type : info->type;
    add_counter(
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
    return x->id < y->id ? -1 : x->id > y->id;
}

static void sort(struct exporter_counters *c)
{
    if (c->len)
        qsort(c->rows, c->len, sizeof(*c->rows), compare_counters);
    c->n_families = 0;
    while (c->n_families < c->len && c->rows[c->n_families].kind != EXPORTER_COUNTER_LABEL)
        c->n_families++;
}

void exporter_counters_default(struct exporter_counters *ret)
{
    *ret = (struct exporter_counters){0};
    for (size_t i = 0; i < GS_ARRAY_LEN(default_fields); i++)
        add_field(ret, default_fields[i], NULL, NULL, NULL);
    sort(ret);
}

bool exporter_counters_builtin(const char *path, struct exporter_counters *ret)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (gs_streq(name, "default-counters.csv") || gs_streq(name, "dcp-metrics-included.csv")) {
        exporter_counters_default(ret);
        return true;
    }
    if (!gs_streq(name, "1.x-compatibility-metrics.csv"))
        return false;
    *ret = (struct exporter_counters){0};
    for (size_t i = 0; i < GS_ARRAY_LEN(old_names); i++)
        if (old_names[i].listed)
            add_field(ret, old_names[i].field, old_names[i].name, old_names[i].type,
                      old_names[i].help);
    sort(ret);
    return true;
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

void exporter_counters_intervals(const struct exporter_counters *c, int64_t *ret)
{
    bool seen[GPU_F_COUNT] = {0};
    memset(ret, 0, GPU_F_COUNT * sizeof(*ret));
    for (size_t i = 0; i < c->len; i++) { // the shortest interval of its rows
        const struct exporter_counter *row = &c->rows[i];
        if (is_of_processes(row->field))
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

static enum gpu_field find_field(const char *name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(old_names); i++)
        if (gs_streq(old_names[i].name, name))
            return old_names[i].field;
    return gpu_field_by_name(name);
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
        add_counter(c, (struct exporter_counter){rows[i].kind, rows[i].field, rows[i].id,
                                                 gs_strdup(cells[0]), gs_strdup(cells[1]),
                                                 gs_strdup(cells[2])});
        return true;
    }
    return false;
}

static bool is_listed(const struct exporter_counters *c, int id)
{
    for (size_t i = 0; i < c->len; i++)
        if (c->rows[i].id == id)
            return true;
    return false;
}

// Whether it has the form of a name of DCGM.
static bool is_dcgm_name(const char *name)
{
    static const char prefix[] = "DCGM_FI_";
    if (!gs_starts(name, prefix))
        return false;
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return !name[len] && len > strlen(prefix) && len <= MAX_NAME;
}

struct parser {
    struct exporter_counters counters;
    struct left_out unknown, not_nvml;
    size_t n_rows; // also those that are left out
};

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
    enum gpu_field f = find_field(cells[0]);
    if (f == GPU_F_COUNT && is_dcgm_name(cells[0])) {
        leave_out(gpu_field_is_dcgm_only(cells[0]) ? &p->not_nvml : &p->unknown, cells[0]);
        return NULL;
    }
    if (f == GPU_F_COUNT)
        return gs_error_new(GS_EINVAL,
                            "line %u: unknown field \"%s\" (gpuscale exporter --list-fields "
                            "shows all)",
                            number, cells[0]);
    if (gpu_field_info(f)->kind == GPU_TEXT && !gs_streq(cells[1], "label")) {
        warn(c, gs_format("line %u: %s is ignored: its value is a text, so its type must be label",
                          number, cells[0]));
        c->n_left_out++;
    } else if (is_listed(c, gpu_field_info(f)->id)) {
        warn(c, gs_format("line %u: %s occurs twice; the first row is used", number, cells[0]));
        c->n_left_out++;
    } else {
        add_field(c, f, cells[0], cells[1], cells[2]);
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
    struct parser p = {0};
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
    sort(&p.counters);
    *ret = p.counters;
    return NULL;
}
