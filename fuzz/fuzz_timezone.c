// SPDX-License-Identifier: Apache-2.0
// Files of the time zone database: offsets have limits, and schedules in the zone go forward.
#include "base/mem.h"
#include "local/cron.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const schedules[] = {"30 2 * * *", "0 0 1 3,10 sun"};
    static const int64_t times[] = {0, 1700000000, 1711846800, 4000000000};
    struct local_timezone *z = NULL;
    GS_AUTO_ERROR struct gs_error *err = local_timezone_parse(gs_slice_make(data, size), &z);
    if (err)
        return 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(schedules); i++) {
        struct local_cron c;
        if (local_cron_parse(gs_slice_of(schedules[i]), &c))
            abort();
        for (size_t k = 0; k < GS_ARRAY_LEN(times); k++) {
            int64_t offset = local_timezone_offset(z, times[k]);
            int64_t next = local_cron_next(&c, z, times[k]);
            if (offset > 26 * 3600 || offset < -26 * 3600 || (next && next <= times[k]))
                abort();
        }
    }
    local_timezone_free(z);
    return 0;
}
