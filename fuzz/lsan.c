// SPDX-License-Identifier: Apache-2.0
// For all targets: libfyaml keeps some KiB of a wrong document such as "[''''''…" for itself. That
// leak is not ours, and would hide those that are.
const char *__lsan_default_suppressions(void); // NOLINT: LeakSanitizer's name

const char *__lsan_default_suppressions(void) // NOLINT
{
    return "leak:libfyaml";
}
