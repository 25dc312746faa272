// SPDX-License-Identifier: Apache-2.0
// Selects the exposition format of a response, and detects the format of a received one.
#include "metrics/reader.h"
#include "metrics/write.h"

#include <stdlib.h>
#include <strings.h>

static bool is_type(struct gs_slice value, const char *type)
{
    struct gs_slice word = gs_slice_trim(gs_slice_cut(&value, ';'));
    return gs_slice_is_word(word, type);
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

enum metrics_format metrics_format_for(const char *accept)
{
    int text = 0, om = 0;
    struct gs_slice rest = gs_slice_of(accept);
    while (rest.len) {
        struct gs_slice element = gs_slice_cut(&rest, ',');
        int q = metrics_accept_quality(element);
        if (is_type(element, "application/openmetrics-text"))
            om = q > om ? q : om;
        else if (is_type(element, "text/plain") || is_type(element, "text/*") ||
                 is_type(element, "*/*"))
            text = q > text ? q : text;
    }
    return om && om >= text ? METRICS_OPENMETRICS : METRICS_TEXT;
}

bool metrics_gzip_wanted(const char *accept_encoding)
{
    struct gs_slice rest = gs_slice_of(accept_encoding);
    bool any = false;
    while (rest.len) {
        struct gs_slice element = gs_slice_cut(&rest, ',');
        if (is_type(element, "gzip"))
            return metrics_accept_quality(element) > 0;
        any = any || (is_type(element, "*") && metrics_accept_quality(element) > 0);
    }
    return any;
}
