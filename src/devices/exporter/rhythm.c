// SPDX-License-Identifier: Apache-2.0
// When the next scrape will come. A scraper requests the page at regular times, so a sample that
// ends shortly before gives it the newest possible values, whatever the interval of the scraper.
#include "exporter/sampler.h"

#include <stdlib.h>

#define JITTER_PART 8 // of the interval between two scrapes

int64_t exporter_rhythm_next(struct exporter_rhythm *r, int64_t now_ns)
{
    int64_t gap = r->last_ns ? now_ns - r->last_ns : 0;
    bool regular = gap > 0 && llabs(gap - r->gap_ns) <= gap / JITTER_PART;
    r->last_ns = now_ns;
    r->gap_ns = gap;
    return regular ? now_ns + gap : 0;
}

int64_t exporter_rhythm_shift(int64_t next_ns, int64_t wanted_ns, int64_t interval_ns)
{
    int64_t shift = (wanted_ns - next_ns) % interval_ns;
    if (shift > interval_ns / 2)
        shift -= interval_ns;
    else if (shift < -interval_ns / 2)
        shift += interval_ns;
    return next_ns + shift;
}
