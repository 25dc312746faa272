// SPDX-License-Identifier: Apache-2.0
// The programs that gpuscale replaces, by the name of their executable, with the defaults that
// differ. Images that replace theirs keep the command line of existing manifests.
#include "base/slice.h"
#include "cmd/commands.h"

static const char *const none[] = {NULL};
// Prometheus keeps samples in a directory, for 15 days. The engine keeps them in memory for two
// hours unless flags say otherwise.
static const char *const prometheus_defaults[] = {"--storage.tsdb.path=data",
                                                  "--storage.tsdb.retention.time=15d", NULL};

#if CMD_LOCAL
static const char *const vllm[] = {"--engine=vllm", NULL};
static const char *const sglang[] = {"--engine=sglang", NULL};
#endif

static const struct cmd_peer peers[] = {
    {"adapter", &cmd_adapter, none},
    {"dcgm-exporter", &cmd_exporter, none},
    {"dcgm-exporter-entrypoint.sh", &cmd_exporter, none},
    {"nvidia-smi", &cmd_smi, none},
    {"prometheus", &cmd_engine, prometheus_defaults},
    {"prometheus-adapter", &cmd_adapter, none},
    {"promtool", &cmd_promtool, none},
    {"sleep", &cmd_sleep, none},
#if CMD_LOCAL
    {"sglang", &cmd_inference, sglang},
    {"vllm", &cmd_inference, vllm},
#endif
};

const struct cmd_peer *cmd_find_peer(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < GS_ARRAY_LEN(peers); i++)
        if (gs_streq(name, peers[i].name))
            return &peers[i];
    return NULL;
}

// The number of arguments that are flags of the command.
static size_t count_flags(const struct gs_command *command, int argc, char **argv)
{
    size_t n = 0;
    for (int i = 0; i < argc && !gs_streq(argv[i], "--"); i++) {
        const char *name = argv[i];
        if (*name != '-')
            continue;
        name += strspn(name, "-");
        n += gs_options_find(command, gs_slice_make(name, strcspn(name, "="))) != NULL;
    }
    return n;
}

const struct cmd_peer *cmd_peer_of_flags(int argc, char **argv)
{
    static const char *const candidates[] = {"dcgm-exporter", "adapter", "prometheus"};
    const struct cmd_peer *best = NULL;
    size_t most = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(candidates); i++) {
        const struct cmd_peer *peer = cmd_find_peer(candidates[i]);
        size_t n = count_flags(peer->command, argc, argv);
        if (n == most)
            best = NULL;
        if (n > most) {
            most = n;
            best = peer;
        }
    }
    return best;
}
