"""When a model is set aside: by the share of its documents that failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lm_eval_ccat.live.channel import Channel
from lm_eval_ccat.live.spec import FailureRule


@pytest.mark.parametrize(
    ("failed", "answered", "leaves"), [(5, 5, False), (6, 4, True), (4, 5, False), (9, 0, False)]
)
def test_a_model_leaves_when_more_than_the_stated_share_of_ten_documents_failed(
    failed, answered, leaves
):
    tally = SimpleNamespace(failures={"a": range(failed)}, answered={"a": answered}, set_aside={})
    aside: list[str] = []
    line: Any = SimpleNamespace(
        book=SimpleNamespace(tally=tally, unanswered=[]),
        away=set(),
        set_aside=lambda name, reason, back: aside.append(name),
    )
    spec = SimpleNamespace(failures=FailureRule(share=0.5))
    model: Any = SimpleNamespace(name="a")
    plan: Any = SimpleNamespace(spec=spec)
    Channel(model, plan, line)._set_aside_if(False, "refused")
    assert aside == ["a"] * leaves
