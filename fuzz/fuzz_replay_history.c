// SPDX-License-Identifier: Apache-2.0
// A question about recorded history, as a page posts it: a JSON object with a spec, settings and
// series. Long runs are left out.
#include "replay/history.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct hpa_config cfg = hpa_config_default();
    const struct gs_slice text = gs_slice_make((const char *)data, size);
    CODEC_AUTO_JSON json_t *question = NULL;
    struct replay_history *h = NULL;
    struct gs_error *err = codec_json_parse(text, true, &question);
    if (!err)
        err = replay_history_new(question, &cfg, 600000, &h);
    if (!err) {
        GS_AUTO_BUF struct gs_buf out = {0};
        replay_history_run(h);
        CODEC_AUTO_JSON json_t *answer = replay_history_answer(h);
        replay_history_text(answer, &out);
        replay_history_free(h);
    }
    gs_error_free(err);
    return 0;
}
