// SPDX-License-Identifier: Apache-2.0
// The annotation of a latency target: keys and values with commas between them. Every byte comes
// from a manifest, so each value has a range, and an error names its key.
#include "slo/slo.h"

#include "base/num.h"
#include "base/slice.h"
#include "codec/yaml_reader.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

#define MIN_SECONDS 0.001
#define MAX_SECONDS 3600.0
#define MAX_RATIO   1000.0

enum { DEFAULT_PERCENT = 90, MIN_PERCENT = 50, MAX_PERCENT = 99 };

static const struct {
    const char *key, *series;
} latencies[SLO_OTHER] = {
    [SLO_TTFT] = {"ttft", "gpuscale_inference_ttft_seconds"},
    [SLO_ITL] = {"itl", "gpuscale_inference_itl_seconds"},
    [SLO_E2E] = {"e2e", "gpuscale_inference_e2e_seconds"},
    [SLO_QUEUE] = {"queue", "gpuscale_inference_queue_seconds"},
};

const char *slo_policy_series(const struct slo_policy *p, enum slo_latency l)
{
    return l == SLO_OTHER ? p->other : latencies[l].series;
}

const char *slo_latency_name(const struct slo_policy *p, enum slo_latency l)
{
    return l == SLO_OTHER ? p->other : latencies[l].key;
}

// --- values ---

// "1s", "50ms", "1m30s" and, with a fraction, "1.5s".
static bool parse_seconds(const char *text, double *ret)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"ms", 0.001}, {"s", 1}, {"m", 60}}; // ms before s
    int64_t ms;
    if (codec_parse_duration(text, &ms)) {
        *ret = (double)ms / 1000;
        return true;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(units); i++) {
        struct gs_slice number = gs_slice_of(text);
        double value;
        if (!isdigit((unsigned char)*text) || !gs_slice_ends(number, units[i].unit))
            continue;
        number.len -= strlen(units[i].unit);
        GS_AUTO_ERROR struct gs_error *err = gs_parse_double(number, &value);
        *ret = err ? 0 : value * units[i].seconds;
        return !err;
    }
    return false;
}

static struct gs_error *read_seconds(const char *key, const char *value, double *ret)
{
    double seconds;
    if (*ret > 0)
        return gs_error_new(GS_EINVAL, "%s is given twice", key);
    if (!parse_seconds(value, &seconds))
        return gs_error_new(GS_EINVAL, "%s=%s: want a duration such as 1s, 1.5s or 50ms", key,
                            value);
    if (!(seconds >= MIN_SECONDS && seconds <= MAX_SECONDS))
        return gs_error_new(GS_EINVAL, "%s=%s: want 1ms to 1h", key, value);
    *ret = seconds;
    return NULL;
}

static struct gs_error *read_percent(const char *value, int *ret)
{
    int64_t percent = 0;
    if (*ret)
        return gs_error_new(GS_EINVAL, "p is given twice");
    GS_AUTO_ERROR struct gs_error *err =
        gs_parse_i64(gs_slice_of(value), MIN_PERCENT, MAX_PERCENT, &percent);
    if (err)
        return gs_error_new(GS_EINVAL, "p=%s: want a whole number from %d to %d (percent)", value,
                            MIN_PERCENT, MAX_PERCENT);
    *ret = (int)percent;
    return NULL;
}

static struct gs_error *read_mode(const char *value, bool *seen, bool *ret_shadow)
{
    if (*seen)
        return gs_error_new(GS_EINVAL, "mode is given twice");
    if (!gs_streq(value, "active") && !gs_streq(value, "shadow"))
        return gs_error_new(GS_EINVAL, "mode=%s: want active or shadow", value);
    *seen = true;
    *ret_shadow = gs_streq(value, "shadow");
    return NULL;
}

static bool is_name(const char *text, const char *others)
{
    bool first = true;
    for (const char *c = text; *c; c++, first = false)
        if (!isalpha((unsigned char)*c) && !(isdigit((unsigned char)*c) && !first) &&
            !(*c == '_') && (first || !strchr(others, *c)))
            return false;
    return *text;
}

static struct gs_error *read_peer(const char *value, char ret[SLO_NAME_SIZE])
{
    if (*ret)
        return gs_error_new(GS_EINVAL, "peer is given twice");
    if (!is_name(value, "-.") || strlen(value) >= SLO_NAME_SIZE)
        return gs_error_new(GS_EINVAL, "peer=%.60s: want the name of the other workload", value);
    memcpy(ret, value, strlen(value) + 1);
    return NULL;
}

static bool parse_ratio(struct gs_slice text, double *ret)
{
    GS_AUTO_ERROR struct gs_error *err = gs_parse_double(text, ret);
    return !err && *ret > 0 && *ret <= MAX_RATIO;
}

// "0.5..4"
static struct gs_error *read_ratio(const char *value, struct slo_policy *p)
{
    const char *dots = strstr(value, "..");
    double low, high;
    if (p->ratio_max > 0)
        return gs_error_new(GS_EINVAL, "ratio is given twice");
    if (!dots || !parse_ratio(gs_slice_make(value, (size_t)(dots - value)), &low) ||
        !parse_ratio(gs_slice_of(dots + 2), &high) || low > high)
        return gs_error_new(GS_EINVAL,
                            "ratio=%.60s: want the minimum and the maximum of replicas for each "
                            "replica of the peer, such as 0.5..4",
                            value);
    p->ratio_min = low;
    p->ratio_max = high;
    return NULL;
}

static struct gs_error *read_other(const char *key, const char *value, struct slo_policy *p)
{
    if (strlen(key) >= SLO_NAME_SIZE)
        return gs_error_new(GS_EINVAL, "%.60s…: the name of a histogram has at most %d bytes", key,
                            SLO_NAME_SIZE - 1);
    if (*p->other && !gs_streq(p->other, key))
        return gs_error_new(GS_EINVAL, "%.60s: only one histogram by name, and %s is one", key,
                            p->other);
    struct gs_error *err = read_seconds(key, value, &p->seconds[SLO_OTHER]);
    if (!err)
        memcpy(p->other, key, strlen(key) + 1);
    return err;
}

// --- the annotation ---

struct parts {
    bool mode;
};

static struct gs_error *read_key(const char *key, const char *value, struct parts *seen,
                                 struct slo_policy *p)
{
    for (size_t l = 0; l < SLO_OTHER; l++)
        if (gs_streq(key, latencies[l].key))
            return read_seconds(key, value, &p->seconds[l]);
    if (gs_streq(key, "p"))
        return read_percent(value, &p->percent);
    if (gs_streq(key, "mode"))
        return read_mode(value, &seen->mode, &p->shadow);
    if (gs_streq(key, "peer"))
        return read_peer(value, p->peer);
    if (gs_streq(key, "ratio"))
        return read_ratio(value, p);
    // The shortest metric name of a duration has a unit in it.
    if (is_name(key, ":") && strstr(key, "_seconds"))
        return read_other(key, value, p);
    return gs_error_new(GS_EINVAL,
                        "unknown key \"%.60s\": want ttft, itl, e2e, queue, the name of a "
                        "histogram in seconds, p, mode, peer or ratio",
                        key);
}

// Both have at most SLO_TEXT_MAX bytes.
static void copy_text(char text[SLO_TEXT_MAX + 1], struct gs_slice from)
{
    memcpy(text, from.data, from.len);
    text[from.len] = '\0';
}

static struct gs_error *read_part(struct gs_slice part, struct parts *seen, struct slo_policy *p)
{
    char key[SLO_TEXT_MAX + 1], value[SLO_TEXT_MAX + 1];
    struct gs_slice rest = part, name = gs_slice_trim(gs_slice_cut(&rest, '='));
    rest = gs_slice_trim(rest);
    if (!name.len || !rest.len)
        return gs_error_new(GS_EINVAL, "\"%.*s\": want key=value",
                            (int)(part.len < 60 ? part.len : 60), part.len ? part.data : "");
    copy_text(key, name);
    copy_text(value, rest);
    return read_key(key, value, seen, p);
}

static struct gs_error *check(const struct slo_policy *p)
{
    bool some = false;
    for (size_t l = 0; l < SLO_LATENCIES; l++)
        some |= p->seconds[l] > 0;
    if (!some)
        return gs_error_new(GS_EINVAL, "no target: want at least one such as ttft=1s");
    if ((p->ratio_max > 0) != (*p->peer != '\0'))
        return gs_error_new(GS_EINVAL, "peer and ratio are given together");
    return NULL;
}

struct gs_error *slo_policy_parse(const char *text, struct slo_policy *ret)
{
    struct gs_slice rest = gs_slice_of(text);
    struct slo_policy p = {0};
    struct parts seen = {0};
    if (rest.len > SLO_TEXT_MAX)
        return gs_error_new(GS_EINVAL, "%s has %zu bytes; at most %d are read", SLO_ANNOTATION,
                            rest.len, SLO_TEXT_MAX);
    if (gs_has_control(text))
        return gs_error_new(GS_EINVAL, "%s has a control character", SLO_ANNOTATION);
    while (rest.data) {
        struct gs_error *err = read_part(gs_slice_trim(gs_slice_cut(&rest, ',')), &seen, &p);
        if (err)
            return gs_error_wrap(err, "%s", SLO_ANNOTATION);
    }
    struct gs_error *err = check(&p);
    if (err)
        return gs_error_wrap(err, "%s", SLO_ANNOTATION);
    if (!p.percent)
        p.percent = DEFAULT_PERCENT;
    *ret = p;
    return NULL;
}
