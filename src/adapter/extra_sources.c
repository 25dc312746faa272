// SPDX-License-Identifier: Apache-2.0
// The further sources that a configuration names, in the order of its list: a rule has the index
// of its source.
#include "adapter/sources.h"

#include "base/mem.h"

static struct gs_error *make_extra_source(uv_loop_t *loop, const struct adapter_config_source *s,
                                          struct engine *engine, int64_t max_age_ms,
                                          struct source **ret)
{
    struct source_options o = {
        .post = s->post, .timeout_ms = s->timeout_ms, .max_age_ms = max_age_ms};
    if (s->engine && !engine)
        return gs_error_new(GS_EINVAL, "no engine runs in this process");
    if (s->engine) {
        *ret = adapter_source_new_engine(loop, engine, s->timeout_ms, max_age_ms);
        return NULL;
    }
    struct gs_arena mem = {0};
    o.url = s->url;
    o.endpoint = s->http;
    struct gs_error *err = endpoint_add_headers(&o.endpoint, s->headers, s->n_headers, &mem);
    if (!err)
        err = source_new_remote(loop, &o, ret);
    gs_arena_finish(&mem);
    return err;
}

struct gs_error *adapter_extra_sources_new(uv_loop_t *loop, const struct adapter_config *c,
                                           struct engine *engine, int64_t max_age_ms,
                                           struct source ***ret)
{
    if (!c->n_sources)
        return NULL;
    struct source **list = gs_alloc_array(c->n_sources, sizeof(struct source *));
    for (size_t i = 0; i < c->n_sources; i++) {
        const struct adapter_config_source *s = &c->sources[i];
        struct gs_error *err = make_extra_source(loop, s, engine, max_age_ms, &list[i]);
        if (err) {
            adapter_extra_sources_free(list, i);
            return gs_error_wrap(err, "%s: source %s", s->place, s->name);
        }
    }
    *ret = list;
    return NULL;
}

void adapter_extra_sources_free(struct source **sources, size_t n)
{
    for (size_t i = 0; sources && i < n; i++)
        source_free(sources[i]);
    free(sources);
}

bool adapter_extra_sources_need_engine(const struct adapter_config *c)
{
    for (size_t i = 0; i < c->n_sources; i++)
        if (c->sources[i].engine)
            return true;
    return false;
}
