"""What the template promises. The emulator misses some of it, so it is asserted here."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tools.laptop.template import template as read_template

from interlock.engine.calls import LOST_CALL
from interlock.engine.notices import GIVEN_UP, UNRENDERED
from interlock.engine.records import SHARDS, halts_pk
from interlock.engine.seal import UNSIGNED
from interlock.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
Template = dict[str, Any]

READ_CORE = {"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"}
WRITE_CORE = {
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
    "dynamodb:DeleteItem",
    "dynamodb:ConditionCheckItem",
}
READ_STREAM = {"dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"}
CONSUME = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes"}
LOG = {"logs:CreateLogStream", "logs:PutLogEvents"}
SEND = {"sqs:SendMessage"}

DOOR = {
    "CoreTable": READ_CORE | WRITE_CORE,
    "CoreTable/index/views": {"dynamodb:Query"},
    "IdentitiesTable": {"dynamodb:GetItem"},
    "TurnsQueue": SEND,
    "TimersQueue": SEND,
    "AuditQueue": SEND,
}
WAKE_DELIVERIES = {"OutboxQueue": SEND}
WAKE_WALKS = {"StopsQueue": SEND}
ALLOWED = {
    "A2a": DOOR | WAKE_DELIVERIES | {"SealKey": {"kms:Encrypt", "kms:Decrypt"}},
    "Operator": DOOR | WAKE_WALKS | WAKE_DELIVERIES | {"AuditTable": {"dynamodb:Query"}},
    "Feed": {
        "CoreTable": {"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem"},
        "IdentitiesTable": {"dynamodb:GetItem"},
        "AuditQueue": SEND,
    },
    "Inbox": {},
    "Channels": {
        "CoreTable": READ_CORE | WRITE_CORE - {"dynamodb:DeleteItem"},
        "IdentitiesTable": {"dynamodb:GetItem"},
        "TurnsQueue": SEND,
        "AuditQueue": SEND,
        **WAKE_DELIVERIES,
    },
    "Authorizer": {"IdentitiesTable": {"dynamodb:GetItem"}},
    "Turns": {
        "CoreTable": READ_CORE | WRITE_CORE,
        "TurnsQueue": SEND | CONSUME,
        "TimersQueue": SEND,
        **WAKE_DELIVERIES,
    },
    "Fanout": {
        "CoreTable": READ_CORE | {"dynamodb:UpdateItem"},
        "CoreTable.StreamArn": READ_STREAM,
        "*": {"dynamodb:ListStreams"},
        "TurnsQueue": SEND,
        "AuditQueue": SEND,
        "FanoutFailures": SEND,
        **WAKE_DELIVERIES,
        **WAKE_WALKS,
    },
    "Stops": {
        "CoreTable": READ_CORE | WRITE_CORE - {"dynamodb:ConditionCheckItem"},
        "StopsQueue": CONSUME,
        **WAKE_DELIVERIES,
    },
    "Outbox": {
        "CoreTable": READ_CORE | WRITE_CORE - {"dynamodb:DeleteItem"},
        "OutboxQueue": SEND | CONSUME,
        "OutboxDeadLetters": SEND,
        "TimersQueue": SEND,
        "SealKey": {"kms:Decrypt"},
    },
    "Audit": {
        "CoreTable": {"dynamodb:Query", "dynamodb:DeleteItem"},
        "AuditTable": {"dynamodb:Query", "dynamodb:PutItem"},
        "AuditQueue": CONSUME,
        "AuditKey": {"kms:Sign", "kms:GetPublicKey"},
    },
    "Timers": {
        "CoreTable": READ_CORE | WRITE_CORE,
        "TurnsQueue": SEND,
        "AuditQueue": SEND,
        "TimersQueue": SEND | CONSUME,
        **WAKE_DELIVERIES,
        **WAKE_WALKS,
    },
}
FUNCTIONS = sorted(ALLOWED)
QUEUES = ["AuditQueue", "OutboxQueue", "StopsQueue", "TimersQueue", "TurnsQueue"]
DEAD_LETTERS = [
    "AuditDeadLetters",
    "FanoutFailures",
    "OutboxDeadLetters",
    "StopsDeadLetters",
    "TimersDeadLetters",
    "TurnsDeadLetters",
]
TABLES = ["AuditTable", "CoreTable", "IdentitiesTable"]
INDEXED_TABLES = ["CoreTable", "IdentitiesTable"]
SET_ELSEWHERE = {
    # For local use only: a deployment that sets it lets anybody in.
    "INTERLOCK_ANONYMOUS_TENANT",
    # Their defaults fit: a turn ends with its function, whose timeout is a parameter.
    "INTERLOCK_CHECK_MEDIA_TYPES",
    "INTERLOCK_LEASE_SECONDS",
    "INTERLOCK_TURN_SECONDS",
    # For local use only: it leads into the network that the function runs in.
    "INTERLOCK_LOCAL_WEBHOOKS",
    "INTERLOCK_STREAMS",
    "INTERLOCK_STREAM_SECONDS",
}


NO_VALUE = {"Ref": "AWS::NoValue"}
DEFAULTS = {
    "IsStreaming": False,
    "HasPushNotifications": True,
    "HasCardSigning": False,
    "HasPeers": False,
    "HasRenderers": False,
    "HasNoticeTopic": False,
    "HasMailIdentity": False,
}


def settled(value: Any, conditions: dict[str, bool]) -> Any:
    """The template as it is under conditions: their `Fn::If` decided, and what is not there left out."""
    if isinstance(value, dict):
        if "Fn::If" in value:
            name, yes, no = value["Fn::If"]
            return settled(yes if conditions[name] else no, conditions) if name in conditions else value
        kept = {
            name: settled(member, conditions)
            for name, member in value.items()
            if not isinstance(member, dict) or conditions.get(member.get("Condition", ""), True)
        }
        return {name: member for name, member in kept.items() if member != NO_VALUE}
    if isinstance(value, list):
        members = [settled(member, conditions) for member in value]
        return [member for member in members if member != NO_VALUE]
    return value


@pytest.fixture(scope="session")
def whole() -> Template:
    """Before any condition is decided."""
    return read_template()


@pytest.fixture(scope="session")
def template(whole: Template) -> Template:
    """As it is by default: buffered, with push notifications, its card unsigned."""
    found: Template = settled(whole, DEFAULTS)
    return found


@pytest.fixture(scope="session")
def streaming(whole: Template) -> Template:
    found: Template = settled(whole, DEFAULTS | {"IsStreaming": True})
    return found


@pytest.fixture(scope="session")
def without_push(whole: Template) -> Template:
    found: Template = settled(whole, DEFAULTS | {"HasPushNotifications": False})
    return found


def of_type(template: Template, resource_type: str) -> dict[str, dict[str, Any]]:
    return {
        name: resource["Properties"]
        for name, resource in template["Resources"].items()
        if resource["Type"] == resource_type
    }


def function(template: Template, name: str) -> dict[str, Any]:
    """A function's properties, with those of Globals below them."""
    own = template["Resources"][f"{name}Function"]["Properties"]
    shared = template["Globals"]["Function"]
    variables = shared["Environment"]["Variables"] | own["Environment"]["Variables"]
    layers = [*shared["Layers"], *own.get("Layers", [])]
    merged: dict[str, Any] = shared | own | {"Environment": {"Variables": variables}, "Layers": layers}
    return merged


def seconds(template: Template, timeout: Any) -> Iterator[int]:
    if timeout == {"Ref": "TurnSeconds"}:
        yield from template["Parameters"]["TurnSeconds"]["AllowedValues"]
    else:
        yield timeout


def resource_name(resource: Any) -> str:
    match resource:
        case str():
            return resource
        case {"Fn::GetAtt": [name, "Arn"]}:
            return str(name)
        case {"Fn::GetAtt": parts}:
            return ".".join(parts)
        case {"Fn::Sub": text}:
            return str(text).replace("${CoreTable.Arn}", "CoreTable")
        case {"Ref": name}:
            return str(name)
    raise AssertionError(resource)


def statements(role: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for policy in role["Policies"]:
        for statement in policy["PolicyDocument"]["Statement"]:
            assert statement["Effect"] == "Allow"
            actions, resources = statement["Action"], statement["Resource"]
            for action in [actions] if isinstance(actions, str) else actions:
                for resource in resources if isinstance(resources, list) else [resources]:
                    yield action, resource_name(resource)


class TestLeastPrivilege:
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_a_function_may_do_what_it_does_and_nothing_else(self, template: Template, name: str) -> None:
        assert function(template, name)["Role"] == {"Fn::GetAtt": [f"{name}Role", "Arn"]}
        allowed: dict[str, set[str]] = {}
        for action, resource in statements(template["Resources"][f"{name}Role"]["Properties"]):
            allowed.setdefault(resource, set()).add(action)
        assert allowed == ALLOWED[name] | {f"{name}Logs": LOG}

    def test_the_credentials_for_other_agents_are_read_where_they_are_called(self, whole: Template) -> None:
        template: Template = settled(whole, DEFAULTS | {"HasPeers": True})
        readers = {
            name: resource
            for name, role in of_type(template, "AWS::IAM::Role").items()
            for action, resource in statements(role)
            if action == "secretsmanager:GetSecretValue"
        }
        assert readers == dict.fromkeys(("TurnsRole", "OutboxRole"), "PeersSecretArn")

    def test_the_ways_to_people_are_used_by_the_outbox_alone_and_read_where_they_answer(
        self, whole: Template
    ) -> None:
        template: Template = settled(
            whole, DEFAULTS | {"HasRenderers": True, "HasNoticeTopic": True, "HasMailIdentity": True}
        )
        granted = {
            (name, action, resource)
            for name, role in of_type(template, "AWS::IAM::Role").items()
            for action, resource in statements(role)
            if action.startswith(("secretsmanager:", "sns:", "ses:"))
        }
        assert granted == {
            ("OutboxRole", "secretsmanager:GetSecretValue", "RenderersSecretArn"),
            ("OutboxRole", "sns:Publish", "NoticeTopicArn"),
            ("OutboxRole", "ses:SendEmail", "MailIdentityArn"),
            ("ChannelsRole", "secretsmanager:GetSecretValue", "RenderersSecretArn"),
        }

    def test_a_notice_that_nobody_was_given_rings(self, template: Template) -> None:
        found = of_type(template, "AWS::Logs::MetricFilter")["UntoldNotices"]
        assert found["LogGroupName"] == {"Ref": "OutboxLogs"}
        assert found["FilterPattern"] == f'?"{UNRENDERED}" ?"{GIVEN_UP}"'
        alarm = of_type(template, "AWS::CloudWatch::Alarm")["UntoldNoticesAlarm"]
        assert found["MetricTransformations"][0]["MetricName"] == alarm["MetricName"]

    def test_these_are_all_functions_and_no_policy_comes_from_elsewhere(self, template: Template) -> None:
        assert sorted(of_type(template, "AWS::Serverless::Function")) == [f"{n}Function" for n in FUNCTIONS]
        for properties in of_type(template, "AWS::Serverless::Function").values():
            assert "Policies" not in properties
        for properties in of_type(template, "AWS::IAM::Role").values():
            assert "ManagedPolicyArns" not in properties

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_only_lambda_takes_the_role_of_a_function(self, template: Template, name: str) -> None:
        (statement,) = template["Resources"][f"{name}Role"]["Properties"]["AssumeRolePolicyDocument"][
            "Statement"
        ]
        assert statement["Principal"] == {"Service": "lambda.amazonaws.com"}

    def test_the_schedule_may_invoke_its_function_alone(self, template: Template) -> None:
        role = template["Resources"]["MinuteRole"]["Properties"]
        assert list(statements(role)) == [("lambda:InvokeFunction", "TimersFunction.Alias")]
        schedule = template["Resources"]["TimersFunction"]["Properties"]["Events"]["Minute"]["Properties"]
        assert schedule["RoleArn"] == {"Fn::GetAtt": ["MinuteRole", "Arn"]}

    def test_no_function_writes_identities(self, template: Template) -> None:
        for role in of_type(template, "AWS::IAM::Role").values():
            actions = {action for action, resource in statements(role) if "Identities" in resource}
            assert actions <= {"dynamodb:GetItem"}

    def test_only_the_sealer_adds_to_the_audit_trail_and_nobody_changes_it(self, template: Template) -> None:
        actions = {
            (name, action)
            for name, role in of_type(template, "AWS::IAM::Role").items()
            for action, resource in statements(role)
            if "AuditTable" in resource
        }
        assert actions == {
            ("AuditRole", "dynamodb:Query"),
            ("AuditRole", "dynamodb:PutItem"),
            ("OperatorRole", "dynamodb:Query"),
        }

    def test_only_the_sealer_signs(self, template: Template) -> None:
        signing = {
            name
            for name, role in of_type(template, "AWS::IAM::Role").items()
            for action, _ in statements(role)
            if action == "kms:Sign"
        }
        assert signing == {"AuditRole"}


class TestFunctions:
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_gets_every_setting(self, template: Template, name: str) -> None:
        given = set(function(template, name)["Environment"]["Variables"])
        needed = {f"{PREFIX}{field.upper()}" for field in Settings.model_fields} - SET_ELSEWHERE
        assert needed <= given
        assert not given & SET_ELSEWHERE
        assert {"POWERTOOLS_SERVICE_NAME", "POWERTOOLS_METRICS_NAMESPACE", "LOG_LEVEL"} <= given

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_logs_into_a_group_that_forgets(self, template: Template, name: str) -> None:
        assert function(template, name)["LoggingConfig"] == {"LogGroup": {"Ref": f"{name}Logs"}}
        logs = template["Resources"][f"{name}Logs"]
        assert logs["Type"] == "AWS::Logs::LogGroup"
        assert logs["Properties"]["RetentionInDays"] == {"Ref": "LogRetentionDays"}

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_a_change_of_a_layer_alone_publishes_it_again(self, template: Template, name: str) -> None:
        properties = function(template, name)
        assert properties["AutoPublishAlias"] == "live"
        assert properties["AutoPublishCodeSha256"] == {"Ref": "CodeDigest"}

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_is_not_traced(self, template: Template, name: str) -> None:
        assert "Tracing" not in function(template, name)

    def test_the_agent_is_there_where_it_runs_or_is_described(self, template: Template) -> None:
        with_agent = [n for n in FUNCTIONS if {"Ref": "AgentLayer"} in function(template, n)["Layers"]]
        assert with_agent == ["A2a", "Operator", "Turns"]

    @pytest.mark.parametrize("name", ["A2a", "Operator"])
    def test_a_door_answers_before_the_gateway_gives_up(self, template: Template, name: str) -> None:
        properties = function(template, name)
        assert properties["Timeout"] <= 29
        assert float(properties["Environment"]["Variables"]["INTERLOCK_BLOCKING_SECONDS"]) < 29
        assert properties["MemorySize"] == 1024

    def test_runtime_and_architecture_are_parameters_of_functions_and_layers(
        self, template: Template
    ) -> None:
        shared = template["Globals"]["Function"]
        assert (shared["Runtime"], shared["Architectures"]) == ({"Ref": "Runtime"}, [{"Ref": "Architecture"}])
        for name in ("DepsLayer", "SharedLayer", "AgentLayer"):
            layer = template["Resources"][name]
            assert layer["Metadata"] == {
                "BuildMethod": {"Ref": "Runtime"},
                "BuildArchitecture": {"Ref": "Architecture"},
            }
        assert template["Parameters"]["Runtime"]["Default"] == "python3.13"
        assert template["Parameters"]["Architecture"]["Default"] == "arm64"


class TestTables:
    def test_these_are_all_tables(self, template: Template) -> None:
        assert sorted(of_type(template, "AWS::DynamoDB::Table")) == TABLES

    @pytest.mark.parametrize("name", TABLES)
    def test_is_encrypted_recoverable_and_kept(self, template: Template, name: str) -> None:
        resource = template["Resources"][name]
        properties = resource["Properties"]
        assert properties["SSESpecification"] == {"SSEEnabled": True}
        assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
        assert properties["DeletionProtectionEnabled"] == {"Ref": "DeletionProtection"}
        assert resource["DeletionPolicy"] == resource["UpdateReplacePolicy"] == "Retain"
        assert template["Parameters"]["DeletionProtection"]["Default"] == "true"

    @pytest.mark.parametrize("name", TABLES)
    def test_nothing_expires_since_a_time_to_live_is_no_timer(self, template: Template, name: str) -> None:
        assert "TimeToLiveSpecification" not in template["Resources"][name]["Properties"]

    @pytest.mark.parametrize("name", TABLES)
    def test_has_the_keys_that_the_store_uses(self, template: Template, name: str) -> None:
        properties = template["Resources"][name]["Properties"]
        keys = [(key["AttributeName"], key["KeyType"]) for key in properties["KeySchema"]]
        assert keys == [("pk", "HASH"), ("sk", "RANGE")]
        assert ("GlobalSecondaryIndexes" in properties) == (name in INDEXED_TABLES)

    @pytest.mark.parametrize("name", INDEXED_TABLES)
    def test_has_the_views_that_the_store_uses(self, template: Template, name: str) -> None:
        (index,) = template["Resources"][name]["Properties"]["GlobalSecondaryIndexes"]
        assert index["IndexName"] == "views"
        assert [key["AttributeName"] for key in index["KeySchema"]] == ["view", "view_at"]
        assert index["Projection"] == {"ProjectionType": "ALL"}

    def test_the_core_table_has_a_stream_of_both_images(self, template: Template) -> None:
        core = template["Resources"]["CoreTable"]["Properties"]
        assert core["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
        assert "StreamSpecification" not in template["Resources"]["IdentitiesTable"]["Properties"]


class TestQueues:
    def test_these_are_all_queues(self, template: Template) -> None:
        assert sorted(of_type(template, "AWS::SQS::Queue")) == sorted(QUEUES + DEAD_LETTERS)

    @pytest.mark.parametrize("name", QUEUES)
    def test_parks_what_fails_five_times(self, template: Template, name: str) -> None:
        redrive = template["Resources"][name]["Properties"]["RedrivePolicy"]
        assert redrive["maxReceiveCount"] == 5
        assert redrive["deadLetterTargetArn"]["Fn::GetAtt"][0] in DEAD_LETTERS

    @pytest.mark.parametrize("name", QUEUES + DEAD_LETTERS)
    def test_is_encrypted(self, template: Template, name: str) -> None:
        assert template["Resources"][name]["Properties"]["SqsManagedSseEnabled"] is True

    @pytest.mark.parametrize("name", DEAD_LETTERS)
    def test_keeps_dead_letters_for_two_weeks(self, template: Template, name: str) -> None:
        assert template["Resources"][name]["Properties"]["MessageRetentionPeriod"] == 14 * 24 * 3600

    @pytest.mark.parametrize(
        ("queue", "consumer"),
        [
            ("TurnsQueue", "Turns"),
            ("TimersQueue", "Timers"),
            ("StopsQueue", "Stops"),
            ("OutboxQueue", "Outbox"),
            ("AuditQueue", "Audit"),
        ],
    )
    def test_hides_a_message_for_six_times_the_time_of_its_function(
        self, template: Template, queue: str, consumer: str
    ) -> None:
        visibility = template["Resources"][queue]["Properties"]["VisibilityTimeout"]
        for timeout in seconds(template, function(template, consumer)["Timeout"]):
            match visibility:
                case {"Fn::FindInMap": [mapping, {"Ref": "TurnSeconds"}, name]}:
                    hidden = template["Mappings"][mapping][str(timeout)][name]
                case _:
                    hidden = visibility
            assert hidden >= 6 * timeout

    @pytest.mark.parametrize("name", ["Turns", "Timers", "Stops", "Outbox", "Audit"])
    def test_a_batch_fails_in_part(self, template: Template, name: str) -> None:
        source = function(template, name)["Events"]["Queue"]["Properties"]
        assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]

    def test_one_sealer_at_a_time_for_each_chain(self, template: Template) -> None:
        queue = template["Resources"]["AuditQueue"]["Properties"]
        assert queue["FifoQueue"] is True
        assert template["Resources"]["AuditDeadLetters"]["Properties"]["FifoQueue"] is True
        fifo = {name for name, found in of_type(template, "AWS::SQS::Queue").items() if "FifoQueue" in found}
        assert fifo == {"AuditQueue", "AuditDeadLetters"}

    @pytest.mark.parametrize("name", ["Turns", "Stops", "Outbox"])
    def test_what_may_take_long_holds_up_nothing_else(self, template: Template, name: str) -> None:
        assert function(template, name)["Events"]["Queue"]["Properties"]["BatchSize"] == 1


class TestStream:
    def test_fails_in_part_and_within_bounds_and_is_parked(self, template: Template) -> None:
        source = function(template, "Fanout")["Events"]["Stream"]["Properties"]
        assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert 0 < source["MaximumRetryAttempts"] <= 10
        assert 0 < source["MaximumRecordAgeInSeconds"] <= 3600
        assert source["BisectBatchOnFunctionError"] is True
        assert source["DestinationConfig"]["OnFailure"]["Destination"] == {
            "Fn::GetAtt": ["FanoutFailures", "Arn"]
        }
        assert source["StartingPosition"] == "TRIM_HORIZON"
        assert source["MaximumBatchingWindowInSeconds"] <= 1

    def test_lets_through_unclaimed_turns_events_to_deliver_new_facts_halts_agents_and_checkpoints(
        self, template: Template
    ) -> None:
        source = function(template, "Fanout")["Events"]["Stream"]["Properties"]
        *both, facts, rows, asks = [json.loads(f["Pattern"]) for f in source["FilterCriteria"]["Filters"]]
        runs, events = [pattern["dynamodb"] for pattern in both]
        assert rows == {"dynamodb": {"Keys": {"pk": {"S": [halts_pk(0), {"prefix": "AGENT#"}]}}}}
        assert asks == {"dynamodb": {"Keys": {"sk": {"S": [{"prefix": "ASK#"}]}}}}
        assert facts == {
            "eventName": ["INSERT"],
            "dynamodb": {"Keys": {"pk": {"S": [{"prefix": "FACT#"}]}}},
        }
        assert runs == {
            "Keys": {"pk": {"S": [{"prefix": "RUN#"}]}},
            "NewImage": {"phase": {"S": ["new"]}},
        }
        assert events == {
            "Keys": {"sk": {"S": [{"prefix": "EVT#"}]}},
            "NewImage": {"push": {"BOOL": [True]}},
        }


class TestApi:
    def test_every_request_is_authorized_and_the_answer_kept_for_a_minute_at_most(
        self, template: Template
    ) -> None:
        auth = template["Resources"]["Api"]["Properties"]["Auth"]
        authorizer = auth["Authorizers"][auth["DefaultAuthorizer"]]
        assert authorizer["FunctionPayloadType"] == "REQUEST"
        assert authorizer["FunctionArn"] == {"Ref": "AuthorizerFunction.Alias"}
        assert authorizer["Identity"]["Headers"] == ["Authorization"]
        assert authorizer["Identity"]["ReauthorizeEvery"] <= 60

    def paths(self, template: Template) -> dict[str, Any]:
        found: dict[str, Any] = template["Resources"]["Api"]["Properties"]["DefinitionBody"]["paths"]
        return found

    def test_only_the_card_its_key_and_the_files_of_the_page_are_public(self, template: Template) -> None:
        public = {
            (path, method)
            for path, methods in self.paths(template).items()
            for method, operation in methods.items()
            if "security" in operation
        }
        assert public == {
            ("/.well-known/agent-card.json", "get"),
            ("/.well-known/jwks.json", "get"),
            ("/inbox", "get"),
            ("/inbox/{proxy+}", "get"),
            ("/channels/{proxy+}", "get"),
            ("/channels/{proxy+}", "post"),
        }

    @pytest.mark.parametrize(
        ("name", "paths", "named"),
        [
            ("A2a", ["/", "/{proxy+}"], {"get", "post", "put", "delete"}),
            ("Operator", ["/people/{proxy+}"], {"get", "post", "put", "delete"}),
            ("Feed", ["/people/changes"], {"get"}),
            ("Inbox", ["/inbox", "/inbox/{proxy+}"], {"get"}),
            ("Channels", ["/channels/{proxy+}"], {"get", "post"}),
        ],
    )
    def test_a_door_has_its_methods_named(
        self, template: Template, name: str, paths: list[str], named: set[str]
    ) -> None:
        for path in paths:
            methods = self.paths(template)[path]
            assert set(methods) == named
            for operation in methods.values():
                integration = operation["x-amazon-apigateway-integration"]
                assert (integration["type"], integration["httpMethod"]) == ("aws_proxy", "POST")
                assert integration["uri"]["Fn::Sub"] == (
                    "arn:${AWS::Partition}:apigateway:${AWS::Region}:lambda:path/2015-03-31/functions/"
                    f"${{{name}FunctionAliaslive}}/invocations"
                )

    @pytest.mark.parametrize("name", ["A2a", "Operator", "Feed", "Inbox", "Channels"])
    def test_this_api_alone_may_invoke_a_door(self, template: Template, name: str) -> None:
        permission = of_type(template, "AWS::Lambda::Permission")[f"{name}Permission"]
        assert permission["FunctionName"] == {"Ref": f"{name}Function.Alias"}
        assert permission["Principal"] == "apigateway.amazonaws.com"
        assert "${Api}/*" in permission["SourceArn"]["Fn::Sub"]

    def test_what_the_gateway_refuses_has_the_form_of_the_protocol(self, template: Template) -> None:
        responses = template["Resources"]["Api"]["Properties"]["GatewayResponses"]
        expected = {
            "UNAUTHORIZED": (401, "UNAUTHENTICATED"),
            "ACCESS_DENIED": (403, "PERMISSION_DENIED"),
            "REQUEST_TOO_LARGE": (413, "INVALID_ARGUMENT"),
            "THROTTLED": (429, "RESOURCE_EXHAUSTED"),
        }
        assert {
            name: (responses[name]["StatusCode"], self.body(responses[name])["error"]["status"])
            for name in expected
        } == expected
        assert {"DEFAULT_4XX", "DEFAULT_5XX"} <= set(responses)
        for response in responses.values():
            body = self.body(response)
            assert (body["jsonrpc"], body["id"]) == ("2.0", None)
            assert body["error"]["code"] in {-32600, -32601, -32603}
            assert body["error"]["data"] == body["error"]["details"]
            (info,) = body["error"]["data"]
            assert info["domain"] == "a2a-protocol.org"
        assert responses["UNAUTHORIZED"]["ResponseParameters"]["Headers"] == {"WWW-Authenticate": "'Bearer'"}

    @staticmethod
    def body(response: dict[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(response["ResponseTemplates"]["application/json"])
        return body


class TestStreaming:
    """The profile in which the agents' door streams. The emulator can not run it."""

    def test_is_on_when_there_is_a_layer_for_it(self, whole: Template) -> None:
        assert whole["Parameters"]["WebAdapterLayerArn"]["Default"] == ""
        assert whole["Conditions"]["IsStreaming"] == {
            "Fn::Not": [{"Fn::Equals": [{"Ref": "WebAdapterLayerArn"}, ""]}]
        }

    def test_the_gateway_streams_what_the_agents_door_answers(self, streaming: Template) -> None:
        paths = streaming["Resources"]["Api"]["Properties"]["DefinitionBody"]["paths"]
        for path in ("/.well-known/agent-card.json", "/", "/{proxy+}"):
            for operation in paths[path].values():
                integration = operation["x-amazon-apigateway-integration"]
                assert integration["responseTransferMode"] == "STREAM"
                assert integration["timeoutInMillis"] == 900_000
                uri = integration["uri"]["Fn::Sub"]
                assert uri.endswith("/functions/${A2aFunctionAliaslive}/response-streaming-invocations")
                assert "path/2021-11-15/" in uri

    def test_people_are_answered_as_before(self, streaming: Template, template: Template) -> None:
        paths = [
            profile["Resources"]["Api"]["Properties"]["DefinitionBody"]["paths"]["/people/{proxy+}"]
            for profile in (streaming, template)
        ]
        assert paths[0] == paths[1]
        for name in ("Handler", "Layers", "Timeout"):
            assert function(streaming, "Operator")[name] == function(template, "Operator")[name]

    def test_the_adapter_starts_the_app(self, streaming: Template) -> None:
        properties = function(streaming, "A2a")
        assert {"Ref": "WebAdapterLayerArn"} in properties["Layers"]
        started = ROOT / "functions/a2a" / properties["Handler"]
        assert started.stat().st_mode & 0o111
        variables = properties["Environment"]["Variables"]
        assert variables["AWS_LAMBDA_EXEC_WRAPPER"] == "/opt/bootstrap"
        assert variables["AWS_LWA_INVOKE_MODE"] == "response_stream"
        assert variables["AWS_LWA_PORT"] == "8080"

    def test_the_function_lasts_longer_than_its_streams(self, streaming: Template) -> None:
        properties = function(streaming, "A2a")
        assert properties["Timeout"] > Settings().stream_seconds

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_the_card_says_what_the_transport_does(
        self, streaming: Template, template: Template, name: str
    ) -> None:
        for profile, streams in ((streaming, "true"), (template, "false")):
            variables = function(profile, name)["Environment"]["Variables"]
            assert variables["INTERLOCK_STREAMING"] == streams

    def test_nothing_of_the_adapter_is_left_where_it_is_off(self, template: Template) -> None:
        properties = function(template, "A2a")
        assert properties["Handler"] == "app.handler"
        assert not [name for name in properties["Environment"]["Variables"] if name.startswith("AWS_")]
        assert {"Ref": "WebAdapterLayerArn"} not in properties["Layers"]
        paths = template["Resources"]["Api"]["Properties"]["DefinitionBody"]["paths"]
        assert paths["/"]["post"]["x-amazon-apigateway-integration"]["responseTransferMode"] == "BUFFERED"

    def test_a_change_of_the_profile_alone_reaches_the_stage(self, whole: Template) -> None:
        assert whole["Resources"]["Api"]["Properties"]["AlwaysDeploy"] is True


class TestPushNotifications:
    def test_what_web_hooks_hold_has_a_key_of_its_own(self, template: Template) -> None:
        name, resource = "SealKey", template["Resources"]["SealKey"]
        properties = resource["Properties"]
        assert properties["EnableKeyRotation"] is True
        assert resource["DeletionPolicy"] == resource["UpdateReplacePolicy"] == "Retain"
        (statement,) = properties["KeyPolicy"]["Statement"]
        assert statement["Principal"]["AWS"]["Fn::Sub"].endswith("iam::${AWS::AccountId}:root")
        for function_name in FUNCTIONS:
            variables = function(template, function_name)["Environment"]["Variables"]
            assert variables["INTERLOCK_SEAL_KEY"] == {"Fn::GetAtt": [name, "Arn"]}

    def test_off_means_no_key_and_no_right_to_any(self, without_push: Template) -> None:
        assert list(of_type(without_push, "AWS::KMS::Key")) == ["AuditKey"]
        assert "SealKey" not in json.dumps(of_type(without_push, "AWS::IAM::Role"))
        for name in FUNCTIONS:
            variables = function(without_push, name)["Environment"]["Variables"]
            assert variables["INTERLOCK_SEAL_KEY"] == ""


class TestCardSigning:
    def test_has_a_key_of_its_own_that_only_the_agents_door_may_use(self, whole: Template) -> None:
        signing = settled(whole, DEFAULTS | {"HasCardSigning": True})
        key = signing["Resources"]["CardKey"]["Properties"]
        assert (key["KeySpec"], key["KeyUsage"]) == ("ECC_NIST_P256", "SIGN_VERIFY")
        for name in FUNCTIONS:
            variables = function(signing, name)["Environment"]["Variables"]
            assert variables["INTERLOCK_SIGNING_KEY"] == {"Fn::GetAtt": ["CardKey", "Arn"]}
            granted = set(statements(signing["Resources"][f"{name}Role"]["Properties"]))
            of_key = {action for action, resource in granted if resource == "CardKey"}
            assert of_key == ({"kms:Sign", "kms:GetPublicKey"} if name == "A2a" else set())

    def test_off_means_no_key_and_no_right_to_any(self, template: Template) -> None:
        assert "CardKey" not in of_type(template, "AWS::KMS::Key")
        assert "CardKey" not in json.dumps(of_type(template, "AWS::IAM::Role"))
        variables = function(template, "A2a")["Environment"]["Variables"]
        assert variables["INTERLOCK_SIGNING_KEY"] == ""


class TestStops:
    """What stops has room of its own: no backlog of other work delays a halt."""

    CONDITION = "HasStopsReservedConcurrency"

    def test_concurrency_is_kept_free_for_each_part_of_a_walk(self, whole: Template) -> None:
        parameter = whole["Parameters"]["StopsReservedConcurrency"]
        assert parameter["Default"] >= SHARDS
        assert whole["Conditions"][self.CONDITION] == {
            "Fn::Not": [{"Fn::Equals": [{"Ref": "StopsReservedConcurrency"}, 0]}]
        }
        reserving = settled(whole, DEFAULTS | {self.CONDITION: True})
        kept = {"Ref": "StopsReservedConcurrency"}
        assert function(reserving, "Stops")["ReservedConcurrentExecutions"] == kept
        # The mapping receives no more at once than the function may take.
        source = function(reserving, "Stops")["Events"]["Queue"]["Properties"]
        assert source["ScalingConfig"] == {"MaximumConcurrency": kept}

    def test_zero_keeps_none(self, whole: Template) -> None:
        without = settled(whole, DEFAULTS | {self.CONDITION: False})
        assert "ReservedConcurrentExecutions" not in function(without, "Stops")
        assert "ScalingConfig" not in function(without, "Stops")["Events"]["Queue"]["Properties"]


class TestAuditTrail:
    def test_its_checkpoints_have_a_key_of_their_own(self, template: Template) -> None:
        resource = template["Resources"]["AuditKey"]
        assert (resource["Properties"]["KeySpec"], resource["Properties"]["KeyUsage"]) == (
            "ECC_NIST_P256",
            "SIGN_VERIFY",
        )
        assert resource["DeletionPolicy"] == resource["UpdateReplacePolicy"] == "Retain"

    def test_it_is_on_unless_it_is_turned_off(self, template: Template) -> None:
        parameter = template["Parameters"]["AuditMode"]
        assert parameter["Default"] == Settings().audit == "default"
        for mode in parameter["AllowedValues"]:
            assert Settings.load({"INTERLOCK_AUDIT": mode}).audit == mode

    def test_a_fact_that_is_not_sealed_and_a_call_that_was_not_noted_ring(
        self, template: Template, load_function: Callable[[str], ModuleType]
    ) -> None:
        alarms = of_type(template, "AWS::CloudWatch::Alarm")
        unsealed, lost = alarms["UnsealedFactsAlarm"], alarms["LostCallFactsAlarm"]
        assert unsealed["Namespace"] == lost["Namespace"] == "Interlock"
        assert unsealed["MetricName"] == load_function("timers").UNSEALED_SECONDS
        assert unsealed["Dimensions"] == [{"Name": "service", "Value": "timers"}]
        filters = of_type(template, "AWS::Logs::MetricFilter")
        unsigned = filters.pop("UnsignedCheckpoints")
        del filters["UntoldNotices"]
        assert unsigned["FilterPattern"] == f'"{UNSIGNED}"'
        assert unsigned["LogGroupName"] == {"Ref": "AuditLogs"}
        watched = alarms["UnsignedCheckpointsAlarm"]["MetricName"]
        assert unsigned["MetricTransformations"][0]["MetricName"] == watched
        assert {found["LogGroupName"]["Ref"] for found in filters.values()} == {
            "A2aLogs",
            "OperatorLogs",
            "ChannelsLogs",
        }
        for found in filters.values():
            assert found["FilterPattern"] == f'"{LOST_CALL}"'
            assert found["MetricTransformations"][0]["MetricName"] == lost["MetricName"]


class TestAlarms:
    def alarms(self, template: Template, metric: str) -> Iterator[dict[str, str]]:
        """The dimensions of each alarm on the metric."""
        for alarm in of_type(template, "AWS::CloudWatch::Alarm").values():
            metrics = [m["MetricStat"]["Metric"] for m in alarm.get("Metrics", []) if "MetricStat" in m]
            for watched in metrics or [alarm]:
                if watched["MetricName"] == metric:
                    yield {d["Name"]: resource_name(d["Value"]) for d in watched["Dimensions"]}

    def test_every_dead_letter_rings(self, template: Template) -> None:
        watched = {d["QueueName"] for d in self.alarms(template, "ApproximateNumberOfMessagesVisible")}
        assert watched == {f"{name}.QueueName" for name in DEAD_LETTERS}

    @pytest.mark.parametrize("metric", ["Errors", "Throttles"])
    def test_every_function_is_watched(self, template: Template, metric: str) -> None:
        watched = {d["FunctionName"] for d in self.alarms(template, metric)}
        assert watched == {f"{name}Function" for name in FUNCTIONS}

    def test_none_watches_more_than_an_alarm_can(self, template: Template) -> None:
        for name, alarm in of_type(template, "AWS::CloudWatch::Alarm").items():
            assert len([metric for metric in alarm.get("Metrics", []) if "MetricStat" in metric]) <= 10, name

    def test_the_api_the_stream_and_the_wait_for_a_turn_are_watched(self, template: Template) -> None:
        name = template["Resources"]["Api"]["Properties"]["Name"]
        assert list(self.alarms(template, "5XXError")) == [{"ApiName": name["Ref"], "Stage": "Stage"}]
        assert list(self.alarms(template, "IteratorAge")) == [{"FunctionName": "FanoutFunction"}]
        waiting = self.alarms(template, "ApproximateAgeOfOldestMessage")
        assert {d["QueueName"] for d in waiting} == {"TurnsQueue.QueueName", "StopsQueue.QueueName"}

    def test_a_stop_that_waits_for_a_minute_rings(self, template: Template) -> None:
        alarm = template["Resources"]["StopsAgeAlarm"]["Properties"]
        assert (alarm["MetricName"], alarm["Statistic"]) == ("ApproximateAgeOfOldestMessage", "Maximum")
        assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (60, "GreaterThanThreshold")

    def test_an_alarm_tells_the_topic_if_there_is_one(self, template: Template) -> None:
        for alarm in of_type(template, "AWS::CloudWatch::Alarm").values():
            assert alarm["AlarmActions"] == {
                "Fn::If": ["HasAlarmTopic", [{"Ref": "AlarmTopicArn"}], {"Ref": "AWS::NoValue"}]
            }
            assert alarm["TreatMissingData"] == "notBreaching"


class TestParameters:
    def test_each_is_described_and_has_a_default(self, template: Template) -> None:
        for name, parameter in template["Parameters"].items():
            assert parameter.get("Description"), name
            assert "Default" in parameter, name

    def test_no_default_lets_anybody_in(self, template: Template) -> None:
        assert "Anonymous" not in json.dumps(template)

    def test_the_console_groups_all_of_them(self, template: Template) -> None:
        groups = template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
        grouped = [name for group in groups for name in group["Parameters"]]
        assert sorted(grouped) == sorted(template["Parameters"])

    def test_nothing_is_named_after_an_account_or_a_region(self, template: Template) -> None:
        assert not re.search(r"\b\d{12}\b|\b(?:us|eu|ap)-[a-z]+-\d\b", json.dumps(template))
