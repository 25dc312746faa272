// SPDX-License-Identifier: Apache-2.0
// Webhooks of the replaced programs: every object is admitted as it is, and converted by its
// apiVersion alone. The API of `up` calls none of them; a user who does gets a valid answer.
#include "base/mem.h"
#include "local/standin/standin_private.h"
#include "net/http/routes.h"

static void convert(const json_t *request, json_t *response)
{
    const char *version = codec_json_str(request, "desiredAPIVersion", NULL);
    json_t *converted = json_array(), *object, *result = json_object();
    size_t i;
    json_array_foreach (json_object_get(request, "objects"), i, object) {
        json_t *copy = json_deep_copy(object);
        if (json_is_object(copy) && version)
            codec_json_set_str(copy, "apiVersion", version);
        json_array_append_new(converted, copy);
    }
    codec_json_set_str(result, "status", "Success");
    json_object_set_new(response, "convertedObjects", converted);
    json_object_set_new(response, "result", result);
}

// A review without its request, with the response.
static json_t *respond(const json_t *review)
{
    const json_t *request = json_object_get(review, "request");
    const char *kind = codec_json_str(review, "kind", NULL);
    json_t *out = json_object(), *response = json_object();
    codec_json_set_str(out, "apiVersion", codec_json_str(review, "apiVersion", NULL));
    codec_json_set_str(out, "kind", kind);
    codec_json_set_str(response, "uid", codec_json_str(request, "uid", NULL));
    if (gs_streq(kind, "ConversionReview"))
        convert(request, response);
    else
        codec_json_set_bool(response, "allowed", true);
    json_object_set_new(out, "response", response);
    return out;
}

bool standin_webhook_answer(struct standin_session *s, int port, struct http_exchange *x)
{
    if (!gs_streq(http_method(x), "POST"))
        return false;
    CODEC_AUTO_JSON json_t *review = NULL;
    GS_AUTO_ERROR struct gs_error *err = codec_json_parse(http_body(x), false, &review);
    if (err || !json_is_object(json_object_get(review, "request"))) {
        http_reply_text(x, 400, "the body is not an AdmissionReview or ConversionReview\n");
        return true;
    }
    CODEC_AUTO_JSON json_t *answer = respond(review);
    GS_AUTO_BUF struct gs_buf text = {0};
    codec_json_dump(answer, &text);
    http_reply(x, 200, HTTP_TYPE_JSON, gs_buf_slice(&text));
    return true;
}
