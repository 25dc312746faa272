// SPDX-License-Identifier: Apache-2.0
// Bearer tokens of callers of the embedded API.
#include "base/mem.h"
#include "local/api.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uv_loop_t loop;
    static struct local_api *api;
    struct http_identity who = {0};

    if (!api && (uv_loop_init(&loop) != 0 ||
                 local_api_new(&loop, &(struct local_api_config){.node_name = "here"}, &api)))
        abort();
    GS_AUTO_FREE char *token = gs_strndup((const char *)data, size);
    if (local_api_check_token(api, token, &who))
        abort(); // nobody can guess a signature
    return 0;
}
