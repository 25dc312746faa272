// SPDX-License-Identifier: Apache-2.0
// Reads requests of the API of OpenAI, with the additions of vLLM (ignore_eos, stream_options). A
// token is estimated as four bytes of text; lists of numbers are tokens.
#include "inference/server_private.h"

#include "base/mem.h"

enum { BYTES_A_TOKEN = 4, DEFAULT_COMPLETION = 16 };

// --- prompts ---

static uint64_t tokens_of_bytes(size_t bytes)
{
    return (bytes + BYTES_A_TOKEN - 1) / BYTES_A_TOKEN;
}

static void add_tokens(const json_t *list, struct gs_buf *text)
{
    size_t i;
    json_t *token;
    json_array_foreach (list, i, token) {
        uint32_t number = (uint32_t)json_integer_value(token);
        gs_buf_add(text, &number, sizeof(number)); // BYTES_A_TOKEN
    }
}

// "prompt": a text, a list of tokens, or a list with one of them. Adds the bytes to the text.
static struct gs_error *count_prompt(const json_t *prompt, struct gs_buf *text, uint64_t *ret)
{
    if (json_is_array(prompt) && json_array_size(prompt) == 1 &&
        !json_is_integer(json_array_get(prompt, 0)))
        prompt = json_array_get(prompt, 0);
    if (json_is_string(prompt))
        gs_buf_add(text, json_string_value(prompt), json_string_length(prompt));
    else if (json_is_array(prompt) && json_is_integer(json_array_get(prompt, 0)))
        add_tokens(prompt, text);
    else if (json_is_array(prompt) && json_array_size(prompt))
        return gs_error_new(GS_EINVAL, "prompt: the simulator answers one prompt a request");
    else
        return gs_error_new(GS_EINVAL, "prompt: want a text or a list of tokens");
    *ret = tokens_of_bytes(text->len);
    return NULL;
}

static void add_string(const json_t *string, struct gs_buf *text)
{
    if (json_is_string(string))
        gs_buf_add(text, json_string_value(string), json_string_length(string));
}

// The content of a message: a text, or parts with a text.
static void add_content(const json_t *content, struct gs_buf *text)
{
    size_t i;
    json_t *part;
    add_string(content, text);
    json_array_foreach (content, i, part)
        add_string(json_object_get(part, "text"), text);
}

static struct gs_error *count_messages(const json_t *messages, struct gs_buf *text, uint64_t *ret)
{
    size_t i;
    json_t *message;
    if (!json_array_size(messages))
        return gs_error_new(GS_EINVAL, "messages: want a list of at least one message");
    json_array_foreach (messages, i, message) {
        gs_buf_add_str(text, "<|role|>"); // the template of a chat adds a few tokens
        add_string(json_object_get(message, "role"), text);
        add_content(json_object_get(message, "content"), text);
    }
    *ret = tokens_of_bytes(text->len);
    return NULL;
}

// --- the other members ---

static struct gs_error *read_limit(const json_t *body, const char *name, uint32_t *ret)
{
    const json_t *value = json_object_get(body, name);
    json_int_t number = json_integer_value(value);
    if (!value || json_is_null(value))
        return NULL;
    if (!json_is_integer(value) || number < 1)
        return gs_error_new(GS_EINVAL, "%s must be at least 1", name);
    *ret = number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
    return NULL;
}

static struct gs_error *check_model(const struct inference_server *s, const json_t *body)
{
    const char *model = codec_json_str(body, "model", NULL);
    if (!model || !*model || gs_streq(model, s->model_name))
        return NULL;
    return gs_error_new(GS_ENOTFOUND, "The model `%.200s` does not exist.", model);
}

static struct gs_error *read_body(const struct inference_server *s, const json_t *body, bool chat,
                                  struct inference_call *ret)
{
    uint64_t tokens = 0;
    struct inference_call call = {0};
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = chat ? count_messages(json_object_get(body, "messages"), &text, &tokens)
                                : count_prompt(json_object_get(body, "prompt"), &text, &tokens);
    if (!err)
        err = read_limit(body, "max_tokens", &call.request.max_tokens);
    if (!err)
        err = read_limit(body, "max_completion_tokens", &call.request.max_tokens);
    if (err)
        return err;
    if (!chat && !call.request.max_tokens)
        call.request.max_tokens = DEFAULT_COMPLETION;
    call.request.prompt_tokens = tokens < 1            ? 1
                                 : tokens < UINT32_MAX ? (uint32_t)tokens
                                                       : UINT32_MAX;
    call.request.ignore_eos = codec_json_bool(body, false, "ignore_eos", NULL);
    call.stream = codec_json_bool(body, false, "stream", NULL);
    call.include_usage = codec_json_bool(body, false, "stream_options", "include_usage", NULL);
    if (s->prefixes)
        call.n_blocks = inference_prefix_blocks(
            gs_buf_slice(&text), (size_t)s->parameters.block_size * BYTES_A_TOKEN, &call.blocks);
    *ret = call;
    return NULL;
}

struct gs_error *inference_call_parse(const struct inference_server *s, struct gs_slice body,
                                      bool chat, struct inference_call *ret)
{
    CODEC_AUTO_JSON json_t *j = NULL;
    struct gs_error *err = codec_json_parse(body, false, &j);
    if (!err && !json_is_object(j))
        err = gs_error_new(GS_EINVAL, "the body is not a JSON object");
    if (!err)
        err = check_model(s, j);
    return err ? err : read_body(s, j, chat, ret);
}
