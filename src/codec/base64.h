// SPDX-License-Identifier: Apache-2.0
// Standard base64 with padding (RFC 4648 section 4).
#pragma once

#include "base/buf.h"
#include "base/error.h"

void codec_base64_encode(struct gs_slice in, struct gs_buf *out);
struct gs_error *codec_base64_decode(struct gs_slice in, struct gs_buf *ret); // blanks are skipped
