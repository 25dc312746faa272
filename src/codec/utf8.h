// SPDX-License-Identifier: Apache-2.0
// UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing past U+10FFFF.
#pragma once

#include "base/slice.h"

// The offset of the first byte that is not part of a valid character; s.len when all are.
size_t codec_utf8_valid_prefix(struct gs_slice s);
