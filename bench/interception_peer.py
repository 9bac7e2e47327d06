"""What bench/interception.ts measures, as a plain asyncio program: rollouts with an address and a secret of their own, whose
requests are parsed, recorded, forwarded to the provider, and answered with what the provider says. With aiohttp where it is
installed; else on asyncio's own streams.

    python3 bench/interception_peer.py PROVIDER_URL
"""

import asyncio
import hashlib
import hmac
import json
import secrets
import sys
import time

try:
    import aiohttp
    from aiohttp import web
except ImportError:
    aiohttp = None

PROVIDER = sys.argv[1]
ROLLOUTS = {}


class Rollout:
    __slots__ = ("digest", "nodes", "index")

    def __init__(self, secret):
        self.digest = hashlib.sha256(secret.encode()).digest()
        self.nodes = []
        self.index = {}


def add(rollout, parent, message, ids, logprobs):
    """One message under another; the same message in the same place is the same node."""
    key = (parent, json.dumps(message, sort_keys=True))
    found = rollout.index.get(key)
    if found is None:
        found = len(rollout.nodes)
        rollout.nodes.append((parent, message, ids, logprobs, time.time()))
        rollout.index[key] = found
    return found


def record(rollout, body, answer):
    choice = answer["choices"][0]
    parent = None
    for message in body["messages"]:
        parent = add(rollout, parent, message, None, None)
    ids = choice["token_ids"]
    logprobs = [token["logprob"] for token in choice["logprobs"]["content"]]
    if len(ids) != len(logprobs):
        raise ValueError("streams of different lengths")
    add(rollout, parent, choice["message"], ids, logprobs)
    return {
        "id": answer["id"],
        "object": "chat.completion",
        "created": int(time.time()),
        "model": "policy",
        "choices": [{"index": 0, "message": choice["message"], "logprobs": None, "finish_reason": choice["finish_reason"]}],
        "usage": answer["usage"],
    }


def closed(secret):
    ROLLOUTS.pop(secret.split(".", 1)[0], None)
    return {}


def opened(port, close):
    closed(close)
    name, secret = secrets.token_hex(8), secrets.token_hex(32)
    secret = f"{name}.{secret}"
    ROLLOUTS[name] = Rollout(secret)
    return {"baseUrl": f"http://127.0.0.1:{port}/{name}/v1", "secret": secret}


def cpu():
    return {"seconds": time.process_time()}


def allowed(name, authorization):
    rollout = ROLLOUTS.get(name)
    given = hashlib.sha256(authorization.removeprefix("Bearer ").encode()).digest()
    return rollout if rollout is not None and hmac.compare_digest(given, rollout.digest) else None


def forwarded(body):
    return {"model": "policy", "messages": body["messages"], "temperature": 1.0, "logprobs": True}


async def with_aiohttp():
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None))

    async def chat(request):
        rollout = allowed(request.match_info["name"], request.headers.get("authorization", ""))
        if rollout is None:
            return web.json_response({"error": {"message": "unauthorized"}}, status=401)
        body = await request.json()
        async with session.post(f"{PROVIDER}/v1/chat/completions", json=forwarded(body)) as response:
            answer = await response.json()
        return web.json_response(record(rollout, body, answer))

    async def open_rollout(request):
        return web.json_response(opened(port, request.match_info["close"]))

    async def close_rollout(request):
        return web.json_response(closed(request.match_info["secret"]))

    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/{name}/v1/chat/completions", chat)
    app.router.add_get("/open/{close:.*}", open_rollout)
    app.router.add_get("/close/{secret:.*}", close_rollout)
    app.router.add_get("/cpu", lambda request: asyncio.sleep(0, web.json_response(cpu())))
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=600)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=4096)
    await site.start()
    port = runner.addresses[0][1]
    print(json.dumps({"url": f"http://127.0.0.1:{port}", "http": "aiohttp"}), flush=True)
    await asyncio.Event().wait()


async def read_message(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].decode("latin1").split("\r\n")
    headers = dict((key.lower(), value.strip()) for key, value in (line.split(":", 1) for line in lines))
    return first, headers, await reader.readexactly(int(headers.get("content-length", 0)))


def message(first, value):
    body = json.dumps(value).encode()
    return f"{first}\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


async def with_streams():
    host, provider_port = PROVIDER.removeprefix("http://").split(":")
    idle = []

    async def post(value):
        reader, writer = idle.pop() if idle else await asyncio.open_connection(host, int(provider_port))
        writer.write(message("POST /v1/chat/completions HTTP/1.1", value))
        _, _, body = await read_message(reader)
        idle.append((reader, writer))
        return json.loads(body)

    async def client(reader, writer):
        try:
            while True:
                first, headers, body = await read_message(reader)
                method, path, _ = first.split(" ")
                if path == "/cpu":
                    writer.write(message("HTTP/1.1 200 OK", cpu()))
                    continue
                if path.startswith("/open/"):
                    writer.write(message("HTTP/1.1 200 OK", opened(port, path.removeprefix("/open/"))))
                    continue
                if path.startswith("/close/"):
                    writer.write(message("HTTP/1.1 200 OK", closed(path.removeprefix("/close/"))))
                    continue
                rollout = allowed(path.split("/")[1], headers.get("authorization", ""))
                if rollout is None:
                    writer.write(message("HTTP/1.1 401 Unauthorized", {}))
                    continue
                asked = json.loads(body)
                writer.write(message("HTTP/1.1 200 OK", record(rollout, asked, await post(forwarded(asked)))))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(client, "127.0.0.1", 0, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"url": f"http://127.0.0.1:{port}", "http": "streams"}), flush=True)
    await server.serve_forever()


asyncio.run(with_streams() if aiohttp is None else with_aiohttp())
