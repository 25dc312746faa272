// SPDX-License-Identifier: Apache-2.0
// A kubelet that misbehaves in every way that a peer on a socket can: the last good map stays, what
// is wrong is told, and a good answer ends it.
#include "patience.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "exporter/attribution.h"
#include "net/grpc/grpc.h"
#include "podresources_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct fixture {
    uv_loop_t loop;
    char dir[64], socket[100];
    struct exporter_attribution *attribution;
    struct grpc_server *server; // a good one, or
    struct raw *raw;            // a bad one
    struct gs_buf list;
    enum grpc_status status; // of the good one's answers
    const char *path;        // the only one that it serves; NULL: v1
    unsigned changes, calls;
    bool hold; // it never answers
};

// --- a good kubelet ---

static void on_cancel(void *arg)
{
    (void)arg;
}

static void on_list(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    struct fixture *f = ctx;
    (void)request;
    f->calls++;
    if (f->hold) {
        grpc_call_on_cancel(call, on_cancel, f);
        return;
    }
    if (f->status == GRPC_OK)
        grpc_call_send(call, gs_buf_slice(&f->list));
    grpc_call_finish(call, f->status, f->status == GRPC_OK ? "" : "rejected by rate limit");
}

static void start_good(struct fixture *f)
{
    f->server = grpc_server_new(&f->loop);
    grpc_server_handle(f->server, f->path ? f->path : "/v1.PodResourcesLister/List", on_list, f);
    assert_ok(grpc_server_listen_unix(f->server, f->socket));
}

static void give(struct fixture *f, const char *pod)
{
    const struct pod_row row = {"default", pod, "main", "nvidia.com/gpu", "GPU-1"};
    pack_list(&row, 1, &f->list);
}

// As plug-ins that give an id for each MiB.
static void give_many(struct fixture *f, const char *pod)
{
    enum { IDS = 300000 };
    Podresources__ListPodResourcesResponse list = PODRESOURCES__LIST_POD_RESOURCES_RESPONSE__INIT;
    Podresources__PodResources p = PODRESOURCES__POD_RESOURCES__INIT, *pods = &p;
    Podresources__ContainerResources c = PODRESOURCES__CONTAINER_RESOURCES__INIT, *containers = &c;
    Podresources__ContainerDevices d[2] = {PODRESOURCES__CONTAINER_DEVICES__INIT,
                                           PODRESOURCES__CONTAINER_DEVICES__INIT};
    Podresources__ContainerDevices *devices[] = {&d[0], &d[1]};
    GS_AUTO_FREE char **ids = gs_alloc_array(IDS, sizeof(*ids));
    static char unit[] = "GPU-11111111-2222-3333-4444-555555555555-_-0", whole[] = "GPU-1";
    char *one = whole;
    for (size_t i = 0; i < IDS; i++)
        ids[i] = unit;
    d[0].resource_name = (char *)"aliyun.com/gpu-mem";
    d[0].device_ids = ids;
    d[0].n_device_ids = IDS;
    d[1].resource_name = (char *)"nvidia.com/gpu";
    d[1].device_ids = &one;
    d[1].n_device_ids = 1;
    c.name = (char *)"main";
    c.devices = devices;
    c.n_devices = 2;
    p.name = (char *)(uintptr_t)pod;
    p.namespace_ = (char *)"default";
    p.containers = &containers;
    p.n_containers = 1;
    list.pod_resources = &pods;
    list.n_pod_resources = 1;
    size_t size = podresources__list_pod_resources_response__get_packed_size(&list);
    gs_buf_clear(&f->list);
    podresources__list_pod_resources_response__pack(&list, (uint8_t *)gs_buf_room(&f->list, size));
    f->list.len = size;
}

// --- a bad one: what it says to each connection, byte by byte ---

struct raw {
    struct fixture *f;
    uv_pipe_t listener;
    uv_pipe_t peer; // one connection at a time; the next one ends it
    bool has_peer;
    struct gs_slice says;
    bool hangs_up;      // after it
    uv_timer_t trickle; // a byte each millisecond
    bool slow;
    size_t said;
    uv_write_t write;
    bool writing;
    unsigned connections;
};

static void on_closed(uv_handle_t *h)
{
    (void)h;
}

static void on_peer_closed(uv_handle_t *h)
{
    ((struct raw *)h->data)->has_peer = false;
}

static void hang_up(struct raw *r)
{
    uv_timer_stop(&r->trickle);
    if (r->has_peer && !uv_is_closing((uv_handle_t *)&r->peer))
        uv_close((uv_handle_t *)&r->peer, on_peer_closed);
}

static void on_written(uv_write_t *w, int status)
{
    struct raw *r = w->data;
    r->writing = false;
    if (status < 0 || (r->said >= r->says.len && r->hangs_up))
        hang_up(r);
}

static void say(struct raw *r, size_t n)
{
    uv_buf_t b = uv_buf_init((char *)(uintptr_t)r->says.data + r->said, (unsigned)n);
    r->said += n;
    r->write.data = r;
    r->writing = true;
    uv_write(&r->write, (uv_stream_t *)&r->peer, &b, 1, on_written);
}

static void on_trickle(uv_timer_t *t)
{
    struct raw *r = t->data;
    if (r->writing) // the one before is not told to be over
        return;
    if (r->said < r->says.len && r->has_peer && !uv_is_closing((uv_handle_t *)&r->peer))
        say(r, 1);
    else
        uv_timer_stop(t);
}

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *ret)
{
    static char trash[4096];
    (void)h, (void)size;
    *ret = uv_buf_init(trash, sizeof(trash));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
    (void)b;
    if (n < 0)
        hang_up(s->data);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct raw *r = listener->data;
    if (status < 0 || r->has_peer)
        return;
    uv_pipe_init(&r->f->loop, &r->peer, 0);
    r->peer.data = r;
    r->has_peer = true;
    r->said = 0;
    r->connections++;
    if (uv_accept(listener, (uv_stream_t *)&r->peer) < 0)
        return;
    uv_read_start((uv_stream_t *)&r->peer, on_alloc, on_read);
    if (r->slow)
        uv_timer_start(&r->trickle, on_trickle, 1, 1);
    else if (r->says.len)
        say(r, r->says.len);
    else if (r->hangs_up)
        hang_up(r);
}

static void start_raw(struct fixture *f, struct gs_slice says, bool hangs_up, bool slow)
{
    struct raw *r = f->raw = gs_alloc(sizeof(*r));
    *r = (struct raw){.f = f, .says = says, .hangs_up = hangs_up, .slow = slow};
    unlink(f->socket);
    uv_pipe_init(&f->loop, &r->listener, 0);
    r->listener.data = r;
    uv_timer_init(&f->loop, &r->trickle);
    r->trickle.data = r;
    assert_int_equal(uv_pipe_bind(&r->listener, f->socket), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&r->listener, 16, on_connection), 0);
}

static void stop_raw(struct fixture *f)
{
    struct raw *r = f->raw;
    if (!r)
        return;
    hang_up(r);
    uv_close((uv_handle_t *)&r->listener, on_closed);
    uv_close((uv_handle_t *)&r->trickle, on_closed);
    for (int i = 0; i < 10 || r->has_peer; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    free(r);
    f->raw = NULL;
}

static void stop_good(struct fixture *f)
{
    grpc_server_free(GS_TAKE(f->server));
    for (int i = 0; i < 10; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
}

// --- set up ---

static void on_change(void *arg)
{
    ((struct fixture *)arg)->changes++;
}

static int setup_with(void **state, unsigned call_timeout_ms)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    (void)signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&f->loop);
    strcpy(f->dir, "/tmp/gpuscale-attribution-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->socket, sizeof(f->socket), "%s/kubelet.sock", f->dir);
    struct exporter_attribution_config cfg = {
        .socket = f->socket,
        .interval_ns = 30 * GS_NS_PER_MS,
        .call_timeout_ms = call_timeout_ms,
        .on_change = on_change,
        .arg = f,
    };
    give(f, "web-0");
    assert_ok(exporter_attribution_new(&f->loop, &cfg, &f->attribution));
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, WAIT_MS);
}

// For peers that never answer.
static int setup_impatient(void **state)
{
    return setup_with(state, 300);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    exporter_attribution_free(f->attribution);
    stop_raw(f);
    grpc_server_free(f->server);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    unlink(f->socket);
    rmdir(f->dir);
    gs_buf_finish(&f->list);
    free(f);
    return 0;
}

static const char *holder(const struct fixture *f)
{
    struct gpu_device d = {.uuid = "GPU-1"};
    const struct exporter_device_map *m = exporter_attribution_map(f->attribution);
    const struct exporter_device_holder *h =
        exporter_device_holders_exclusive(exporter_device_map_find(m, &d, NULL));
    return h ? h->pod : "";
}

#define WAIT_FOR(f, condition)                                                                     \
    do {                                                                                           \
        int64_t deadline_ = gs_mono_ns() + WAIT_NS;                                                \
        while (!(condition) && gs_mono_ns() < deadline_)                                           \
            uv_run(&(f)->loop, UV_RUN_ONCE);                                                       \
        if (!(condition))                                                                          \
            fail_msg("did not come true: %s; problem: %s", #condition,                             \
                     exporter_attribution_status((f)->attribution).problem);                       \
    } while (0)

static bool up(const struct fixture *f)
{
    return exporter_attribution_status(f->attribution).up;
}

// --- tests ---

static void test_every_bad_peer(void **state)
{
    struct fixture *f = *state;
    // Frames of HTTP/2: length (3), type, flags, stream (4). The first is an empty SETTINGS.
    const struct {
        const char *what;
        struct gs_slice says;
        bool hangs_up, slow;
    } peers[] = {
        {"never says anything", GS_SLICE(""), false, false},
        {"hangs up at once", GS_SLICE(""), true, false},
        {"speaks HTTP/1.1", GS_SLICE("HTTP/1.1 400 Bad Request\r\n\r\n"), true, false},
        {"says nonsense", GS_SLICE("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), false,
         false},
        {"only settings", GS_SLICE("\0\0\0\4\0\0\0\0\0"), false, false},
        {"settings and hangs up", GS_SLICE("\0\0\0\4\0\0\0\0\0"), true, false},
        {"settings, byte by byte", GS_SLICE("\0\0\0\4\0\0\0\0\0"), false, true},
        {"headers that cannot be decoded",
         GS_SLICE("\0\0\0\4\0\0\0\0\0\0\0\6\1\4\0\0\0\1\xff\xff\xff\xff\xff\xff"), false, false},
        {"data without headers", GS_SLICE("\0\0\0\4\0\0\0\0\0\0\0\5\0\1\0\0\0\1\0\0\0\0\0"), false,
         false},
        {"a frame that is far too long", GS_SLICE("\0\0\0\4\0\0\0\0\0\xff\xff\xff\0\0\0\0\0\1"),
         false, false},
        {"a frame of a stream that was never opened",
         GS_SLICE("\0\0\0\4\0\0\0\0\0\0\0\1\0\0\0\0\0\77x"), false, false},
        {"goes away", GS_SLICE("\0\0\0\4\0\0\0\0\0\0\0\10\7\0\0\0\0\0\0\0\0\0\0\0\0\0"), false,
         false},
        {"resets the call", GS_SLICE("\0\0\0\4\0\0\0\0\0\0\0\4\3\0\0\0\0\1\0\0\0\7"), false, false},
        {"a frame that is cut off", GS_SLICE("\0\0\0\4\0\0\0\0\0\0\0\20\1\4\0\0\0\1\x88"), true,
         false},
    };
    start_good(f);
    WAIT_FOR(f, up(f));
    assert_string_equal(holder(f), "web-0");
    for (size_t i = 0; i < GS_ARRAY_LEN(peers); i++) {
        stop_good(f);
        start_raw(f, peers[i].says, peers[i].hangs_up, peers[i].slow);
        unsigned failed = (unsigned)exporter_attribution_status(f->attribution).failed;
        WAIT_FOR(f, f->raw->connections > 0 && !up(f) &&
                        exporter_attribution_status(f->attribution).failed > failed);
        if (!exporter_attribution_status(f->attribution).problem[0])
            fail_msg("%s: no word why", peers[i].what);
        if (strcmp(holder(f), "web-0") != 0)
            fail_msg("%s: the last good map is gone", peers[i].what);
        stop_raw(f);
        start_good(f);
        exporter_attribution_request_soon(f->attribution);
        WAIT_FOR(f, up(f));
    }
    assert_int_equal(f->changes, 1); // the answer was the same all the time
}

static void test_too_big_and_nonsense(void **state)
{
    struct fixture *f = *state;
    start_good(f);
    WAIT_FOR(f, up(f));
    static const size_t sizes[] = {3000, (size_t)17 << 20};
    for (size_t i = 0; i < 2; i++) {
        gs_buf_clear(&f->list);
        memset(gs_buf_room(&f->list, sizes[i]), 0xff, sizes[i]);
        f->list.len += sizes[i];
        WAIT_FOR(f, !up(f));
        assert_string_equal(holder(f), "web-0");
        give(f, "web-0");
        WAIT_FOR(f, up(f));
    }
    give_many(f, "web-9");
    assert_true(f->list.len > (size_t)10 << 20);
    WAIT_FOR(f, strcmp(holder(f), "web-9") == 0);
}

// The kubelet allows so many calls a second, of all its clients together.
static void test_rate_limit(void **state)
{
    struct fixture *f = *state;
    f->status = GRPC_RESOURCE_EXHAUSTED;
    start_good(f);
    WAIT_FOR(f, exporter_attribution_status(f->attribution).failed >= 2);
    unsigned calls = f->calls;
    int64_t start = gs_mono_ns();
    for (int i = 0; i < 50; i++) {
        exporter_attribution_request_soon(f->attribution); // new processes do not help against it
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(2000);
    }
    // The next is half a second away at least, of which a part may have passed, and later ones
    // more.
    assert_in_range(f->calls, calls, calls + 1 + (gs_mono_ns() - start) / (500 * GS_NS_PER_MS));
    assert_non_null(strstr(exporter_attribution_status(f->attribution).problem, "rate limit"));
    f->status = GRPC_OK;
    WAIT_FOR(f, up(f));
}

static void test_older_kubelets(void **state)
{
    struct fixture *f = *state;
    f->path = "/v1alpha1.PodResourcesLister/List";
    start_good(f);
    WAIT_FOR(f, up(f));
    assert_string_equal(holder(f), "web-0");
    // It is replaced by one that has v1.
    stop_good(f);
    f->path = NULL;
    give(f, "web-1");
    start_good(f);
    WAIT_FOR(f, strcmp(holder(f), "web-1") == 0);
}

static void test_restarts_and_stale_answers(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 20; i++) {
        char pod[16];
        snprintf(pod, sizeof(pod), "web-%d", i);
        give(f, pod);
        f->hold = i % 3 == 1;
        start_good(f);
        int64_t until = gs_mono_ns() + 20 * GS_NS_PER_MS;
        while (gs_mono_ns() < until)
            uv_run(&f->loop, UV_RUN_NOWAIT);
        stop_good(f);
    }
    f->hold = false;
    give(f, "last");
    start_good(f);
    WAIT_FOR(f, strcmp(holder(f), "last") == 0);
    assert_true(exporter_attribution_requested_ns(f->attribution) > 0);
}

static void test_socket_comes_late(void **state)
{
    struct fixture *f = *state;
    WAIT_FOR(f, exporter_attribution_status(f->attribution).problem[0]);
    assert_non_null(strstr(exporter_attribution_status(f->attribution).problem, "no such file"));
    assert_null(exporter_attribution_map(f->attribution));
    start_good(f);
    WAIT_FOR(f, up(f));
    assert_string_equal(exporter_attribution_status(f->attribution).problem, "");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_bad_peer, setup_impatient, teardown),
        TEST(test_too_big_and_nonsense),
        TEST(test_rate_limit),
        TEST(test_older_kubelets),
        TEST(test_restarts_and_stale_answers),
        TEST(test_socket_comes_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
