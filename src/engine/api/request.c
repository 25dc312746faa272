// SPDX-License-Identifier: Apache-2.0
// Parameters of a request: times, durations, limits, series selectors.
#include "engine/api/api_private.h"

#include "base/clock.h"
#include "base/num.h"
#include "codec/yaml_reader.h"

#include <limits.h>
#include <math.h>

enum { MAX_MATCHES = 10000 };

// The default start and end of optional time ranges in Prometheus. Sums with durations fit into 64
// bits.
#define MIN_TIME_MS (INT64_MIN / 4)
#define MAX_TIME_MS (INT64_MAX / 4)

const char *engine_api_param(const struct engine_api_request *r, const char *name)
{
    const char *v = http_query(r->x, name);
    return v ? v : "";
}

// --- whole numbers ---

static struct gs_error *parse_atoi(const char *text, int64_t *ret)
{
    struct gs_error *err = gs_parse_i64(gs_slice_of(text), INT64_MIN, INT64_MAX, ret);
    if (!err)
        return NULL;
    gs_error_free(err);
    size_t sign = *text == '-' || *text == '+';
    bool digits = text[sign] && text[sign + strspn(text + sign, "0123456789")] == '\0';
    return gs_error_new(GS_EINVAL, "strconv.Atoi: parsing \"%s\": %s", text,
                        digits ? "value out of range" : "invalid syntax");
}

bool engine_api_limit(struct engine_api_request *r, size_t *ret)
{
    const char *text = engine_api_param(r, "limit");
    int64_t v = 0;
    struct gs_error *err = *text ? parse_atoi(text, &v) : NULL;
    if (!err && v < 0)
        err = gs_error_new(GS_EINVAL, "limit must be non-negative");
    if (err) {
        engine_api_fail_param(r, "limit", err);
        return false;
    }
    *ret = (size_t)v;
    return true;
}

bool engine_api_int(struct engine_api_request *r, const char *name, const char *error,
                    int64_t fallback, int64_t *ret)
{
    const char *text = engine_api_param(r, name);
    *ret = fallback;
    GS_AUTO_ERROR struct gs_error *err = *text ? parse_atoi(text, ret) : NULL;
    if (err)
        engine_api_fail(r, ENGINE_API_BAD_DATA, "%s", error);
    return !err;
}

// --- times ---

static struct gs_error *parse_time(const char *text, int64_t *ret_ms)
{
    double seconds;
    struct gs_error *err = gs_parse_double(gs_slice_of(text), &seconds);
    if (!err && !isnan(seconds)) {
        double ms = round(seconds * 1000);
        *ret_ms = ms <= (double)MIN_TIME_MS   ? MIN_TIME_MS
                  : ms >= (double)MAX_TIME_MS ? MAX_TIME_MS
                                              : (int64_t)ms;
        return NULL;
    }
    gs_error_free(err);
    err = gs_parse_rfc3339(gs_slice_of(text), ret_ms);
    if (!err)
        return NULL;
    gs_error_free(err);
    // The minimum and maximum time as Prometheus clients write them. Their years have more than
    // four digits.
    if (gs_streq(text, "-292273086-05-16T16:47:06Z")) {
        *ret_ms = MIN_TIME_MS;
        return NULL;
    }
    if (gs_streq(text, "292277025-08-18T07:12:54.999999999Z")) {
        *ret_ms = MAX_TIME_MS;
        return NULL;
    }
    return gs_error_new(GS_EINVAL, "cannot parse \"%s\" to a valid timestamp", text);
}

bool engine_api_required_time(struct engine_api_request *r, const char *name, int64_t *ret_ms)
{
    struct gs_error *err = parse_time(engine_api_param(r, name), ret_ms);
    if (err)
        engine_api_fail_param(r, name, err);
    return !err;
}

bool engine_api_time(struct engine_api_request *r, const char *name, int64_t fallback,
                     int64_t *ret_ms)
{
    const char *text = engine_api_param(r, name);
    *ret_ms = fallback;
    struct gs_error *err = *text ? parse_time(text, ret_ms) : NULL;
    if (err)
        engine_api_fail_param(r, name, gs_error_wrap(err, "invalid time value for '%s'", name));
    return !err;
}

bool engine_api_range(struct engine_api_request *r, int64_t *ret_start, int64_t *ret_end)
{
    return engine_api_time(r, "start", MIN_TIME_MS, ret_start) &&
           engine_api_time(r, "end", MAX_TIME_MS, ret_end);
}

// --- durations ---

struct gs_error *engine_api_parse_duration(const char *text, int64_t *ret_ns)
{
    static const double limit = 9223372036854775808.0;
    double seconds;
    int64_t ms;
    struct gs_error *err = gs_parse_double(gs_slice_of(text), &seconds);
    if (!err) {
        double ns = seconds * (double)GS_NS_PER_SEC;
        if (!(ns >= -limit && ns < limit))
            return gs_error_new(
                GS_EINVAL, "cannot parse \"%s\" to a valid duration. It overflows int64", text);
        *ret_ns = (int64_t)ns;
        return NULL;
    }
    gs_error_free(err);
    if (!codec_parse_duration(text, &ms))
        return gs_error_new(GS_EINVAL, "cannot parse \"%s\" to a valid duration", text);
    *ret_ns = ms * GS_NS_PER_MS;
    return NULL;
}

bool engine_api_duration(struct engine_api_request *r, const char *name, int64_t *ret_ns)
{
    const char *text = engine_api_param(r, name);
    struct gs_error *err = *text ? engine_api_parse_duration(text, ret_ns) : NULL;
    if (err)
        engine_api_fail_param(r, name, err);
    return !err;
}

// --- selectors ---

void engine_api_matches_finish(struct engine_api_matches *m)
{
    for (size_t i = 0; i < m->len; i++)
        promql_expr_free(m->items[i]);
    free(m->items);
}

struct gs_error *engine_api_parse_matches(const struct engine_api_request *r,
                                          struct engine_api_matches *ret)
{
    const char *name, *value;
    for (size_t i = 0; (value = http_query_nth(r->x, i, &name)); i++) {
        if (!gs_streq(name, "match[]"))
            continue;
        if (ret->len == MAX_MATCHES)
            return gs_error_new(GS_ELIMIT, "more than %d match[] parameters", MAX_MATCHES);
        gs_grow(&ret->items, &ret->cap, ret->len, sizeof(struct promql_expr *));
        struct gs_error *err = promql_parse_selector(gs_slice_of(value), &ret->items[ret->len]);
        if (err)
            return err;
        ret->len++;
    }
    return NULL;
}

const struct tsdb_matcher *engine_api_matchers(const struct promql_expr *e, size_t *ret_n)
{
    const struct promql_node *root = promql_expr_root(e);
    *ret_n = root->u.selector.n_matchers;
    return root->u.selector.matchers;
}

struct gs_error *engine_api_prepare_search(const struct engine_api *api,
                                           const struct promql_expr *e, struct tsdb_answers *ret)
{
    size_t n;
    const struct tsdb_matcher *m = engine_api_matchers(e, &n);
    struct engine_api_slice slice = engine_api_slice_begin(api);
    return tsdb_answers_collect(api->cfg.db, m, n, NULL, engine_api_slice_go_on, &slice, ret);
}

static bool selects_something(const struct promql_expr *e)
{
    size_t n;
    const struct tsdb_matcher *m = engine_api_matchers(e, &n);
    for (size_t i = 0; i < n; i++)
        if (!tsdb_matcher_matches(&m[i], GS_SLICE("")))
            return true;
    return false;
}

struct gs_error *engine_api_parse_strict(const char *text, struct promql_expr **ret)
{
    struct gs_error *err = promql_parse_selector(gs_slice_of(text), ret);
    if (err || selects_something(*ret))
        return err;
    promql_expr_free(GS_TAKE(*ret));
    return gs_error_new(GS_EINVAL, "match[] must contain at least one non-empty matcher");
}

struct gs_error *engine_api_parse_strict_matches(const struct engine_api_request *r,
                                                 struct engine_api_matches *ret)
{
    struct gs_error *err = engine_api_parse_matches(r, ret);
    for (size_t i = 0; !err && i < ret->len; i++)
        if (!selects_something(ret->items[i]))
            err = gs_error_new(GS_EINVAL, "match[] must contain at least one non-empty matcher");
    return err;
}
