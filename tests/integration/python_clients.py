#!/usr/bin/env python3
"""The published Python clients against the API of `gpuscale up`. KUBECONFIG has the cluster.

The namespace default has the running pod "web", which serves files over HTTP at port 8000 and has the environment variable
COLOUR, and the Service "web" at port 80. Each client is a function. Prints one line for each; exit code 1: a check failed.

Usage: python_clients.py CLIENT"""
import socket
import sys
from base64 import b64decode, b64encode


def check(what, expected, got):
    if expected != got:
        sys.exit(f"{what}: {got!r} instead of {expected!r}")


def http_get(sock, path="/hello"):
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


def websocket(protocol, path):
    """A raw WebSocket to a subresource of the pod."""
    import ssl
    from kubernetes import client
    from websocket import create_connection
    configuration = client.Configuration.get_default_copy()
    return create_connection(
        configuration.host.replace("https", "wss") + "/api/v1/namespaces/default/pods/web/" + path,
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
            for piece in (b"GET /hel", b"", b"lo HTTP/1.0\r", b"\n\r\n"):
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


def official_proxy(core):
    read = core.connect_get_namespaced_service_proxy_with_path
    check("proxy of a Service", "hello\n", read("web:80", "default", "hello"))
    check("proxy of a pod", "hello\n", core.connect_get_namespaced_pod_proxy_with_path("web:8000", "default", "hello"))
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


if __name__ == "__main__":
    {"kubernetes": official}[sys.argv[1]]()
    print(f"ok: {sys.argv[1]}")
