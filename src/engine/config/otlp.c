// SPDX-License-Identifier: Apache-2.0
// The section otlp: how metrics received with OTLP are translated.
#include "engine/config/config_private.h"

#include "base/mem.h"
#include "codec/json.h"

struct otlp {
    bool promote_all, keep_identifying, promote_scope, sanitize, preserve;
    const char *const *promoted, *const *ignored;
    size_t n_promoted, n_ignored;
    const char *strategy;
};

static void read_promoted(struct codec_reader *r, const json_t *value, void *out)
{
    struct otlp *o = out;
    codec_read_texts(r, value, &o->promoted, &o->n_promoted);
}

static void read_ignored(struct codec_reader *r, const json_t *value, void *out)
{
    struct otlp *o = out;
    codec_read_texts(r, value, &o->ignored, &o->n_ignored);
}

static void read_nhcb(struct codec_reader *r, const json_t *value, void *out)
{
    codec_check_bool(r, value, out);
    if (gs_streq(codec_read_text(r, value), "true"))
        codec_reader_ignore(r, "convert_histograms_to_nhcb", value, "otlp");
}

static void check_attributes(struct codec_reader *r, const json_t *value, const char *key,
                             const char *adjective)
{
    const char *const *names;
    size_t n;
    codec_read_texts(r, json_object_get(value, key), &names, &n);
    for (size_t i = 0; i < n; i++) {
        struct gs_slice name = gs_slice_trim(gs_slice_of(names[i]));
        if (!name.len)
            codec_reader_fail(r, value, "invalid '%s': empty %s OTel resource attribute", key,
                              adjective);
        for (size_t k = 0; k < i; k++)
            if (gs_slice_eq(name, gs_slice_trim(gs_slice_of(names[k]))))
                codec_reader_fail(
                    r, value,
                    "invalid '%s': duplicated %s OTel resource attribute \"" GS_SLICE_FMT "\"", key,
                    adjective, GS_SLICE_ARG(name));
    }
}

static void check_otlp(struct codec_reader *r, const json_t *value, const struct otlp *o)
{
    if (o->promote_all && o->n_promoted)
        codec_reader_fail(
            r, value,
            "'promote_all_resource_attributes' and 'promote_resource_attributes' cannot be "
            "configured simultaneously");
    if (!o->promote_all && o->n_ignored)
        codec_reader_fail(r, value,
                          "'ignore_resource_attributes' cannot be configured unless "
                          "'promote_all_resource_attributes' is true");
    check_attributes(r, value, "promote_resource_attributes", "promoted");
    check_attributes(r, value, "ignore_resource_attributes", "ignored");
    if (*o->strategy && !gs_streq(o->strategy, "UnderscoreEscapingWithSuffixes") &&
        !gs_streq(o->strategy, "UnderscoreEscapingWithoutSuffixes") &&
        !gs_streq(o->strategy, "NoUTF8EscapingWithSuffixes") &&
        !gs_streq(o->strategy, "NoTranslation"))
        codec_reader_fail(r, value, "unsupported OTLP translation strategy \"%s\"", o->strategy);
}

void engine_config_default_otlp(struct engine_config_otlp *o)
{
    *o = (struct engine_config_otlp){
        .suffixes = true,
        .escape = true,
        .sanitize_underscores = true,
        .preserve_underscores = true,
    };
}

#define AT(member) offsetof(struct otlp, member)

void engine_config_read_otlp(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"promote_all_resource_attributes", CODEC_FIELD_BOOL, AT(promote_all), NULL},
        {"promote_resource_attributes", CODEC_FIELD_CUSTOM, 0, read_promoted},
        {"ignore_resource_attributes", CODEC_FIELD_CUSTOM, 0, read_ignored},
        {"translation_strategy", CODEC_FIELD_TEXT, AT(strategy), NULL},
        {"keep_identifying_resource_attributes", CODEC_FIELD_BOOL, AT(keep_identifying), NULL},
        {"convert_histograms_to_nhcb", CODEC_FIELD_CUSTOM, 0, read_nhcb},
        {"promote_scope_metadata", CODEC_FIELD_BOOL, AT(promote_scope), NULL},
        {"label_name_underscore_sanitization", CODEC_FIELD_BOOL, AT(sanitize), NULL},
        {"label_name_preserve_multiple_underscores", CODEC_FIELD_BOOL, AT(preserve), NULL},
        {0},
    };
    struct engine_config *c = out;
    struct otlp o = {.strategy = "", .sanitize = true, .preserve = true};
    codec_read_mapping(r, value, fields, "otlp", &o);
    check_otlp(r, value, &o);
    if (gs_starts(o.strategy, "No") && gs_streq(c->defaults.validation_scheme, "legacy"))
        codec_reader_fail(r, value,
                          "OTLP translation strategy \"%s\" is not allowed when UTF8 is disabled",
                          o.strategy);
    c->otlp = (struct engine_config_otlp){
        .suffixes = !gs_streq(o.strategy, "NoTranslation") &&
                    !gs_streq(o.strategy, "UnderscoreEscapingWithoutSuffixes"),
        .escape = !gs_starts(o.strategy, "No"),
        .promote_all = o.promote_all,
        .keep_identifying = o.keep_identifying,
        .promote_scope = o.promote_scope,
        .sanitize_underscores = o.sanitize,
        .preserve_underscores = o.preserve,
        .attributes = o.promote_all ? o.ignored : o.promoted,
        .n_attributes = o.promote_all ? o.n_ignored : o.n_promoted,
    };
}
#undef AT
