// SPDX-License-Identifier: Apache-2.0
// The process of a container with a stand-in: it introduces itself to `gpuscale up` and then does
// what that orders, until one of them ends. It only waits, so it gives back the memory of the
// program's code after each order.
#include "local/standin/standin.h"

#include "base/file.h"
#include "base/mem.h"
#include "codec/json.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { MAX_LINE = 8 * 1024 * 1024, MAX_FILE = 64 * 1024, MAX_HELP = 512 * 1024 };

// Flags whose value is the path of a file that `up` serves with.
static const char *const file_flags[] = {"web.cert-file",
                                         "web.key-file",
                                         "tls-cert-file",
                                         "tls-private-key-file",
                                         "validating-webhook-certificate",
                                         "validating-webhook-key",
                                         "config"};
// Beginnings of the names of variables that roles read.
static const char *const variables[] = {"GF_",
                                        "LABEL",
                                        "FOLDER",
                                        "RESOURCE",
                                        "METHOD",
                                        "REQ_URL",
                                        "REQ_METHOD",
                                        "NAMESPACE",
                                        "POD_NAMESPACE",
                                        "UNIQUE_FILENAMES",
                                        "GPUSCALE_INFERENCE_",
                                        "DEFAULT_FOLDER_MODE"};

static void say(const char *text)
{
    printf("%s\n", text);
    (void)fflush(stdout);
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

// --- the introduction ---

// The value of --NAME=VALUE, --NAME VALUE, or the same with one dash. NULL: not given.
static const char *flag_value(char **args, const char *name)
{
    size_t len = strlen(name);
    for (; *args; args++) {
        const char *at = *args;
        if (*at != '-')
            continue;
        at += at[1] == '-' ? 2 : 1;
        if (strncmp(at, name, len) == 0 && at[len] == '=')
            return at + len + 1;
        if (strcmp(at, name) == 0 && args[1])
            return args[1];
    }
    return NULL;
}

static json_t *read_files(char **args)
{
    json_t *files = json_object();
    for (size_t i = 0; i < GS_ARRAY_LEN(file_flags); i++) {
        const char *path = flag_value(args, file_flags[i]);
        GS_AUTO_BUF struct gs_buf text = {0};
        GS_AUTO_ERROR struct gs_error *err = path ? gs_file_read(path, MAX_FILE, &text) : NULL;
        if (path && !err)
            codec_json_set_str(files, file_flags[i], text.len ? text.data : "");
    }
    return files;
}

// Values of flags that are paths without a file, as this container sees them.
static json_t *absent_paths(char **args)
{
    json_t *list = json_array();
    for (; *args; args++) {
        const char *path = strchr(*args, '=');
        if (path && path[1] == '/' && access(path + 1, F_OK) < 0)
            json_array_append_new(list, codec_json_strf("%s", path + 1));
    }
    return list;
}

static json_t *read_environment(void)
{
    extern char **environ;
    json_t *env = json_object();
    for (char **entry = environ; *entry; entry++) {
        const char *equals = strchr(*entry, '=');
        for (size_t i = 0; equals && i < GS_ARRAY_LEN(variables); i++) {
            if (!gs_starts(*entry, variables[i]))
                continue;
            GS_AUTO_FREE char *name = gs_strndup(*entry, (size_t)(equals - *entry));
            codec_json_set_str(env, name, equals + 1);
            break;
        }
    }
    return env;
}

// The third word of the list for podnet.c: the moved ports of this pod.
static const char *moved_ports(void)
{
    const char *text = variable("GPUSCALE_POD_PORTS");
    for (int i = 0; i < 2 && text; i++) {
        text = strchr(text, ' ');
        text = text ? text + 1 : NULL;
    }
    return text ? text : "";
}

static json_t *introduction(const char *role, char **args)
{
    json_t *j = json_object(), *list = json_array();
    codec_json_set_str(j, "role", role);
    for (char **a = args; *a; a++)
        json_array_append_new(list, codec_json_strf("%s", *a));
    json_object_set_new(j, "args", list);
    codec_json_set_str(j, "namespace", variable(LOCAL_ENV_POD_NS));
    codec_json_set_str(j, "pod", variable(LOCAL_ENV_POD_NAME));
    codec_json_set_str(j, "uid", variable(LOCAL_ENV_POD_UID));
    codec_json_set_str(j, "container", variable(LOCAL_ENV_CONTAINER));
    codec_json_set_str(j, "address", variable(LOCAL_ENV_POD_IP));
    codec_json_set_str(j, "ports", moved_ports());
    json_object_set_new(j, "env", read_environment());
    json_object_set_new(j, "files", read_files(args));
    json_object_set_new(j, "absent", absent_paths(args));
    return j;
}

static struct gs_error *connect_to(const char *path, int *ret)
{
    struct sockaddr_un address;
    GS_AUTO_CLOSE int dir = -1;
    struct gs_error *err = gs_unix_address(path, &address, &dir);
    if (err)
        return err;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return gs_error_errno(errno, "socket");
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        err = gs_error_errno(errno, "%s", path);
        close(fd);
        return err;
    }
    *ret = fd;
    return NULL;
}

static struct gs_error *connect_to_up(int *ret)
{
    const char *path = getenv(LOCAL_ENV_STANDIN_SOCKET);
    if (!path)
        return gs_error_new(GS_EINVAL, "pod-standin: " LOCAL_ENV_STANDIN_SOCKET
                                       " is not set (gpuscale up starts this command in pods)");
    struct gs_error *err = connect_to(path, ret);
    return err ? gs_error_wrap(err, "pod-standin: connecting to gpuscale up") : NULL;
}

static struct gs_error *send_all(int fd, struct gs_slice bytes)
{
    while (bytes.len) {
        ssize_t n = send(fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gs_error_errno(errno, "pod-standin: sending to gpuscale up");
        bytes = gs_slice_make(bytes.data + n, bytes.len - (size_t)n);
    }
    return NULL;
}

static struct gs_error *introduce(int fd, const char *role, char **args)
{
    CODEC_AUTO_JSON json_t *j = introduction(role, args);
    GS_AUTO_BUF struct gs_buf line = {0};
    codec_json_dump(j, &line);
    gs_buf_add_char(&line, '\n');
    return send_all(fd, gs_buf_slice(&line));
}

// --- memory ---

// Gives back pages of files that nothing has changed: they are read again when they are needed. A
// mapping with changed pages, such as relocated data, has anonymous ones.
static void drop_unchanged_pages(void)
{
    GS_AUTO_FCLOSE FILE *maps = fopen("/proc/self/smaps", "re");
    char line[512], access[8] = "", *end;
    uintptr_t from = 0, to = 0;
    while (maps && fgets(line, sizeof(line), maps)) {
        uintptr_t start = strtoumax(line, &end, 16);
        if (*end == '-' && end != line) {
            from = start;
            to = strtoumax(end + 1, &end, 16);
            snprintf(access, sizeof(access), "%.5s", end);
            if (!strchr(line, '/'))
                access[1] = '-';
        } else if (gs_starts(line, "Anonymous:") && strtoul(line + 10, NULL, 10) == 0 &&
                   access[1] == 'r' && access[2] == '-') {
            madvise((void *)from, to - from, MADV_DONTNEED); // NOLINT(performance-no-int-to-ptr)
        }
    }
}

// --- orders ---

// Everything that `program --help` prints. NULL: it cannot be run.
static char *help_of(const char *program)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return NULL;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execlp(program, program, "--help", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    struct gs_buf text = {.limit = MAX_HELP};
    char chunk[4096];
    ssize_t n;
    while (pid > 0 && ((n = read(ends[0], chunk, sizeof(chunk))) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0)
            gs_buf_add(&text, chunk, (size_t)n);
    close(ends[0]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return gs_buf_take(&text);
}

static bool is_flag_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

static bool lists_name(const char *help, const char *before, const char *name, size_t len)
{
    size_t before_len = strlen(before);
    for (const char *at = help; (at = strstr(at, before)); at += before_len) {
        const char *listed = at + before_len;
        if (strncmp(listed, name, len) == 0 && !is_flag_char(listed[len]))
            return true;
    }
    return false;
}

// Whether the help lists a flag "--NAME=VALUE", also as --[no-]NAME.
static bool lists_flag(const char *help, const char *flag)
{
    const char *name = flag + 2;
    size_t len = strcspn(name, "=");
    if (lists_name(help, "--", name, len) || lists_name(help, "--[no-]", name, len))
        return true;
    // Older versions list "--X" for "--no-X", too.
    return gs_starts(name, "no-") && (lists_name(help, "--[no-]", name + 3, len - 3) ||
                                      lists_name(help, "--", name + 3, len - 3));
}

static void become(const json_t *words, bool checked)
{
    const char *program = json_string_value(json_array_get(words, 0));
    if (!program)
        return;
    GS_AUTO_FREE char *help = checked ? help_of(program) : NULL;
    GS_AUTO_FREE const char **argv = gs_alloc_array(json_array_size(words) + 1, sizeof(*argv));
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *word = json_string_value(json_array_get(words, i));
        if (i && help && word && gs_starts(word, "--") && !lists_flag(help, word)) {
            GS_AUTO_FREE char *text =
                gs_format("gpuscale: %s is not used: %s of this machine does not have this flag",
                          word, program);
            say(text);
        } else if (word) {
            argv[n++] = word;
        }
    }
    (void)signal(SIGPIPE, SIG_DFL);
    execvp(program, (char *const *)(uintptr_t)argv);
    GS_AUTO_FREE char *text = gs_format("gpuscale: %s: %s", program, strerror(errno));
    say(text);
    exit(127); // NOLINT(concurrency-mt-unsafe)
}

static void write_file(const char *path, const char *text)
{
    const char *slash = strrchr(path, '/');
    GS_AUTO_FREE char *dir = slash ? gs_strndup(path, (size_t)(slash - path)) : NULL;
    if (!text) {
        unlink(path);
        return;
    }
    struct gs_error *err = dir && *dir ? gs_mkdir_p(dir, 0755) : NULL;
    if (!err)
        err = gs_file_write_atomic(path, 0644, gs_slice_of(text));
    if (!err)
        return;
    GS_AUTO_FREE char *line = gs_format("gpuscale: %s", gs_error_message(err));
    gs_error_free(err);
    say(line);
}

// Volumes change by renames in their folder.
static void watch_folder(int watcher, const char *folder)
{
    if (inotify_add_watch(watcher, folder, IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE) >= 0)
        return;
    GS_AUTO_FREE char *text = gs_format("gpuscale: %s is not watched: %s", folder, strerror(errno));
    say(text);
}

// Returns the exit code, -1: goes on.
static int obey(int watcher, struct gs_slice line)
{
    CODEC_AUTO_JSON json_t *order = NULL;
    GS_AUTO_ERROR struct gs_error *err = codec_json_parse(line, false, &order);
    if (err)
        return -1;
    const char *log = codec_json_str(order, "log", NULL);
    const char *path = codec_json_str(order, "write", NULL);
    if (log)
        say(log);
    if (path)
        write_file(path, codec_json_str(order, "text", NULL));
    const char *folder = codec_json_str(order, "watch", NULL);
    if (folder)
        watch_folder(watcher, folder);
    const json_t *words = json_object_get(order, "exec");
    if (words)
        become(words, codec_json_bool(order, false, "checked", NULL));
    return (int)codec_json_int(order, -1, "exit", NULL);
}

// Waits for bytes of `up`, and reports changes meanwhile.
static void wait_for_bytes(int fd, int watcher)
{
    char events[4096];
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = watcher, .events = POLLIN}};
    do {
        drop_unchanged_pages();
        if (poll(fds, 2, -1) < 0)
            continue;
        if ((fds[1].revents & POLLIN) && read(watcher, events, sizeof(events)) > 0)
            gs_error_free(send_all(fd, GS_SLICE("\n"))); // the end is read below
    } while (!fds[0].revents);
}

static int obey_all(int fd)
{
    GS_AUTO_BUF struct gs_buf in = {.limit = MAX_LINE};
    GS_AUTO_CLOSE int watcher = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    char chunk[4096];
    for (;;) {
        wait_for_bytes(fd, watcher);
        ssize_t n = recv(fd, chunk, sizeof(chunk), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 1;
        gs_buf_add(&in, chunk, (size_t)n);
        if (in.overflow)
            return 1;
        char *end;
        while (in.len && (end = memchr(in.data, '\n', in.len))) {
            size_t len = (size_t)(end - in.data);
            int code = obey(watcher, gs_slice_make(in.data, len));
            if (code >= 0)
                return code;
            gs_buf_consume(&in, len + 1);
        }
    }
}

int standin_main(int argc, char **argv)
{
    static char none[] = "";
    const char *role = argc > 1 ? argv[1] : none;
    const char *image = variable(LOCAL_ENV_STANDIN_IMAGE), *text = variable(LOCAL_ENV_STANDIN_TEXT);
    int fd = -1;
    if (*image) {
        GS_AUTO_FREE char *line =
            gs_format("gpuscale: this container is not %s; %s runs in its place "
                      "(docs/up.md#stand-ins)",
                      image, text);
        say(line);
    }
    struct gs_error *err = connect_to_up(&fd);
    if (!err)
        err = introduce(fd, role, argv + (argc > 1 ? 2 : argc));
    if (err) {
        fprintf(stderr, "gpuscale: %s\n", gs_error_message(err));
        gs_error_free(err);
        return 1;
    }
    return obey_all(fd);
}
