// SPDX-License-Identifier: Apache-2.0
// The bind() of the library that is loaded into pods: this program runs itself under it.
#include "base/buf.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

// --- in the pod: "c ADDRESS PORT" connects and prints where to ---

static int connect_and_print(const char *address, const char *port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    socklen_t len = sizeof(to);
    int fd = socket(AF_INET, SOCK_DGRAM, 0); // needs nobody who listens
    inet_pton(AF_INET, address, &to.sin_addr);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ||
        getpeername(fd, (struct sockaddr *)&to, &len) < 0) {
        perror("connect");
        return 1;
    }
    printf("%s %d\n", address, ntohs(to.sin_port));
    close(fd);
    return 0;
}

// --- in the pod: binds FAMILY ADDRESS PORT and prints where the socket is ---

static int bind_and_print(const char *family, const char *address, const char *port)
{
    bool six = strcmp(family, "6") == 0;
    struct sockaddr_in6 to6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)atoi(port))};
    struct sockaddr_in to4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    char text[INET6_ADDRSTRLEN];
    int fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
    if (fd < 0)
        return 77;
    inet_pton(AF_INET6, address, &to6.sin6_addr);
    inet_pton(AF_INET, address, &to4.sin_addr);
    const struct sockaddr *to = six ? (const struct sockaddr *)&to6 : (const struct sockaddr *)&to4;
    socklen_t len = six ? sizeof(to6) : sizeof(to4);
    if (bind(fd, to, len) < 0) {
        if (six && errno == EADDRNOTAVAIL) // IPv6 is there but switched off: no interface has ::1
            return 77;
        perror("bind");
        return 1;
    }
    getsockname(fd, six ? (struct sockaddr *)&to6 : (struct sockaddr *)&to4, &len);
    inet_ntop(six ? AF_INET6 : AF_INET, six ? (void *)&to6.sin6_addr : (void *)&to4.sin_addr, text,
              sizeof(text));
    printf("%s %d\n", text, ntohs(six ? to6.sin6_port : to4.sin_port));
    close(fd);
    return 0;
}

// --- the test ---

static char self[4096], library[64];

// Runs this program with the library; returns its output, NULL where there is no such address
// family.
static char *run(const char *env, const char *args)
{
    GS_AUTO_FREE char *command = gs_format("ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 "
                                           "LD_PRELOAD=%s %s '%s' %s",
                                           library, env, self, args);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    char line[256] = "";
    if (!fgets(line, sizeof(line), f))
        line[0] = '\0';
    int rc = pclose(f);
    return WEXITSTATUS(rc) == 77 ? NULL : gs_strdup(line);
}

static void assert_bound(const char *env, const char *args, const char *want)
{
    GS_AUTO_FREE char *got = run(env, args);
    if (got)
        assert_string_equal(got, want);
}

#define POD "GPUSCALE_POD_IP=127.93.7.5"

static void test_all_addresses_become_the_pods(void **state)
{
    (void)state;
    assert_bound(POD, "4 0.0.0.0 23456", "127.93.7.5 23456\n");
    assert_bound(POD, "6 :: 23457", "::ffff:127.93.7.5 23457\n");
}

static void test_other_addresses_stay(void **state)
{
    (void)state;
    assert_bound(POD, "4 127.93.7.6 23458", "127.93.7.6 23458\n");
    assert_bound(POD, "6 ::1 23459", "::1 23459\n");
    assert_bound("", "4 0.0.0.0 23460", "0.0.0.0 23460\n");
    assert_bound("GPUSCALE_POD_IP=nonsense", "4 0.0.0.0 23461", "0.0.0.0 23461\n");
}

static void test_privileged_ports_move(void **state)
{
    (void)state;
    assert_bound(POD " GPUSCALE_POD_PORTS='1024 8000'", "4 0.0.0.0 80", "127.93.7.5 8080\n");
    assert_bound(POD " GPUSCALE_POD_PORTS='1024 8000'", "4 127.93.7.5 81", "127.93.7.5 8081\n");
    assert_bound(POD " GPUSCALE_POD_PORTS='1024 8000'", "4 0.0.0.0 23462", "127.93.7.5 23462\n");
    GS_AUTO_FREE char *any = run(POD " GPUSCALE_POD_PORTS='1024 8000'", "4 0.0.0.0 0");
    assert_null(strstr(any, " 8000\n")); // "any free port" stays so
}

#define MOVED POD " GPUSCALE_POD_PORTS='1024 8000 80=16080,443=8443'"

static void test_the_pods_own_list_comes_first(void **state)
{
    (void)state;
    assert_bound(MOVED, "4 0.0.0.0 80", "127.93.7.5 16080\n");
    assert_bound(MOVED, "4 0.0.0.0 443", "127.93.7.5 8443\n");
    assert_bound(MOVED, "4 0.0.0.0 81", "127.93.7.5 8081\n");
}

static void test_connections_find_the_moved_ports(void **state)
{
    (void)state;
    assert_bound(MOVED, "c 127.93.7.5 80", "127.93.7.5 16080\n");
    assert_bound(MOVED, "c 127.64.0.1 80", "127.64.0.1 8080\n");
    assert_bound(MOVED, "c 127.96.3.4 80", "127.96.3.4 8080\n");
    assert_bound(MOVED, "c 127.97.3.4 443", "127.97.3.4 8443\n");
    assert_bound(MOVED, "c 127.97.3.4 8080", "127.97.3.4 8080\n");
    // What is not of the cluster is where it says.
    assert_bound(MOVED, "c 127.0.0.1 80", "127.0.0.1 80\n");
    assert_bound(MOVED, "c 127.98.0.1 80", "127.98.0.1 80\n");
    assert_bound(POD, "c 127.96.3.4 80", "127.96.3.4 80\n");
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "c") == 0)
        return connect_and_print(argv[2], argv[3]);
    if (argc == 4)
        return bind_and_print(argv[1], argv[2], argv[3]);
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n <= 0)
        return 1;
    // LD_PRELOAD cannot name a path with a space, which the build folder may have.
    const char *build = getenv("GPUSCALE_BUILD_ROOT");
    GS_AUTO_FREE char *built =
        gs_format("%s/src/local/libgpuscale-podnet.so", build ? build : "build");
    GS_AUTO_FREE char *path = realpath(built, NULL);
    char dir[] = "/tmp/gpuscale-podnet-XXXXXX";
    if (!path || !mkdtemp(dir))
        return 1;
    snprintf(library, sizeof(library), "%s/podnet.so", dir);
    if (symlink(path, library) < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_addresses_become_the_pods),
        cmocka_unit_test(test_other_addresses_stay),
        cmocka_unit_test(test_privileged_ports_move),
        cmocka_unit_test(test_the_pods_own_list_comes_first),
        cmocka_unit_test(test_connections_find_the_moved_ports),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(library);
    rmdir(dir);
    return failed;
}
