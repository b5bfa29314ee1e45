"""Links of mails, in any order and any number of times: each counts once, and only when a form is sent."""

import os
from collections import Counter
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.approvals import asking_leave
from tests.support.channels import ChannelsPlace
from tests.support.mail import ENTRY, Outbox, get, send

from interlock.engine.decide import votes_of
from interlock.oversight.approvals import Gate

EXAMPLES = int(os.environ.get("INTERLOCK_PROPERTY_EXAMPLES", "60"))
PEOPLE = ("alice", "bob", "carol")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["GET", "HEAD", "OPTIONS"]), st.sampled_from(PEOPLE)),
        st.tuples(st.sampled_from(["a", "d", "x"]), st.sampled_from(PEOPLE)),
        st.tuples(st.just("wait"), st.sampled_from(["1", "400", "601"])),
        st.tuples(st.just("revoke"), st.sampled_from(PEOPLE)),
    ),
    max_size=12,
)


@settings(max_examples=min(EXAMPLES, 500), deadline=None)
@given(STEPS)
def test_what_is_decided_is_what_the_first_forms_in_time_say(steps: list[tuple[str, str]]) -> None:
    outbox = Outbox()
    agent = asking_leave(gate=Gate(quorum=2), deadline=timedelta(minutes=10))
    place = ChannelsPlace({"mail": ENTRY}, agent, ses=outbox)
    task_id = place.ask()
    links = {label: outbox.link(label) for label in PEOPLE}
    expected: dict[str, str] = {}
    gone: set[str] = set()
    passed = 0
    for what, of in steps:
        if what == "wait":
            passed += int(of)
            place.deployment.clock.advance(int(of))
        elif what == "revoke":
            if of not in gone:
                place.store.revoke(f"bearer:{of}")
            gone.add(of)
        elif what in ("a", "d", "x"):
            send(place, links[of], what)
            over = "d" in expected.values() or list(expected.values()).count("a") == 2
            if what != "x" and of not in expected and of not in gone and passed < 600 and not over:
                expected[of] = what
        else:
            before = place.deployment.rows()
            get(place, links[of], what)
            assert place.deployment.rows() == before
    (ask,) = place.deployment.prompts(task_id)
    words = {"a": "approve", "d": "deny"}
    cast = {who.removeprefix("bearer:"): vote.decision for who, vote in votes_of(ask).items()}
    assert cast == {who: words[said] for who, said in expected.items()}
    counts = Counter(expected.values())
    assert ask.status == ("denied" if counts["d"] else "approved" if counts["a"] == 2 else "open")
    spent = [str(row["who"]) for key, row in place.deployment.rows().items() if row.get("spent")]
    assert sorted(spent) == sorted(f"bearer:{who}" for who in expected)
