// SPDX-License-Identifier: Apache-2.0
// Engines and releases, and the writer of their pages. The values are printed as Python prints
// floats, because "le" labels are compared as texts: "1.0".
#include "inference/dialect_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "metrics/write.h"

#include <stdio.h>

#define R INFERENCE_RELEASE

// Releases whose pages the tables describe, ascending.
static const uint32_t vllm_releases[] = {R(0, 9, 2), R(0, 12, 0), R(0, 16, 0), R(0, 20, 0),
                                         R(0, 33, 0)};
static const uint32_t sglang_releases[] = {R(0, 4, 10), R(0, 5, 9), R(0, 5, 12), R(0, 5, 23)};

static const struct {
    const char *name;
    const uint32_t *releases;
    size_t n;
    const struct inference_family *families;
} engines[] = {
    [INFERENCE_VLLM] = {"vllm", vllm_releases, GS_ARRAY_LEN(vllm_releases),
                        inference_vllm_families},
    [INFERENCE_SGLANG] = {"sglang", sglang_releases, GS_ARRAY_LEN(sglang_releases),
                          inference_sglang_families},
};

// --- engines and releases ---

// "0.12", "0.12.0", "v0.12.0"; what follows the numbers does not matter.
static struct gs_error *parse_release(const char *text, uint32_t *ret)
{
    static const uint32_t units[] = {1000000, 1000, 1};
    const char *at = text + (*text == 'v');
    uint32_t release = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(units); i++) {
        char *end;
        unsigned long part = strtoul(at, &end, 10);
        if (end == at || *at < '0' || *at > '9' || part > 999)
            return gs_error_new(GS_EINVAL, "release \"%s\": want a number such as 0.12.0", text);
        release += (uint32_t)part * units[i];
        if (*end != '.')
            break;
        at = end + 1;
    }
    *ret = release;
    return NULL;
}

static struct gs_error *find_release(size_t engine, const char *text, uint32_t *ret)
{
    size_t n = engines[engine].n;
    const uint32_t *covered = engines[engine].releases;
    uint32_t wanted = covered[n - 1];
    struct gs_error *err = text && *text ? parse_release(text, &wanted) : NULL;
    if (err)
        return err;
    while (n && covered[n - 1] > wanted)
        n--;
    if (!n) {
        char first[INFERENCE_RELEASE_SIZE];
        const struct inference_dialect d = {(enum inference_engine)engine, covered[0]};
        return gs_error_new(GS_EINVAL,
                            "release \"%s\": the first one of %s that is simulated is %s", text,
                            engines[engine].name, inference_dialect_release(&d, first));
    }
    *ret = covered[n - 1];
    return NULL;
}

struct gs_error *inference_dialect_parse(const char *engine, const char *release,
                                         struct inference_dialect *ret)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(engines); i++) {
        if (!gs_streq(engine, engines[i].name))
            continue;
        uint32_t found = 0;
        struct gs_error *err = find_release(i, release, &found);
        if (!err)
            *ret = (struct inference_dialect){(enum inference_engine)i, found};
        return err;
    }
    return gs_error_new(GS_EINVAL, "engine \"%s\": want vllm or sglang", engine);
}

const char *inference_dialect_engine(const struct inference_dialect *d)
{
    return engines[d->engine].name;
}

char *inference_dialect_release(const struct inference_dialect *d, char buf[INFERENCE_RELEASE_SIZE])
{
    snprintf(buf, INFERENCE_RELEASE_SIZE, "%u.%u.%u", d->release / 1000000,
             d->release / 1000 % 1000, d->release % 1000);
    return buf;
}

bool inference_dialect_limits_queue(const struct inference_dialect *d)
{
    return d->engine == INFERENCE_SGLANG ? d->release >= R(0, 5, 9) : d->release >= R(0, 33, 0);
}

// --- values ---

static double sum_of(const struct inference_page *p, int which, size_t offset)
{
    double sum = 0;
    for (int i = 0; i < INFERENCE_N_STATS; i++) {
        const double *value = (const void *)((const char *)&p->stats[i] + offset);
        if (which < 0 || which == i)
            sum += *value;
    }
    return sum;
}

#define SUM(member) sum_of(p, which, offsetof(struct inference_stats, member))

static double finished(const struct inference_page *p, int which)
{
    double sum = 0;
    for (int i = 0; i < INFERENCE_N_STATS; i++)
        for (int r = 0; r < INFERENCE_N_REASONS && (which < 0 || which == i); r++)
            sum += p->stats[i].finished[r];
    return sum;
}

static double counter_value(const struct inference_page *p, int quantity, int which)
{
    switch (quantity) {
    case INFERENCE_Q_PROMPT_TOKENS:
        return SUM(prompt_tokens);
    case INFERENCE_Q_COMPUTED_TOKENS:
        return SUM(prompt_tokens) - SUM(cached_tokens);
    case INFERENCE_Q_CACHED_TOKENS:
        return SUM(cached_tokens);
    case INFERENCE_Q_OUTPUT_TOKENS:
        return SUM(output_tokens);
    case INFERENCE_Q_FINISHED_PROMPT_TOKENS:
        return SUM(finished_prompt_tokens);
    case INFERENCE_Q_FINISHED_OUTPUT_TOKENS:
        return SUM(finished_output_tokens);
    case INFERENCE_Q_QUERIES:
        return SUM(queries);
    case INFERENCE_Q_HITS:
        return SUM(hits);
    case INFERENCE_Q_HIT_RATE:
        return SUM(queries) > 0 ? SUM(hits) / SUM(queries) : 0;
    case INFERENCE_Q_PREEMPTIONS:
        return SUM(preemptions);
    case INFERENCE_Q_STOPPED:
        return SUM(finished[INFERENCE_STOP]);
    case INFERENCE_Q_LENGTH:
        return SUM(finished[INFERENCE_LENGTH]);
    case INFERENCE_Q_ABORTED:
        return SUM(finished[INFERENCE_ABORT]);
    case INFERENCE_Q_FAILED:
        return SUM(finished[INFERENCE_ERROR]);
    case INFERENCE_Q_FINISHED:
        return finished(p, which);
    case INFERENCE_Q_REJECTED:
        return p->rejected;
    default:
        return 0;
    }
}

static double gauge_value(const struct inference_page *p, int quantity)
{
    const struct inference_parameters *parameters = p->parameters;
    double used = p->state.used_blocks, blocks = parameters->num_blocks;
    switch (quantity) {
    case INFERENCE_Q_ONE:
        return 1;
    case INFERENCE_Q_RUNNING:
        return p->state.running;
    case INFERENCE_Q_WAITING:
        return p->state.waiting;
    case INFERENCE_Q_KV_USED:
        return used / blocks;
    case INFERENCE_Q_KV_USED_TOKENS:
        return used * parameters->block_size;
    case INFERENCE_Q_KV_FREE_TOKENS:
        return (blocks - used) * parameters->block_size;
    case INFERENCE_Q_KV_TOKENS:
        return blocks * parameters->block_size;
    case INFERENCE_Q_BLOCK_SIZE:
        return parameters->block_size;
    case INFERENCE_Q_BLOCKS:
        return blocks;
    case INFERENCE_Q_MAX_MODEL_LEN:
        return parameters->max_model_len;
    case INFERENCE_Q_AWAKE:
        return p->sleep_level == 0;
    case INFERENCE_Q_WEIGHTS_OFFLOADED:
        return p->sleep_level == 1;
    case INFERENCE_Q_DISCARD_ALL:
        return p->sleep_level == 2;
    case INFERENCE_Q_GENERATION_RATE:
        return p->generation_s;
    case INFERENCE_Q_LOAD_S:
        return p->load_s;
    case INFERENCE_Q_ALLOCATION_S:
        return p->allocation_s;
    case INFERENCE_Q_SCHEDULER_S:
    case INFERENCE_Q_STARTUP_S:
        return p->startup_s;
    default:
        return counter_value(p, quantity, -1);
    }
}

// --- text ---

struct page_writer {
    const struct inference_dialect *d;
    const struct inference_page *page;
    const struct inference_family *family;
    struct gs_buf *out;
};

// As repr() of Python: 1.0, 0.005, 1e+16.
static void add_float(struct gs_buf *out, double value)
{
    char text[GS_DOUBLE_SIZE];
    gs_format_double(value, text);
    gs_buf_add_str(out, text);
    if (!strpbrk(text, ".eIN"))
        gs_buf_add_str(out, ".0");
}

static void add_label(struct gs_buf *out, const char *name, const char *value)
{
    gs_buf_add_str(out, name);
    gs_buf_add_str(out, "=\"");
    metrics_write_label_value(out, gs_slice_of(value));
    gs_buf_add_char(out, '"');
}

static void add_cache_labels(const struct page_writer *w)
{
    const struct inference_parameters *p = w->page->parameters;
    gs_buf_addf(w->out,
                "block_size=\"%u\",cache_dtype=\"auto\",engine=\"0\",gpu_memory_utilization=\"%g\","
                "num_gpu_blocks=\"%u\",num_gpu_blocks_override=\"None\","
                "enable_prefix_caching=\"True\"",
                p->block_size, w->page->gpu_memory_utilization, p->num_blocks);
}

static bool is_split(const struct page_writer *w)
{
    return w->family->labels == INFERENCE_BY_STREAMING && w->d->release >= w->family->split;
}

// Labels in the order of prometheus_client: sorted by their names, except those of the cache.
static void add_own_labels(const struct page_writer *w)
{
    const struct inference_parameters *p = w->page->parameters;
    switch (w->family->labels) {
    case INFERENCE_BY_ENGINE:
        gs_buf_add_str(w->out, "engine=\"0\",");
        break;
    case INFERENCE_BY_RANK:
        gs_buf_add_str(w->out, "engine_type=\"unified\",");
        if (w->d->release >= R(0, 5, 9))
            gs_buf_add_str(w->out, "moe_ep_rank=\"0\",");
        gs_buf_add_str(w->out, "pp_rank=\"0\",tp_rank=\"0\",");
        break;
    case INFERENCE_BY_TOKENIZER:
    case INFERENCE_BY_STREAMING:
        if (w->d->release >= R(0, 5, 12))
            gs_buf_add_str(w->out, "engine_type=\"unified\",");
        break;
    case INFERENCE_BY_CACHE:
        add_cache_labels(w);
        return;
    case INFERENCE_BY_PAGES:
        gs_buf_addf(w->out, "num_pages=\"%u\",page_size=\"%u\"", p->num_blocks, p->block_size);
        return;
    case INFERENCE_BY_MODEL:
        break;
    }
    add_label(w->out, "model_name", w->page->model_name);
}

// which: the answers, if the family has series of both kinds.
static void begin_sample(const struct page_writer *w, const char *suffix, int which)
{
    gs_buf_add_str(w->out, w->family->name);
    gs_buf_add_str(w->out, suffix);
    gs_buf_add_char(w->out, '{');
    add_own_labels(w);
    if (which >= 0)
        gs_buf_addf(w->out, ",is_streaming=\"%s\"", which == INFERENCE_STREAMED ? "true" : "false");
}

static void end_sample(const struct page_writer *w, double value)
{
    gs_buf_add_str(w->out, "} ");
    add_float(w->out, value);
    gs_buf_add_char(w->out, '\n');
}

static void write_head(const struct page_writer *w, const char *suffix, const char *type)
{
    if (w->family->help)
        gs_buf_addf(w->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", w->family->name, suffix,
                    w->family->help, w->family->name, suffix, type);
}

static void write_values(const struct page_writer *w, const char *suffix, int which,
                         double (*value)(const struct inference_page *p, int quantity, int which))
{
    struct gs_slice rest = gs_slice_of(w->family->values ? w->family->values : "");
    int quantity = w->family->what;
    do {
        struct gs_slice word = gs_slice_cut(&rest, ',');
        begin_sample(w, suffix, which);
        if (word.len)
            gs_buf_addf(w->out, ",%s=\"" GS_SLICE_FMT "\"", w->family->label, GS_SLICE_ARG(word));
        end_sample(w, value(w->page, quantity++, which));
    } while (rest.len);
}

static double created_value(const struct inference_page *p, int quantity, int which)
{
    return p->created_s;
}

static double any_value(const struct inference_page *p, int quantity, int which)
{
    return which < 0 ? gauge_value(p, quantity) : counter_value(p, quantity, which);
}

// Each series, or one for each kind of answers.
static void for_answers(const struct page_writer *w,
                        void (*write)(const struct page_writer *w, int which))
{
    if (is_split(w)) {
        write(w, INFERENCE_STREAMED);
        write(w, INFERENCE_WHOLE);
    } else {
        write(w, -1);
    }
}

static void write_counter(const struct page_writer *w, int which)
{
    write_values(w, "_total", which, any_value);
}

static uint64_t bucket(const struct page_writer *w, size_t i, int which)
{
    uint64_t sum = 0;
    for (int k = 0; k < INFERENCE_N_STATS; k++)
        if (which < 0 || which == k)
            sum += w->page->stats[k].histograms[w->family->what].counts[i];
    return sum;
}

static void write_histogram(const struct page_writer *w, int which)
{
    const struct inference_distribution *d = &w->page->stats[0].histograms[w->family->what];
    uint64_t count = 0;
    double sum = 0;
    for (size_t i = 0; i <= d->n; i++) {
        count += bucket(w, i, which);
        begin_sample(w, "_bucket", which);
        gs_buf_add_str(w->out, ",le=\"");
        if (i < d->n)
            add_float(w->out, d->bounds[i]);
        else
            gs_buf_add_str(w->out, "+Inf");
        gs_buf_add_char(w->out, '"');
        end_sample(w, (double)count);
    }
    for (int k = 0; k < INFERENCE_N_STATS; k++)
        if (which < 0 || which == k)
            sum += w->page->stats[k].histograms[w->family->what].sum;
    begin_sample(w, "_count", which);
    end_sample(w, (double)count);
    begin_sample(w, "_sum", which);
    end_sample(w, sum);
}

static void write_family(const struct page_writer *w)
{
    bool created = w->d->engine == INFERENCE_VLLM;
    switch (w->family->kind) {
    case INFERENCE_GAUGE:
        write_head(w, "", "gauge");
        write_values(w, "", -1, any_value);
        return;
    case INFERENCE_COUNTER:
        write_head(w, "_total", "counter");
        for_answers(w, write_counter);
        break;
    case INFERENCE_BUCKETS:
        write_head(w, "", "histogram");
        for_answers(w, write_histogram);
        break;
    case INFERENCE_END:
        return;
    }
    if (created) {
        write_head(w, "_created", "gauge");
        write_values(w, "_created", -1, created_value);
    }
}

void inference_dialect_write(const struct inference_dialect *d, const struct inference_page *page,
                             struct gs_buf *out)
{
    for (const struct inference_family *f = engines[d->engine].families; f->name; f++) {
        const struct page_writer w = {.d = d, .page = page, .family = f, .out = out};
        if (d->release >= f->since && (!f->until || d->release < f->until))
            write_family(&w);
    }
}
