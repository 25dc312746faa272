// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over every file of a folder: the seed corpus as a test, without libFuzzer.
#include "base/file.h"
#include "base/mem.h"

#include <dirent.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    GS_AUTO_BUF struct gs_buf content = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, (size_t)16 << 20, &content);
    if (err) {
        fprintf(stderr, "%s\n", gs_error_message(err));
        return 1;
    }
    // A copy of the exact size, so that a sanitizer sees a read past its end.
    GS_AUTO_FREE uint8_t *exact = gs_alloc(content.len ? content.len : 1);
    memcpy(exact, content.data, content.len);
    return LLVMFuzzerTestOneInput(exact, content.len);
}

int main(int argc, char **argv)
{
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    if (!dir) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    int files = 0, failed = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        GS_AUTO_FREE char *path = gs_format("%s/%s", argv[1], e->d_name);
        failed += replay_file(path) != 0;
        files++;
    }
    closedir(dir);
    printf("%d inputs, %d failed\n", files, failed);
    return failed || !files;
}
