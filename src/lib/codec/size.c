// SPDX-License-Identifier: Apache-2.0
// Sizes in bytes in the notation of Prometheus (units.Base2Bytes): all prefixes are powers of
// 1024.
#include "base/num.h"
#include "codec/yaml_reader.h"

#include <math.h>

// "MB" and "MiB" are the same. 0: none.
static double size_unit(struct gs_slice unit)
{
    static const char prefixes[] = "KMGTPE";
    if (gs_slice_eq_str(unit, "B"))
        return 1;
    const char *at = unit.len >= 2 ? strchr(prefixes, unit.data[0]) : NULL;
    struct gs_slice rest = gs_slice_make(unit.data + 1, unit.len - 1);
    if (!at || !*at || !(gs_slice_eq_str(rest, "B") || gs_slice_eq_str(rest, "iB")))
        return 0;
    return ldexp(1, 10 * (int)(at - prefixes + 1));
}

// "10MB", "1.5GiB", "1MiB512KiB"
bool codec_parse_size(const char *text, size_t *ret)
{
    double sum = 0;
    const char *p = text;
    if (gs_streq(text, "0")) {
        *ret = 0;
        return true;
    }
    while (*p) {
        size_t digits = strspn(p, "0123456789."), letters = strcspn(p + digits, "0123456789.");
        double n, unit = size_unit(gs_slice_make(p + digits, letters));
        struct gs_error *err = gs_parse_double(gs_slice_make(p, digits), &n);
        gs_error_free(err);
        if (err || !(unit > 0))
            return false;
        sum += n * unit;
        p += digits + letters;
    }
    if (p == text || !(sum < 0x1p62))
        return false;
    *ret = (size_t)sum;
    return true;
}
