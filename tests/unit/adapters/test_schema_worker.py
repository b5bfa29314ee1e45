import gc
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from interlock.adapters import schema_worker
from interlock.adapters.schema_worker import SchemaWorker
from interlock.engine.ports import SchemaGuard
from interlock.oversight.schema_gate import (
    MAX_REGEX_SIZE,
    Cost,
    PayloadUndecided,
    SchemaRefused,
    Violation,
)

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "comment": {"type": "string", "maxLength": 1024}},
    "required": ["approved"],
    "additionalProperties": False,
}
SOMEWHERE = Violation("", "", "does not match the schema")
PATIENCE = 20.0
"""Seconds until a test gives up on what must happen; nothing waits as long when it does."""


@pytest.fixture
def worker() -> Iterator[SchemaWorker]:
    """With time enough for a small form, on a busy machine too."""
    guard = SchemaWorker(deadline=3)
    yield guard
    guard.close()


@pytest.fixture
def hasty() -> Iterator[SchemaWorker]:
    """For what is given up, long before the process has used up its CPU time."""
    guard = SchemaWorker(deadline=0.4)
    yield guard
    guard.close()


@pytest.fixture(scope="module")
def patient() -> Iterator[SchemaWorker]:
    """For what is about verdicts and not about time."""
    guard = SchemaWorker(deadline=PATIENCE)
    yield guard
    guard.close()


@pytest.fixture
def no_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets through to the process what the gate would have stopped."""
    monkeypatch.setattr(schema_worker, "gate", lambda _: Cost(1, 0))
    monkeypatch.setattr(schema_worker, "bound", lambda _cost, _payload: MAX_REGEX_SIZE)


def eventually(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def ended(pid: int | None) -> bool:
    """Gone, or only waiting for a parent that is not us to take notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def running(guard: SchemaWorker) -> int:
    """The process that is up and has answered."""
    guard.check(FORM)
    assert guard.pid is not None
    return guard.pid


def doubling(levels: int) -> dict[str, Any]:
    """2^levels evaluations."""
    definitions: dict[str, Any] = {
        f"d{level}": {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    definitions[f"d{levels}"] = {"type": "string"}
    return {"type": "object", "properties": {"v": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


def test_it_is_the_guard_that_the_engine_asks_for(worker: SchemaWorker) -> None:
    guard: SchemaGuard = worker
    guard.check(FORM)
    assert guard.validate(FORM, {"approved": True}) == []
    assert guard.validate(FORM, {"approved": "yes please", "extra_unknown_field": 42}) == [
        Violation("/approved", "type", 'must be of type "boolean"'),
        Violation("/extra_unknown_field", "additionalProperties", "is not an expected member"),
    ]


def test_text_of_any_script_comes_through(worker: SchemaWorker) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"é\u2028\n": {"const": "😀\u0085"}}}
    worker.check(schema)
    assert worker.validate(schema, {"é\u2028\n": "😀\u0085"}) == []
    [violation] = worker.validate(schema, {"é\u2028\n": "😀"})
    assert violation.path == "/é\u2028\n"


def test_the_gate_refuses_without_the_process(worker: SchemaWorker) -> None:
    worker.close()
    with pytest.raises(SchemaRefused, match="back to itself"):
        worker.check({"type": "object", "properties": {"v": {"$ref": "#"}}})
    with pytest.raises(PayloadUndecided, match="integer"):
        worker.validate(FORM, {"approved": 2**60})
    with pytest.raises(PayloadUndecided, match=r"the response schema is refused: .*back to itself"):
        worker.validate({"type": "object", "not": {"$ref": "#"}}, {})
    assert worker.pid is None


def test_what_does_not_compile_is_refused(worker: SchemaWorker) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"v": {"multipleOf": 0}}}
    with pytest.raises(SchemaRefused, match="/properties/v/multipleOf"):
        worker.check(schema)
    with pytest.raises(PayloadUndecided, match="/properties/v/multipleOf"):
        worker.validate(schema, {})


def test_long_texts_meet_only_small_patterns(patient: SchemaWorker) -> None:
    small: dict[str, Any] = {"type": "object", "properties": {"v": {"pattern": "^a+$"}}}
    large: dict[str, Any] = {"type": "object", "properties": {"v": {"pattern": "^(a{1,30}b?){20}"}}}
    for schema in (small, large):
        patient.check(schema)
        assert patient.validate(schema, {"v": "a" * 100}) == []
    assert patient.validate(small, {"v": "a" * 40_000}) == []
    with pytest.raises(PayloadUndecided, match="too much text"):
        patient.validate(large, {"v": "a" * 40_000})


def test_a_stuck_process_is_killed_at_the_deadline_of_250_ms(caplog: pytest.LogCaptureFixture) -> None:
    guard = SchemaWorker()
    stuck = running(guard)
    os.kill(stuck, signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(PayloadUndecided, match="within the limits of time and memory"):
        guard.validate(FORM, {"approved": True})
    assert 0.2 < time.monotonic() - started < 2
    assert eventually(lambda: ended(stuck))
    assert guard.pid != stuck
    assert "too slow" in caplog.text
    guard.close()


def test_a_check_has_the_same_deadline(hasty: SchemaWorker) -> None:
    stuck = running(hasty)
    os.kill(stuck, signal.SIGSTOP)
    with pytest.raises(SchemaRefused, match="within the limits of time and memory"):
        hasty.check(FORM)
    assert eventually(lambda: ended(stuck))
    assert hasty.pid != stuck


def test_a_computation_without_end_is_killed_at_the_deadline(hasty: SchemaWorker, no_gate: None) -> None:
    busy = running(hasty)
    started = time.monotonic()
    with pytest.raises(PayloadUndecided):
        hasty.validate(doubling(40), {"v": 1})
    assert time.monotonic() - started < 2
    assert eventually(lambda: ended(busy))
    assert hasty.pid != busy


def test_a_process_that_nobody_waits_for_ends_by_its_cpu_time(no_gate: None) -> None:
    guard = SchemaWorker(deadline=PATIENCE)
    busy = running(guard)
    started = time.monotonic()
    with pytest.raises(PayloadUndecided):
        guard.validate(doubling(40), {"v": 1})
    assert time.monotonic() - started < PATIENCE / 2
    assert eventually(lambda: ended(busy))
    guard.close()


def test_too_much_memory_ends_the_process_and_not_the_verdict(no_gate: None) -> None:
    guard = SchemaWorker(deadline=PATIENCE)
    greedy = running(guard)
    # Each branch of a failed anyOf gets a copy of the value that it was about.
    schema: dict[str, Any] = {"type": "object", "properties": {"v": {"anyOf": [{"type": "integer"}] * 3000}}}
    assert guard.validate(schema, {"v": ["x" * 900_000]}) == [SOMEWHERE]
    assert eventually(lambda: ended(greedy))
    assert guard.validate(FORM, {"approved": True}) == []
    guard.close()


def test_a_verdict_stands_where_the_explanation_takes_too_long(hasty: SchemaWorker, no_gate: None) -> None:
    running(hasty)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"v": {"items": {"allOf": [{"type": "string"}] * 40}}},
    }
    [violation] = hasty.validate(schema, {"v": list(range(50_000))})
    assert violation in (SOMEWHERE, Violation("/v/0", "type", 'must be of type "string"'))


def test_the_deadline_includes_what_happens_in_this_process() -> None:
    guard = SchemaWorker(deadline=0)
    before = guard.pid
    with pytest.raises(PayloadUndecided, match="within the limits"):
        guard.validate(FORM, {"approved": True})
    assert guard.pid == before, "a process that was not asked is not to blame"
    guard.close()


def test_a_process_killed_while_idle_is_replaced_unseen(worker: SchemaWorker) -> None:
    for _ in range(3):
        idle = running(worker)
        os.kill(idle, signal.SIGKILL)
        assert eventually(lambda pid=idle: ended(pid))  # type: ignore[misc]
        assert worker.validate(FORM, {"approved": True}) == []
        assert worker.pid != idle


def test_a_process_killed_in_the_middle_of_a_call_leaves_the_payload_undecided(
    worker: SchemaWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(worker)
    ask = schema_worker._Process.ask

    def killed(process: schema_worker._Process, line: bytes, seconds: float) -> dict[str, Any] | None:
        os.kill(process.pid, signal.SIGKILL)
        return ask(process, line, seconds)

    with monkeypatch.context() as patch:
        patch.setattr(schema_worker._Process, "ask", killed)
        with pytest.raises(PayloadUndecided):
            worker.validate(FORM, {"approved": True})
        with pytest.raises(SchemaRefused):
            worker.check(FORM)
    assert worker.validate(FORM, {"approved": True}) == []


def test_a_process_that_talks_nonsense_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_worker, "_ENGINE", "this")
    guard = SchemaWorker()
    with pytest.raises(PayloadUndecided):
        guard.validate(FORM, {"approved": True})
    guard.close()


def test_where_no_process_can_be_started_nothing_is_decided(
    worker: SchemaWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_: Any, **__: Any) -> None:
        raise BlockingIOError("no more processes")

    worker.close()
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", unavailable)
        with pytest.raises(PayloadUndecided):
            worker.validate(FORM, {"approved": True})
        with pytest.raises(SchemaRefused):
            worker.check(FORM)
    assert worker.validate(FORM, {"approved": True}) == []


def test_a_caller_does_not_wait_for_its_turn_for_ever(
    worker: SchemaWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_worker, "_QUEUE_SECONDS", 0.05)
    running(worker)
    with worker._turn, pytest.raises(PayloadUndecided):
        worker.validate(FORM, {"approved": True})
    assert worker.validate(FORM, {"approved": True}) == []


def test_eight_threads_at_once_each_get_their_own_answer(
    patient: SchemaWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_worker, "_QUEUE_SECONDS", PATIENCE)
    together = threading.Barrier(8)

    def judge(number: int) -> None:
        schema: dict[str, Any] = {"type": "object", "properties": {"v": {"const": number}}}
        together.wait(PATIENCE)
        for _ in range(20):
            assert patient.validate(schema, {"v": number}) == []
            assert patient.validate(schema, {"v": -1}) == [Violation("/v", "const", f"must be {number}")]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(judge, range(8)))


def test_threads_survive_a_process_that_dies_under_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_worker, "_QUEUE_SECONDS", PATIENCE)
    guard = SchemaWorker(deadline=PATIENCE)
    done = threading.Event()

    def judge(_: int) -> int:
        undecided = 0
        while not done.is_set():
            try:
                assert guard.validate(FORM, {"approved": True}) == []
            except PayloadUndecided:
                undecided += 1
        return undecided

    with ThreadPoolExecutor(8) as pool:
        undecided = pool.map(judge, range(8))
        for _ in range(5):
            victim = guard.pid
            assert victim is not None
            os.kill(victim, signal.SIGKILL)
            assert eventually(lambda pid=victim: guard.pid not in (None, pid))  # type: ignore[misc]
        done.set()
    assert sum(undecided) <= 5, "each death costs one call at most"
    assert guard.validate(FORM, {"approved": True}) == []
    guard.close()


def test_fifty_new_processes_leave_no_file_descriptor_and_no_zombie(worker: SchemaWorker) -> None:
    pids = {running(worker)}
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        os.kill(worker.pid or 0, signal.SIGKILL)
        assert eventually(lambda: ended(worker.pid))
        pids.add(running(worker))
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    gone = pids - {worker.pid}
    assert len(gone) == 50
    assert not [pid for pid in gone if Path(f"/proc/{pid}").exists()]


def test_the_process_ends_when_closed_and_starts_again_when_asked(worker: SchemaWorker) -> None:
    first = running(worker)
    worker.close()
    assert not Path(f"/proc/{first}").exists()
    assert worker.pid is None
    assert worker.validate(FORM, {"approved": True}) == []


def test_the_process_ends_when_nobody_refers_to_its_guard() -> None:
    guard = SchemaWorker()
    pid = running(guard)
    del guard
    gc.collect()
    assert not Path(f"/proc/{pid}").exists()


def run_python(script: str) -> "subprocess.Popen[str]":
    prelude = "import os, sys, signal\nfrom interlock.adapters.schema_worker import SchemaWorker\n"
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", prelude + script], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    "end", ["sys.exit()", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)", "raise SystemExit(3)"]
)
@pytest.mark.parametrize("busy", [False, True])
def test_the_process_ends_with_its_parent_however_that_ends(end: str, busy: bool) -> None:
    start = "guard.check({'type': 'object'})\n" if not busy else ""
    with run_python(f"guard = SchemaWorker()\n{start}print(guard.pid, flush=True)\n{end}") as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.wait(PATIENCE)
    assert eventually(lambda: ended(pid))


def test_a_fork_gets_a_process_of_its_own_and_leaves_its_parent_s_alone() -> None:
    script = """
form = {"type": "object", "required": ["a"]}
guard = SchemaWorker(20)
guard.check(form)
mine = guard.pid
guard._turn.acquire()
child = os.fork()
if child == 0:
    signal.alarm(15)
    fresh = guard.pid is None and guard.validate(form, {"a": 1}) == [] and guard.pid != mine
    guard.close()
    sys.exit(0 if fresh else 1)
guard._turn.release()
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
same = guard.validate(form, {}) != [] and guard.pid == mine
print(status, same)
"""
    with run_python(script) as parent:
        assert parent.communicate(timeout=PATIENCE)[0] == "0 True\n"


def test_the_process_gets_no_secret_no_directory_and_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.chdir(tmp_path)
    inherited, other = os.pipe()
    os.set_inheritable(inherited, True)
    guard = SchemaWorker()
    process = Path(f"/proc/{running(guard)}")
    environment = process.joinpath("environ").read_bytes()
    assert b"hunter2" not in environment
    names = {part.split(b"=")[0] for part in environment.split(b"\0") if part}
    assert names <= {b"PYTHONPATH", b"LD_LIBRARY_PATH", b"PYTHONHOME"}
    assert process.joinpath("cwd").readlink() == Path("/")
    assert sorted(entry.name for entry in process.joinpath("fd").iterdir()) == ["0", "1", "2"]
    guard.close()
    os.close(inherited)
    os.close(other)


def test_the_process_is_confined_for_good(worker: SchemaWorker) -> None:
    pid = running(worker)
    assert resource.prlimit(pid, resource.RLIMIT_AS) == (256 << 20, 256 << 20)
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        assert resource.prlimit(pid, limit) == (0, 0)


def test_an_interrupt_at_the_terminal_does_not_reach_the_process(worker: SchemaWorker) -> None:
    assert os.getsid(running(worker)) != os.getsid(0)


def test_importing_it_is_cheap() -> None:
    script = "print([name for name in ('jsonschema_rs', 'jsonschema', 'boto3') if name in sys.modules])"
    with run_python(script) as process:
        assert process.communicate(timeout=PATIENCE)[0] == "[]\n"


# Verdicts agree with another library's on schemas small enough to come up by chance.

_names = st.sampled_from(["a", "b", "ab", "é"])
_scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "", "a", "ab", "é😀"])
_values = st.recursive(
    _scalars,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(_names, values, max_size=3),
    max_leaves=6,
)
_types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
_patterns = st.sampled_from(["^a", "b$", "^[ab]*$", "é"])
_sizes = st.integers(0, 3)


def _schemas(depth: int, *, booleans: bool = True) -> st.SearchStrategy[Any]:
    leaves: dict[str, st.SearchStrategy[Any]] = {
        "type": _types | st.lists(_types, min_size=1, max_size=2, unique=True),
        "enum": st.lists(_values, min_size=1, max_size=3),
        "const": _values,
        "minimum": st.integers(-3, 3),
        "maximum": st.integers(-3, 3),
        "exclusiveMinimum": st.integers(-3, 3),
        "exclusiveMaximum": st.integers(-3, 3),
        "multipleOf": st.sampled_from([0.5, 1, 2]),
        "minLength": _sizes,
        "maxLength": _sizes,
        "pattern": _patterns,
        "minItems": _sizes,
        "maxItems": _sizes,
        "uniqueItems": st.booleans(),
        "minProperties": _sizes,
        "maxProperties": _sizes,
        "required": st.lists(_names, max_size=2, unique=True),
        "dependentRequired": st.dictionaries(_names, st.lists(_names, max_size=2, unique=True), max_size=2),
        "$ref": st.sampled_from(["#/$defs/text", "#/$defs/closed"]),
        "format": st.just("date"),
        "x-unknown": _values,
    }
    if depth:
        below = _schemas(depth - 1, booleans=booleans)
        several = st.lists(below, min_size=1, max_size=2)
        leaves |= {
            "properties": st.dictionaries(_names, below, max_size=3),
            "patternProperties": st.dictionaries(_patterns, below, max_size=2),
            "additionalProperties": below,
            "propertyNames": below,
            "items": below,
            "prefixItems": several,
            "contains": below,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": below,
            "if": below,
            "then": below,
            "else": below,
            "dependentSchemas": st.dictionaries(_names, below, max_size=2),
            "unevaluatedProperties": st.just(False),
            "unevaluatedItems": st.just(False),
        }
    chosen = st.lists(st.sampled_from(sorted(leaves)), max_size=3, unique=True)
    objects = chosen.flatmap(lambda names: st.fixed_dictionaries({name: leaves[name] for name in names}))
    return st.booleans() | objects if booleans else objects


_DEFINITIONS: dict[str, Any] = {
    "text": {"type": "string", "minLength": 1},
    "closed": {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False},
}
_payloads = st.dictionaries(_names, _values, max_size=3)


def schema_of(properties: dict[str, Any], also: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "allOf": [also], "$defs": _DEFINITIONS}


@given(st.dictionaries(_names, _schemas(2), max_size=3), _schemas(1), _payloads)
@settings(max_examples=300, deadline=None)
def test_verdicts_agree_with_another_library(
    patient: SchemaWorker, properties: dict[str, Any], also: Any, payload: dict[str, Any]
) -> None:
    schema = schema_of(properties, also)
    patient.check(schema)
    violations = patient.validate(schema, payload)
    assert (violations == []) == jsonschema.Draft202012Validator(schema).is_valid(payload)


def told(violation: Violation) -> tuple[str, str]:
    """The other library has one error for all members that are not expected."""
    whole = violation.keyword == "additionalProperties"
    return violation.path.rpartition("/")[0] if whole else violation.path, violation.keyword


@given(
    st.dictionaries(_names, _schemas(2, booleans=False), max_size=3),
    _schemas(1, booleans=False),
    _payloads,
)
@settings(max_examples=300, deadline=None)
def test_all_violations_are_those_of_another_library(
    patient: SchemaWorker, properties: dict[str, Any], also: Any, payload: dict[str, Any]
) -> None:
    schema = schema_of(properties, also)
    # Names have pointers only here, and libraries differ on what a failed sibling leaves unevaluated.
    assume(not any(keyword in json.dumps(schema) for keyword in ("propertyNames", "unevaluated")))
    errors = jsonschema.Draft202012Validator(schema).iter_errors(payload)
    expected = {("".join(f"/{step}" for step in error.absolute_path), error.validator) for error in errors}
    assert set(map(told, patient.validate(schema, payload))) == expected
