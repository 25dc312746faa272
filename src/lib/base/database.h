// SPDX-License-Identifier: Apache-2.0
// Files of SQLite databases, before they are opened.
#pragma once

#include <stdbool.h>

// Whether the file exists and has 0 bytes, and no write-ahead log has its contents. SQLite opens
// such a file as a new database, although a full disk or another program has emptied it.
bool gs_database_is_emptied(const char *path);
