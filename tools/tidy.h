// What clang-tidy reads before each file: an error that is made is never NULL, so that outputs are
// set where there is none. Its analyzer, of version 14, heeds no returns_nonnull.
#include "base/error.h"

static inline struct gs_error *gs_error_made(struct gs_error *err)
{
    if (!err)
        __builtin_unreachable();
    return err;
}
#define gs_error_new(...)   gs_error_made(gs_error_new(__VA_ARGS__))
#define gs_error_errno(...) gs_error_made(gs_error_errno(__VA_ARGS__))
#define gs_error_wrap(...)  gs_error_made(gs_error_wrap(__VA_ARGS__))
