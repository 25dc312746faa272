#!/usr/bin/env python3
"""The published Python clients against the API of `gpuscale up`. KUBECONFIG has the cluster.

The namespace default has the running pod "web", whose server is that of --serve at port 8000 and which has the environment
variable COLOUR, and the Service "web" at port 80. Each client is a function. Exit code 1: a check failed.

Usage: python_clients.py CLIENT
       python_clients.py --serve PORT   serves files of this folder, an echo over WebSocket at /socket, a redirect at /moved"""
import asyncio
import hashlib
import http.server
import socket
import sys
from base64 import b64decode, b64encode


def check(what, expected, got):
    if expected != got:
        sys.exit(f"{what}: {got!r} instead of {expected!r}")


def http_get(sock, path="/hello.txt"):
    """Sends a request on a connected socket, and returns the body of the reply."""
    sock.sendall(f"GET {path} HTTP/1.0\r\nHost: web\r\n\r\n".encode())
    reply = b""
    while piece := sock.recv(65536):
        reply += piece
    return reply.partition(b"\r\n\r\n")[2]


# --- kubernetes ---

def official_port_forward(core):
    from kubernetes.stream import portforward
    forward = portforward(core.connect_get_namespaced_pod_portforward, "web", "default", ports="8000,9999")
    check("port-forward", b"hello\n", http_get(forward.socket(8000)))
    forward.socket(9999).recv(1)
    refused = forward.error(9999)
    if not refused or "error forwarding port 9999 to pod web" not in refused or "connection refused" not in refused:
        sys.exit(f"closed port: {refused!r}")
    # Large transfers in both directions.
    forward = portforward(core.connect_get_namespaced_pod_portforward, "web", "default", ports="8000")
    check("10 MB", 10_000_000, len(http_get(forward.socket(8000), "/large")))
    check("no error", None, forward.error(8000))


def official_exec(core):
    from kubernetes.stream import stream
    out = stream(core.connect_get_namespaced_pod_exec, "web", "default", command=["sh", "-c", "echo $COLOUR; echo err >&2"],
                 stdout=True, stderr=True)
    check("exec", ["err", "green"], sorted(out.split()))
    session = stream(core.connect_get_namespaced_pod_exec, "web", "default", command=["sh", "-c", "read line; echo got $line; exit 4"],
                     stdin=True, stdout=True, stderr=True, _preload_content=False)
    session.write_stdin("input\n")
    session.run_forever(timeout=60)
    check("exec with input", "got input\n", session.read_stdout())
    check("exit code", 4, session.returncode)


def websocket(protocol, path, of="pods/web"):
    """A raw WebSocket to a subresource."""
    import ssl
    from kubernetes import client
    from websocket import create_connection
    configuration = client.Configuration.get_default_copy()
    return create_connection(
        configuration.host.replace("https", "wss") + f"/api/v1/namespaces/default/{of}/{path}",
        subprotocols=[protocol] if protocol else None,
        sslopt={"ca_certs": configuration.ssl_ca_cert, "certfile": configuration.cert_file, "keyfile": configuration.key_file,
                "cert_reqs": ssl.CERT_REQUIRED},
        header={"authorization": configuration.api_key.get("authorization", "")}, timeout=120)


def messages(connection, base64):
    """The bytes of each channel until the server closes."""
    import websocket as library
    channels = {}
    while True:
        try:
            opcode, data = connection.recv_data()
        except library.WebSocketConnectionClosedException:
            return channels
        if opcode == library.ABNF.OPCODE_CLOSE:
            return channels
        check("opcode", library.ABNF.OPCODE_TEXT if base64 else library.ABNF.OPCODE_BINARY, opcode)
        channel = data[0] - (ord("0") if base64 else 0)
        channels[channel] = channels.get(channel, b"") + (b64decode(data[1:], validate=True) if base64 else data[1:])


def send(connection, base64, channel, data):
    if base64:
        connection.send(chr(ord("0") + channel) + b64encode(data).decode())
    else:
        connection.send_binary(bytes([channel]) + data)


def every_subprotocol():
    """The names of the protocols that no client above uses."""
    for protocol in ("v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io", "base64.channel.k8s.io", None):
        base64 = "base64" in (protocol or "")
        for query in ("ports=8000&ports=9999", "ports=8000,9999"):
            connection = websocket(protocol, "portforward?" + query)
            check("protocol", protocol, connection.subprotocol)
            # Messages in pieces, for no port, and that are not base64 harm nothing.
            send(connection, base64, 4, b"for no port")
            send(connection, base64, 1, b"errors are read-only")
            if base64:
                connection.send("0!!!!")
            for piece in (b"GET /hel", b"", b"lo.txt HTTP/1.0\r", b"\n\r\n"):
                send(connection, base64, 0, piece)
            got = messages(connection, base64)
            check("first message", (8000).to_bytes(2, "little"), got[0][:2])
            check("reply", b"hello\n", got[0].partition(b"\r\n\r\n")[2])
            check("error of the open port", (8000).to_bytes(2, "little"), got[1])
            check("closed port", (9999).to_bytes(2, "little"), got[2])
            check("error of the closed port", True, b"connection refused" in got[3])
        connection = websocket(protocol, "exec?stdin=1&stdout=1&command=sh&command=-c&command=read+line;echo+got+$line")
        send(connection, base64, 0, b"in")
        send(connection, base64, 0, b"put\n")
        check("exec", b"got input\n", messages(connection, base64)[1])
    for query in ("", "?ports=", "?ports=0", "?ports=x", "?ports=70000", "?ports=" + ",".join(map(str, range(1, 100)))):
        check("bad ports " + query, 400, refused_status(query))


def refused_status(query):
    import websocket as library
    try:
        websocket("v4.channel.k8s.io", "portforward" + query)
    except library.WebSocketBadStatusException as e:
        return e.status_code


class Server(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/hello.txt")
            self.end_headers()
        elif self.path == "/socket":
            self.echo()
        else:
            super().do_GET()

    def echo(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.wfile.write(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                          f"Sec-WebSocket-Accept: {accept}\r\n\r\n").encode())
        head = self.rfile.read(6)  # a short masked frame
        text = bytes(byte ^ head[2 + i % 4] for i, byte in enumerate(self.rfile.read(head[1] & 127)))
        self.wfile.write(bytes([head[0], len(text)]) + text)


def proxied_socket():
    connection = websocket(None, "proxy/socket", of="services/web:80")
    connection.send("over the proxy")
    check("WebSocket through the proxy", "over the proxy", connection.recv())
    connection.close()


def official_proxy(core):
    check("a redirect", "hello\n", core.connect_get_namespaced_service_proxy_with_path("web:80", "default", "moved"))
    proxied_socket()
    read = core.connect_get_namespaced_service_proxy_with_path
    check("proxy of a Service", "hello\n", read("web:80", "default", "hello.txt"))
    check("proxy of a pod", "hello\n", core.connect_get_namespaced_pod_proxy_with_path("web:8000", "default", "hello.txt"))
    check("a large reply", 10_000_000, len(read("web:http", "default", "large", _preload_content=False).data))
    node = core.list_node().items[0]
    check("proxy of a node", "ok", core.connect_get_node_proxy_with_path(node.metadata.name, "healthz"))
    port = node.status.daemon_endpoints.kubelet_endpoint.port
    with socket.create_connection(("127.0.0.1", port)):
        pass


def official():
    from kubernetes import client, config
    config.load_kube_config()
    core = client.CoreV1Api()
    official_port_forward(core)
    official_exec(core)
    official_proxy(core)
    every_subprotocol()


DEPLOYMENT = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "scaled", "namespace": "default"},
    "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "scaled"}},
             "template": {"metadata": {"labels": {"app": "scaled"}},
                          "spec": {"containers": [{"name": "c", "image": "any", "command": ["sleep", "infinity"]}]}}}}


# --- kr8s ---

async def kr8s_client():
    import httpx
    import kr8s
    from kr8s.asyncio.objects import ConfigMap, Deployment, Pod, Service
    api = await kr8s.asyncio.api()
    pod = await Pod.get("web")
    check("exec", b"green\n", (await pod.exec(["sh", "-c", "echo $COLOUR"])).stdout)
    check("logs", True, any([line async for line in pod.logs(tail_lines=1)]))
    service = await Service.get("web")
    check("proxy of a Service", "hello\n", (await service.proxy_http_get("hello.txt", port=80)).text)
    for target in (pod, service):
        async with target.portforward(8000, local_port="auto") as port, httpx.AsyncClient() as web:
            check("port-forward", "hello\n", (await web.get(f"http://127.0.0.1:{port}/hello.txt")).text)
            check("port-forward", 10_000_000, len((await web.get(f"http://127.0.0.1:{port}/large")).content))
    deployment = await Deployment(DEPLOYMENT)
    await deployment.create()
    await deployment.scale(2)
    await deployment.patch({"metadata": {"labels": {"patched": "yes"}}})
    await deployment.wait("condition=Available", timeout=120)
    async for event, seen in api.watch("deployments", namespace="default"):
        check("watch", ("ADDED", "scaled", 2), (event, seen.name, seen.replicas))
        break
    await deployment.delete()
    config = await ConfigMap({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kr8s", "namespace": "default"}})
    await config.create()
    await config.delete()
    check("resources", True, any(r["name"] == "servicemonitors" for r in await api.api_resources()))


# --- lightkube ---

def lightkube():
    from lightkube import ApiError, Client
    from lightkube.models.autoscaling_v1 import ScaleSpec
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.apps_v1 import Deployment
    from lightkube.resources.core_v1 import ConfigMap, Node, Pod
    client = Client(field_manager="lightkube")
    check("list", True, "web" in [pod.metadata.name for pod in client.list(Pod, namespace="*")])
    check("log", True, any(client.log("web", tail_lines=1)))
    check("apply", {"a": "b"}, client.apply(ConfigMap(metadata=ObjectMeta(name="lightkube"), data={"a": "b"})).data)
    check("patch", {"a": "b", "c": "d"}, client.patch(ConfigMap, "lightkube", {"data": {"c": "d"}}).data)
    for event, seen in client.watch(ConfigMap, fields={"metadata.name": "lightkube"}):
        check("watch", ("ADDED", "lightkube"), (event, seen.metadata.name))
        break
    client.delete(ConfigMap, "lightkube")
    try:
        client.get(ConfigMap, "lightkube")
        sys.exit("a deleted object is still there")
    except ApiError as e:
        check("reason", "NotFound", e.status.reason)
    client.create(Deployment.from_dict(DEPLOYMENT))
    scale = Deployment.Scale(metadata=ObjectMeta(name="scaled", namespace="default"), spec=ScaleSpec(replicas=2))
    check("scale", 2, client.replace(scale, "scaled").spec.replicas)
    client.wait(Deployment, "scaled", for_conditions=["Available"])
    client.delete(Deployment, "scaled")
    check("nodes", 1, len(list(client.list(Node))))


# --- kubernetes_asyncio ---

async def asyncio_client():
    from kubernetes_asyncio import client, config, watch
    from kubernetes_asyncio.dynamic import DynamicClient
    from kubernetes_asyncio.stream import WsApiClient
    await config.load_kube_config()
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        check("log", True, bool(await core.read_namespaced_pod_log("web", "default")))
        check("proxy", "hello\n", await core.connect_get_namespaced_service_proxy_with_path("web:80", "default", "hello.txt"))
        async with watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=60) as events:
            async for event in events:
                check("watch", ("ADDED", "web"), (event["type"], event["object"].metadata.name))
                break
        dynamic = await DynamicClient(api)
        configs = await dynamic.resources.get(api_version="v1", kind="ConfigMap")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dynamic"}, "data": {"a": "1"}}
        applied = await dynamic.server_side_apply(configs, body=body, namespace="default", field_manager="asyncio")
        check("apply", "1", applied.data.a)
        await configs.delete(name="dynamic", namespace="default")
    async with WsApiClient() as api:
        out = await client.CoreV1Api(api).connect_get_namespaced_pod_exec(
            "web", "default", command=["sh", "-c", "echo $COLOUR"], stdin=False, stdout=True, stderr=True, tty=False)
        check("exec", "green\n", out)


CLIENTS = {"kubernetes": official, "kr8s": lambda: asyncio.run(kr8s_client()), "lightkube": lightkube,
           "kubernetes_asyncio": lambda: asyncio.run(asyncio_client())}

if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[2])), Server).serve_forever()
    CLIENTS[sys.argv[1]]()
    print(f"ok: {sys.argv[1]}")
