// SPDX-License-Identifier: Apache-2.0
// Linked into test programs in place of mkdtemp(), mkstemp() and shm_open() (-Wl,--wrap): each name
// that they make is written to the file that GPUSCALE_TEST_TRACES names. tools/one-test fails a
// test that leaves one of them behind, and removes those of a test that was killed.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

char *__real_mkdtemp(char *template);
int __real_mkstemp(char *template);
int __real_shm_open(const char *name, int flags, mode_t mode);
char *__wrap_mkdtemp(char *template);
int __wrap_mkstemp(char *template);
int __wrap_shm_open(const char *name, int flags, mode_t mode);

static void record(const char *folder, const char *name)
{
    char line[4096];
    const char *path = getenv("GPUSCALE_TEST_TRACES");
    size_t a = strlen(folder), b = strlen(name);
    int fd = path && a + b + 1 < sizeof(line)
                 ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)
                 : -1;
    if (fd < 0)
        return;
    memcpy(line, folder, a);
    memcpy(line + a, name, b);
    line[a + b] = '\n';
    // One write: programs of a test share the file.
    if (write(fd, line, a + b + 1) < 0)
        abort();
    close(fd);
}

char *__wrap_mkdtemp(char *template)
{
    char *made = __real_mkdtemp(template);
    if (made)
        record("", made);
    return made;
}

int __wrap_mkstemp(char *template)
{
    int fd = __real_mkstemp(template);
    if (fd >= 0)
        record("", template);
    return fd;
}

int __wrap_shm_open(const char *name, int flags, mode_t mode)
{
    int fd = __real_shm_open(name, flags, mode);
    if (fd >= 0 && (flags & O_CREAT))
        record("/dev/shm", name);
    return fd;
}
