// SPDX-License-Identifier: Apache-2.0
// What flags of the engine have in common for `engine`, `up` and the adapter: ignored flags of
// Prometheus, features, sizes, and the list of status/flags.
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/yaml_reader.h"
#include "engine/check.h"
#include "engine/remote/receiver.h"
#include "engine/serve.h"
#include "promql/ast.h"

static bool is_ignored(const struct gs_opt *o)
{
    return gs_streq(o->group, ENGINE_IGNORED_GROUP);
}

void engine_warn_ignored_flags(const struct engine_flags *f, const struct gs_opt *rows)
{
    for (const struct gs_opt *o = rows; o->name; o++) {
        const char *at = (const char *)f + o->offset;
        if (!is_ignored(o))
            continue;
        bool given = o->type == GS_OPT_BOOL
                         ? *(const bool *)(const void *)at
                         : ((const struct gs_opt_list *)(const void *)at)->len > 0;
        if (given)
            gs_warn("engine", "--%s has no effect: %s", o->name, o->help);
    }
}

void engine_enable_features(const struct gs_opt_list *lists)
{
    unsigned features = 0;
    for (size_t i = 0; i < lists->len; i++) {
        struct gs_slice list = gs_slice_of(lists->items[i]);
        while (list.data) {
            struct gs_slice other = {0};
            features |= promql_features_of(gs_slice_cut(&list, ','), &other);
            if (other.len && !gs_slice_eq_str(other, ENGINE_FEATURE_EXEMPLARS))
                gs_warn("engine", "--enable-feature=" GS_SLICE_FMT " has no effect",
                        GS_SLICE_ARG(other));
        }
    }
    promql_set_features(features);
}

bool engine_has_feature(const struct gs_opt_list *lists, const char *name)
{
    for (size_t i = 0; i < lists->len; i++) {
        struct gs_slice list = gs_slice_of(lists->items[i]);
        while (list.data)
            if (gs_slice_eq_str(gs_slice_trim(gs_slice_cut(&list, ',')), name))
                return true;
    }
    return false;
}

struct gs_error *engine_receiver_messages(const struct engine_receivers *r, unsigned *ret)
{
    unsigned messages = 0;
    for (size_t i = 0; i < r->messages.len; i++) {
        struct gs_error *err = remote_message_of(r->messages.items[i], &messages);
        if (err)
            return gs_error_wrap(err, "--web.remote-write-receiver.accepted-protobuf-messages");
    }
    if (!messages)
        messages = REMOTE_MESSAGE_V1 | REMOTE_MESSAGE_V2;
    *ret = (r->write ? messages : 0) | (r->otlp ? REMOTE_MESSAGE_OTLP : 0);
    return NULL;
}

struct gs_error *engine_parse_size(const char *text, size_t *ret)
{
    size_t bytes = 0;
    if (!codec_parse_size(text, &bytes) || !bytes)
        return gs_error_new(GS_EINVAL, "\"%s\" is not a size such as 512MB", text);
    *ret = bytes;
    return NULL;
}

// --- status/flags ---

static char *value_text(const struct gs_opt *o, const void *at)
{
    char text[GS_RFC3339_SIZE];
    GS_AUTO_BUF struct gs_buf joined = {0};
    const struct gs_opt_list *list = at;
    switch (o->type) {
    case GS_OPT_BOOL:
        return gs_strdup(*(const bool *)at ? "true" : "false");
    case GS_OPT_STRING:
        return gs_strdup(*(const char *const *)at ? *(const char *const *)at : "");
    case GS_OPT_INT:
        return gs_format("%lld", (long long)*(const int64_t *)at);
    case GS_OPT_DURATION:
        return gs_strdup(gs_format_units(*(const int64_t *)at, text));
    case GS_OPT_STRINGS:
        for (size_t i = 0; i < list->len; i++)
            gs_buf_addf(&joined, "%s%s", i ? "," : "", list->items[i]);
        return gs_buf_take(&joined);
    case GS_OPT_DOUBLE:
    case GS_OPT_SWITCH:
        break;
    }
    return gs_strdup("");
}

struct http_header *engine_flag_values(const struct engine_flags *f, const struct gs_opt *rows)
{
    struct http_header *list =
        gs_alloc_array(ENGINE_IGNORED_BOOLS + ENGINE_IGNORED_VALUES + 64, sizeof(*list));
    size_t n = 0;
    for (const struct gs_opt *o = rows; o->name; o++)
        if (!is_ignored(o))
            list[n++] = (struct http_header){o->name, value_text(o, (const char *)f + o->offset)};
    return list;
}

void engine_flag_values_free(struct http_header *list)
{
    for (struct http_header *h = list; h && h->name; h++)
        free((char *)(uintptr_t)h->value);
    free(list);
}
