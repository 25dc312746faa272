// SPDX-License-Identifier: Apache-2.0
// Containers that run a program of this machine: Alertmanager, node_exporter and Grafana. They get
// the container's arguments; only the addresses on which they listen become the pod's, because
// programs in Go bind without the library that does this for others.
#include "base/file.h"
#include "base/mem.h"
#include "kube/object.h"
#include "local/ports.h"
#include "local/standin/standin_private.h"

#include <unistd.h>

enum { ALERTMANAGER_PORT = 9093, NODE_EXPORTER_PORT = 9100 };

static void add_word(json_t *words, const char *word)
{
    json_array_append_new(words, codec_json_strf("%s", word));
}

static void add_listen_flag(const struct standin_session *s, json_t *words, const char *name,
                            const char *address, int port)
{
    const char *colon = address ? strrchr(address, ':') : NULL;
    long given = colon ? strtol(colon + 1, NULL, 10) : 0;
    if (given > 0 && given < 65536)
        port = (int)given;
    json_array_append_new(
        words, codec_json_strf("--%s=%s:%d", name, s->address, local_port_by(s->moved, port)));
}

// The number of arguments that make up the flag: 0, 1 or, if the value is a word of its own, 2.
static size_t is_flag(const char *arg, const char *name)
{
    const char *end = standin_flag_end(arg, name);
    return !end ? 0 : *end == '=' ? 1 : 2;
}

static void not_installed(struct standin_session *s, const char *program)
{
    standin_log(s, "gpuscale: %s is not installed: apt-get install %s", program, program);
    standin_event(s, "Warning", "NotInstalled", "%s is not installed: apt-get install %s", program,
                  program);
}

// Under Debian's name, or under that of its project. NULL: it is not installed.
static char *find_installed(struct standin_session *s, const char *debian, const char *other)
{
    char *program = gs_find_program(debian);
    if (!program)
        program = gs_find_program(other);
    if (!program)
        not_installed(s, debian);
    return program;
}

// --- Alertmanager ---

void standin_alertmanager_start(struct standin_session *s)
{
    GS_AUTO_FREE char *program = find_installed(s, "prometheus-alertmanager", "alertmanager");
    if (!program) {
        s->runs_itself = true; // not ready: nothing would send the alerts
        return;
    }
    json_t *words = json_array();
    const char *cluster = standin_flag(s, "cluster.listen-address");
    add_word(words, program);
    for (size_t i = *standin_word(s) ? 1 : 0, n = json_array_size(s->args); i < n;) {
        const char *arg = json_string_value(json_array_get(s->args, i));
        size_t skip = is_flag(arg, "web.listen-address");
        if (!skip)
            skip = is_flag(arg, "cluster.listen-address");
        if (!skip && arg)
            add_word(words, arg);
        i += skip ? skip : 1;
    }
    if (!standin_flag(s, "config.file")) { // as the image
        add_word(words, "--config.file=/etc/alertmanager/alertmanager.yml");
        add_word(words, "--storage.path=/alertmanager");
    }
    add_listen_flag(s, words, "web.listen-address", standin_flag(s, "web.listen-address"),
                    ALERTMANAGER_PORT);
    if (cluster && *cluster)
        add_listen_flag(s, words, "cluster.listen-address", cluster, ALERTMANAGER_PORT + 1);
    else
        add_word(words, "--cluster.listen-address=");
    standin_exec(s, words, true);
}

// --- node_exporter ---

// A path of the container that is absent, because this machine cannot mount, is the machine's own.
static void add_node_flag(const struct standin_session *s, json_t *words, const char *arg)
{
    static const char *const paths[][2] = {
        {"/host/proc", "/proc"}, {"/host/sys", "/sys"}, {"/host/root", "/"}, {"/rootfs", "/"}};
    const char *value = strchr(arg, '=');
    if (!value || !gs_starts(arg, "--path.") || !standin_is_absent(s, value + 1)) {
        add_word(words, arg);
        return;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(paths); i++)
        if (gs_streq(value + 1, paths[i][0]))
            json_array_append_new(words,
                                  codec_json_strf("%.*s=%s", (int)(value - arg), arg, paths[i][1]));
}

void standin_node_exporter_start(struct standin_session *s)
{
    GS_AUTO_FREE char *program = find_installed(s, "prometheus-node-exporter", "node_exporter");
    if (!program) {
        return; // ready, so that a release becomes ready
    }
    json_t *words = json_array();
    add_word(words, program);
    for (size_t i = *standin_word(s) ? 1 : 0, n = json_array_size(s->args); i < n;) {
        const char *arg = json_string_value(json_array_get(s->args, i));
        size_t skip = is_flag(arg, "web.listen-address");
        if (!skip && arg)
            add_node_flag(s, words, arg);
        i += skip ? skip : 1;
    }
    add_listen_flag(s, words, "web.listen-address", standin_flag(s, "web.listen-address"),
                    NODE_EXPORTER_PORT);
    if (access("/run/systemd/system", F_OK) < 0 && !standin_flag(s, "collector.systemd"))
        add_word(words, "--no-collector.systemd");
    standin_exec(s, words, true);
}

// --- Grafana ---

static char *find_grafana(bool *ret_has_command)
{
    char *program = gs_find_program("grafana");
    *ret_has_command = program != NULL;
    return program ? program : gs_find_program("grafana-server");
}

bool standin_grafana_installed(void)
{
    bool has_command;
    GS_AUTO_FREE char *program = find_grafana(&has_command);
    return program != NULL;
}

bool standin_grafana_become(struct standin_session *s)
{
    bool has_command;
    GS_AUTO_FREE char *program = find_grafana(&has_command);
    if (!program)
        return false;
    json_t *words = json_array();
    add_word(words, program);
    if (has_command)
        add_word(words, "server");
    add_word(words, "--homepath=/usr/share/grafana");
    add_word(words, "--config=/etc/grafana/grafana.ini");
    // Settings of the command line replace those of the file and of the environment.
    json_array_append_new(words, codec_json_strf("cfg:server.http_addr=%s", s->address));
    standin_exec(s, words, false);
    return true;
}
