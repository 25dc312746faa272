// SPDX-License-Identifier: Apache-2.0
// The programs that run until a signal behave alike: health, metrics, wrong paths and methods,
// signals, closed standard files, the limit of open files, messages to systemd, an address in use.
#include "patience.h"
#include "unit.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SOFT_LIMIT = 512 };

// In arguments, % is the port and @ the directory of the start.
struct program {
    const char *name;
    const char *args[9]; // ends with NULL
    const char *health, *metrics;
    const char *allow;  // of the path of the metrics
    const char *in_use; // a part of the error; NULL: that of most programs
    bool tls, nothing_to_reload;
};

static const struct program programs[] = {
    {"hpa",
     {"--kubeconfig=@/kubeconfig", "--web.listen-address=127.0.0.1:%"},
     "/healthz",
     "/metrics",
     "GET, HEAD",
     .nothing_to_reload = true},
    {"activator",
     {"--kubeconfig=@/kubeconfig", "--advertise-address=127.0.0.1",
      "--web.listen-address=127.0.0.1:%"},
     "/healthz",
     "/metrics",
     "GET, HEAD",
     .nothing_to_reload = true},
    {"expander",
     {"--cert-dir=@", "--pools=@/prices.yaml", "--grpc-listen-address=127.0.0.1:0",
      "--web.listen-address=127.0.0.1:%"},
     "/healthz",
     "/metrics",
     "GET, HEAD"},
    {"node-provider",
     {"--pools=@/pools.yaml", "--state-dir=@/state", "--insecure", "--address=127.0.0.1:0",
      "--web.listen-address=127.0.0.1:%"},
     "/healthz",
     "/metrics",
     "GET, HEAD"},
    {"exporter",
     {"--simulate=1xTesla-T4", "--address=127.0.0.1:%"},
     "/health",
     "/metrics",
     "GET, HEAD"},
    {"adapter",
     {"--bind-address=127.0.0.1", "--secure-port=%", "--cert-dir=@",
      "--lister-kubeconfig=@/kubeconfig", "--authentication-kubeconfig=@/kubeconfig",
      "--authorization-kubeconfig=@/kubeconfig", "--authentication-skip-lookup",
      "--authorization-always-allow-paths=/*"},
     "/healthz",
     "/metrics",
     "GET, HEAD",
     .tls = true},
    {"keda-scaler",
     {"--kubeconfig=@/kubeconfig", "--grpc-listen-address=127.0.0.1:0",
      "--web.listen-address=127.0.0.1:%"},
     "/healthz",
     "/metrics",
     "GET, HEAD"},
    {"engine",
     {"--config.file=@/prometheus.yml", "--web.listen-address=127.0.0.1:%"},
     "/-/ready",
     "/metrics",
     "GET, OPTIONS"},
    {"sim",
     {"inference", "--model=m", "--startup=1ms", "--host=127.0.0.1", "--port=%"},
     "/health",
     "/metrics",
     "GET, HEAD",
     .nothing_to_reload = true},
    {"up",
     {"--gpus=none", "--data-dir=@/data", "--api-port=0", "--exporter-port=0",
      "--prometheus-port=%"},
     "/-/ready",
     "/metrics",
     "GET, OPTIONS",
     .in_use = "is in use; choose another with --prometheus-port"},
};

struct fixture {
    const struct program *program;
    char dir[64], socket[96];
    unsigned starts;
    pid_t pid;
    int port, notify_fd;
};

// --- files and processes ---

static void write_file(const char *dir, const char *name, const char *text)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", dir, name);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
}

// A new directory for each start: its files cannot depend on those of the start before.
static char *make_files(struct fixture *f)
{
    char *dir = gs_format("%s/%u", f->dir, ++f->starts);
    assert_ok(gs_mkdir_p(dir, 0700));
    write_file(dir, "prometheus.yml", "");
    write_file(dir, "pools.yaml",
               "commands: {create: ['true'], delete: ['true'], list: ['true']}\n"
               "pools: [{name: t4, max: 2, machine: {cpu: 4, memory: 16Gi}}]\n");
    write_file(dir, "prices.yaml", "pools: [{name: t4, price: 1, machine: {gpus: 1}}]\n");
    write_file(dir, "kubeconfig",
               "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
               "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
               "users: [{name: u, user: {}}]\n"
               "contexts: [{name: c, context: {cluster: c, user: u}}]\n");
    return dir;
}

static char *expand(const char *arg, const char *dir, int port)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    for (; *arg; arg++)
        if (*arg == '%')
            gs_buf_addf(&out, "%d", port);
        else if (*arg == '@')
            gs_buf_add_str(&out, dir);
        else
            gs_buf_add_char(&out, *arg);
    return gs_buf_take(&out);
}

static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    close(fd);
    return ntohs(a.sin_port);
}

static char *log_path(const struct fixture *f)
{
    return gs_format("%s/%u.log", f->dir, f->starts);
}

static char *read_log(const struct fixture *f)
{
    GS_AUTO_FREE char *path = log_path(f);
    struct gs_buf text = {0};
    gs_error_free(gs_file_read(path, 1 << 20, &text));
    return text.data ? gs_buf_take(&text) : gs_strdup("");
}

static void run_child(const struct fixture *f, char *const *argv, bool closed_files)
{
    GS_AUTO_FREE char *log = log_path(f);
    const struct rlimit low = {SOFT_LIMIT, 4096};
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_NOFILE, &low);
    for (int i = STDIN_FILENO; closed_files && i <= STDERR_FILENO; i++)
        close(i);
    execv(argv[0], argv);
    _exit(127);
}

static pid_t spawn(struct fixture *f, int port, bool closed_files)
{
    GS_AUTO_FREE char *dir = make_files(f);
    char *argv[12] = {gs_format("%s/src/cmd/gpuscale", getenv("GPUSCALE_BUILD_ROOT")),
                      gs_strdup(f->program->name)};
    for (size_t i = 0; f->program->args[i]; i++)
        argv[i + 2] = expand(f->program->args[i], dir, port);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        run_child(f, argv, closed_files);
    for (size_t i = 0; argv[i]; i++)
        free(argv[i]);
    return pid;
}

static void fail_with_log(const struct fixture *f, const char *what)
{
    GS_AUTO_FREE char *log = read_log(f);
    fail_msg("%s: %s; its log:\n%s", f->program->name, what, log);
}

// The exit code; -1 after a signal.
static int wait_for_end(struct fixture *f, pid_t pid)
{
    int status = 0;
    pid_t done = 0;
    for (int64_t end = gs_mono_ns() + WAIT_NS; !done && gs_mono_ns() < end; usleep(5000))
        done = waitpid(pid, &status, WNOHANG);
    if (!done)
        fail_with_log(f, "it does not end");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void stop(struct fixture *f)
{
    kill(f->pid, SIGTERM);
    int code = wait_for_end(f, f->pid);
    f->pid = 0;
    if (code != 0)
        fail_with_log(f, "it does not end with 0");
}

// --- requests ---

struct peer {
    int fd;
    gnutls_session_t tls; // NULL: none
    gnutls_certificate_credentials_t credentials;
};

static int connect_to(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval limit = {WAIT_MS / 1000, 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void start_tls(struct peer *p)
{
    int rc;
    assert_int_equal(gnutls_certificate_allocate_credentials(&p->credentials), 0);
    assert_int_equal(gnutls_init(&p->tls, GNUTLS_CLIENT), 0);
    assert_int_equal(gnutls_set_default_priority(p->tls), 0);
    gnutls_credentials_set(p->tls, GNUTLS_CRD_CERTIFICATE, p->credentials);
    gnutls_transport_set_int(p->tls, p->fd);
    do
        rc = gnutls_handshake(p->tls);
    while (rc < 0 && !gnutls_error_is_fatal(rc));
    assert_int_equal(rc, 0);
}

static void open_peer(const struct fixture *f, struct peer *ret)
{
    *ret = (struct peer){.fd = connect_to(f->port)};
    assert_true(ret->fd >= 0);
    if (f->program->tls)
        start_tls(ret);
}

static void close_peer(struct peer *p)
{
    if (p->tls)
        gnutls_deinit(p->tls);
    if (p->credentials)
        gnutls_certificate_free_credentials(p->credentials);
    close(p->fd);
}

static void send_text(struct peer *p, const char *text)
{
    ssize_t n = p->tls ? gnutls_record_send(p->tls, text, strlen(text))
                       : send(p->fd, text, strlen(text), MSG_NOSIGNAL);
    assert_int_equal(n, strlen(text));
}

// Reads until the end of the connection.
static char *receive(struct peer *p)
{
    struct gs_buf all = {0};
    char chunk[4096];
    ssize_t n;
    while ((n = p->tls ? gnutls_record_recv(p->tls, chunk, sizeof(chunk))
                       : recv(p->fd, chunk, sizeof(chunk), 0)) > 0 ||
           n == GNUTLS_E_AGAIN)
        gs_buf_add(&all, chunk, n > 0 ? (size_t)n : 0);
    return all.len ? gs_buf_take(&all) : gs_strdup("");
}

// Returns the response with its head.
static char *request(const struct fixture *f, const char *method, const char *path)
{
    struct peer p;
    GS_AUTO_FREE char *text =
        gs_format("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                  method, path);
    open_peer(f, &p);
    send_text(&p, text);
    char *response = receive(&p);
    close_peer(&p);
    return response;
}

static void assert_response(const struct fixture *f, const char *method, const char *path,
                            int status, const char *part)
{
    GS_AUTO_FREE char *response = request(f, method, path);
    GS_AUTO_FREE char *first = gs_format("HTTP/1.1 %d ", status);
    if (strncmp(response, first, strlen(first)) != 0 || !strstr(response, part))
        fail_msg("%s: %s %s: not %d with \"%s\":\n%s", f->program->name, method, path, status, part,
                 response);
}

// Waits until health is good.
static void start(struct fixture *f, bool closed_files)
{
    f->port = free_port();
    f->pid = spawn(f, f->port, closed_files);
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; usleep(10000)) {
        int fd = connect_to(f->port);
        if (fd < 0 && waitpid(f->pid, NULL, WNOHANG) != 0) {
            f->pid = 0;
            fail_with_log(f, "it ended");
        }
        if (fd < 0)
            continue;
        close(fd);
        GS_AUTO_FREE char *response = request(f, "GET", f->program->health);
        if (strncmp(response, "HTTP/1.1 200 ", 13) == 0)
            return;
    }
    fail_with_log(f, "its health is not good");
}

// --- tests ---

static void assert_file_limit(const struct fixture *f)
{
    GS_AUTO_FREE char *path = gs_format("/proc/%d/limits", (int)f->pid);
    GS_AUTO_BUF struct gs_buf text = {0};
    unsigned soft = 0, hard = 0;
    assert_ok(gs_file_read(path, 1 << 20, &text));
    const char *line = strstr(text.data, "Max open files");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "Max open files %u %u", &soft, &hard), 2);
    assert_int_equal(soft, hard);
    assert_true(soft > SOFT_LIMIT);
}

static void test_requests_and_hangup(void **state)
{
    struct fixture *f = *state;
    const struct program *p = f->program;
    GS_AUTO_FREE char *allow = gs_format("\r\nAllow: %s\r\n", p->allow);
    start(f, false);
    assert_file_limit(f);
    assert_response(f, "GET", p->metrics, 200, "# TYPE ");
    assert_response(f, "HEAD", p->metrics, 200, "\r\n\r\n");
    assert_response(f, "GET", "/no/such/path", 404, "not found");
    assert_response(f, "DELETE", p->metrics, 405, allow);
    kill(f->pid, SIGHUP);
    assert_response(f, "GET", p->health, 200, "");
    assert_int_equal(waitpid(f->pid, NULL, WNOHANG), 0);
    stop(f);
}

static void test_address_in_use(void **state)
{
    struct fixture *f = *state;
    start(f, false);
    pid_t other = spawn(f, f->port, false);
    assert_int_equal(wait_for_end(f, other), 1);
    GS_AUTO_FREE char *log = read_log(f);
    const char *want = f->program->in_use ? f->program->in_use
                                          : "address already in use (stop the program that uses "
                                            "it, or choose another port)";
    if (!strstr(log, want))
        fail_with_log(f, "the error is not clear");
    stop(f);
}

// Sends a part of a request and a signal, and returns when the program has stopped listening.
static void signal_during_request(struct fixture *f, struct peer *p)
{
    GS_AUTO_FREE char *head = gs_format("GET %s HTTP/1.1\r\nHost: x\r\n", f->program->metrics);
    int fd;
    open_peer(f, p);
    send_text(p, head);
    assert_response(f, "GET", f->program->health, 200, ""); // the part has arrived
    kill(f->pid, SIGTERM);
    for (int64_t end = gs_mono_ns() + WAIT_NS; (fd = connect_to(f->port)) >= 0; usleep(10000)) {
        close(fd);
        if (gs_mono_ns() > end)
            fail_with_log(f, "it listens after SIGTERM");
    }
}

static void test_requests_in_progress_are_answered(void **state)
{
    struct fixture *f = *state;
    struct peer p;
    start(f, false);
    signal_during_request(f, &p);
    assert_int_equal(waitpid(f->pid, NULL, WNOHANG), 0);
    send_text(&p, "\r\n");
    GS_AUTO_FREE char *response = receive(&p);
    close_peer(&p);
    if (strncmp(response, "HTTP/1.1 200 ", 13) != 0 || !strstr(response, "# TYPE "))
        fail_msg("%s: the response is:\n%s", f->program->name, response);
    assert_int_equal(wait_for_end(f, f->pid), 0);
    f->pid = 0;
}

static void test_second_signal_ends_at_once(void **state)
{
    struct fixture *f = *state;
    struct peer p;
    start(f, false);
    signal_during_request(f, &p);
    kill(f->pid, SIGTERM);
    assert_int_equal(wait_for_end(f, f->pid), 0); // although the request is in progress
    f->pid = 0;
    close_peer(&p);
}

static void test_closed_standard_files(void **state)
{
    struct fixture *f = *state;
    start(f, true);
    assert_response(f, "GET", f->program->metrics, 200, "# TYPE ");
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        GS_AUTO_FREE char *path = gs_format("/proc/%d/fd/%d", (int)f->pid, fd);
        char target[256] = "";
        assert_true(readlink(path, target, sizeof(target) - 1) > 0);
        assert_string_equal(target, "/dev/null");
    }
    stop(f);
}

static void assert_notified(struct fixture *f, const char *want)
{
    char message[256] = "";
    if (recv(f->notify_fd, message, sizeof(message) - 1, 0) <= 0 ||
        strncmp(message, want, strlen(want)) != 0)
        fail_msg("%s: the message is not \"%s\" but \"%s\"", f->program->name, want, message);
}

static void test_systemd_is_notified(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const struct timeval limit = {WAIT_MS / 1000, 0};
    (void)snprintf(f->socket, sizeof(f->socket), "%s/notify", f->dir);
    memcpy(a.sun_path, f->socket, strlen(f->socket));
    f->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    setsockopt(f->notify_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    assert_int_equal(bind(f->notify_fd, (struct sockaddr *)&a, sizeof(a)), 0);
    setenv("NOTIFY_SOCKET", f->socket, 1);
    start(f, false);
    unsetenv("NOTIFY_SOCKET");
    assert_notified(f, "READY=1");
    if (!f->program->nothing_to_reload) {
        kill(f->pid, SIGHUP);
        assert_notified(f, "RELOADING=1\nMONOTONIC_USEC=");
        assert_notified(f, "READY=1");
    }
    kill(f->pid, SIGTERM);
    assert_notified(f, "STOPPING=1");
    stop(f);
}

// --- the table ---

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    char name[64];
    f->program = *state;
    f->notify_fd = -1;
    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/gpuscale-programs-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(name, sizeof(name), "/gpuscale-test-programs-%d", getpid());
    // The exporter makes the set. A simulated engine needs none.
    setenv("GPUSCALE_SIM", gs_streq(f->program->name, "sim") ? "" : name, 1);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    if (f->pid > 0) {
        kill(f->pid, SIGKILL);
        waitpid(f->pid, NULL, 0);
    }
    if (f->notify_fd >= 0)
        close(f->notify_fd);
    gs_remove_tree(f->dir);
    free(f);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest each[] = {
        cmocka_unit_test_setup_teardown(test_requests_and_hangup, setup, teardown),
        cmocka_unit_test_setup_teardown(test_address_in_use, setup, teardown),
        cmocka_unit_test_setup_teardown(test_requests_in_progress_are_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_second_signal_ends_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_closed_standard_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_systemd_is_notified, setup, teardown),
    };
    struct CMUnitTest tests[GS_ARRAY_LEN(programs) * GS_ARRAY_LEN(each)];
    size_t n = 0;
    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < GS_ARRAY_LEN(programs); i++)
        for (size_t k = 0; k < GS_ARRAY_LEN(each); k++) {
            tests[n] = each[k];
            tests[n++].initial_state = (void *)(uintptr_t)&programs[i];
        }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
