"""The control map says what is there."""

import pytest
from tools import controls


def test_every_test_that_is_named_exists() -> None:
    assert controls.missing() == []


def test_a_test_that_is_not_there_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    named = {"tests": ["tests/unit/test_controls.py::test_of_nothing", "tests/nowhere.py::test_of_nothing"]}
    monkeypatch.setattr(controls, "frameworks", lambda: [{"framework": "x", "provisions": [named]}])
    assert controls.missing() == named["tests"]


def test_the_page_is_the_committed_one() -> None:
    """If this fails, run `python -m tools.controls`."""
    assert controls.PAGE.read_text() == controls.page()


def test_what_is_said_to_be_met_has_a_test() -> None:
    for framework in controls.frameworks():
        for provision in framework["provisions"]:
            assert provision["met"] in {"by the product", "in part", "not"}
            assert bool(provision["tests"]) == (provision["met"] != "not")
