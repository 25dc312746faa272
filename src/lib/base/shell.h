// SPDX-License-Identifier: Apache-2.0
// Words of a POSIX shell.
#pragma once

// The text as one word of a shell: in single quotes if it has characters that a shell interprets.
// The caller frees it.
char *gs_shell_word(const char *text);
