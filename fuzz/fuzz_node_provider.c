// SPDX-License-Identifier: Apache-2.0
// The output of the node provider's commands. The first byte chooses the command. A list that is
// accepted has unique, valid names.
#include "node_provider/node_provider_private.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_list(struct gs_slice text)
{
    struct node_provider_list list = {0};
    GS_AUTO_ERROR struct gs_error *err = node_provider_parse_list(text, &list);
    if (err)
        return;
    for (size_t i = 0; i < list.len; i++)
        if (!list.items[i].name || !*list.items[i].name ||
            (list.items[i].provider_id && !node_provider_is_provider_id(list.items[i].provider_id)))
            abort();
    node_provider_list_finish(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct gs_slice text = gs_slice_make(data + 1, size - 1);
    if (data[0] == 'c') {
        struct node_provider_listed l = {0};
        GS_AUTO_ERROR struct gs_error *err = node_provider_parse_created(text, &l);
        node_provider_listed_finish(&l);
    } else {
        check_list(text);
    }
    return 0;
}
