"""Which peers are configured, and which credential a URL is given."""

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ConnectTimeoutError
from botocore.stub import Stubber
from moto import mock_aws

from interlock.adapters.outbound import Outbound
from interlock.adapters.peer_directory import (
    FRESH_SECONDS,
    Directory,
    Read,
    in_file,
    in_secret,
    nothing,
    secrets_client,
)
from interlock.adapters.peers import peers_of
from interlock.engine.peers import PeerAddress, PeerRefused, PeerUnreachable

BILLING = {"url": "https://billing.example/agents", "tenant": "acme", "authorization": "Bearer billing"}
DOCUMENT: dict[str, Any] = {
    "billing": BILLING,
    "refunds": {"url": "https://billing.example/agents/refunds/", "authorization": "Bearer refunds"},
    "open": {"url": "https://billing.example/agents/open"},
    "root": {"url": "https://root.example", "authorization": "Bearer root"},
    "odd": {"url": "https://odd.example:8443/a", "authorization": "Bearer odd"},
    "private": {"url": "http://10.0.0.1/", "authorization": "Bearer private"},
}


def directory(document: object = DOCUMENT, *, local: bool = False) -> Directory:
    return Directory(lambda: json.dumps(document).encode(), Outbound(local=local))


class TestNames:
    def test_one_is_its_address(self) -> None:
        assert directory().resolve("billing") == PeerAddress(
            "https://billing.example/agents", "acme", "Bearer billing"
        )
        assert directory().resolve("open") == PeerAddress("https://billing.example/agents/open")

    @pytest.mark.parametrize("name", ["nobody", "", "Billing", "billing.example/agents", "../billing"])
    def test_another_is_refused(self, name: str) -> None:
        with pytest.raises(PeerRefused, match="no peer of this name") as refused:
            directory().resolve(name)
        assert (refused.value.code, refused.value.reason) == (None, None)

    def test_one_whose_url_breaks_the_rules_is_refused_alone(self) -> None:
        with pytest.raises(PeerRefused, match="https"):
            directory().resolve("private")
        assert directory().resolve("root").authorization == "Bearer root"

    def test_on_a_laptop_addresses_are_of_any_kind(self) -> None:
        assert directory(local=True).resolve("private").url == "http://10.0.0.1/"


class TestTenants:
    def limited(self) -> Directory:
        return directory({"billing": {**BILLING, "for_tenants": ["acme"]}})

    def test_a_peer_is_there_for_those_that_it_serves(self) -> None:
        assert self.limited().resolve("billing", "acme").authorization == "Bearer billing"
        assert self.limited().resolve(BILLING["url"], "acme").authorization == "Bearer billing"
        assert directory({"billing": BILLING}).resolve("billing", "other").authorization == "Bearer billing"

    def test_for_another_there_is_neither_its_name_nor_its_credential(self) -> None:
        with pytest.raises(PeerRefused, match="no peer of this name"):
            self.limited().resolve("billing", "other")
        assert self.limited().resolve(BILLING["url"], "other").authorization is None

    def test_what_runs_here_is_not_limited(self) -> None:
        assert self.limited().resolve("billing").authorization == "Bearer billing"


class TestUrls:
    @pytest.mark.parametrize(
        ("url", "authorization"),
        [
            ("https://billing.example/agents", "Bearer billing"),
            ("https://billing.example/agents/", "Bearer billing"),
            ("https://billing.example/agents/a/b", "Bearer billing"),
            ("HTTPS://Billing.Example:443/agents", "Bearer billing"),
            ("https://billing.example/agents/refunds", "Bearer refunds"),
            ("https://billing.example/agents/refunds/a", "Bearer refunds"),
            ("https://billing.example/agents/refunds-of-others", "Bearer billing"),
            ("https://root.example", "Bearer root"),
            ("https://root.example/a", "Bearer root"),
            ("https://odd.example:8443/a", "Bearer odd"),
        ],
    )
    def test_the_longest_beginning_says_the_credential(self, url: str, authorization: str) -> None:
        # The tenant is the name's.
        assert directory().resolve(url) == PeerAddress(url, None, authorization)

    @pytest.mark.parametrize(
        "url",
        [
            "https://billing.example/agents/open",
            "https://billing.example/agents/open/a",
            "https://billing.example/",
            "https://billing.example/agentsmith",
            "https://billing.example/AGENTS",
            "https://billing.example:8443/agents",
            "https://billing.example.evil.example/agents",
            "https://xbilling.example/agents",
            "https://sub.root.example/",
            "https://odd.example/a",
            "https://else.example/",
        ],
    )
    def test_no_other_url_is_given_one(self, url: str) -> None:
        assert directory().resolve(url) == PeerAddress(url)

    def test_not_even_the_same_host_over_plain_http(self) -> None:
        assert directory(local=True).resolve("http://root.example:443/").authorization is None

    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("http://billing.example/agents", "https"),
            ("ftp://billing.example/", "https"),
            ("file:///etc/passwd", "https"),
            ("https://", "host"),
            ("https://user:secret@billing.example/", "credentials"),
            ("https://10.0.0.1/", "private"),
            ("https://[::1]/", "private"),
            ("https://billing.example/agents?a=b", "query"),
            ("https://billing.example/agents#a", "fragment"),
            ("https://billing.example/agents/open/../refunds", "dot segments"),
            ("https://billing.example/agents/./a", "dot segments"),
            ("https://billing.example/agents/%2e%2e/refunds", "dot segments"),
            ("https://billing.example/agents/..%2frefunds", "dot segments"),
            ("https://billing.example/agents\\..\\refunds", "dot segments"),
            (f"https://billing.example/{'a' * 2048}", "too long"),
        ],
    )
    def test_one_that_breaks_the_rules_is_refused(self, url: str, why: str) -> None:
        with pytest.raises(PeerRefused, match=why) as refused:
            directory().resolve(url)
        assert "secret" not in str(refused.value)

    def test_one_of_several_credentials_is_not_guessed(self) -> None:
        other = {"url": "https://billing.example/agents/", "authorization": "Bearer other"}
        both = directory({"billing": BILLING, "other": other})
        with pytest.raises(PeerRefused, match="use a name"):
            both.resolve("https://billing.example/agents/a")
        assert both.resolve("other").authorization == "Bearer other"

    def test_names_of_one_peer_may_share_a_credential(self) -> None:
        two = directory({"billing": BILLING, "more": {**BILLING, "tenant": "other"}})
        assert two.resolve("https://billing.example/agents").authorization == "Bearer billing"


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_credential_that_is_rotated_is_used_within_a_minute() -> None:
    documents, time = {"billing": dict(BILLING)}, Time()
    reads: list[None] = []

    def read() -> bytes:
        reads.append(None)
        return json.dumps(documents).encode()

    peers = Directory(read, Outbound(), now=time)
    for moment, said, expected in [
        (0.0, "Bearer old", "Bearer old"),
        (FRESH_SECONDS - 1, "Bearer new", "Bearer old"),
        (FRESH_SECONDS, "Bearer new", "Bearer new"),
        (2 * FRESH_SECONDS - 1, "Bearer newer", "Bearer new"),
    ]:
        time.now = moment
        documents["billing"]["authorization"] = said
        assert peers.resolve("billing").authorization == expected
    assert len(reads) == 2


SECRET = "SECRET-VALUE"
BROKEN: list[bytes] = [
    b"",
    b"SECRET-VALUE",
    b'"SECRET-VALUE"',
    b'["SECRET-VALUE"]',
    b"\xff\xfe",
    b'{"a": "SECRET-VALUE"}',
    b'{"a": {"authorization": "SECRET-VALUE"}}',
    b'{"a": {"url": "https://a.example", "authorization": ["SECRET-VALUE"]}}',
    b'{"a": {"url": "https://a.example", "authorization": "SECRET-VALUE\\r\\nX: y"}}',
    b'{"a": {"url": "https://a.example", "authorization": "SECRET-VALUE\\n"}}',
    b'{"a": {"url": "https://a.example", "authorization": "SECRET-VALUE\\u00e4"}}',
    b'{"a": {"url": "https://a.example", "authorization": ""}}',
    b'{"a": {"url": "https://a.example", "tenant": ""}}',
    b'{"a": {"url": "https://a.example", "password": "SECRET-VALUE"}}',
    b'{"a": {"url": "https://a.example"}, "a": {"url": "https://b.example"}}',
    b'{"a/b": {"url": "https://a.example", "authorization": "SECRET-VALUE"}}',
    b'{"": {"url": "https://a.example"}}',
    json.dumps({f"a{number}": {"url": "https://a.example"} for number in range(257)}).encode(),
]


class TestBroken:
    @pytest.mark.parametrize("document", BROKEN)
    def test_a_document_is_logged_and_none_of_it_is_used_or_told(
        self, document: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        peers = Directory(lambda: document, Outbound())
        for asked in ("a", "https://a.example/"):
            with pytest.raises(PeerRefused) as refused:
                peers.resolve(asked)
            assert str(refused.value) == "the peers can not be read"
        assert "The peers can not be read" in caplog.text
        assert SECRET not in caplog.text

    def test_a_url_that_breaks_the_rules_needs_no_document(self) -> None:
        with pytest.raises(PeerRefused, match="https"):
            Directory(lambda: b"", Outbound()).resolve("http://a.example/")

    def test_it_is_read_again_once_it_is_whole(self) -> None:
        documents = [b"", b"{}"]
        peers = Directory(lambda: documents.pop(0), Outbound())
        with pytest.raises(PeerRefused):
            peers.resolve("https://a.example/")
        assert peers.resolve("https://a.example/") == PeerAddress("https://a.example/")

    def test_an_address_does_not_show_its_credential(self) -> None:
        assert "Bearer" not in repr(directory().resolve("billing"))
        assert "Bearer" not in f"{directory().resolve('billing')}"


class TestPlaces:
    def test_without_a_setting_there_are_none(self) -> None:
        assert nothing() == b"{}"
        peers = peers_of(None)
        assert peers.resolve_for("acme", "https://a.example/") == PeerAddress("https://a.example/")
        with pytest.raises(PeerRefused, match="no peer of this name"):
            peers.resolve_for("acme", "a")

    def test_in_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "peers.json"
        peers = peers_of(f"file:{file}")
        with pytest.raises(PeerRefused, match="can not be read"):
            peers.resolve_for("acme", "billing")
        file.write_text(json.dumps(DOCUMENT))
        assert peers.resolve_for("acme", "billing").authorization == "Bearer billing"
        assert in_file(file)() == file.read_bytes()

    @pytest.mark.parametrize("named", ["Name", "ARN"])
    def test_in_a_secret(self, named: str) -> None:
        with mock_aws():
            secret = secrets_client().create_secret(Name="peers", SecretString=json.dumps(DOCUMENT))
            peers = peers_of(secret[named])
            assert peers.resolve_for("acme", "billing").authorization == "Bearer billing"

    def test_a_rotated_secret_is_the_one_that_counts(self) -> None:
        with mock_aws():
            client = secrets_client()
            client.create_secret(Name="peers", SecretString="{}")
            read = in_secret(secrets_client, "peers")
            assert read() == b"{}"
            client.put_secret_value(SecretId="peers", SecretString='{"a": {}}')
            assert read() == b'{"a": {}}'

    def test_a_secret_of_bytes_is_a_broken_document(self) -> None:
        with mock_aws():
            secrets_client().create_secret(Name="peers", SecretBinary=b"{}")
            with pytest.raises(PeerRefused, match="can not be read"):
                peers_of("peers").resolve_for("acme", "a")

    def test_no_client_is_made_before_one_is_needed(self) -> None:
        def no_client() -> Any:
            raise AssertionError("a client was made")

        in_secret(no_client, "peers")

    def test_a_service_that_does_not_answer_may_be_asked_again(self) -> None:
        client = secrets_client()
        with Stubber(client) as stub:
            stub.add_client_error("get_secret_value", "InternalServiceError", http_status_code=500)
            self.unreachable(in_secret(lambda: client, "peers"))

        class Silent:
            def get_secret_value(self, SecretId: str) -> Any:  # noqa: N803
                raise ConnectTimeoutError(endpoint_url="https://secrets.example")

        self.unreachable(in_secret(Silent, "peers"))

    @staticmethod
    def unreachable(read: Read) -> None:
        with pytest.raises(PeerUnreachable, match="can not be read"):
            Directory(read, Outbound()).resolve("https://a.example/")
