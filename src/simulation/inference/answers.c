// SPDX-License-Identifier: Apache-2.0
// The answer to a request: whole, or a stream of events with one token each. The text is made of
// constant words and begins with SIMULATED. If the client goes away, the request is aborted.
#include "inference/server_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "net/http/routes.h"

struct inference_answer {
    struct inference_server *server;
    struct inference_sequence *sequence; // NULL: it has ended
    struct http_exchange *x;             // until the answer
    struct http_stream *stream;          // while it is open
    bool chat, streamed, include_usage;
    uint64_t *blocks; // of the prompt
    size_t n_blocks;
    char id[48];
    int64_t created; // Unix seconds
};

#define FINGERPRINT "gpuscale-SIMULATED"

static const char *const words[] = {"SIMULATED", " this",  " text", " comes",  " from", " a",
                                    " model",    " of",    " an",   " engine", " that", " computes",
                                    " no",       " words", " at",   " all."};

static const char *word_of(uint32_t nth)
{
    size_t n = GS_ARRAY_LEN(words);
    return nth == 1 ? words[0] : words[1 + (nth - 2) % (n - 1)];
}

static const char *reason_text(enum inference_reason reason)
{
    return reason == INFERENCE_LENGTH ? "length" : reason == INFERENCE_ABORT ? "abort" : "stop";
}

bool inference_answer_is_streamed(const struct inference_answer *a)
{
    return a->streamed;
}

// --- JSON ---

static void add_head(const struct inference_answer *a, const char *object, struct gs_buf *out)
{
    gs_buf_addf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", a->id, object,
                (long long)a->created);
    codec_json_add_string(out, gs_slice_of(a->server->model_name), CODEC_JSON_PLAIN);
    gs_buf_add_str(out, ",\"system_fingerprint\":\"" FINGERPRINT "\",\"choices\":[");
}

static void add_usage(const struct inference_finished *f, struct gs_buf *out)
{
    gs_buf_addf(out,
                "\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u,\"completion_tokens\":%u,"
                "\"prompt_tokens_details\":{\"cached_tokens\":%u}}",
                f->prompt_tokens, f->prompt_tokens + f->output_tokens, f->output_tokens,
                f->cached_tokens);
}

static void add_text(uint32_t tokens, struct gs_buf *out)
{
    gs_buf_add_char(out, '"');
    for (uint32_t i = 1; i <= tokens; i++)
        gs_buf_add_str(out, word_of(i));
    gs_buf_add_char(out, '"');
}

static void write_whole(const struct inference_answer *a, const struct inference_finished *f,
                        struct gs_buf *out)
{
    add_head(a, a->chat ? "chat.completion" : "text_completion", out);
    gs_buf_add_str(out, "{\"index\":0,");
    gs_buf_add_str(out, a->chat ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":");
    add_text(f->output_tokens, out);
    gs_buf_addf(out, "%s,\"logprobs\":null,\"finish_reason\":\"%s\",\"stop_reason\":null}],",
                a->chat ? "}" : "", reason_text(f->reason));
    add_usage(f, out);
    gs_buf_add_char(out, '}');
}

// --- streams ---

// One event. finish_reason NULL: it goes on.
static void send_chunk(const struct inference_answer *a, const char *text, const char *finish)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_buf_add_str(&out, "data: ");
    add_head(a, a->chat ? "chat.completion.chunk" : "text_completion", &out);
    if (a->chat && *text)
        gs_buf_addf(&out, "{\"index\":0,\"delta\":{\"content\":\"%s\"}", text);
    else if (a->chat)
        gs_buf_addf(&out, "{\"index\":0,\"delta\":{%s}",
                    finish ? "" : "\"role\":\"assistant\",\"content\":\"\"");
    else
        gs_buf_addf(&out, "{\"index\":0,\"text\":\"%s\"", text);
    gs_buf_addf(&out, ",\"logprobs\":null,\"finish_reason\":%s%s%s}]}\n\n", finish ? "\"" : "",
                finish ? finish : "null", finish ? "\"" : "");
    http_stream_write(a->stream, gs_buf_slice(&out));
}

static void send_usage(const struct inference_answer *a, const struct inference_finished *f)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_buf_add_str(&out, "data: ");
    add_head(a, a->chat ? "chat.completion.chunk" : "text_completion", &out);
    gs_buf_add_str(&out, "],");
    add_usage(f, &out);
    gs_buf_add_str(&out, "}\n\n");
    http_stream_write(a->stream, gs_buf_slice(&out));
}

static void end_stream(struct inference_answer *a, const struct inference_finished *f)
{
    if (f->reason == INFERENCE_ERROR) {
        http_stream_write(a->stream, GS_SLICE("data: {\"error\":{\"message\":\"SIMULATED failure "
                                              "(--fail-ratio)\",\"type\":\"InternalServerError\","
                                              "\"param\":null,\"code\":500}}\n\n"));
    } else {
        send_chunk(a, "", reason_text(f->reason));
        if (a->include_usage)
            send_usage(a, f);
    }
    http_stream_write(a->stream, GS_SLICE("data: [DONE]\n\n"));
    http_stream_end(a->stream);
}

// --- events of the model ---

static void free_answer(struct inference_answer *a)
{
    free(a->blocks);
    free(a);
}

void inference_answer_token(struct inference_answer *a, uint32_t nth)
{
    if (nth == 1 && a->server->prefixes) // the prompt has been computed
        inference_prefix_cache_add(a->server->prefixes, a->blocks, a->n_blocks);
    if (a->stream)
        send_chunk(a, word_of(nth), NULL);
}

static void reply_whole(struct inference_answer *a, const struct inference_finished *f)
{
    GS_AUTO_BUF struct gs_buf body = {0};
    if (f->reason == INFERENCE_ERROR) {
        inference_reply_error(a->x, 500, "InternalServerError", "SIMULATED failure (--fail-ratio)");
        return;
    }
    write_whole(a, f, &body);
    http_reply(a->x, 200, HTTP_TYPE_JSON, gs_buf_slice(&body));
}

void inference_answer_finish(struct inference_answer *a, const struct inference_finished *f)
{
    a->sequence = NULL;
    if (a->stream) { // on_close() frees the answer
        end_stream(a, f);
        return;
    }
    if (a->x)
        reply_whole(a, f);
    free_answer(a);
}

// --- clients that go away ---

static void abort_request(struct inference_answer *a)
{
    inference_model_cancel(a->server->model, a->sequence, gs_mono_ns());
}

static void on_abort(void *arg)
{
    struct inference_answer *a = arg;
    a->x = NULL;
    abort_request(a); // frees a
}

static void on_close(void *arg)
{
    struct inference_answer *a = arg;
    a->stream = NULL;
    if (a->sequence)
        abort_request(a); // frees a
    else
        free_answer(a);
}

// --- begin ---

static void refuse(struct inference_server *s, struct http_exchange *x,
                   enum inference_admission admission, const struct inference_call *call)
{
    if (admission == INFERENCE_TOO_LONG) {
        inference_reply_error(x, 400, "BadRequestError",
                              "This model's maximum context length is %u tokens. However, your "
                              "request has %u input tokens.",
                              s->parameters.max_model_len, call->request.prompt_tokens);
        return;
    }
    s->rejected++;
    inference_reply_error(x, 503, "ServiceUnavailableError",
                          "The request queue is full: %u requests wait.",
                          inference_model_state(s->model).waiting);
}

static void parse_failed(struct http_exchange *x, struct gs_error *err)
{
    bool absent = gs_error_code(err) == GS_ENOTFOUND;
    inference_reply_error(x, absent ? 404 : 400, absent ? "NotFoundError" : "BadRequestError", "%s",
                          gs_error_message(err));
    gs_error_free(err);
}

static struct inference_answer *new_answer(struct inference_server *s,
                                           const struct inference_call *call, bool chat)
{
    struct inference_answer *a = gs_alloc(sizeof(*a));
    GS_AUTO_FREE char *id = gs_random_hex(12);
    a->server = s;
    a->chat = chat;
    a->streamed = call->stream;
    a->include_usage = call->include_usage;
    a->blocks = call->blocks;
    a->n_blocks = call->n_blocks;
    a->created = gs_unix_ms() / 1000;
    snprintf(a->id, sizeof(a->id), "%s-%s", chat ? "chatcmpl" : "cmpl", id);
    return a;
}

void inference_answer_begin(struct inference_server *s, struct http_exchange *x, bool chat)
{
    struct inference_call call;
    inference_server_add_header(s, x);
    struct gs_error *err = inference_call_parse(s, http_body(x), chat, &call);
    if (err) {
        parse_failed(x, err);
        return;
    }
    struct inference_answer *a = new_answer(s, &call, chat);
    call.request.user = a;
    if (s->prefixes)
        call.request.cached_tokens =
            (uint32_t)inference_prefix_cache_find(s->prefixes, call.blocks, call.n_blocks) *
            s->parameters.block_size;
    enum inference_admission admission =
        inference_model_add(s->model, gs_mono_ns(), &call.request, &a->sequence);
    if (admission != INFERENCE_ADMITTED) {
        refuse(s, x, admission, &call);
        free_answer(a);
        return;
    }
    s->n_requests++;
    if (call.stream) {
        a->stream = http_reply_stream(x, 200, "text/event-stream; charset=utf-8", on_close, a);
        if (chat)
            send_chunk(a, "", NULL);
    } else {
        a->x = x;
        http_on_abort(x, on_abort, a);
    }
    inference_server_pump(s);
}
