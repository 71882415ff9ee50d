"""The HTTP server of the metrics listener: pages, requests that are none, and clients that are slow, many or gone."""

from __future__ import annotations

import base64
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from minikafka.broker.connections.request_context import Disconnect
from minikafka.broker.connections.transport import StreamTransport
from minikafka.broker.metrics.basic_login import BasicLogin
from minikafka.broker.metrics.endpoints import Endpoints
from minikafka.broker.metrics.family import Collector, Family, gauge
from minikafka.broker.metrics.http_server import CONNECTIONS_MAX, HEAD_SIZE_BYTES_MAX, HttpServer, Request, Response
from minikafka.broker.metrics.refused_scrapes import LINES_OF_ADDRESS_MAX, RefusedScrapes
from minikafka.controller.security.access import Principal

COLLECTORS: list[Collector] = [lambda: iter([gauge("up", "Whether it is up.", 1)])]


class Client:
    """One listener, and clients of it."""

    def __init__(self) -> None:
        self._clients, self._accepted = trio.open_memory_channel[StreamTransport](math.inf)
        self.address = "node", 9404
        self.closed = False

    async def accept(self) -> StreamTransport | None:
        return await self._accepted.receive()

    async def run(self) -> None:
        await trio.sleep_forever()

    def close(self) -> None:
        self.closed = True

    def connect(
        self, pair: Any = None, host: str = "client"
    ) -> trio.StapledStream[trio.abc.SendStream, trio.abc.ReceiveStream]:
        ours, theirs = pair or trio.testing.memory_stream_pair()
        self.accept_over(StreamTransport(theirs, host, "node", 9404))
        return ours

    def accept_over(self, transport: StreamTransport) -> None:
        self._clients.send_nowait(transport)

    async def ask(self, request: bytes) -> str:
        """Everything that the server sends."""
        stream = self.connect()
        await stream.send_all(request)
        return await everything(stream)


async def everything(stream: trio.abc.ReceiveStream) -> str:
    return b"".join([part async for part in stream]).decode()


@asynccontextmanager
async def serving(
    respond: Callable[[Request], Awaitable[Response]],
    unsent_size_bytes_max: int = 1 << 20,
    refused: RefusedScrapes | None = None,
) -> AsyncIterator[Client]:
    client = Client()
    async with trio.open_nursery() as nursery:
        server = HttpServer(respond, refused=refused, unsent_size_bytes_max=unsent_size_bytes_max)
        nursery.start_soon(server.serve, client)
        yield client
        nursery.cancel_scope.cancel()
    assert client.closed


def status(answer: str) -> int:
    return int(answer.split(" ")[1])


def run(main: Callable[[], Awaitable[None]]) -> None:
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_the_pages() -> None:
    async def main() -> None:
        reasons = ["fenced", ""]
        async with serving(Endpoints(COLLECTORS, lambda: reasons.pop(0)).respond) as client:
            scraped = await client.ask(b"GET /metrics?name=up HTTP/1.1\r\nHost: node\r\nAccept: */*\r\n\r\n")
            head, _, body = scraped.partition("\r\n\r\n")
            assert head.startswith("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
            assert f"\r\nContent-Length: {len(body)}\r\n" in head
            assert body == "# HELP up Whether it is up.\n# TYPE up gauge\nup 1.0\n"
            before = await client.ask(b"GET /readyz HTTP/1.1\r\n\r\n")
            after = await client.ask(b"GET /readyz HTTP/1.0\r\n\r\n")
            assert [status(before), before[-9:], status(after)] == [503, "\r\nfenced\n", 200]
            assert status(await client.ask(b"GET /healthz HTTP/1.1\r\n\r\n")) == 200
            assert (await client.ask(b"HEAD /metrics HTTP/1.1\r\n\r\n")).endswith("\r\n\r\n")
            assert "/metrics" in await client.ask(b"GET / HTTP/1.1\r\n\r\n")

    run(main)


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"GET /etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"GET /metrics/../healthz HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 1\r\n\r\n ", 405),
        (b"GET  /metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics SPDY/3\r\n\r\n", 400),
        (b"\x00\x00\x00\x12\x00\x12\x00\x00\x00\x00\x00\x01\x00\x03abc\r\n\r\n", 400),
        (b"GET /\xff\xfe HTTP/1.1\r\n\r\n", 404),
        (b"GET /metrics", 408),
        (b"G" * HEAD_SIZE_BYTES_MAX, 431),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * HEAD_SIZE_BYTES_MAX, 431),
    ],
)
def test_requests_that_are_refused(request_bytes: bytes, expected: int) -> None:
    async def main() -> None:
        async with serving(Endpoints(COLLECTORS, lambda: "").respond) as client:
            assert status(await client.ask(request_bytes)) == expected
            assert status(await client.ask(b"GET /healthz HTTP/1.1\r\n\r\n")) == 200

    run(main)


def test_a_client_that_disconnects_without_a_request_costs_nothing() -> None:
    async def main() -> None:
        async with serving(Endpoints(COLLECTORS, lambda: "").respond) as client:
            for _ in range(2 * CONNECTIONS_MAX):
                await client.connect().aclose()
                await trio.testing.wait_all_tasks_blocked()
            assert status(await client.ask(b"GET /healthz HTTP/1.1\r\n\r\n")) == 200

    run(main)


@pytest.mark.parametrize("said", [b"", b"GET /metrics HT", b"GET /metrics HTTP/1.1\r\n\r\n"])
def test_a_health_check_is_answered_however_many_clients_are_slow(said: bytes) -> None:
    """Whether they send nothing, a part, or do not read what they are sent: those that came first are closed."""

    async def main() -> None:
        now = trio.current_time()
        async with serving(Endpoints(COLLECTORS, lambda: "").respond) as client:
            for _ in range(3 * CONNECTIONS_MAX):
                one = client.connect(trio.testing.lockstep_stream_pair())
                with suppress(trio.BrokenResourceError):
                    await one.send_all(said)
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(3):
                assert status(await client.ask(b"GET /healthz HTTP/1.1\r\n\r\n")) == 200
            assert trio.current_time() == now

    run(main)


@pytest.mark.parametrize("hosts", [("crowd",), ("crowd", "other crowd")])
def test_a_client_far_away_keeps_its_place_whatever_a_crowd_elsewhere_does(hosts: tuple[str, ...]) -> None:
    async def main() -> None:
        async with serving(Endpoints(COLLECTORS, lambda: "").respond) as client:
            far = client.connect(host="far")
            for number in range(3 * CONNECTIONS_MAX):
                client.connect(host=hosts[number % len(hosts)])
                await trio.testing.wait_all_tasks_blocked()
            await far.send_all(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert status(await everything(far)) == 200

    run(main)


def test_a_page_that_is_being_made_is_not_given_up_for_clients_that_say_nothing() -> None:
    async def main() -> None:
        made = trio.Event()

        async def respond(request: Request) -> Response:
            if request.path == "/metrics":
                await made.wait()
            return Response.text(200, "fine")

        async with serving(respond) as client:
            scrape = client.connect()
            await scrape.send_all(b"GET /metrics HTTP/1.1\r\n\r\n")
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(2 * CONNECTIONS_MAX):
                client.connect()
                await trio.testing.wait_all_tasks_blocked()
            made.set()
            assert status(await everything(scrape)) == 200

    run(main)


def test_if_all_wait_for_their_pages_the_oldest_is_given_up() -> None:
    async def main() -> None:
        async def respond(request: Request) -> Response:
            if request.path == "/metrics":
                await trio.sleep(3600)
            return Response.text(200, "fine")

        async with serving(respond) as client:
            for _ in range(CONNECTIONS_MAX):
                await client.connect().send_all(b"GET /metrics HTTP/1.1\r\n\r\n")
            await trio.testing.wait_all_tasks_blocked()
            assert status(await client.ask(b"GET /healthz HTTP/1.1\r\n\r\n")) == 200

    run(main)


def test_however_many_ask_for_metrics_one_is_made_at_a_time() -> None:
    """Those of sixteen clients, made at the same time, keep all others waiting for a step of each."""

    async def main() -> None:
        making = made = 0

        def collector() -> Iterator[Family]:
            nonlocal making, made
            making += 1
            assert making == 1
            number, made = made, made + 1
            for step in range(1_000):
                yield gauge(f"step_{step}", "A step.", number)
            making -= 1

        async def scrape(client: Client, least: int) -> None:
            """What a client receives was begun after it has asked."""
            answer = await client.ask(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert int(float(answer.rsplit(" ", 1)[1])) >= least

        async with serving(Endpoints([collector], lambda: "").respond) as client, trio.open_nursery() as nursery:
            for _ in range(3):
                for _ in range(CONNECTIONS_MAX // 3):
                    nursery.start_soon(scrape, client, made)
                await trio.testing.wait_all_tasks_blocked()
                for _ in range(20):
                    await trio.lowlevel.checkpoint()
        assert made <= 6

    run(main)


def test_a_page_that_fails_is_answered_and_the_next_is_served(capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async def respond(request: Request) -> Response:
            if request.path == "/bug":
                raise KeyError("a bug")
            return Response.text(200, "fine")

        async with serving(respond) as client:
            assert status(await client.ask(b"GET /bug HTTP/1.1\r\n\r\n")) == 500
            assert status(await client.ask(b"GET / HTTP/1.1\r\n\r\n")) == 200

    run(main)
    assert "page failed" in "".join(capsys.readouterr())


def test_pages_that_nobody_reads_have_a_bound_in_bytes_and_their_oldest_readers_are_closed() -> None:
    size_bytes, shared = 1000, Response(200, [b"s" * 1000])

    async def respond(request: Request) -> Response:
        path = request.path
        return shared if path == "/shared" else Response(200, [path[1:2].encode() * size_bytes])

    async def main() -> None:
        async with serving(respond, 3 * size_bytes) as client:
            streams: list[Any] = []
            for path in ("shared", "a", "b", "shared", "c", "shared", "d"):
                streams.append(client.connect(trio.testing.lockstep_stream_pair()))
                await streams[-1].send_all(f"GET /{path} HTTP/1.1\r\n\r\n".encode())
                await trio.testing.wait_all_tasks_blocked()
            assert [await is_closed(stream) for stream in streams] == [True, True, *[False] * 5]
            for stream in streams[2:]:
                assert status(await everything(stream)) == 200

    run(main)


async def is_closed(stream: trio.abc.SendStream) -> bool:
    with trio.move_on_after(0.001):
        try:
            await stream.send_all(b" ")
        except trio.BrokenResourceError:
            return True
    return False


def basic(text: str) -> bytes:
    return b"Authorization: Basic " + base64.b64encode(text.encode())


@pytest.mark.parametrize(
    ("headers", "expected", "seconds"),
    [
        ([basic("scraper:sécret:x")], 200, 0),
        ([b"Host: node", b"authorization:bAsIc  " + base64.b64encode("scraper:sécret:x".encode()) + b"  "], 200, 0),
        ([], 401, 0),
        ([basic("scraper:sécret:")], 401, 2),
        ([basic("scraper:sécret:xy")], 401, 2),
        ([basic("Scraper:sécret:x")], 401, 2),
        ([basic("")], 401, 2),
        ([b"Authorization: Basic"], 401, 2),
        ([b"Authorization: Basic \xff\xfe"], 401, 2),
        ([b"Authorization: Basic c2NyYXBlcg==!"], 401, 2),
        ([b"Authorization: Bearer " + base64.b64encode("scraper:sécret:x".encode())], 401, 2),
        ([basic("scraper:sécret:x"), basic("scraper:sécret:x")], 401, 0),
        ([b"X-Authorization: " + basic("scraper:sécret:x")], 401, 0),
    ],
)
def test_metrics_need_the_login_and_a_wrong_one_is_answered_late(
    headers: list[bytes], expected: int, seconds: int
) -> None:
    async def main() -> None:
        login = BasicLogin("scraper", "sécret:x")
        endpoints = Endpoints(COLLECTORS, lambda: "", login, failure_delay_ms=2000)
        async with serving(endpoints.respond) as client:
            began = trio.current_time()
            answer = await client.ask(b"\r\n".join([b"GET /metrics HTTP/1.1", *headers, b"", b""]))
            assert (status(answer), trio.current_time() - began) == (expected, seconds)
            assert ("\r\nWWW-Authenticate: Basic realm=" in answer) == (expected == 401)
            assert ("up 1.0" in answer) == (expected == 200)
            for path in (b"/healthz", b"/readyz", b"/"):
                assert status(await client.ask(b"GET " + path + b" HTTP/1.1\r\n\r\n")) == 200

    run(main)


def test_a_password_is_in_no_log_line_and_no_repr(capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        endpoints = Endpoints(COLLECTORS, lambda: "", BasicLogin("scraper", "expected-secret"))
        async with serving(endpoints.respond) as client:
            answer = await client.ask(b"GET /metrics HTTP/1.1\r\n" + basic("scraper:given-secret") + b"\r\n\r\n")
            assert "secret" not in answer

    run(main)
    shown = "".join(capsys.readouterr()) + repr([BasicLogin("scraper", "expected-secret"), Request("/", "a", "secret")])
    assert "scrape refused" in shown
    assert "secret" not in shown


def test_lines_about_who_is_refused_are_bounded() -> None:
    """Handshakes that fail and wrong passwords count together; the next second says how many lines were left out."""

    async def fails() -> Principal:
        raise Disconnect("TLS handshake failed: it speaks none")

    async def main() -> None:
        refused = RefusedScrapes()
        endpoints = Endpoints(COLLECTORS, lambda: "", BasicLogin("scraper", "secret"), refused=refused)
        async with serving(endpoints.respond, refused=refused) as client:
            for second in range(2):
                for _ in range(20):
                    ours, theirs = trio.testing.memory_stream_pair()
                    client.accept_over(StreamTransport(theirs, "client", "node", 9404, fails))
                    assert await everything(ours) == ""
                    assert status(await client.ask(b"GET /metrics HTTP/1.1\r\n\r\n")) == 401
                assert len(lines) == (second + 1) * LINES_OF_ADDRESS_MAX + second
                await trio.sleep(1)

    with capture_logs() as lines:
        run(main)
    assert {line["reason"] for line in lines if line["event"] == "scrape refused"} == {
        "TLS handshake failed: it speaks none",
        "no user and password",
    }
    assert [line["count"] for line in lines if line["event"] == "more scrapes refused"] == [40 - LINES_OF_ADDRESS_MAX]


def test_a_handshake_that_fails_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    async def fails() -> Principal:
        raise Disconnect("TLS handshake failed: it speaks none")

    async def main() -> None:
        async with serving(Endpoints(COLLECTORS, lambda: "").respond) as client:
            ours, theirs = trio.testing.memory_stream_pair()
            client.accept_over(StreamTransport(theirs, "client", "node", 9404, fails))
            assert await everything(ours) == ""
            assert status(await client.ask(b"GET /healthz HTTP/1.1\r\n\r\n")) == 200

    run(main)
    assert "it speaks none" in "".join(capsys.readouterr())
