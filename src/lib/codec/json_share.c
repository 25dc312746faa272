// SPDX-License-Identifier: Apache-2.0
// Shares the memory of equal parts of similar values: the pods of a Deployment differ in few
// members.
#include "codec/json.h"

static void share_members(json_t *value, const json_t *like, unsigned depth);

// The value that takes the place of this one. NULL: it stays.
static json_t *shared(json_t *value, json_t *like, unsigned depth)
{
    if (!like || value == like || json_typeof(value) != json_typeof(like))
        return NULL;
    if (json_equal(value, like))
        return like;
    share_members(value, like, depth + 1);
    return NULL;
}

static void share_members(json_t *value, const json_t *like, unsigned depth)
{
    json_t *member, *other;
    size_t i;
    if (depth > CODEC_JSON_MAX_DEPTH)
        return;
    if (json_is_object(value)) {
        for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at)) {
            other = json_object_get(like, json_object_iter_key(at));
            other = shared(json_object_iter_value(at), other, depth);
            if (other)
                json_object_iter_set(value, at, other);
        }
    } else {
        json_array_foreach (value, i, member) {
            other = shared(member, json_array_get(like, i), depth);
            if (other)
                json_array_set(value, i, other);
        }
    }
}

void codec_json_share(json_t *value, const json_t *like)
{
    if (value != like && json_typeof(value) == json_typeof(like))
        share_members(value, like, 0);
}
