// SPDX-License-Identifier: Apache-2.0
// Schedules of CronJobs: the next time is later, and the latest time is a time of the schedule.
#include "base/mem.h"
#include "local/cron.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t start = 1700000000; // 2023-11-14
    struct local_timezone *utc = NULL;
    struct local_cron c;
    int64_t missed;
    GS_AUTO_ERROR struct gs_error *err = local_cron_parse(gs_slice_make(data, size), &c);
    if (err)
        return 0;
    if (local_timezone_load("UTC", &utc))
        abort();
    int64_t next = local_cron_next(&c, utc, start);
    if (next && (next <= start || local_cron_latest(&c, utc, start, next, &missed) != next))
        abort();
    if (next && (missed < 1 || local_cron_latest(&c, utc, start, next - 1, &missed) != 0))
        abort();
    local_timezone_free(utc);
    return 0;
}
