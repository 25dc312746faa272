// SPDX-License-Identifier: Apache-2.0
// The data directory of `gpuscale up`: where it is, who uses it, how it is stopped and reset.
//
// The file "lock" in it marks the directory as gpuscale's and names the process that uses it, which
// holds the file locked for its life.
#pragma once

#include "base/error.h"

#include <stdbool.h>

// option: of --data-dir, NULL for the usual place. stop and reset first end the instance that uses
// the directory; reset removes what gpuscale wrote in it. Without stop, *ret_dir is the directory
// as an absolute path, made if it was not there, and *ret_lock keeps the lock until it is closed.
// With stop both are left untouched: there is nothing to start. What was done is printed to stdout.
// Errors: another instance uses it and is not to be stopped, files are there that are not
// gpuscale's, other users can change it.
struct gs_error *up_datadir_prepare(const char *option, bool stop, bool reset, char **ret_dir,
                                    int *ret_lock);
