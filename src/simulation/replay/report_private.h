// SPDX-License-Identifier: Apache-2.0
// Parts of reports: texts, and pictures in SVG.
#pragma once

#include "base/buf.h"
#include "replay/replay.h"

json_t *replay_summary_json(const struct replay_summary *u);

// Parts of pictures: panels with values over time, one below the other.
enum {
    REPLAY_SVG_WIDTH = 960,
    REPLAY_SVG_LEFT = 64,
    REPLAY_SVG_RIGHT = 24,
    REPLAY_SVG_PANEL = 150, // height
    REPLAY_SVG_GAP = 40
};
#define REPLAY_SVG_NEARLY 0.4 // pixels: points that are nearer to the previous one are omitted

struct replay_svg_scale {
    double top, step; // of the values
    int64_t duration_ms;
    int y; // of the panel
};
void replay_svg_fit(struct replay_svg_scale *s, double top); // sets top and step
double replay_svg_x(const struct replay_svg_scale *s, int64_t t_ms);
double replay_svg_y(const struct replay_svg_scale *s, double v);
const char *replay_svg_colour(size_t i);
void replay_svg_begin(int height, struct gs_buf *out);
void replay_svg_axes(const char *title, const struct replay_svg_scale *s, bool with_times,
                     struct gs_buf *out);
void replay_svg_text(const char *s, struct gs_buf *out); // escaped, and cut if it is long
