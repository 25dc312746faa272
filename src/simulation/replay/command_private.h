// SPDX-License-Identifier: Apache-2.0
// Parts of the command: settings, sweeps, recordings and fleets.
#pragma once

#include "replay/replay.h"

// Splits "NAME=VALUE" of --set; caller frees the name. *ret_value: within the text.
struct gs_error *replay_read_setting(const char *text, char **ret_name, const char **ret_value);
// --sweep: a name and its values, "target=10..90:10" or "target=10,30,50".
struct replay_sweep {
    char *name;
    char **values;
    size_t n, cap;
};
struct gs_error *replay_sweep_read(const char *text, struct replay_sweep *ret);
void replay_sweep_finish(struct replay_sweep *s);
struct gs_error *replay_execute_fleet(const struct replay_options *o, const char *path,
                                      struct gs_buf *out);

// Queries the server and writes a scenario to the file.
struct gs_error *replay_recording_write(const struct replay_recording *r, const char *path);
