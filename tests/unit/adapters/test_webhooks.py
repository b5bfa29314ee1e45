"""HTTP out to where callers say: which addresses, over what, and for how long."""

import socket
import threading
import time

import pytest
from tests.support.receivers import LOOPBACK, Authority, receiving, resolving, status, talking

from interlock.adapters.outbound import is_public, resolve
from interlock.adapters.webhooks import WebHooks
from interlock.engine.push import DeliveryFailed

LOCAL = WebHooks(local=True)


class TestRequests:
    def test_one_is_sent_as_it_was_agreed(self) -> None:
        headers = {"Content-Type": "application/a2a+json", "Authorization": "Bearer x"}
        with receiving() as receiver:
            LOCAL.post(f"{receiver.url}/hook/a?b=c&d", headers, b'{"n": 1}')
        ((method, path, got, body),) = receiver.requests
        assert (method, path, body) == ("POST", "/hook/a?b=c&d", b'{"n": 1}')
        assert got == {
            "Host": f"{LOOPBACK}:{receiver.port}",
            "User-Agent": "interlock",
            "Content-Length": "8",
            "Connection": "close",
            **headers,
        }

    def test_a_url_without_a_path_means_the_root(self) -> None:
        with receiving() as receiver:
            LOCAL.post(receiver.url, {}, b"")
        assert receiver.requests[0][1] == "/"

    @pytest.mark.parametrize("code", [200, 201, 204, 299])
    def test_any_2xx_acknowledges(self, code: int) -> None:
        with receiving(status(code)) as receiver:
            LOCAL.post(receiver.url, {}, b"")

    @pytest.mark.parametrize("code", [300, 304, 400, 401, 404, 410, 429, 500, 503])
    def test_nothing_else_does(self, code: int) -> None:
        with receiving(status(code)) as receiver, pytest.raises(DeliveryFailed, match=str(code)):
            LOCAL.post(receiver.url, {}, b"")

    @pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
    def test_redirects_are_not_followed(self, code: int) -> None:
        with receiving() as other, receiving(status(code, Location=f"{other.url}/stolen")) as receiver:
            with pytest.raises(DeliveryFailed, match=str(code)):
                LOCAL.post(receiver.url, {"Authorization": "Bearer x"}, b"")
            assert other.requests == []

    @pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy"])
    def test_proxies_of_the_environment_are_not_asked(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with receiving() as proxy, receiving() as receiver:
            monkeypatch.setenv(name, proxy.url)
            LOCAL.post(receiver.url, {}, b"")
            assert proxy.requests == []
            assert len(receiver.requests) == 1

    @pytest.mark.parametrize("value", ["a\r\nX-Other: b", "a\nb", "caf\u00e9\u2028"])
    def test_a_header_can_not_end_before_its_value_does(self, value: str) -> None:
        with receiving() as receiver, pytest.raises(DeliveryFailed):
            LOCAL.post(receiver.url, {"Authorization": value}, b"")
        assert receiver.requests == []

    def test_what_a_receiver_says_is_in_no_error(self) -> None:
        with (
            talking(lambda connection: connection.sendall(b"SECRET-LINE\r\n\r\n")) as url,
            pytest.raises(DeliveryFailed) as failed,
        ):
            LOCAL.post(url, {}, b"")
        assert "SECRET" not in str(failed.value)

    def test_nobody_listening_is_a_failure(self) -> None:
        with socket.create_server((LOOPBACK, 0)) as listener:
            port = listener.getsockname()[1]
        with pytest.raises(DeliveryFailed):
            LOCAL.post(f"http://{LOOPBACK}:{port}/", {}, b"")


class TestTime:
    def test_who_never_answers_is_waited_for_so_long_and_no_longer(self) -> None:
        hooks = WebHooks(local=True, total_seconds=0.3)

        def say_nothing(connection: socket.socket) -> None:
            connection.settimeout(10)
            connection.recv(1)

        with talking(say_nothing) as url:
            self.fails_within(hooks, url, 5)

    def test_who_answers_a_byte_at_a_time_is_not_waited_for_longer(self) -> None:
        hooks = WebHooks(local=True, total_seconds=0.3)

        def drip(connection: socket.socket) -> None:
            for _ in range(500):
                connection.sendall(b"H")
                time.sleep(0.02)

        with talking(drip) as url:
            self.fails_within(hooks, url, 5)

    def test_who_never_ends_the_head_is_not_waited_for_longer(self) -> None:
        hooks = WebHooks(local=True, total_seconds=0.3)

        def endless(connection: socket.socket) -> None:
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            for number in range(500):
                connection.sendall(b"X-%d: x\r\n" % number)
                time.sleep(0.02)

        with talking(endless) as url:
            self.fails_within(hooks, url, 1.5)

    def test_who_says_to_continue_for_ever_is_not_waited_for_longer(self) -> None:
        hooks = WebHooks(local=True, total_seconds=0.3)

        def go_on(connection: socket.socket) -> None:
            for _ in range(500):
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                time.sleep(0.02)

        with talking(go_on) as url:
            self.fails_within(hooks, url, 5)

    def test_a_handshake_that_drips_is_not_waited_for_longer(self) -> None:
        hooks = WebHooks(local=True, total_seconds=0.3)

        def drip(connection: socket.socket) -> None:
            connection.sendall(b"\x16\x03\x03\x40\x00")
            for _ in range(500):
                connection.sendall(b"\x02")
                time.sleep(0.02)

        with talking(drip) as url:
            self.fails_within(hooks, url.replace("http:", "https:"), 5)

    @staticmethod
    def fails_within(hooks: WebHooks, url: str, seconds: float) -> None:
        began = time.monotonic()
        with pytest.raises(DeliveryFailed):
            hooks.post(url, {}, b"{}")
        assert time.monotonic() - began < seconds

    def test_a_body_that_never_ends_is_not_read(self) -> None:
        def answer(connection: socket.socket) -> None:
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while True:
                connection.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")

        with talking(answer) as url:
            began = time.monotonic()
            LOCAL.post(url, {}, b"")
            assert time.monotonic() - began < 5

    def test_no_thread_is_left(self) -> None:
        with receiving() as receiver:
            LOCAL.post(receiver.url, {}, b"")
            deadline = time.monotonic() + 5
            while any(isinstance(thread, threading.Timer) for thread in threading.enumerate()):
                assert time.monotonic() < deadline
                time.sleep(0.01)


PRIVATE = [
    "0.0.0.0",  # noqa: S104
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.254",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:a9fe:a9fe",
    "::127.0.0.1",
    "64:ff9b::a00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]
IN_THE_INTERNET = [
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "172.32.0.1",
    "2606:4700::1111",
    "2a00:1450::1",
    "::ffff:8.8.8.8",
]


class TestAddresses:
    @pytest.mark.parametrize("address", PRIVATE)
    def test_of_anybodys_own_network_are_not_public(self, address: str) -> None:
        assert not is_public(address)

    @pytest.mark.parametrize("address", IN_THE_INTERNET)
    def test_of_the_internet_are_public(self, address: str) -> None:
        assert is_public(address)

    @pytest.mark.parametrize("address", PRIVATE)
    def test_a_name_that_resolves_to_one_is_not_called(
        self, address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("interlock.adapters.outbound.create_connection", self.no_connection)
        with pytest.raises(DeliveryFailed, match="private"):
            WebHooks(resolve=resolving(address)).post("https://hooks.example/", {}, b"")

    def test_one_private_address_among_public_ones_is_enough(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("interlock.adapters.outbound.create_connection", self.no_connection)
        with pytest.raises(DeliveryFailed, match="private"):
            WebHooks(resolve=resolving("8.8.8.8", "2606:4700::1111", "10.0.0.1")).post(
                "https://hooks.example/", {}, b""
            )

    @staticmethod
    def no_connection(*_: object) -> socket.socket:
        raise AssertionError("a connection was made")

    @pytest.mark.parametrize("host", ["localhost", "2130706433", "0x7f000001", "127.1", "0177.0.0.1"])
    def test_however_the_own_machine_is_spelled(self, host: str) -> None:
        with receiving() as receiver:
            hooks = WebHooks()
            hooks.check(f"https://{host}:{receiver.port}/")
            with pytest.raises(DeliveryFailed):
                hooks.post(f"https://{host}:{receiver.port}/", {}, b"")
            assert receiver.requests == []

    def test_the_address_that_was_judged_is_the_one_that_is_called(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A name that resolves to another address a moment later (DNS rebinding) leads nowhere else."""
        answers = iter([["8.8.8.8"], [LOOPBACK], [LOOPBACK]])
        called: list[tuple[str, int]] = []

        def connect(address: tuple[str, int], timeout: float) -> socket.socket:
            called.append(address)
            raise ConnectionRefusedError

        monkeypatch.setattr("interlock.adapters.outbound.create_connection", connect)
        with pytest.raises(DeliveryFailed):
            WebHooks(resolve=lambda host, port: next(answers)).post("https://hooks.example/", {}, b"")
        assert called == [("8.8.8.8", 443)]
        assert next(answers) == [LOOPBACK], "it was resolved once"

    def test_the_next_address_is_tried_but_not_all_of_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        called: list[str] = []

        def connect(address: tuple[str, int], timeout: float) -> socket.socket:
            called.append(address[0])
            raise ConnectionRefusedError

        monkeypatch.setattr("interlock.adapters.outbound.create_connection", connect)
        addresses = [f"8.8.8.{number}" for number in range(1, 9)]
        with pytest.raises(DeliveryFailed):
            WebHooks(resolve=resolving(*addresses)).post("https://hooks.example/", {}, b"")
        assert called == addresses[:2]

    def test_a_name_without_an_address_is_a_failure(self) -> None:
        def unknown(host: str, port: int) -> list[str]:
            raise socket.gaierror

        for resolver in (unknown, resolving()):
            with pytest.raises(DeliveryFailed):
                WebHooks(resolve=resolver).post("https://hooks.example/", {}, b"")

    def test_a_name_that_can_be_none_is_a_failure(self) -> None:
        with pytest.raises(DeliveryFailed):
            LOCAL.post(f"http://{'a' * 64}.example/", {}, b"")

    def test_names_are_resolved_to_all_their_addresses_once_each(self) -> None:
        found = resolve("localhost", 443)
        assert LOOPBACK in found
        assert len(found) == len(set(found))

    def test_a_laptop_calls_its_own_machine(self) -> None:
        with receiving() as receiver:
            LOCAL.post(f"http://localhost:{receiver.port}/", {}, b"")
            assert receiver.requests[0][2]["Host"] == f"localhost:{receiver.port}"


class TestUrls:
    @pytest.mark.parametrize(
        "url",
        [
            "https://hooks.example",
            "https://hooks.example/",
            "https://hooks.example:8443/a/b?c=d",
            "https://a_b.hooks.example/",
            "https://8.8.8.8/",
            "https://[2606:4700::1111]/",
            "https://hooks.example./",
            "HTTPS://HOOKS.EXAMPLE/",
        ],
    )
    def test_these_may_be_called(self, url: str) -> None:
        WebHooks().check(url)

    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("", "ASCII"),
            ("http://hooks.example/", "https"),
            ("ftp://hooks.example/", "https"),
            ("file:///etc/passwd", "https"),
            ("//hooks.example/", "https"),
            ("hooks.example", "https"),
            ("https:/hooks.example", "host"),
            ("https://", "host"),
            ("https://:443/", "host"),
            ("https://hooks.example:99999/", "URL"),
            ("https://hooks.example:x/", "URL"),
            ("https://hooks.example:0/", "port"),
            ("https://[::1", "URL"),
            ("https://[hooks.example]/", "URL"),
            ("https://user@hooks.example/", "credentials"),
            ("https://user:password@hooks.example/", "credentials"),
            ("https://@hooks.example/", "credentials"),
            ("https://hooks.example/#part", "fragment"),
            ("https://hooks.example/#", "fragment"),
            ("https://hooks.example/a b", "ASCII"),
            ("https://hooks.example/\r\nHost: other", "ASCII"),
            ("https://hooks.example/\t", "ASCII"),
            ("https://h\u00f6oks.example/", "ASCII"),
            ("https://hooks%2eexample/", "host"),
            ("https://hooks.example\\@other.example/", "credentials"),
            ("https://-hooks.example/", "host"),
            *[(f"https://{address}/", "private") for address in PRIVATE if ":" not in address],
            *[(f"https://[{address}]/", "private|URL") for address in PRIVATE if ":" in address],
        ],
    )
    def test_these_may_not(self, url: str, why: str) -> None:
        with pytest.raises(ValueError, match=why):
            WebHooks().check(url)
        with pytest.raises(DeliveryFailed):
            WebHooks().post(url, {}, b"")

    @pytest.mark.parametrize("url", ["http://127.0.0.1:8080/", "http://[::1]/", "https://localhost/"])
    def test_on_a_laptop_these_may_too(self, url: str) -> None:
        LOCAL.check(url)

    def test_on_a_laptop_others_may_not_either(self) -> None:
        with pytest.raises(ValueError, match="http"):
            LOCAL.check("file:///etc/passwd")


class TestTls:
    """The address is called, and the name is what it must prove to be."""

    @pytest.mark.parametrize("name", ["hooks.example", "Hooks.Example", "hooks.example."])
    def test_the_name_is_asked_for_and_verified(self, authority: Authority, name: str) -> None:
        asked: list[str | None] = []
        server = authority.server("hooks.example")
        server.sni_callback = lambda _, name, __: asked.append(name)
        hooks = WebHooks(local=True, resolve=resolving(LOOPBACK), tls=authority.client)
        with receiving(tls=server) as receiver:
            hooks.post(f"https://{name}:{receiver.port}/a", {}, b"{}")
        assert asked == ["hooks.example"]
        ((_, path, headers, body),) = receiver.requests
        assert (path, headers["Host"], body) == ("/a", f"{name.lower()}:{receiver.port}", b"{}")

    def test_a_certificate_of_another_name_is_refused(self, authority: Authority) -> None:
        hooks = WebHooks(local=True, resolve=resolving(LOOPBACK), tls=authority.client)
        with receiving(tls=authority.server("other.example")) as receiver:
            with pytest.raises(DeliveryFailed, match="Cert"):
                hooks.post(f"https://hooks.example:{receiver.port}/", {}, b"")
            assert receiver.requests == []

    def test_a_certificate_of_nobody_we_trust_is_refused(self, authority: Authority) -> None:
        hooks = WebHooks(local=True, resolve=resolving(LOOPBACK))
        with receiving(tls=authority.server("hooks.example")) as receiver:
            with pytest.raises(DeliveryFailed, match="Cert"):
                hooks.post(f"https://hooks.example:{receiver.port}/", {}, b"")
            assert receiver.requests == []
