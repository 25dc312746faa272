// SPDX-License-Identifier: Apache-2.0
// Paths of files that exist in the pod of a Prometheus only, such as the token of its service
// account, in the configuration of an engine that is no pod.
#include "engine/config/config.h"

#include "base/mem.h"

static const char *const account_folders[] = {
    "/var/run/secrets/kubernetes.io/serviceaccount/",
    "/run/secrets/kubernetes.io/serviceaccount/",
};

static bool is_file_key(const char *key)
{
    size_t len = strlen(key), tail = strlen("_file");
    return len > tail && gs_streq(key + len - tail, "_file");
}

static void move_file(json_t *text, const char *dir)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(account_folders); i++) {
        const char *path = json_string_value(text);
        if (!gs_starts(path, account_folders[i]))
            continue;
        GS_AUTO_FREE char *moved = gs_format("%s/%s", dir, path + strlen(account_folders[i]));
        json_string_set(text, moved);
        return;
    }
}

void engine_config_move_account_files(json_t *value, const char *dir)
{
    const char *key;
    json_t *item;
    size_t i;
    json_object_foreach (value, key, item)
        if (json_is_string(item) && is_file_key(key))
            move_file(item, dir);
        else
            engine_config_move_account_files(item, dir);
    json_array_foreach (value, i, item)
        engine_config_move_account_files(item, dir);
}
