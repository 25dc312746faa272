// SPDX-License-Identifier: Apache-2.0
// Exposition text: written by the exporter, read by the scraper. Targets are nodes of 8 GPUs with
// 25 series each, about 300 bytes a line, more of them than the caches hold.
#include "micro.h"

#include "base/buf.h"
#include "base/mem.h"
#include "engine/scrape/scrape.h"
#include "exporter/render.h"
#include "metrics/reader.h"
#include "podresources_fixture.h"

#include <inttypes.h>
#include <stdio.h>

#define RENDER_BAR_US 40.0
#define FIRST_BAR_GBS 3.0
#define KNOWN_BAR_GBS 6.0
#define CORE_BAR      0.11 // of a core, for 500,000 series a second

enum { GPUS = 8, FIELDS = 25, TARGETS = 300 };

// --- render ---

struct page {
    struct exporter_sample *sample;
    struct exporter_device_map *map;
    struct exporter_counters counters;
    struct exporter_renderer *renderer;
    int64_t pass;
    struct gs_buf text;
};

static void fill_device(struct gpu_device *d, uint32_t i)
{
    d->index = d->minor = i;
    d->has_minor = true;
    snprintf(d->uuid, sizeof(d->uuid), "GPU-751646a0-0b70-4009-91bb-827c77ae4c6%" PRIx32, i);
    snprintf(d->name, sizeof(d->name), "NVIDIA A100-SXM4-80GB");
    snprintf(d->pci_bus_id, sizeof(d->pci_bus_id), "00000000:%02" PRIX32 ":00.0", 16 + 8 * i);
    d->memory_total = (uint64_t)80 << 30;
    for (int f = 0; f < GPU_F_COUNT; f++)
        d->fields[f] = (struct gpu_value){.validity = GPU_VALID, .i = 37 * (f + 1) + i};
    d->fields[GPU_F_POWER_USAGE] =
        (struct gpu_value){.validity = GPU_VALID, .is_double = true, .d = 312.407 + i};
    d->processes_valid = true;
    d->n_processes = 1;
    d->processes = gs_alloc(sizeof(*d->processes));
    *d->processes = (struct gpu_process){.pid = 4711 + i,
                                         .has_memory = true,
                                         .has_util = true,
                                         .memory_bytes = (uint64_t)(3000 + i) << 20,
                                         .sm_util = 60 + i,
                                         .mem_util = 20,
                                         .gpu_instance = GPU_NO_INSTANCE,
                                         .compute = true};
}

static struct exporter_owner *make_owner(uint32_t i)
{
    struct exporter_owner *o = gs_alloc(sizeof(*o));
    o->kind = EXPORTER_OWNER_POD;
    snprintf(o->process_name, sizeof(o->process_name), "python3");
    snprintf(o->namespace_name, sizeof(o->namespace_name), "default");
    snprintf(o->pod, sizeof(o->pod), "intent-api-6d5f9c7b8-x%" PRIu32 "q7z", i);
    snprintf(o->container, sizeof(o->container), "api");
    return o;
}

static void make_page(struct page *p)
{
    struct gpu_snapshot *g = gs_alloc(sizeof(*g));
    struct pod_row rows[GPUS];
    p->sample = gs_alloc(sizeof(*p->sample));
    p->sample->gpus = g;
    p->sample->owners = gs_alloc_array(GPUS, sizeof(*p->sample->owners));
    g->n_devices = GPUS;
    g->devices = gs_alloc_array(GPUS, sizeof(*g->devices));
    snprintf(g->driver_version, sizeof(g->driver_version), "570.124.06");
    for (uint32_t i = 0; i < GPUS; i++) {
        fill_device(&g->devices[i], i);
        p->sample->owners[i] = make_owner(i);
        rows[i] = (struct pod_row){"default", p->sample->owners[i]->pod, "api", "nvidia.com/gpu",
                                   g->devices[i].uuid};
    }
    GS_AUTO_BUF struct gs_buf message = {0};
    pack_list(rows, GPUS, &message);
    bench_check(exporter_device_map_parse(gs_buf_slice(&message), NULL, 0, NULL, &p->map));
    exporter_counters_default(&p->counters);
}

// Changes the values as between two samples.
static void change_values(struct page *p)
{
    p->pass++;
    for (size_t i = 0; i < GPUS; i++)
        for (int f = 0; f < GPU_F_COUNT; f++) {
            struct gpu_value *v = &p->sample->gpus->devices[i].fields[f];
            if (v->is_double)
                v->d += 0.001;
            else if (f != GPU_F_XID_ERRORS)
                v->i += p->pass & 1 ? 1 : -1;
        }
}

static void render(void *arg)
{
    struct page *p = arg;
    change_values(p);
    gs_buf_clear(&p->text);
    const struct exporter_render_input in = {.sample = p->sample, .map = p->map};
    exporter_renderer_page(p->renderer, &in, &p->text);
}

static bool count_sample(void *arg, const struct metrics_sample *s)
{
    (void)s;
    ++*(size_t *)arg;
    return true;
}

static void measure_render(double seconds)
{
    struct page p = {0};
    make_page(&p);
    const struct exporter_render_names names = {.hostname_label = "hostname",
                                                .hostname = "gpu-node-0001",
                                                .node_name = "gpu-node-0001",
                                                .counters = &p.counters};
    p.renderer = exporter_renderer_new(&names);
    double us = micro_time(seconds, render, &p) * 1e6;
    size_t n = 0;
    bench_check(metrics_parse_text(gs_buf_slice(&p.text), NULL, count_sample, &n));
    char figure[80];
    snprintf(figure, sizeof(figure), "%.1f µs (%zu series, %.1f kB)", us, n,
             (double)p.text.len / 1e3);
    micro_row("exporter: render 8 GPUs, a pod on each", figure, "40 µs", us <= RENDER_BAR_US);
    exporter_renderer_free(p.renderer);
    exporter_sample_free(p.sample);
    exporter_device_map_free(p.map);
    exporter_counters_finish(&p.counters);
    gs_buf_finish(&p.text);
}

// --- parse ---

struct known { // the state of a line in a scraper
    uint64_t hash;
    uint32_t len;
};

struct bodies {
    struct gs_buf texts[TARGETS];
    size_t bytes, samples;
    struct metrics_reader *reader;
    struct known *known; // the last state of all lines of all targets
    struct tsdb *db;
    struct scrape_ingest *ingests[TARGETS];
    int64_t now_ms;
};

// Values differ between `pass`es, lines do not.
static void make_body(struct gs_buf *out, int target, int pass)
{
    gs_buf_clear(out);
    for (int f = 0; f < FIELDS; f++) {
        const char *name = gpu_field_name((enum gpu_field)(f % GPU_F_COUNT));
        char full[96];
        snprintf(full, sizeof(full), "%s%s", name, f < GPU_F_COUNT ? "" : "_2");
        gs_buf_addf(out, "# HELP %s What the driver says.\n# TYPE %s gauge\n", full, full);
        for (int g = 0; g < GPUS; g++)
            gs_buf_addf(out,
                        "%s{gpu=\"%d\",UUID=\"GPU-%08x-0b70-4009-91bb-827c77ae4c6%d\","
                        "pci_bus_id=\"00000000:%02X:00.0\",device=\"nvidia%d\",modelName=\"NVIDIA "
                        "A100-SXM4-80GB\",hostname=\"gpu-node-%04d\",DCGM_FI_DRIVER_VERSION="
                        "\"570.124.06\",container=\"api\",namespace=\"default\","
                        "pod=\"intent-api-6d5f9c7b8-%04d%d\",pod_uid=\"\"} %d\n",
                        full, g, target * 7919, g, 16 + 8 * g, g, target, target, g,
                        (f * 37 + g + pass * 13) % 1000);
    }
}

static void make_bodies(struct bodies *b, int pass)
{
    b->bytes = 0;
    for (int i = 0; i < TARGETS; i++) {
        make_body(&b->texts[i], i, pass);
        b->bytes += b->texts[i].len;
    }
    b->samples = (size_t)TARGETS * FIELDS * GPUS;
}

static void read_bodies(struct bodies *b, bool known)
{
    size_t n = 0;
    for (int i = 0; i < TARGETS; i++) {
        metrics_reader_start(b->reader, gs_buf_slice(&b->texts[i]), METRICS_TEXT, NULL);
        for (bool more = true;; n++) {
            struct metrics_line line;
            if (known)
                metrics_reader_expect(b->reader, b->known[n].hash, b->known[n].len);
            bench_check(metrics_reader_next(b->reader, &line, &more));
            if (!more)
                break;
            if (!known || line.hash != b->known[n].hash)
                b->known[n] = (struct known){line.hash, (uint32_t)line.identity.len};
        }
    }
    if (n != b->samples)
        bench_fail("%zu samples of %zu were read", n, b->samples);
}

static void read_first(void *arg)
{
    read_bodies(arg, false);
}

static void read_known(void *arg)
{
    read_bodies(arg, true);
}

static void store_all(void *arg)
{
    struct bodies *b = arg;
    size_t sum = 0;
    b->now_ms += 1000;
    for (int i = 0; i < TARGETS; i++) {
        struct scrape_ingest_counts counts;
        bench_check(
            scrape_ingest_text(b->ingests[i], gs_buf_slice(&b->texts[i]), NULL, b->now_ms, 0.01));
        scrape_ingest_counts(b->ingests[i], &counts);
        sum += counts.post_relabeling;
    }
    if (sum != b->samples)
        bench_fail("%zu samples of %zu were stored", sum, b->samples);
}

static void print_rate(const char *what, const struct bodies *b, double seconds, double bar)
{
    double rate = (double)b->bytes / seconds / 1e9;
    char figure[80], bar_text[32];
    snprintf(figure, sizeof(figure), "%.2f GB/s, %.0f ns a sample", rate,
             seconds / (double)b->samples * 1e9);
    snprintf(bar_text, sizeof(bar_text), "%.0f GB/s", bar);
    micro_row(what, figure, bar_text, rate >= bar);
}

static void measure_read(struct bodies *b, double seconds)
{
    char what[80];
    b->reader = metrics_reader_new();
    b->known = gs_alloc_array(b->samples + 1, sizeof(*b->known));
    snprintf(what, sizeof(what), "scraper: read %d targets of %d series, %.0f MB", TARGETS,
             FIELDS * GPUS, (double)b->bytes / 1e6);
    print_rate(what, b, micro_time(seconds, read_first, b), FIRST_BAR_GBS);
    print_rate("scraper: read lines seen before", b, micro_time(seconds, read_known, b),
               KNOWN_BAR_GBS);
    metrics_reader_free(b->reader);
    free(b->known);
}

static void measure_store(struct bodies *b, double seconds)
{
    static const struct engine_config_scrape_config cfg = {.honor_timestamps = true};
    const struct tsdb_config store = {.retention_ms = 60000};
    b->db = tsdb_new(&store);
    b->now_ms = 1700000000000;
    for (int i = 0; i < TARGETS; i++) {
        GS_AUTO_FREE char *instance = gs_format("10.0.%d.%d:9400", i / 256, i % 256);
        const struct metrics_label labels[] = {{GS_SLICE("instance"), gs_slice_of(instance)},
                                               {GS_SLICE("job"), GS_SLICE("gpuscale")}};
        b->ingests[i] = scrape_ingest_new(b->db, &cfg, labels, GS_ARRAY_LEN(labels));
    }
    double body = micro_time(seconds, store_all, b) / TARGETS;
    double core = body * 500000 / (FIELDS * GPUS);
    char figure[80];
    snprintf(figure, sizeof(figure), "%.1f µs a body, %.3f core for 500,000 series a second",
             body * 1e6, core);
    micro_row("scraper: read and store bodies seen before", figure, "0.11 core", core <= CORE_BAR);
    for (int i = 0; i < TARGETS; i++)
        scrape_ingest_free(b->ingests[i]);
    tsdb_free(b->db);
}

void micro_text(double seconds)
{
    measure_render(seconds);
    struct bodies *b = gs_alloc(sizeof(*b));
    make_bodies(b, 0);
    measure_read(b, seconds);
    measure_store(b, seconds);
    for (int i = 0; i < TARGETS; i++)
        gs_buf_finish(&b->texts[i]);
    free(b);
}
