// SPDX-License-Identifier: Apache-2.0
// The paths of the server: those of OpenAI's API, of vLLM and of SGLang that load balancers,
// probes and scrapers use.
#include "inference/server_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/http/routes.h"

void inference_server_add_header(const struct inference_server *s, struct http_exchange *x)
{
    char release[INFERENCE_RELEASE_SIZE], text[64];
    snprintf(text, sizeof(text), "SIMULATED %s %s", inference_dialect_engine(&s->dialect),
             inference_dialect_release(&s->dialect, release));
    http_add_header(x, "X-Gpuscale-Engine", text);
}

void inference_reply_error(struct http_exchange *x, int status, const char *type, const char *fmt,
                           ...)
{
    GS_AUTO_BUF struct gs_buf message = {0}, body = {0};
    va_list ap;
    va_start(ap, fmt);
    gs_buf_vaddf(&message, fmt, ap);
    va_end(ap);
    gs_buf_add_str(&body, "{\"error\":{\"message\":");
    codec_json_add_string(&body, gs_buf_slice(&message), CODEC_JSON_PLAIN);
    gs_buf_addf(&body, ",\"type\":\"%s\",\"param\":null,\"code\":%d}}", type, status);
    http_reply(x, status, HTTP_TYPE_JSON, gs_buf_slice(&body));
}

// False: the request has been answered, because the engine does not serve yet or sleeps.
static bool is_serving(const struct inference_server *s, struct http_exchange *x)
{
    if (s->ready)
        return true;
    inference_reply_error(x, 503, "ServiceUnavailableError", "The engine is starting.");
    return false;
}

// --- requests ---

static void handle_completion(void *ctx, struct http_exchange *x)
{
    if (is_serving(ctx, x))
        inference_answer_begin(ctx, x, false);
}

static void handle_chat(void *ctx, struct http_exchange *x)
{
    if (is_serving(ctx, x))
        inference_answer_begin(ctx, x, true);
}

// --- state ---

static void handle_health(void *ctx, struct http_exchange *x)
{
    const struct inference_server *s = ctx;
    inference_server_add_header(s, x);
    http_reply(x, s->ready ? 200 : 503, "text/plain; charset=utf-8", GS_SLICE(""));
}

static void handle_models(void *ctx, struct http_exchange *x)
{
    const struct inference_server *s = ctx;
    inference_server_add_header(s, x);
    json_t *j =
        json_pack("{s:s, s:[{s:s, s:s, s:I, s:s, s:s, s:n, s:I}]}", "object", "list", "data", "id",
                  s->model_name, "object", "model", "created", (json_int_t)s->created_s, "owned_by",
                  "gpuscale-SIMULATED", "root", s->o->model, "parent", "max_model_len",
                  (json_int_t)s->parameters.max_model_len);
    GS_AUTO_BUF struct gs_buf body = {0};
    codec_json_dump(j, &body);
    json_decref(j);
    http_reply(x, 200, HTTP_TYPE_JSON, gs_buf_slice(&body));
}

static void write_version(void *ctx, struct gs_buf *out)
{
    const struct inference_server *s = ctx;
    char release[INFERENCE_RELEASE_SIZE];
    gs_buf_addf(out, "{\"version\":\"%s\",\"engine\":\"%s\",\"simulated\":true}",
                inference_dialect_release(&s->dialect, release),
                inference_dialect_engine(&s->dialect));
}

static void write_load(void *ctx, struct gs_buf *out)
{
    const struct inference_server *s = ctx;
    struct inference_state state = inference_model_state(s->model);
    gs_buf_addf(out, "{\"server_load\":%u}", state.waiting + state.running);
}

// --- sleep ---

static void set_sleep(struct inference_server *s, unsigned level)
{
    s->sleep_level = level;
    if (level)
        inference_gpu_release(s->gpu);
    inference_model_sleep(s->model, level > 0, gs_mono_ns());
    inference_server_pump(s);
}

static void handle_sleep(void *ctx, struct http_exchange *x)
{
    const char *level = http_query(x, "level");
    if (!is_serving(ctx, x))
        return;
    set_sleep(ctx, level && gs_streq(level, "2") ? 2 : 1);
    http_reply(x, 200, HTTP_TYPE_JSON, GS_SLICE(""));
}

static void handle_wake_up(void *ctx, struct http_exchange *x)
{
    struct inference_server *s = ctx;
    if (!is_serving(s, x))
        return;
    struct gs_error *err = s->sleep_level ? inference_gpu_allocate(s->gpu, s->sizes.weights) : NULL;
    if (!err && s->sleep_level)
        err = inference_gpu_allocate(s->gpu, s->sizes.kv);
    if (err) {
        inference_reply_error(x, 500, "InternalServerError", "%s", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    set_sleep(s, 0);
    http_reply(x, 200, HTTP_TYPE_JSON, GS_SLICE(""));
}

static void write_is_sleeping(void *ctx, struct gs_buf *out)
{
    const struct inference_server *s = ctx;
    gs_buf_addf(out, "{\"is_sleeping\":%s}", s->sleep_level ? "true" : "false");
}

// --- metrics ---

// Tokens a second since the last page, at least a second ago.
static void update_rate(struct inference_server *s)
{
    int64_t now = gs_mono_ns();
    double tokens = s->stats[0].output_tokens + s->stats[1].output_tokens;
    if (now - s->rate_at < GS_NS_PER_SEC)
        return;
    s->rate = (tokens - s->rate_tokens) / ((double)(now - s->rate_at) / 1e9);
    s->rate_at = now;
    s->rate_tokens = tokens;
}

static void handle_metrics(void *ctx, struct http_exchange *x)
{
    struct inference_server *s = ctx;
    GS_AUTO_BUF struct gs_buf out = {0};
    if (s->dialect.engine == INFERENCE_SGLANG && !s->o->enable_metrics) {
        http_reply_text(x, 404, "{\"detail\":\"Not Found\"}\n");
        return;
    }
    update_rate(s);
    const struct inference_page page = {
        .model_name = s->model_name,
        .stats = s->stats,
        .state = inference_model_state(s->model),
        .parameters = &s->parameters,
        .gpu_memory_utilization = s->memory_utilization,
        .rejected = s->rejected,
        .created_s = s->created_s,
        .generation_s = s->rate,
        .load_s = s->load_s,
        .allocation_s = s->allocation_s,
        .startup_s = s->startup_s,
        .sleep_level = s->sleep_level,
    };
    inference_dialect_write(&s->dialect, &page, &out);
    inference_server_add_header(s, x);
    http_reply(x, 200, HTTP_TYPE_METRICS, gs_buf_slice(&out));
}

const struct http_route inference_server_rows[] = {
    {.path = "/v1/completions", .handle = handle_completion, .methods = HTTP_POST},
    {.path = "/v1/chat/completions", .handle = handle_chat, .methods = HTTP_POST},
    {.path = "/v1/models", .handle = handle_models},
    {.path = "/health", .handle = handle_health},
    {.path = "/health_generate", .handle = handle_health},
    {.path = "/ping", .handle = handle_health, .methods = HTTP_READ | HTTP_POST},
    {.path = "/version", .write = write_version, .type = HTTP_TYPE_JSON},
    {.path = "/load", .write = write_load, .type = HTTP_TYPE_JSON},
    {.path = "/sleep", .handle = handle_sleep, .methods = HTTP_POST},
    {.path = "/wake_up", .handle = handle_wake_up, .methods = HTTP_POST},
    {.path = "/is_sleeping", .write = write_is_sleeping, .type = HTTP_TYPE_JSON},
    {.path = "/metrics", .handle = handle_metrics},
    {0},
};
