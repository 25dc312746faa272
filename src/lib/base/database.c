// SPDX-License-Identifier: Apache-2.0
// Recognizes SQLite files that something else has emptied, before SQLite makes an empty database
// of them.
#include "base/database.h"

#include "base/mem.h"

#include <sys/stat.h>

bool gs_database_is_emptied(const char *path)
{
    struct stat file, log;
    GS_AUTO_FREE char *log_path = gs_format("%s-wal", path);
    return stat(path, &file) == 0 && S_ISREG(file.st_mode) && file.st_size == 0 &&
           (stat(log_path, &log) != 0 || log.st_size == 0);
}
