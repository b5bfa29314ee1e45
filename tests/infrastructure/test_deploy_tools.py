"""The digest, the search for an interpreter, and the reading of streams."""

import json
import shutil
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tools.deploy import aws
from tools.deploy.digest import DEPLOYED, code_digest
from tools.deploy.interpreters import NoInterpreter, find_interpreter
from tools.emulator.streams import Mapping, Record, StreamReader, matches

THIS = f"python{sys.version_info[0]}.{sys.version_info[1]}"


class TestDigest:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        for name in DEPLOYED:
            if name.endswith((".yaml", ".toml")):
                (tmp_path / name).write_text("Resources: {}\n")
            else:
                (tmp_path / name / "part").mkdir(parents=True)
                (tmp_path / name / "part" / "code.py").write_text("x = 1\n")
        return tmp_path

    @pytest.mark.parametrize("name", DEPLOYED)
    def test_changes_with_everything_that_is_deployed(self, root: Path, name: str) -> None:
        before = code_digest(root)
        path = root / name if name.endswith((".yaml", ".toml")) else root / name / "part" / "code.py"
        path.write_text("x = 2\n")
        assert code_digest(root) != before

    def test_changes_when_a_file_moves(self, root: Path) -> None:
        before = code_digest(root)
        (root / "shared/part/code.py").rename(root / "shared/part/moved.py")
        assert code_digest(root) != before

    def test_does_not_change_with_what_python_leaves_behind(self, root: Path) -> None:
        before = code_digest(root)
        (root / "shared/part/__pycache__").mkdir()
        (root / "shared/part/__pycache__/code.cpython-313.pyc").write_bytes(b"x")
        assert code_digest(root) == before

    def test_fits_the_parameter(self) -> None:
        assert len(code_digest()) == 32


class TestInterpreter:
    """A shim of pyenv is there for a version that is not active, and then refuses to run."""

    @pytest.fixture
    def machine(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("PATH", str(tmp_path / "path"))
        monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
        monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "uv"))
        return tmp_path

    @staticmethod
    def install(path: Path, answer: str, code: int = 0) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\necho {answer}\nexit {code}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def test_takes_the_first_runtime_that_is_there(self, machine: Path) -> None:
        self.install(machine / "path/python3.12", "python3.12 /somewhere/python3.12")
        found = find_interpreter(["python3.13", "python3.12"])
        assert (found.runtime, found.path) == ("python3.12", Path("/somewhere/python3.12"))

    def test_passes_a_shim_that_refuses_to_run_and_finds_the_version_behind_it(self, machine: Path) -> None:
        self.install(machine / "path/python3.13", "not active", code=127)
        self.install(machine / "pyenv/versions/3.13.0/bin/python3.13", "python3.13 /real/python3.13")
        assert find_interpreter(["python3.13"]).path == Path("/real/python3.13")

    def test_passes_one_that_is_another_version_than_its_name_says(self, machine: Path) -> None:
        self.install(machine / "path/python3.13", "python3.11 /usr/bin/python3.11")
        self.install(
            machine / "uv/cpython-3.13.1-linux-x86_64-gnu/bin/python3.13", "python3.13 /uv/python3.13"
        )
        assert find_interpreter(["python3.13"]).path == Path("/uv/python3.13")

    def test_says_so_when_there_is_none(self, machine: Path) -> None:
        with pytest.raises(NoInterpreter, match=r"python3\.13"):
            find_interpreter(["python3.13"])

    def test_runs_a_real_one(self) -> None:
        assert shutil.which(THIS) is None or find_interpreter().path.exists()


class TestEnvironments:
    @pytest.mark.parametrize("environment", ["dev", "prod"])
    def test_samconfig_sets_parameters_that_the_template_has(
        self, environment: str, template: dict[str, Any]
    ) -> None:
        overrides = aws.parameter_overrides(environment)
        assert set(overrides) <= set(template["Parameters"])
        assert overrides["Stage"] == environment

    def test_production_is_protected(self) -> None:
        assert aws.parameter_overrides("prod")["DeletionProtection"] == "true"

    def test_the_default_runtime_is_the_template_s(self, template: dict[str, Any]) -> None:
        assert template["Parameters"]["Runtime"]["Default"] == aws.DEFAULT_RUNTIME


class Queue:
    def __init__(self) -> None:
        self.parked: list[dict[str, Any]] = []

    def get_queue_url(self, QueueName: str) -> dict[str, str]:  # noqa: N803
        return {"QueueUrl": QueueName}

    def send_message(self, QueueUrl: str, MessageBody: str) -> None:  # noqa: N803
        self.parked.append({"queue": QueueUrl, **json.loads(MessageBody)})


class TestStreams:
    MAPPING = Mapping(
        function="fanout",
        stream="stream",
        start="TRIM_HORIZON",
        batch_size=10,
        bisect=True,
        max_retries=2,
        max_age=3600,
        reports_failures=True,
        on_failure="arn:aws:sqs:us-east-1:000000000000:failures",
        filters=(),
    )

    @pytest.fixture
    def queue(self) -> Queue:
        return Queue()

    @pytest.fixture
    def deliver(
        self, queue: Queue, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[list[str], set[str]], list[list[str]]]:
        """Delivers records to a function that fails for some of them. Returns its batches."""
        monkeypatch.setattr("tools.emulator.streams.FIRST_RETRY_SECONDS", 0.0)

        def deliver(numbers: list[str], poison: set[str]) -> list[list[str]]:
            batches: list[list[str]] = []

            def invoke(event: Record) -> Record:
                batch = [record["dynamodb"]["SequenceNumber"] for record in event["Records"]]
                batches.append(batch)
                return {"batchItemFailures": [{"itemIdentifier": n} for n in batch if n in poison]}

            reader = StreamReader(self.MAPPING, invoke, lambda service: queue, threading.Event())
            created = 4102444800.0
            reader.deliver(
                [
                    {"dynamodb": {"SequenceNumber": number, "ApproximateCreationDateTime": created}}
                    for number in numbers
                ]
            )
            return batches

        return deliver

    def test_a_batch_that_is_taken_is_not_sent_again(self, deliver: Any, queue: Queue) -> None:
        assert deliver(["1", "2", "3"], set()) == [["1", "2", "3"]]
        assert queue.parked == []

    def test_what_comes_before_the_first_failure_is_not_sent_again(self, deliver: Any) -> None:
        batches = deliver(["1", "2", "3", "4"], {"3"})
        assert sum("1" in batch for batch in batches) == 1
        assert sum("2" in batch for batch in batches) == 1
        assert any("4" in batch for batch in batches)

    def test_a_record_that_always_fails_is_parked_alone_and_the_others_go_on(
        self, deliver: Any, queue: Queue
    ) -> None:
        batches = deliver(["1", "2", "3", "4"], {"2"})
        (parked,) = queue.parked
        assert parked["queue"] == "failures"
        assert parked["requestContext"]["condition"] == "RetryAttemptsExhausted"
        info = parked["DDBStreamBatchInfo"]
        assert (info["startSequenceNumber"], info["endSequenceNumber"], info["batchSize"]) == ("2", "2", 1)
        assert [batch for batch in batches if batch == ["2"]] == [["2"]] * (self.MAPPING.max_retries + 1)
        assert "4" in batches[-1]

    def test_the_order_is_kept(self, deliver: Any) -> None:
        firsts = [batch[0] for batch in deliver(["1", "2", "3", "4", "5"], {"4"})]
        assert firsts == sorted(firsts)


class TestFilter:
    PATTERN = json.loads(
        '{"dynamodb":{"Keys":{"pk":{"S":[{"prefix":"RUN#"}]}},"NewImage":{"phase":{"S":["new"]}}}}'
    )

    @staticmethod
    def record(pk: str, image: dict[str, Any] | None) -> Record:
        return {"dynamodb": {"Keys": {"pk": {"S": pk}}, **({"NewImage": image} if image else {})}}

    def test_lets_through_what_fits(self) -> None:
        assert matches(self.PATTERN, self.record("RUN#01", {"phase": {"S": "new"}}))

    @pytest.mark.parametrize(
        ("pk", "image"),
        [
            ("RUN#01", {"phase": {"S": "claimed"}}),
            ("T#demo#1", {"phase": {"S": "new"}}),
            ("RUN#01", {"phase": {"N": "1"}}),
            ("RUN#01", {}),
            ("RUN#01", None),
        ],
    )
    def test_keeps_back_what_does_not(self, pk: str, image: dict[str, Any] | None) -> None:
        assert not matches(self.PATTERN, self.record(pk, image))
