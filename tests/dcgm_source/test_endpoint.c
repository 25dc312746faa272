// SPDX-License-Identifier: Apache-2.0
// Values of --dcgm and -r.
#include "unit.h"

#include "dcgm_source/source_private.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void test_parses_modes_and_addresses(void **state)
{
    static const struct {
        const char *text;
        enum dcgm_source_mode mode;
        bool is_unix;
        const char *address;
    } rows[] = {
        {"auto", DCGM_SOURCE_AUTO, false, ""},
        {"off", DCGM_SOURCE_OFF, false, ""},
        {"embedded", DCGM_SOURCE_EMBEDDED, false, ""},
        {"node1", DCGM_SOURCE_REMOTE, false, "node1:5555"},
        {"localhost:5556", DCGM_SOURCE_REMOTE, false, "localhost:5556"},
        {"10.1.2.3:1", DCGM_SOURCE_REMOTE, false, "10.1.2.3:1"},
        {"[::1]", DCGM_SOURCE_REMOTE, false, "[::1]:5555"},
        {"[fd00::1]:65535", DCGM_SOURCE_REMOTE, false, "[fd00::1]:65535"},
        {"unix:/run/engine", DCGM_SOURCE_REMOTE, true, "/run/engine"},
        {"unix:///run/engine", DCGM_SOURCE_REMOTE, true, "/run/engine"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dcgm_source_endpoint e;
        assert_ok(dcgm_source_parse(rows[i].text, &e));
        assert_int_equal(e.mode, rows[i].mode);
        assert_int_equal(e.is_unix, rows[i].is_unix);
        assert_string_equal(e.address, rows[i].address);
    }
}

static void test_refuses_other_values(void **state)
{
    static const char *const texts[] = {"",    ":5555", "a:b",    "a:0", "a:65536",    "a:1:2",
                                        "::1", "[::1",  "[::1]x", "a b", "http://a:1", "a:"};
    (void)state;
    struct dcgm_source_endpoint e;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        assert_error(dcgm_source_parse(texts[i], &e), GS_EINVAL, "want auto, off, embedded");
    assert_error(dcgm_source_parse("unix:relative", &e), GS_EINVAL, "absolute path");
}

static void test_finds_what_listens(void **state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char dir[] = "/tmp/gpuscale-endpoint-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(at.sun_path, sizeof(at.sun_path), "%s/socket", dir);
    assert_false(dcgm_source_probe_unix(at.sun_path, 200));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_false(dcgm_source_probe_unix(at.sun_path, 200));
    assert_int_equal(listen(fd, 1), 0);
    assert_true(dcgm_source_probe_unix(at.sun_path, 200));
    close(fd);
    unlink(at.sun_path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parses_modes_and_addresses),
        cmocka_unit_test(test_refuses_other_values),
        cmocka_unit_test(test_finds_what_listens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
