// SPDX-License-Identifier: Apache-2.0
// Scrape pools: their names and configurations, and the steps of relabeling.
#include "engine/api/api_private.h"

#include "codec/json.h"

enum { MAX_LABELS = 64 * 1024 }; // bytes of JSON

void engine_api_scrape_pools(struct engine_api_request *r)
{
    engine_api_reply_json(r, r->api->cfg.scrapes ? scrape_pools_json(r->api->cfg.scrapes)
                                                 : json_pack("{s:[]}", "scrapePools"));
}

// NULL: the error has been sent.
static const struct engine_config_scrape_config *wanted_pool(struct engine_api_request *r,
                                                             bool *ret_named)
{
    const char *name = engine_api_param(r, "scrapePool");
    *ret_named = *name;
    if (!*name) {
        engine_api_fail(r, ENGINE_API_BAD_DATA, "no scrapePool parameter provided");
        return NULL;
    }
    return r->api->cfg.scrapes ? scrape_pool_config(r->api->cfg.scrapes, name) : NULL;
}

static void fail_unknown(struct engine_api_request *r)
{
    engine_api_fail(r, ENGINE_API_BAD_DATA,
                    "error retrieving scrape config: scrape pool \"%s\" not found",
                    engine_api_param(r, "scrapePool"));
}

void engine_api_scrape_pool_config(struct engine_api_request *r)
{
    bool named;
    const struct engine_config_scrape_config *s = wanted_pool(r, &named);
    if (s)
        engine_api_reply_json(r, json_pack("{s:s}", "yaml", s->shown ? s->shown : ""));
    else if (named)
        fail_unknown(r);
}

static json_t *labels_of(const struct engine_config_label_builder *b)
{
    json_t *all = json_object();
    for (size_t i = 0; i < b->len; i++) {
        GS_AUTO_FREE char *name = gs_slice_dup(b->items[i].name);
        json_object_set_new(all, name, json_stringn(b->items[i].value.data, b->items[i].value.len));
    }
    return all;
}

static void reply_steps(struct engine_api_request *r, const struct engine_config_relabels *relabel,
                        const json_t *labels)
{
    struct engine_config_label_builder b = {0};
    const char *name;
    json_t *value, *steps = json_array();
    bool keep = true;
    json_object_foreach ((json_t *)(uintptr_t)labels, name, value)
        engine_config_labels_set(&b, gs_slice_of(name), gs_slice_of(json_string_value(value)));
    for (size_t i = 0; i < relabel->n; i++) {
        const struct engine_config_relabels one = {&relabel->items[i], 1};
        keep = keep && engine_config_relabel(&one, &b);
        json_array_append_new(steps, json_pack("{s:o,s:o,s:b}", "rule",
                                               engine_config_relabel_json(one.items), "output",
                                               keep ? labels_of(&b) : json_object(), "keep", keep));
    }
    engine_config_labels_finish(&b);
    engine_api_reply_json(r, json_pack("{s:o}", "steps", steps));
}

// NULL: the error has been sent.
static json_t *read_labels(struct engine_api_request *r)
{
    const char *text = engine_api_param(r, "labels"), *name;
    json_t *value, *labels = NULL;
    if (!*text) {
        engine_api_fail(r, ENGINE_API_BAD_DATA, "no labels parameter provided");
        return NULL;
    }
    struct gs_error *err = strlen(text) <= MAX_LABELS
                               ? codec_json_parse(gs_slice_of(text), true, &labels)
                               : gs_error_new(GS_ELIMIT, "more than %d bytes", MAX_LABELS);
    if (!err && !json_is_object(labels))
        err = gs_error_new(GS_EINVAL, "not an object");
    if (!err)
        json_object_foreach (labels, name, value)
            if (!err && !json_is_string(value))
                err = gs_error_new(GS_EINVAL, "the value of \"%s\" is not a string", name);
    if (!err)
        return labels;
    json_decref(labels);
    engine_api_fail(r, ENGINE_API_BAD_DATA, "error parsing labels: %s", gs_error_message(err));
    gs_error_free(err);
    return NULL;
}

void engine_api_relabel_steps(struct engine_api_request *r)
{
    bool named;
    const struct engine_config_scrape_config *s = wanted_pool(r, &named);
    json_t *labels = named ? read_labels(r) : NULL;
    if (!labels)
        return;
    if (s)
        reply_steps(r, &s->relabel, labels);
    else
        fail_unknown(r);
    json_decref(labels);
}
