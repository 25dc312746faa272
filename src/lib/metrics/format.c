// SPDX-License-Identifier: Apache-2.0
// Detects the exposition format of a response. Parses elements of Accept headers.
#include "metrics/reader.h"
#include "metrics/write.h"

#include <stdlib.h>
#include <strings.h>

static bool is_type(struct gs_slice value, const char *type)
{
    struct gs_slice word = gs_slice_trim(gs_slice_cut(&value, ';'));
    return gs_slice_is_word(word, type);
}

// OpenMetrics 2.0 has samples of several values, which are not read.
static bool is_version_2(struct gs_slice value)
{
    gs_slice_cut(&value, ';');
    while (value.data) {
        struct gs_slice p = gs_slice_trim(gs_slice_cut(&value, ';'));
        struct gs_slice name = gs_slice_trim(gs_slice_cut(&p, '='));
        p = gs_slice_trim(p);
        if (p.len > 1 && p.data[0] == '"')
            p = gs_slice_make(p.data + 1, p.len - 2);
        if (gs_slice_is_word(name, "version"))
            return gs_slice_eq_str(p, "2.0.0");
    }
    return false;
}

struct gs_error *metrics_format_of(const char *content_type, enum metrics_format *ret)
{
    struct gs_slice value = gs_slice_trim(gs_slice_of(content_type));
    bool text =
        !value.len || (strncasecmp(value.data, "text/", value.len < 5 ? value.len : 5) == 0 &&
                       !is_type(value, "text/html"));
    if (!text && !is_type(value, "application/openmetrics-text"))
        return gs_error_new(GS_EPROTO, "\"" GS_SLICE_FMT "\" is not a text exposition format",
                            (int)(value.len < 100 ? value.len : 100), value.data);
    if (!text && is_version_2(value))
        return gs_error_new(GS_EPROTO, "OpenMetrics 2.0 is not read");
    *ret = text ? METRICS_TEXT : METRICS_OPENMETRICS;
    return NULL;
}

int metrics_accept_quality(struct gs_slice element)
{
    gs_slice_cut(&element, ';');
    while (element.len) {
        struct gs_slice p = gs_slice_trim(gs_slice_cut(&element, ';'));
        if (p.len < 3 || (p.data[0] != 'q' && p.data[0] != 'Q') || p.data[1] != '=')
            continue;
        int q = p.data[2] == '1' ? 1000 : 0;
        for (size_t i = 4, unit = 100; q < 1000 && i < p.len && i < 7; i++, unit /= 10)
            if (p.data[i] >= '0' && p.data[i] <= '9')
                q += (p.data[i] - '0') * (int)unit;
        return q;
    }
    return 1000;
}
