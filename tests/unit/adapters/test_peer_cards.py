"""Which interface of a peer its card leads to, and how long that is taken for true."""

from typing import Any

import pytest
from tests.support.peers import TASK, Say, Time, card, client, error, interface, peer, result, say
from tests.support.receivers import Authority, reply, status

from interlock.adapters.outbound import Outbound
from interlock.adapters.peer_cards import FRESH_SECONDS, MAX_CARD_BYTES, MAX_KNOWN, Cards, Endpoint
from interlock.adapters.peers import MAX_TRIES
from interlock.engine.peers import PeerAddress, PeerRefused, PeerUnreachable

ELSEWHERE = "https://else.example/a2a"


def laptop() -> Cards:
    return Cards(Outbound(local=True))


def endpoint(
    said: dict[str, Any], *, tenant: str | None = None, authorization: str | None = None
) -> Endpoint:
    with peer() as served:
        served.card = [say(said)]
        return laptop().endpoint(PeerAddress(served.url, tenant, authorization), seconds=10)


def chosen(said: dict[str, Any], **options: Any) -> tuple[str, str | None]:
    found = endpoint(said, **options)
    return found.url, found.tenant


class TestChoice:
    @pytest.mark.parametrize("bindings", [("JSONRPC", "HTTP+JSON"), ("HTTP+JSON", "JSONRPC")])
    def test_the_order_is_the_cards(self, bindings: tuple[str, str]) -> None:
        said = card(*(interface(f"https://{number}.example", name) for number, name in enumerate(bindings)))
        found = endpoint(said)
        assert found.url == "https://0.example"
        assert type(found.binding).__name__ == {"JSONRPC": "JsonRpc", "HTTP+JSON": "HttpJson"}[bindings[0]]

    @pytest.mark.parametrize(
        "unusable",
        [
            interface("https://a.example", "GRPC"),
            interface("https://a.example", "https://binding.example"),
            interface("https://a.example", "JSONRPC", "0.3"),
            interface("https://a.example", "JSONRPC", "0.3.0"),
            interface("https://a.example", "JSONRPC", "1.1"),
            interface("https://a.example", "JSONRPC", "2.0"),
            interface("https://a.example", "JSONRPC", ""),
            interface("https://a.example", tenant="other"),
            interface("ftp://a.example"),
            interface("a.example"),
            interface(""),
            interface("https://user:secret@a.example"),
            interface("https://a.example/#a"),
            interface("https://a.example/?a=b", "HTTP+JSON"),
        ],
    )
    def test_what_can_not_be_called_is_passed_over(self, unusable: dict[str, Any]) -> None:
        assert chosen(card(unusable, interface(ELSEWHERE)), tenant="acme")[0] == ELSEWHERE
        with pytest.raises(PeerRefused):
            chosen(card(unusable), tenant="acme")

    @pytest.mark.parametrize(
        "private",
        [
            "http://else.example/",
            "https://127.0.0.1/",
            "https://169.254.169.254/",
            "https://[fd00:ec2::254]/",
        ],
    )
    def test_so_is_what_the_rules_forbid(
        self, private: str, internet: Outbound, authority: Authority
    ) -> None:
        with peer(authority=authority) as served:
            served.card = [say(card(interface(private), interface(ELSEWHERE))), say(card(interface(private)))]
            to = PeerAddress(served.url)
            assert Cards(internet).endpoint(to, seconds=10).url == ELSEWHERE
            with pytest.raises(PeerRefused, match="no interface"):
                Cards(internet).endpoint(to, seconds=10)

    def test_on_a_laptop_they_forbid_less(self) -> None:
        assert chosen(card(interface("http://127.0.0.1/")))[0] == "http://127.0.0.1/"

    def test_a_url_of_json_rpc_is_called_as_it_is(self) -> None:
        assert chosen(card(interface(f"{ELSEWHERE}?a=b")))[0] == f"{ELSEWHERE}?a=b"

    def test_the_tenant_is_the_interfaces_or_the_addresss(self) -> None:
        assert chosen(card(interface(ELSEWHERE))) == (ELSEWHERE, None)
        assert chosen(card(interface(ELSEWHERE, tenant=""))) == (ELSEWHERE, None)
        assert chosen(card(interface(ELSEWHERE, tenant="acme"))) == (ELSEWHERE, "acme")
        assert chosen(card(interface(ELSEWHERE)), tenant="acme") == (ELSEWHERE, "acme")
        both = card(interface("https://a.example", tenant="other"), interface(ELSEWHERE, tenant="acme"))
        assert chosen(both, tenant="acme") == (ELSEWHERE, "acme")
        assert chosen(both) == ("https://a.example", "other")

    def test_with_a_credential_it_is_one_that_may_be_told_it(self) -> None:
        with peer() as served:
            home = f"{served.url}/a2a"
            served.card = [say(card(interface(ELSEWHERE), interface(home), interface(f"{home}/b")))]
            assert laptop().endpoint(PeerAddress(served.url), seconds=10).url == ELSEWHERE
            assert laptop().endpoint(PeerAddress(served.url, None, "Bearer x"), seconds=10).url == home
        assert chosen(card(interface(ELSEWHERE)), authorization="Bearer x")[0] == ELSEWHERE


class TestReading:
    @pytest.mark.parametrize("path", ["", "/", "/agents/a", "/agents/a/"])
    def test_the_card_is_below_the_url(self, path: str) -> None:
        with peer(result(TASK)) as served:
            client().get(PeerAddress(served.url + path), "task-1")
            method, asked, headers, _ = served.receiver.requests[0]
        assert (method, asked) == ("GET", f"{path.rstrip('/')}/.well-known/agent-card.json")
        assert headers["A2A-Version"] == "1.0"

    @pytest.mark.parametrize("code", [301, 302, 307, 400, 401, 403, 404, 410])
    def test_no_card_is_a_refusal(self, code: int) -> None:
        with peer() as served:
            served.card = [status(code, Location=f"{served.url}/elsewhere")]
            with pytest.raises(PeerRefused, match=f"no agent card: the answer was {code}"):
                client().get(PeerAddress(served.url), "task-1")
            assert len(served.receiver.requests) == 1

    @pytest.mark.parametrize(
        "said",
        [
            {"url": "https://else.example", "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"},
            card(interface(ELSEWHERE, version="0.3")),
            card(interface(ELSEWHERE, version="0.3"), interface(ELSEWHERE, "HTTP+JSON", "0.3.0")),
        ],
    )
    def test_one_of_0_3_is_a_refusal_that_says_so(self, said: dict[str, Any]) -> None:
        with pytest.raises(PeerRefused, match=r"0\.3 only"):
            chosen(said)

    @pytest.mark.parametrize(
        "said",
        [
            {},
            card(),
            {"supportedInterfaces": {}},
            {"supportedInterfaces": [1]},
            {"supportedInterfaces": [{"url": ELSEWHERE, "protocolBinding": "JSONRPC"}]},
            card(interface(ELSEWHERE, tenant="a" * 257)),
            card(interface("https://" + "a" * 2048)),
            card(*[interface(ELSEWHERE)] * 65),
            card(interface(ELSEWHERE, "GRPC")),
            card(interface(ELSEWHERE, version="0.3"), interface(ELSEWHERE, version="2.0")),
        ],
    )
    def test_one_without_a_use_is_a_refusal(self, said: dict[str, Any]) -> None:
        with pytest.raises(PeerRefused, match="agent card") as refused:
            chosen(said)
        assert "else.example" not in str(refused.value)

    @pytest.mark.parametrize(
        "broken",
        [
            status(500),
            status(503),
            status(429),
            status(204),
            say([]),
            say(card(interface(ELSEWHERE)), content_type="text/html"),
            reply(b"<html></html>"),
            reply(b"x" * (MAX_CARD_BYTES + 1)),
        ],
    )
    def test_one_that_can_not_be_read_may_be_asked_for_again(self, broken: Say) -> None:
        with peer(result(TASK)) as served:
            good = served.card[0]
            served.card = [broken, good]
            assert client().get(PeerAddress(served.url), "task-1").id == "task-1"
            served.card = [broken]
            with pytest.raises(PeerUnreachable):
                client().get(PeerAddress(served.url), "task-1")
            assert served.card_reads == 2 + MAX_TRIES


class TestKept:
    def test_a_card_is_read_once_in_ten_minutes(self) -> None:
        time = Time()
        peers = client(time)
        with peer(result(TASK)) as served:
            to = PeerAddress(served.url)
            for moment, reads in [(0, 1), (FRESH_SECONDS - 1, 1), (FRESH_SECONDS, 2), (FRESH_SECONDS + 1, 2)]:
                time.at = moment
                peers.get(to, "task-1")
                assert served.card_reads == reads
            assert len(served.calls) == 4

    def test_each_address_has_its_own(self) -> None:
        peers = client()
        with peer(result(TASK)) as served:
            for to in (
                PeerAddress(served.url),
                PeerAddress(served.url, "acme"),
                PeerAddress(served.url, "acme", "Bearer x"),
                PeerAddress(served.url, "acme", "Bearer y"),
            ):
                peers.get(to, "task-1")
            assert served.card_reads == 4

    @pytest.mark.parametrize(
        ("said", "reads"),
        [
            (status(404), 2),  # the interface has moved
            (status(301), 2),
            (status(503), 2),
            (error(-32603), 2),
            (error(-32001), 1),  # the peer itself said no
        ],
    )
    def test_one_that_led_nowhere_is_read_again(self, said: Say, reads: int) -> None:
        peers = client()
        with peer(said) as served:
            to = PeerAddress(served.url)
            with pytest.raises((PeerRefused, PeerUnreachable)):
                peers.get(to, "task-1")
            assert served.card_reads == 1, "tries go to the same interface"
            served.answers = [result(TASK)]
            peers.get(to, "task-1")
            assert served.card_reads == reads

    def test_a_peer_that_has_moved_is_found_again(self) -> None:
        peers = client()
        with peer(result(TASK)) as new, peer(status(404)) as old:
            to = PeerAddress(old.url)
            with pytest.raises(PeerRefused):
                peers.get(to, "task-1")
            old.card = [say(card(interface(new.url)))]
            assert peers.get(to, "task-1").id == "task-1"

    def test_one_that_is_read_again_is_the_newest(self) -> None:
        time = Time()
        peers = client(time)
        with peer(result(TASK)) as served:
            first, *others = (PeerAddress(served.url, f"tenant-{n}") for n in range(MAX_KNOWN + 1))
            peers.get(first, "task-1")
            for to in others[:-1]:
                peers.get(to, "task-1")
            time.at = FRESH_SECONDS
            peers.get(first, "task-1")
            peers.get(others[-1], "task-1")
            reads = served.card_reads
            peers.get(first, "task-1")
            assert served.card_reads == reads

    def test_only_so_many_are_kept(self) -> None:
        peers = client()
        with peer(result(TASK)) as served:
            addresses = [PeerAddress(served.url, f"tenant-{number}") for number in range(MAX_KNOWN + 1)]
            for to in addresses:
                peers.get(to, "task-1")
            assert len(peers._cards._known) == MAX_KNOWN
            reads = served.card_reads
            peers.get(addresses[-1], "task-1")
            assert served.card_reads == reads
            peers.get(addresses[0], "task-1")
            assert served.card_reads == reads + 1, "the oldest has made room"


class TestRead:
    def test_a_card_is_given_as_it_is(self) -> None:
        with peer() as served:
            said = card(
                interface(served.url), capabilities={"extensions": [{"uri": "urn:a"}]}, more={"b": None}
            )
            served.card = [say(said)]
            assert laptop().read(PeerAddress(served.url), seconds=10) == said

    @pytest.mark.parametrize(
        "said", [card(), card(interface("https://a.example", "GRPC")), {"supportedInterfaces": 7}]
    )
    def test_one_of_a_peer_that_can_not_be_called_is_refused(self, said: dict[str, Any]) -> None:
        with peer() as served:
            served.card = [say(said)]
            with pytest.raises(PeerRefused):
                laptop().read(PeerAddress(served.url), seconds=10)

    def test_it_is_read_each_time(self) -> None:
        with peer() as served:
            cards = laptop()
            for _ in range(2):
                cards.read(PeerAddress(served.url), seconds=10)
            assert served.card_reads == 2
