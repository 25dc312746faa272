// SPDX-License-Identifier: Apache-2.0
// What was learned, as JSON: it survives restarts of the controller, and a replay can begin with
// it. The file may have been edited, so each number has a range.
#include "slo/slo_private.h"

#include <string.h>

#define MAX_VALUE 1e12

// --- writing ---

static json_t *numbers_json(const double *v, size_t n)
{
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(out, json_real(isfinite(v[i]) ? v[i] : 0));
    return out;
}

static json_t *bin_json(const struct slo_bin *b, int64_t now_ms)
{
    json_t *out = json_object();
    json_object_set_new(out, "load", json_real(b->load));
    json_object_set_new(out, "weight", json_real(b->weight));
    json_object_set_new(out, "kv", json_real(b->kv));
    json_object_set_new(out, "running", json_real(b->running));
    codec_json_set_int(out, "ageMs", now_ms - b->last_ms);
    codec_json_set_int(out, "class", b->index);
    json_object_set_new(out, "target", numbers_json(b->target, SLO_LATENCIES));
    json_object_set_new(out, "within", numbers_json(b->within, SLO_LATENCIES));
    json_object_set_new(out, "inverse", numbers_json(b->inverse, SLO_LATENCIES));
    json_object_set_new(out, "quiet", numbers_json(b->quiet, SLO_LATENCIES));
    return out;
}

static json_t *learned_json(const struct slo_learned *l, int64_t now_ms)
{
    json_t *out = json_object(), *bins = json_array();
    codec_json_set_str(out, "identity", l->identity);
    codec_json_set_int(out, "ageMs", now_ms - l->used_ms);
    json_object_set_new(out, "promptWeight", json_real(l->prompt_weight));
    json_object_set_new(out, "mixPrompt", json_real(l->mix_prompt));
    json_object_set_new(out, "mixGenerated", json_real(l->mix_generated));
    json_object_set_new(out, "moments",
                        numbers_json(&l->moments.n, sizeof(l->moments) / sizeof(double)));
    json_object_set_new(out, "rates", numbers_json(l->rates, SLO_RATES));
    json_object_set_new(out, "anchor", json_real(l->anchor));
    json_object_set_new(out, "slots", json_real(l->slots));
    json_object_set_new(out, "slotsWeight", json_real(l->n_slots));
    for (size_t i = 0; i < l->n_bins; i++)
        json_array_append_new(bins, bin_json(&l->bins[i], now_ms));
    json_object_set_new(out, "loads", bins);
    return out;
}

json_t *slo_state_json(const struct slo_state *s, int64_t now_ms)
{
    json_t *out = json_object(), *learned = json_array();
    for (size_t i = 0; i < s->n_learned; i++)
        json_array_append_new(learned, learned_json(&s->learned[i], now_ms));
    json_object_set_new(out, "learned", learned);
    return out;
}

// --- reading ---

static double number(const json_t *in, const char *key)
{
    double v = json_number_value(json_object_get(in, key));
    return v >= 0 && v <= MAX_VALUE ? v : 0;
}

static void numbers(const json_t *in, const char *key, double *ret, size_t n)
{
    const json_t *list = json_object_get(in, key);
    for (size_t i = 0; i < n; i++) {
        double v = json_number_value(json_array_get(list, i));
        ret[i] = fabs(v) <= MAX_VALUE ? v : 0;
    }
}

static int64_t time_of(const json_t *in, int64_t now_ms)
{
    int64_t age = codec_json_int(in, 0, "ageMs", NULL);
    return age >= 0 && age < now_ms ? now_ms - age : now_ms;
}

static bool read_bin(const json_t *in, int64_t now_ms, struct slo_bin *b)
{
    b->load = number(in, "load");
    b->weight = number(in, "weight");
    b->kv = number(in, "kv");
    b->running = number(in, "running");
    b->last_ms = time_of(in, now_ms);
    b->index = (int)codec_json_int(in, 0, "class", NULL);
    numbers(in, "target", b->target, SLO_LATENCIES);
    numbers(in, "within", b->within, SLO_LATENCIES);
    numbers(in, "inverse", b->inverse, SLO_LATENCIES);
    numbers(in, "quiet", b->quiet, SLO_LATENCIES);
    for (size_t t = 0; t < SLO_LATENCIES; t++) {
        b->within[t] = fmin(fmax(b->within[t], 0), 1);
        b->inverse[t] = fmax(b->inverse[t], 0);
        b->quiet[t] = fmax(b->quiet[t], 0);
    }
    return b->load > 0 && b->weight > 0;
}

static void read_learned(const json_t *in, int64_t now_ms, struct slo_learned *l)
{
    const char *identity = codec_json_str(in, "identity", NULL);
    const json_t *bins = json_object_get(in, "loads"), *bin;
    size_t i;
    if (identity)
        memcpy(l->identity, identity, strnlen(identity, SLO_IDENTITY_SIZE - 1)); // the rest is 0
    l->used_ms = time_of(in, now_ms);
    l->prompt_weight = number(in, "promptWeight");
    l->mix_prompt = number(in, "mixPrompt");
    l->mix_generated = number(in, "mixGenerated");
    numbers(in, "moments", &l->moments.n, sizeof(l->moments) / sizeof(double));
    numbers(in, "rates", l->rates, SLO_RATES);
    for (i = 0; i < SLO_RATES; i++) {
        l->rates[i] = fmax(l->rates[i], 0);
        l->n_rates += l->rates[i];
    }
    l->anchor = number(in, "anchor");
    if (!(l->anchor > 0))
        l->n_rates = 0;
    l->slots = number(in, "slots");
    l->n_slots = l->slots > 0 ? number(in, "slotsWeight") : 0;
    json_array_foreach ((json_t *)bins, i, bin) {
        if (l->n_bins == SLO_BINS)
            break;
        memset(&l->bins[l->n_bins], 0, sizeof(l->bins[0]));
        l->n_bins += read_bin(bin, now_ms, &l->bins[l->n_bins]);
    }
}

struct gs_error *slo_state_from_json(const json_t *in, int64_t now_ms, struct slo_state **ret)
{
    const json_t *learned = json_object_get(in, "learned"), *one;
    size_t i;
    if (!json_is_array(learned))
        return gs_error_new(GS_EINVAL, "what was learned is not an object with a list \"learned\"");
    struct slo_state *st = slo_state_new();
    json_array_foreach ((json_t *)learned, i, one)
        if (st->n_learned < SLO_IDENTITIES)
            read_learned(one, now_ms, &st->learned[st->n_learned++]);
    *ret = st;
    return NULL;
}
