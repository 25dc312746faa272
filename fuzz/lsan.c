// SPDX-License-Identifier: Apache-2.0
// For all targets: libfyaml leaks some KiB for a malformed document such as "[''''''…". The leak is
// suppressed because it would hide leaks of gpuscale.
const char *__lsan_default_suppressions(void); // NOLINT: LeakSanitizer's name

const char *__lsan_default_suppressions(void) // NOLINT
{
    return "leak:libfyaml";
}
