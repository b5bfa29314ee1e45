"""Signed web hooks and topics as ways to people, chosen by a document that may change while it is used."""

import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from moto import mock_aws
from tests.support.receivers import receiving, status

from interlock.adapters import renderers
from interlock.adapters.outbound import Outbound
from interlock.adapters.renderers import (
    FRESH_SECONDS,
    ConfiguredRenderers,
    TopicRenderer,
    WebHookRenderer,
    renderers_of,
    signature,
    sns_client,
)
from interlock.engine.notices import RenderFailed
from interlock.engine.tells import Tells

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HOOK = {"kind": "webhook", "url": "https://hooks.example/in", "secret": SECRET}
TOPIC = {"kind": "sns", "topic": "arn:aws:sns:eu-west-1:000000000000:people"}
NOTICE = {"id": "n-1", "tells": "asked", "tenant": "acme", "agent": "desk", "prompt": "Go \u2192 on?"}


def test_a_signature_is_that_of_the_published_example() -> None:
    """Of github.com/standard-webhooks/standard-webhooks, its libraries' tests."""
    signed = signature(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


class TestWebHook:
    def test_its_receiver_can_check_who_sent_it_and_when(self) -> None:
        with receiving() as receiver:
            hook = WebHookRenderer(Outbound(local=True), receiver.url, SECRET, clock=lambda: 1614265330.9)
            hook.render("n-1", NOTICE)
        ((_, _, given, body),) = receiver.requests
        assert json.loads(body) == NOTICE
        headers = {name.lower(): value for name, value in given.items()}
        assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("n-1", "1614265330")
        assert headers["webhook-signature"] == signature(SECRET, "n-1", "1614265330", body)

    @pytest.mark.parametrize("code", [301, 400, 401, 404, 500, 503])
    def test_what_is_not_taken_has_failed(self, code: int) -> None:
        with receiving(status(code)) as receiver:
            hook = WebHookRenderer(Outbound(local=True), receiver.url, SECRET)
            with pytest.raises(RenderFailed, match=str(code)):
                hook.render("n-1", NOTICE)

    @pytest.mark.parametrize("url", ["http://hooks.example", "https://127.0.0.1/in", "https://10.0.0.1/in"])
    def test_the_rules_for_web_hooks_hold(self, url: str) -> None:
        with pytest.raises(RenderFailed, match="must"):
            WebHookRenderer(Outbound(), url, SECRET).render("n-1", NOTICE)


@mock_aws
def test_a_topic_is_published_to_with_what_can_be_filtered_by(no_aws: None) -> None:
    sns = boto3.client("sns")
    topic = sns.create_topic(Name="people")["TopicArn"]
    sqs = boto3.client("sqs")
    queue = sqs.create_queue(QueueName="people")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(
        TopicArn=topic,
        Protocol="sqs",
        Endpoint=arn,
        Attributes={"FilterPolicy": '{"tells":["asked"]}', "RawMessageDelivery": "true"},
    )
    renderer = TopicRenderer(sns_client, topic)
    renderer.render("n-1", NOTICE)
    renderer.render("n-2", {**NOTICE, "tells": "reminder"})
    messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert [json.loads(message["Body"]) for message in messages] == [NOTICE]


@mock_aws
def test_a_topic_that_is_not_there_has_failed(no_aws: None) -> None:
    with pytest.raises(RenderFailed, match="not published"):
        TopicRenderer(sns_client, TOPIC["topic"]).render("n-1", NOTICE)


class Document:
    """What is read, and how often it was."""

    def __init__(self, **members: Any) -> None:
        self.text = json.dumps(members)
        self.reads = 0
        self.now = 0.0

    def read(self) -> bytes:
        self.reads += 1
        return self.text.encode()

    def renderers(self) -> ConfiguredRenderers:
        return ConfiguredRenderers(self.read, Outbound(), self.no_client, now=lambda: self.now)

    def no_client(self) -> Any:
        raise AssertionError("nothing is published here")


def named(document: Document, tells: Tells = Tells.ASKED, interface: str | None = None) -> list[str]:
    return list(document.renderers().chosen(tells, interface, "acme"))


CHAIN: dict[str, Any] = {
    "renderers": {"chat": HOOK, "ops": TOPIC, "pager": HOOK},
    "surfaces": {"discord": ["chat"], "nowhere": []},
    "default": ["ops"],
    "escalation": ["pager", "ops"],
}


@pytest.mark.parametrize(
    ("tells", "interface", "expected"),
    [
        (Tells.ASKED, "discord", ["chat"]),
        (Tells.ASKED, "linear", ["ops"]),
        (Tells.STARTED, None, ["ops"]),
        (Tells.REMINDER, "nowhere", []),
        (Tells.ESCALATED, "discord", ["pager", "ops"]),
    ],
)
def test_who_is_told_follows_from_where_the_work_came_from(
    tells: Tells, interface: str | None, expected: list[str]
) -> None:
    assert named(Document(**CHAIN), tells, interface) == expected


def test_without_an_escalation_of_its_own_it_goes_where_the_question_went() -> None:
    document = Document(**{**CHAIN, "escalation": []})
    assert named(document, Tells.ESCALATED, "discord") == ["chat"]


def test_a_name_that_is_no_renderer_is_none() -> None:
    assert named(Document(renderers={"ops": TOPIC}, default=["ops", "gone"])) == ["ops"]


def test_the_document_is_read_again_after_a_minute() -> None:
    document = Document(**CHAIN)
    chosen = document.renderers()
    for _ in range(3):
        chosen.chosen(Tells.ASKED, None, "acme")
    assert document.reads == 1
    document.text = json.dumps({**CHAIN, "default": ["chat"]})
    document.now = FRESH_SECONDS
    assert list(chosen.chosen(Tells.ASKED, None, "acme")) == ["chat"]


def broken(change: Callable[[dict[str, Any]], object]) -> str:
    document = json.loads(json.dumps(CHAIN))
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        broken(lambda document: document.pop("renderers")),
        broken(lambda document: document.update(more=1)),
        broken(lambda document: document["renderers"]["chat"].update(kind="pigeon")),
        broken(lambda document: document["renderers"]["chat"].update(secret="short")),
        broken(lambda document: document["renderers"]["chat"].pop("secret")),
        broken(lambda document: document["renderers"]["ops"].update(topic="people")),
    ],
)
def test_a_document_that_is_broken_fails_without_telling_its_secrets(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    document = Document()
    document.text = text
    with pytest.raises(RenderFailed) as failed:
        document.renderers().chosen(Tells.ASKED, None, "acme")
    assert SECRET not in str(failed.value) + caplog.text + repr(
        [record.__dict__ for record in caplog.records]
    )


def test_a_file_on_a_laptop_will_do(tmp_path: Any) -> None:
    path = tmp_path / "renderers.json"
    path.write_text(json.dumps(CHAIN))
    assert list(renderers_of(f"file:{path}", local=True).chosen(Tells.ASKED, None, "acme")) == ["ops"]
    with pytest.raises(RenderFailed, match="can not be read"):
        renderers_of(f"file:{path}.none").chosen(Tells.ASKED, None, "acme")


@mock_aws
def test_a_secret_in_the_cloud_is_read(no_aws: None) -> None:
    secret = boto3.client("secretsmanager").create_secret(Name="people", SecretString=json.dumps(CHAIN))
    assert list(renderers_of(secret["ARN"]).chosen(Tells.ASKED, None, "acme")) == ["ops"]


def test_a_secret_is_not_in_the_repr_of_what_holds_it() -> None:
    assert SECRET not in repr(renderers.Document.model_validate(CHAIN))
