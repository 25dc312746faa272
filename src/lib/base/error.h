// SPDX-License-Identifier: Apache-2.0
// The error object. A function that can fail returns `struct gs_error *`: NULL on success, else an
// error that the caller owns and frees, wraps or returns. Outputs come last, are named ret_* and
// are unchanged on failure. Library code returns errors and does not log them.
//
//     struct gs_error *err = thing_open(path, &thing);
//     if (err)
//         return gs_error_wrap(err, "starting the exporter");
#pragma once

#include "base/attr.h"

// The kind of an error, for decisions of the caller. The text is for people.
enum gs_code {
    GS_EINVAL = 1, // the input is wrong (configuration, request, file): the user can fix it
    GS_ENOTFOUND,  // no such file, object, symbol, series
    GS_EEXIST,     // already there
    GS_ECONFLICT,  // was changed concurrently (resourceVersion)
    GS_EPERM,      // not allowed
    GS_EUNAVAIL,   // a peer or device is not available (yet): a retry may help
    GS_ETIMEOUT,   // took too long
    GS_ELIMIT,     // over a limit of size, count or rate
    GS_EIO,        // operating system or library call failed
    GS_EPROTO,     // a peer violated its protocol
    GS_ENOTSUP,    // the device, driver or peer does not support it
    GS_EINTERNAL,  // a bug in gpuscale
};

struct gs_error;

struct gs_error *gs_error_new(enum gs_code code, const char *fmt, ...) GS_PRINTF(2, 3) GS_MUST_USE;
// Like gs_error_new with GS_EIO or the code that matches errno_value, and ": <strerror>" appended.
struct gs_error *gs_error_errno(int errno_value, const char *fmt, ...) GS_PRINTF(2, 3) GS_MUST_USE;
// Prepends "context: " and keeps the code. Takes err, returns it.
struct gs_error *gs_error_wrap(struct gs_error *err, const char *fmt, ...)
    GS_PRINTF(2, 3) GS_MUST_USE;
enum gs_code gs_error_code(const struct gs_error *err);
const char *gs_error_message(const struct gs_error *err);
void gs_error_free(struct gs_error *err); // accepts NULL
GS_DEFINE_CLEANUP(struct gs_error *, gs_error_free)
#define GS_AUTO_ERROR GS_CLEANUP(gs_error_freep)
