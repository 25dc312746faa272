// SPDX-License-Identifier: Apache-2.0
// --query-gpu and --query-compute-apps as CSV.
#include "base/mem.h"
#include "base/slice.h"
#include "smi/smi_private.h"

#include <string.h>
#include <time.h>

enum { MAX_FIELDS = 256 };

enum kind {
    K_VALUE, // a number with a unit
    K_TEXT,  // a text field
    K_SWITCH,
    K_PSTATE,
    K_COMPUTE_MODE,
    K_INDEX,
    K_NAME,
    K_UUID,
    K_BUS_ID,
    K_DRIVER,
    K_COUNT,
    K_TIMESTAMP,
    K_PID,
    K_PROCESS_NAME,
    K_USED_MEMORY,
};

struct column {
    const char *name, *other; // a second name, NULL: none
    enum kind kind;
    enum gpu_field field;
    const char *unit;
};

// Names and units of nvidia-smi --help-query-gpu.
static const struct column gpu_columns[] = {
    {"timestamp", NULL, K_TIMESTAMP, 0, ""},
    {"driver_version", NULL, K_DRIVER, 0, ""},
    {"count", NULL, K_COUNT, 0, ""},
    {"index", NULL, K_INDEX, 0, ""},
    {"name", "gpu_name", K_NAME, 0, ""},
    {"uuid", "gpu_uuid", K_UUID, 0, ""},
    {"pci.bus_id", "gpu_bus_id", K_BUS_ID, 0, ""},
    {"serial", "gpu_serial", K_TEXT, GPU_F_SERIAL, ""},
    {"vbios_version", NULL, K_TEXT, GPU_F_VBIOS, ""},
    {"inforom.img", "inforom.image", K_TEXT, GPU_F_INFOROM_IMAGE, ""},
    {"persistence_mode", NULL, K_SWITCH, GPU_F_PERSISTENCE_MODE, ""},
    {"compute_mode", NULL, K_COMPUTE_MODE, GPU_F_COMPUTE_MODE, ""},
    {"mig.mode.current", NULL, K_SWITCH, GPU_F_MIG_MODE, ""},
    {"ecc.mode.current", NULL, K_SWITCH, GPU_F_ECC_CURRENT, ""},
    {"ecc.mode.pending", NULL, K_SWITCH, GPU_F_ECC_PENDING, ""},
    {"ecc.errors.uncorrected.volatile.total", NULL, K_VALUE, GPU_F_ECC_DBE_VOL, ""},
    {"pstate", NULL, K_PSTATE, GPU_F_PSTATE, ""},
    {"fan.speed", NULL, K_VALUE, GPU_F_FAN_SPEED, "%"},
    {"utilization.gpu", NULL, K_VALUE, GPU_F_GPU_UTIL, "%"},
    {"utilization.memory", NULL, K_VALUE, GPU_F_MEM_COPY_UTIL, "%"},
    {"utilization.encoder", NULL, K_VALUE, GPU_F_ENC_UTIL, "%"},
    {"utilization.decoder", NULL, K_VALUE, GPU_F_DEC_UTIL, "%"},
    {"memory.total", NULL, K_VALUE, GPU_F_FB_TOTAL, "MiB"},
    {"memory.reserved", NULL, K_VALUE, GPU_F_FB_RESERVED, "MiB"},
    {"memory.used", NULL, K_VALUE, GPU_F_FB_USED, "MiB"},
    {"memory.free", NULL, K_VALUE, GPU_F_FB_FREE, "MiB"},
    {"temperature.gpu", NULL, K_VALUE, GPU_F_GPU_TEMP, ""},
    {"temperature.memory", NULL, K_VALUE, GPU_F_MEMORY_TEMP, ""},
    {"power.draw", NULL, K_VALUE, GPU_F_POWER_USAGE, "W"},
    {"power.draw.average", NULL, K_VALUE, GPU_F_POWER_USAGE, "W"},
    {"power.draw.instant", NULL, K_VALUE, GPU_F_POWER_INSTANT, "W"},
    {"power.limit", NULL, K_VALUE, GPU_F_POWER_LIMIT, "W"},
    {"enforced.power.limit", NULL, K_VALUE, GPU_F_POWER_LIMIT_ENFORCED, "W"},
    {"power.default_limit", NULL, K_VALUE, GPU_F_POWER_LIMIT_DEF, "W"},
    {"power.min_limit", NULL, K_VALUE, GPU_F_POWER_LIMIT_MIN, "W"},
    {"power.max_limit", NULL, K_VALUE, GPU_F_POWER_LIMIT_MAX, "W"},
    {"clocks.current.graphics", "clocks.gr", K_VALUE, GPU_F_SM_CLOCK, "MHz"},
    {"clocks.current.sm", "clocks.sm", K_VALUE, GPU_F_SM_CLOCK, "MHz"},
    {"clocks.current.memory", "clocks.mem", K_VALUE, GPU_F_MEM_CLOCK, "MHz"},
    {"clocks.current.video", "clocks.video", K_VALUE, GPU_F_VIDEO_CLOCK, "MHz"},
    {"clocks.max.sm", "clocks.max.sm", K_VALUE, GPU_F_MAX_SM_CLOCK, "MHz"},
    {"clocks.max.memory", "clocks.max.mem", K_VALUE, GPU_F_MAX_MEM_CLOCK, "MHz"},
    {"clocks.applications.graphics", "clocks.applications.gr", K_VALUE, GPU_F_APP_SM_CLOCK, "MHz"},
    {"clocks.applications.memory", "clocks.applications.mem", K_VALUE, GPU_F_APP_MEM_CLOCK, "MHz"},
    {"pcie.link.gen.current", NULL, K_VALUE, GPU_F_PCIE_GEN, ""},
    {"pcie.link.gen.max", NULL, K_VALUE, GPU_F_PCIE_MAX_GEN, ""},
    {"pcie.link.width.current", NULL, K_VALUE, GPU_F_PCIE_WIDTH, ""},
    {"pcie.link.width.max", NULL, K_VALUE, GPU_F_PCIE_MAX_WIDTH, ""},
    {0},
};

static const struct column app_columns[] = {
    {"timestamp", NULL, K_TIMESTAMP, 0, ""},
    {"gpu_name", NULL, K_NAME, 0, ""},
    {"gpu_bus_id", NULL, K_BUS_ID, 0, ""},
    {"gpu_serial", NULL, K_TEXT, GPU_F_SERIAL, ""},
    {"gpu_uuid", NULL, K_UUID, 0, ""},
    {"pid", NULL, K_PID, 0, ""},
    {"process_name", "name", K_PROCESS_NAME, 0, ""},
    {"used_gpu_memory", "used_memory", K_USED_MEMORY, 0, "MiB"},
    {0},
};

struct format {
    bool header, units;
};

static struct gs_error *parse_format(const char *text, struct format *ret)
{
    *ret = (struct format){true, true};
    bool csv = false;
    for (const char *at = text ? text : ""; *at;) {
        size_t len = strcspn(at, ",");
        struct gs_slice word = gs_slice_trim(gs_slice_make(at, len));
        if (gs_slice_eq_str(word, "csv"))
            csv = true;
        else if (gs_slice_eq_str(word, "noheader"))
            ret->header = false;
        else if (gs_slice_eq_str(word, "nounits"))
            ret->units = false;
        else
            return gs_error_new(GS_EINVAL,
                                "\"" GS_SLICE_FMT "\" is not a format; csv, noheader "
                                "and nounits are",
                                GS_SLICE_ARG(word));
        at += len + (at[len] == ',');
    }
    return csv ? NULL
               : gs_error_new(GS_EINVAL, "\"--format=\" is not specified; please specify csv");
}

static const struct column *find_column(const struct column *columns, struct gs_slice name)
{
    for (const struct column *c = columns; c->name; c++)
        if (gs_slice_eq_str(name, c->name) || (c->other && gs_slice_eq_str(name, c->other)))
            return c;
    return NULL;
}

struct selection {
    const struct column *items[MAX_FIELDS];
    struct gs_slice names[MAX_FIELDS]; // as given: the header repeats them
    size_t n;
};

static struct gs_error *select_columns(const char *text, const struct column *columns,
                                       struct selection *ret)
{
    for (const char *at = text; *at;) {
        size_t len = strcspn(at, ",");
        struct gs_slice word = gs_slice_trim(gs_slice_make(at, len));
        const struct column *c = find_column(columns, word);
        if (!c || ret->n == MAX_FIELDS)
            return gs_error_new(GS_EINVAL,
                                "Field \"" GS_SLICE_FMT "\" is not a valid field to query.",
                                GS_SLICE_ARG(word));
        ret->names[ret->n] = word;
        ret->items[ret->n++] = c;
        at += len + (at[len] == ',');
    }
    return ret->n ? NULL : gs_error_new(GS_EINVAL, "No fields specified.");
}

static void add_header(const struct selection *s, struct gs_buf *out)
{
    for (size_t i = 0; i < s->n; i++) {
        gs_buf_addf(out, "%s" GS_SLICE_FMT, i ? ", " : "", GS_SLICE_ARG(s->names[i]));
        if (*s->items[i]->unit)
            gs_buf_addf(out, " [%s]", s->items[i]->unit);
    }
    gs_buf_add_char(out, '\n');
}

static void add_timestamp(int64_t unix_ms, struct gs_buf *out)
{
    char text[64];
    time_t seconds = unix_ms / 1000;
    struct tm tm;
    (void)strftime(text, sizeof(text), "%Y/%m/%d %H:%M:%S", localtime_r(&seconds, &tm));
    gs_buf_addf(out, "%s.%03d", text, (int)(unix_ms % 1000));
}

// A value that is not a plain number with a unit.
static void add_enum(const struct column *c, const struct gpu_value *v, struct gs_buf *out)
{
    static const char *const modes[] = {"Default", "Exclusive_Thread", "Prohibited",
                                        "Exclusive_Process"};
    if (v->validity != GPU_VALID)
        smi_add_value(v, "", out);
    else if (c->kind == K_SWITCH)
        gs_buf_add_str(out, v->i ? "Enabled" : "Disabled");
    else if (c->kind == K_PSTATE)
        gs_buf_addf(out, "P%lld", (long long)v->i);
    else
        gs_buf_add_str(out,
                       v->i >= 0 && v->i < (int64_t)GS_ARRAY_LEN(modes) ? modes[v->i] : "[N/A]");
}

static void add_process_field(const struct column *c, const struct gpu_process *p, bool units,
                              struct gs_buf *out)
{
    if (c->kind == K_PID)
        gs_buf_addf(out, "%u", p->pid);
    else if (c->kind == K_PROCESS_NAME)
        smi_add_process_name(p->pid, out);
    else if (p->has_memory)
        gs_buf_addf(out, "%llu%s", (unsigned long long)(p->memory_bytes >> 20),
                    units ? " MiB" : "");
    else
        gs_buf_add_str(out, "[N/A]");
}

static void add_field(const struct smi_view *v, const struct smi_device *d,
                      const struct gpu_process *p, const struct column *c, bool units,
                      struct gs_buf *out)
{
    GS_AUTO_FREE char *unit = units && *c->unit ? gs_format(" %s", c->unit) : gs_strdup("");
    const struct gpu_value *value = &d->gpu->fields[c->field];
    const char *text = NULL;
    switch (c->kind) {
    case K_VALUE:
        smi_add_value(value, unit, out);
        break;
    case K_TEXT:
        text = gpu_field_text(v->snapshot, d->gpu, c->field);
        gs_buf_add_str(out, text ? text : "[N/A]");
        break;
    case K_SWITCH:
    case K_PSTATE:
    case K_COMPUTE_MODE:
        add_enum(c, value, out);
        break;
    case K_INDEX:
        gs_buf_addf(out, "%u", d->index);
        break;
    case K_NAME:
        gs_buf_add_str(out, d->gpu->name);
        break;
    case K_UUID:
        gs_buf_add_str(out, d->gpu->uuid);
        break;
    case K_BUS_ID:
        gs_buf_add_str(out, d->gpu->pci_bus_id);
        break;
    case K_DRIVER:
        gs_buf_add_str(out, v->snapshot->driver_version);
        break;
    case K_COUNT:
        gs_buf_addf(out, "%u", v->n);
        break;
    case K_TIMESTAMP:
        add_timestamp(v->snapshot->unix_ms, out);
        break;
    case K_PID:
    case K_PROCESS_NAME:
    case K_USED_MEMORY:
        add_process_field(c, p, units, out);
        break;
    }
}

static void add_row(const struct smi_view *v, const struct smi_device *d,
                    const struct gpu_process *p, const struct selection *s, bool units,
                    struct gs_buf *out)
{
    for (size_t i = 0; i < s->n; i++) {
        if (i)
            gs_buf_add_str(out, ", ");
        add_field(v, d, p, s->items[i], units, out);
    }
    gs_buf_add_char(out, '\n');
}

struct gs_error *smi_print_query(const struct smi_view *v, const struct smi_options *o, bool header,
                                 struct gs_buf *out)
{
    struct format format;
    struct selection s = {.n = 0};
    bool apps = o->query_apps != NULL;
    struct gs_error *err = parse_format(o->format, &format);
    if (!err)
        err = select_columns(apps ? o->query_apps : o->query_gpu, apps ? app_columns : gpu_columns,
                             &s);
    if (err)
        return err;
    if (header && format.header)
        add_header(&s, out);
    for (unsigned i = 0; i < v->n; i++) {
        const struct smi_device *d = &v->devices[i];
        if (!apps)
            add_row(v, d, NULL, &s, format.units, out);
        for (size_t p = 0; apps && p < d->gpu->n_processes; p++)
            if (d->gpu->processes[p].compute)
                add_row(v, d, &d->gpu->processes[p], &s, format.units, out);
    }
    return NULL;
}

void smi_print_fields(struct gs_buf *out)
{
    for (const struct column *c = gpu_columns; c->name; c++)
        gs_buf_addf(out, "\"%s\"%s%s%s\n", c->name, c->other ? " or \"" : "",
                    c->other ? c->other : "", c->other ? "\"" : "");
}
