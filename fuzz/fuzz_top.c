// SPDX-License-Identifier: Apache-2.0
// Samples of any source become rows and a window. Lines fit into the window, and no name puts a
// control character, other than that of styles, on the screen. The first byte selects the format.
#include "base/columns.h"
#include "top/top_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW INT64_C(1700000000000)

static void check_frame(struct gs_slice text, size_t columns)
{
    while (text.len) {
        struct gs_slice line = gs_slice_cut(&text, '\n');
        if (gs_columns_width(line) > columns)
            __builtin_trap();
        for (size_t i = 0; i < line.len; i++) {
            unsigned char c = (unsigned char)line.data[i];
            bool style = c == 0x1b && i + 1 < line.len && line.data[i + 1] == '[';
            if ((c < 0x20 && !style) || c == 0x7f)
                __builtin_trap();
        }
    }
}

static void draw(const struct top_model *m)
{
    struct top_ui ui = {.interval_ms = 2000};
    struct top_frame frame = {0};
    struct top_status status = {.source = "x", .now_ms = NOW, .colour = true};
    for (int pane = 0; pane < TOP_PANES; pane++) {
        ui.pane = (enum top_pane)pane;
        ui.order[pane].column = pane;
        ui.details = false;
        top_frame_draw(m, &ui, &status, 20, 90, &frame);
        check_frame(gs_buf_slice(&frame.text), 90);
        ui.details = true;
        top_frame_draw(m, &ui, &status, 40, 50, &frame);
        check_frame(gs_buf_slice(&frame.text), 50);
    }
    json_decref(top_print_json(m, &ui, &status));
    top_ui_finish(&ui);
    top_frame_finish(&frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct top_model model;
    struct top_samples samples = {0};
    if (!size)
        return 0;
    struct gs_slice text = gs_slice_make(data + 1, size - 1);
    GS_AUTO_ERROR struct gs_error *err = data[0] == '{'
                                             ? top_source_read_query(text, &samples)
                                             : top_source_read_exposition(text, &samples);
    top_model_init(&model, 2000);
    top_model_update(&model, &samples, NOW);
    top_model_add_past(&model, &samples);
    if (data[0] & 1)
        top_model_update(&model, &(struct top_samples){0}, NOW + 1000);
    draw(&model);
    top_model_finish(&model);
    top_samples_finish(&samples);
    return 0;
}
