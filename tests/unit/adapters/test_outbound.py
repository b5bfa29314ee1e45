"""Bodies of servers that others chose: whole, bounded and in time, or none.

Which addresses are called, and over what, is tried in `test_webhooks`, through the same connection.
"""

import socket
import time
import tracemalloc
from collections.abc import Callable

import pytest
from tests.support.receivers import LOOPBACK, Authority, receiving, reply, resolving, talking

from interlock.adapters.outbound import Answer, Forbidden, NoAnswer, Outbound

LOCAL = Outbound(local=True)
LIMIT = 1000


def got(url: str, *, max_bytes: int = LIMIT, seconds: float = 10) -> Answer:
    return LOCAL.request("GET", url, {}, seconds=seconds, max_bytes=max_bytes)


def saying(*pieces: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(b"".join(pieces))


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


class TestWhole:
    @pytest.mark.parametrize(
        "answer",
        [
            HEAD + b"Content-Length: 6\r\n\r\n{'a'} and more",
            CHUNKED + b"2\r\n{'\r\n4;ext=1\r\na'} \r\n0\r\n\r\n",
            HEAD + b"\r\n{'a'} ",
        ],
    )
    def test_a_body_is_read_to_its_end(self, answer: bytes) -> None:
        with talking(saying(answer)) as url:
            assert got(url) == Answer(200, "application/json", b"{'a'} ")

    def test_a_body_of_any_status_is_read(self) -> None:
        with talking(saying(b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno")) as url:
            assert got(url) == Answer(404, "text/plain", b"no")

    def test_none_is_read_where_none_is_asked_for(self) -> None:
        def endless(connection: socket.socket) -> None:
            connection.sendall(CHUNKED)
            while True:
                connection.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")

        with talking(endless) as url:
            assert LOCAL.request("GET", url, {}, seconds=10).body is None

    def test_a_request_without_a_body_declares_none(self) -> None:
        with receiving() as receiver:
            LOCAL.request("GET", f"{receiver.url}/a?b", {"Accept": "x/y"}, seconds=10, max_bytes=0)
        ((method, path, headers, _),) = receiver.requests
        assert (method, path) == ("GET", "/a?b")
        assert headers == {
            "Host": f"{LOOPBACK}:{receiver.port}",
            "User-Agent": "interlock",
            "Connection": "close",
            "Accept": "x/y",
        }

    def test_it_comes_through_tls(self, authority: Authority) -> None:
        outbound = Outbound(local=True, resolve=resolving(LOOPBACK), tls=authority.client)
        size = 300_000  # many records
        with receiving(reply(b"x" * size), tls=authority.server("peer.example")) as receiver:
            url = f"https://peer.example:{receiver.port}/"
            body = outbound.request("GET", url, {}, seconds=10, max_bytes=size).body
        assert body == b"x" * size


class TestCut:
    @pytest.mark.parametrize(
        "answer",
        [
            HEAD + b"Content-Length: 7\r\n\r\n{'a'} ",
            HEAD + b"Content-Length: 7\r\n\r\n",
            CHUNKED + b"6\r\n{'a'} \r\n",
            CHUNKED + b"6\r\n{'a'}",
            CHUNKED + b"6",
            CHUNKED,
            CHUNKED + b"x\r\n{'a'} \r\n0\r\n\r\n",
        ],
    )
    def test_what_ends_before_its_end_is_no_answer(self, answer: bytes) -> None:
        with talking(saying(answer)) as url, pytest.raises(NoAnswer):
            got(url)

    def test_what_is_sent_and_said_is_in_no_error(self) -> None:
        def talk(connection: socket.socket) -> None:
            connection.sendall(HEAD + b"X: SECRET\r\nContent-Length: 7\r\n\r\nSECRET")

        headers = {"Authorization": "Bearer SECRET\n"}
        with receiving() as receiver, pytest.raises(NoAnswer) as unsent:
            LOCAL.request("GET", receiver.url, headers, seconds=10)
        with talking(talk) as url, pytest.raises(NoAnswer) as cut:
            got(url)
        for failed in (unsent.value, cut.value):
            assert "SECRET" not in str(failed)
            assert failed.__suppress_context__
            assert failed.__cause__ is None


class TestBounds:
    @pytest.mark.parametrize("size", [0, 1, LIMIT])
    def test_as_much_as_the_limit_is_read(self, size: int) -> None:
        with receiving(reply(b"x" * size)) as receiver:
            assert got(receiver.url).body == b"x" * size

    @pytest.mark.parametrize(
        "answer",
        [
            HEAD + b"Content-Length: 1001\r\n\r\n" + b"x" * 1001,
            CHUNKED + b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n",
            CHUNKED + b"1f5\r\n" + b"x" * 501 + b"\r\n1f4\r\n" + b"x" * 500 + b"\r\n0\r\n\r\n",
            HEAD + b"\r\n" + b"x" * 1001,
        ],
    )
    def test_a_byte_more_is_too_much(self, answer: bytes) -> None:
        with talking(saying(answer)) as url, pytest.raises(NoAnswer, match="TooLarge"):
            got(url)

    @pytest.mark.parametrize(
        "head",
        [
            HEAD + b"\r\n",
            HEAD + b"Content-Length: 100000000000\r\n\r\n",
            HEAD + b"Content-Length: -1\r\n\r\n",
            CHUNKED + b"ffffffffffff\r\n",
            CHUNKED + b"-1\r\n",
        ],
    )
    def test_what_does_not_end_is_not_kept(self, head: bytes) -> None:
        """However much is promised, or how much a size says that is none."""

        def endless(connection: socket.socket) -> None:
            connection.sendall(head)
            for _ in range(256):
                connection.sendall(b"x" * 65536)

        tracemalloc.start()
        try:
            with talking(endless) as url, pytest.raises(NoAnswer):
                got(url)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 2 * 1024 * 1024


class TestTime:
    @pytest.mark.parametrize(
        ("head", "drop"),
        [
            (HEAD + b"Content-Length: 100000\r\n\r\n", b"x"),
            (HEAD + b"\r\n", b"x"),
            (CHUNKED, b"1\r\nx\r\n"),
            (CHUNKED, b"0"),
            (CHUNKED + b"0\r\n", b"X: x\r\n"),
        ],
    )
    def test_a_body_that_drips_is_not_waited_for_longer(self, head: bytes, drop: bytes) -> None:
        def drip(connection: socket.socket) -> None:
            connection.sendall(head)
            for _ in range(500):
                connection.sendall(drop)
                time.sleep(0.02)

        with talking(drip) as url:
            began = time.monotonic()
            with pytest.raises(NoAnswer):
                got(url, seconds=0.3)
            assert time.monotonic() - began < 5

    def test_with_no_time_left_nothing_is_sent(self) -> None:
        with receiving() as receiver:
            with pytest.raises(NoAnswer):
                got(receiver.url, seconds=-1)
            assert receiver.requests == []

    def test_connecting_is_part_of_the_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        allowed: list[float] = []

        def connect(address: tuple[str, int], timeout: float) -> socket.socket:
            allowed.append(timeout)
            raise ConnectionRefusedError

        monkeypatch.setattr("interlock.adapters.outbound.create_connection", connect)
        with pytest.raises(NoAnswer):
            got("http://127.0.0.1/", seconds=1)
        assert 0 < allowed[0] <= 1


class TestRules:
    def test_what_is_forbidden_is_told_from_what_does_not_answer(self) -> None:
        with pytest.raises(Forbidden, match="the URL must be https"):
            Outbound().request("GET", "http://peer.example/", {}, seconds=10)
        with pytest.raises(Forbidden, match="private network"):
            Outbound(resolve=resolving("10.0.0.1")).request("GET", "https://peer.example/", {}, seconds=10)
        with pytest.raises(NoAnswer):
            Outbound(resolve=resolving()).request("GET", "https://peer.example/", {}, seconds=10)
