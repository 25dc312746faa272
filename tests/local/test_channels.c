// SPDX-License-Identifier: Apache-2.0
// Numbered channels over a WebSocket.
#include "unit.h"

#include "base/mem.h"

#include "local/kubelet/portforward.h"

static void on_output(void *arg, struct gs_slice bytes)
{
    gs_buf_add_slice(arg, bytes);
}

// Receives a message in pieces of `size` bytes, as "CHANNEL:BYTES", or "-" without a channel.
static char *received(const char *protocol, const char *message, size_t size)
{
    struct kubelet_channels c;
    struct gs_slice rest = gs_slice_of(message), bytes;
    GS_AUTO_BUF struct gs_buf out = {0};
    bool any = false;

    kubelet_channels_init(&c, NULL, protocol);
    for (bool first = true; first || rest.len; first = false) {
        struct gs_slice part = gs_slice_make(rest.data, rest.len < size ? rest.len : size);
        rest.data += part.len;
        rest.len -= part.len;
        if (!kubelet_channels_receive(&c, part, first, &bytes))
            continue;
        if (!any)
            gs_buf_addf(&out, "%u:", c.channel);
        any = true;
        gs_buf_add_slice(&out, bytes);
    }
    kubelet_channels_finish(&c);
    return any ? gs_buf_take(&out) : gs_strdup("-");
}

static void expect(const char *protocol, const char *message, const char *wanted)
{
    for (size_t size = 1; size <= strlen(message) + 1; size++) {
        GS_AUTO_FREE char *got = received(protocol, message, size);
        assert_string_equal(got, wanted);
    }
}

static void test_messages_in_pieces_have_one_channel(void **state)
{
    (void)state;
    expect("v4.channel.k8s.io", "\x02hello", "2:hello");
    expect(NULL, "\x01hello", "1:hello");
    expect("v4.base64.channel.k8s.io", "0aGVsbG8=", "0:hello");
    expect("base64.channel.k8s.io", "4aGVsbG8gYWdhaW4=", "4:hello again");
    expect("base64.channel.k8s.io", "1", "1:");
}

static void test_malformed_base64_is_for_no_channel(void **state)
{
    (void)state;
    GS_AUTO_FREE char *whole = received("base64.channel.k8s.io", "0!!!!aGVsbG8=", 100);
    GS_AUTO_FREE char *pieces = received("base64.channel.k8s.io", "0aGVsbG8g!!!!aGVsbG8=", 4);
    assert_string_equal(whole, "-");
    assert_string_equal(pieces, "0:hello ");
    expect("base64.channel.k8s.io",
           "\x01"
           "aGVsbG8=",
           "-");
}

static void test_messages_are_text_in_base64(void **state)
{
    static const struct websocket_callbacks callbacks = {.on_output = on_output};
    struct kubelet_channels c;
    GS_AUTO_BUF struct gs_buf frames = {0};
    struct websocket *w = websocket_new(&callbacks, &frames);

    (void)state;
    kubelet_channels_init(&c, w, "v4.base64.channel.k8s.io");
    kubelet_channels_send(&c, 1, GS_SLICE("hello"));
    assert_true(gs_slice_eq(gs_buf_slice(&frames), GS_SLICE("\x81\x09"
                                                            "1aGVsbG8=")));
    gs_buf_clear(&frames);
    kubelet_channels_init(&c, w, "v5.channel.k8s.io");
    kubelet_channels_send(&c, 1, GS_SLICE("hello"));
    assert_true(gs_slice_eq(gs_buf_slice(&frames), GS_SLICE("\x82\x06"
                                                            "\x01hello")));
    kubelet_channels_finish(&c);
    websocket_free(w);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_in_pieces_have_one_channel),
        cmocka_unit_test(test_malformed_base64_is_for_no_channel),
        cmocka_unit_test(test_messages_are_text_in_base64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
