"""A model of the harness while it is open: its retries, its width, and whose weights it frees."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lm_eval_ccat import ItemBank
from lm_eval_ccat.bank.outcome import Outcome
from lm_eval_ccat.harness.calls import Calls
from lm_eval_ccat.harness.session import Administered
from lm_eval_ccat.live import models
from lm_eval_ccat.live.models import HarnessModel
from lm_eval_ccat.live.spec import ModelSpec, Spec
from lm_eval_ccat.money import Tokens
from lm_eval_ccat.records import Item


def opened(n_requests: int = 1, concurrency: int | None = None, **of_lm: Any) -> tuple[Any, Any]:
    """A model that a harness loaded, and its client; `bound` lists what its task was bound to."""
    lm = SimpleNamespace(**of_lm)
    session: Any = SimpleNamespace(
        lm=lm, bound=[], doc_ids=[0], judged=False, scoring=Calls("scoring")
    )
    session.bind, session.n_requests = session.bound.append, lambda doc_id: n_requests
    spec = Spec.read({"task": "t", "models": [{"name": "a", "model": "dummy"}]})
    entry = replace(spec.models[0], model=None, concurrency=concurrency)
    model = HarnessModel(entry, spec, {}, print, {"t": session})
    model.open()
    return model, lm


def test_a_client_does_not_retry_while_the_run_does_and_does_so_again_afterwards():
    model, lm = opened(max_retries=3)
    assert lm.max_retries == 1
    model.close()
    assert lm.max_retries == 3


@pytest.mark.parametrize("owner", ["caller", "run"])
def test_only_weights_that_the_run_loaded_are_let_go(owner):
    model, lm = opened()
    [session] = model.sessions.values()
    assert session.bound == [lm]
    if owner == "run":
        model.entry = replace(model.entry, model="dummy")
    model.close()
    assert session.bound == ([lm] if owner == "caller" else [lm, None])


@pytest.mark.parametrize(
    ("n_requests", "calls", "per_call", "slots", "batch"),
    [(1, 8, 1, 8, 1), (4, 8, 1, 2, 1), (16, 8, 1, 1, 1), (2, 8, 4, 8, 2), (8, 8, 4, 4, 1)],
)
def test_documents_in_flight_have_as_many_requests_as_a_server_takes(
    n_requests, calls, per_call, slots, batch
):
    model, _ = opened(n_requests, _concurrent=calls, _batch_size=per_call)
    assert (model.slots, model.batch) == (slots, batch)
    assert slots == 1 or slots * batch * n_requests <= calls * per_call
    stated, _ = opened(n_requests, calls, _concurrent=1, _batch_size=per_call)
    assert stated.slots == slots


@pytest.mark.parametrize(
    ("cached", "earlier", "source"),
    [
        (False, None, None),
        (False, "logs", "logs"),
        (True, None, "the response cache"),
    ],
)
def test_an_answer_that_was_there_took_no_time_and_no_tokens_and_its_judge_is_paid(
    cached, earlier, source
):
    model, _ = opened()
    model.outcomes_by_task = {
        "t": {"acc": Outcome.of(ItemBank.blank(range(3), task="t", metric="acc", filter="none"))}
    }
    model.sessions["t"].prompt_hash = "hash of {}".format
    row = {"resps": [["4", (-1.5, True)], [" "]], "filtered_resps": ["4"]}
    administered = Administered(
        7, {("acc", "none"): 1.0}, {"none": row}, ("2 + 2",), (" ", "\n"), Tokens(5, 1, "usage"),
        2.0, judge_usd=0.25, cached=cached,
    )  # fmt: skip
    answer = model._answer(Item(("t", 7)), administered, earlier)
    assert (answer.prior, answer.judge_usd, answer.score, answer.raw) == (source, 0.25, 1.0, 1.0)
    spent = (2.0, Tokens(5, 1, "usage")) if source is None else (0.0, None)
    assert (answer.seconds, answer.tokens) == spent
    # A journal is JSON, which has no tuples.
    assert answer.responses == [["4", [-1.5, True]], [" "]]
    assert answer.prompt_hash == "hash of 7" and answer.empty
    shown = replace(administered, responses=("4", " "))
    assert not model._answer(Item(("t", 7)), shown).empty
    # Likelihoods are no texts that could be empty.
    assert not model._answer(Item(("t", 7)), replace(administered, responses=())).empty


@pytest.mark.parametrize(
    ("took", "gathers"), [(0.5, 0.005), (0.1, 0.002), (0.005, 0.0005), (90.0, 0.01)]
)
def test_an_answer_waits_for_others_a_hundredth_of_what_it_took_or_a_moment_and_never_long(
    monkeypatch, took, gathers
):
    model, started = HarnessModel(ModelSpec("a", "hf"), Spec(), {"t": {}}, print), []
    scoring = SimpleNamespace(start=lambda *_, gather: started.append(gather))
    session = SimpleNamespace(sends_texts=False, scoring=scoring, ask=None, judged=False)
    model.sessions, model._lm, model._transport = {"t": session}, object(), None
    model._calls = SimpleNamespace(start=lambda on_result, *_: on_result("answered"))
    moments = iter([0.0, took])
    monkeypatch.setattr(models.time, "monotonic", lambda: next(moments))
    model.start([Item(("t", 7))], (told := []).append)
    assert started == [pytest.approx(gathers)]
    # The weights are free while the answer is scored, which may take as long as an answer.
    assert told == [models.SCORING]
