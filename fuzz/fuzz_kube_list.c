// SPDX-License-Identifier: Apache-2.0
// The texts of lists and watch events of an API server. A text that parses as a whole must give the
// same items when it is split into objects.
#include "kube/kube_private.h"

#include "base/log.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void drop_line(void *arg, const char *line, size_t len)
{
    (void)arg, (void)line, (void)len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_slice text = gs_slice_make(data, size), object;
    gs_log_set_sink(drop_line, NULL);
    CODEC_AUTO_JSON json_t *whole = NULL, *list = kube_read_list(text, "/list", NULL, NULL);
    GS_AUTO_FREE char *type = NULL;
    if (kube_salvage_event(text, &type, &object))
        free(kube_raw_key(object));
    GS_AUTO_ERROR struct gs_error *err = codec_json_parse_accepted(text, &whole);
    const json_t *items = json_object_get(whole, "items");
    if (!err && json_is_array(items) && !json_equal(items, json_object_get(list, "items")))
        __builtin_trap();
    GS_AUTO_BUF struct gs_buf cut = {0};
    if (kube_cut_managed_fields(text, &cut) && cut.len >= size)
        __builtin_trap();
    return 0;
}
