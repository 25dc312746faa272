// SPDX-License-Identifier: Apache-2.0
// The error object. An error cannot fail to be created: without memory the program ends.
#include "base/error.h"

#include "base/mem.h"

#include <errno.h>
#include <string.h>

// tools/tidy.h
#undef gs_error_new
#undef gs_error_errno
#undef gs_error_wrap

struct gs_error {
    enum gs_code code;
    char *message;
};

static struct gs_error *error_take(enum gs_code code, char *message)
{
    struct gs_error *err = gs_alloc(sizeof(*err));
    err->code = code;
    err->message = message;
    return err;
}

struct gs_error *gs_error_new(enum gs_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *message = gs_vformat(fmt, ap);
    va_end(ap);
    return error_take(code, message);
}

static enum gs_code code_of_errno(int e)
{
    switch (e) {
    case ENOENT:
    case ESRCH:
        return GS_ENOTFOUND;
    case EEXIST:
    case EADDRINUSE:
        return GS_EEXIST;
    case EACCES:
    case EPERM:
        return GS_EPERM;
    case ECONNREFUSED:
    case EAGAIN:
        return GS_EUNAVAIL;
    case ETIMEDOUT:
        return GS_ETIMEOUT;
    case EINVAL:
        return GS_EINVAL;
    default:
        return GS_EIO;
    }
}

struct gs_error *gs_error_errno(int errno_value, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *what = gs_vformat(fmt, ap);
    va_end(ap);
    char text[128];
    const char *why = strerror_r(errno_value, text, sizeof(text));
    return error_take(code_of_errno(errno_value), gs_format("%s: %s", what, why));
}

struct gs_error *gs_error_wrap(struct gs_error *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *context = gs_vformat(fmt, ap);
    va_end(ap);
    char *message = gs_format("%s: %s", context, err->message);
    free(err->message);
    err->message = message;
    return err;
}

enum gs_code gs_error_code(const struct gs_error *err)
{
    return err->code;
}

const char *gs_error_message(const struct gs_error *err)
{
    return err->message;
}

void gs_error_free(struct gs_error *err)
{
    if (!err)
        return;
    free(err->message);
    free(err);
}
