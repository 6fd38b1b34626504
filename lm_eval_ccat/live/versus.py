"""`compare` with live models: two models, or one against a stored run, asked until it is known.

Both get the same random documents; a stored run answers from its logs. It ends once the interval of
the difference, which holds at every look, says better, worse or not worse than the margin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..bank.outcome import Outcome
from ..errors import RunError, UsageError
from ..methods.belief import BENCHMARK, POPULATION
from ..metrics.scale import Scale
from ..money import sum_of
from ..ranker import StoppingRule
from ..ranker.difference import NOT_KNOWN, Difference
from ..ranker.standing import Standing
from ..runs.book import Book
from ..runs.directory import RunDirectory
from ..scores.answers import EarlierAnswer
from .models import StoredModel
from .observer import Observer
from .plan import Plan
from .recorded import answers_at_hand
from .run import Run, holds_answers
from .spec import Spec

LiveSide = Mapping[str, Any] | str | Path


@dataclass(frozen=True)
class MarginKnown(StoppingRule):
    """Whether the second of two models is worse than the first by more than `margin`, on [0, 1]."""

    margin: float

    def wants(self, standing: Standing) -> Any:
        if len(standing.items) < 2:
            return standing.nobody
        n = int(standing.items.min())
        now = Difference.of(standing.verdicts, documents=n, margin=self.margin)
        return standing.nobody | (now.verdict == NOT_KNOWN)

    def why(self, standing: Standing) -> str:
        return "the difference is known well enough"


def compare_live(
    a: LiveSide,
    b: LiveSide,
    *,
    metric: str | None,
    margin: float,
    confidence: float,
    models: tuple[str | None, str | None],
    settings: Mapping[str, Any],
    run_dir: str | Path | None = None,
    observer: Observer | None = None,
) -> tuple[Outcome, tuple[str, str], Difference, Difference, dict[str, float] | None]:
    """Ask until it is known whether the candidate is worse than the baseline.

    Parameters
    ----------
    a, b : mapping or path
        Baseline and candidate: an entry of ``models:`` as `rank` takes it, or logs with samples.
    metric : str, optional
    margin : float
        On the metric's own scale.
    confidence : float
    models : (str or None, str or None)
        Names of the two.
    settings : mapping
        Further keys of a configuration of `rank`: ``task``, ``harness``, ``budget``, ``seed``, ...
    run_dir : path, optional
        Where the answers are kept; a later run takes them by ``prior:``.
    observer : Observer, optional

    Raises
    ------
    UsageError
        A key that cannot stand there, or logs that are of neither model.
    CcatError
        The task or a model cannot be used.
    """
    names = tuple(_name(side, chosen, n) for n, (side, chosen) in enumerate(zip((a, b), models)))
    if names[0] == names[1]:
        raise UsageError(f"both models are called {names[0]}; name them: --models A,B")
    if run_dir is not None and holds_answers(RunDirectory(run_dir)):
        raise RunError(
            f"{run_dir} already holds answers, and a comparison cannot be continued; choose "
            "another --run_dir"
        )
    spec = _spec(dict(zip(names, (a, b))), metric, confidence, settings)
    stored = {name: [str(s)] for name, s in zip(names, (a, b)) if not isinstance(s, Mapping)}
    live = [name for name in names if name not in stored]
    with Run(spec, run_dir, observer, asked=live) as run:
        if sum(len(outcomes) for outcomes in run.plan.measured.values()) > 1:
            raise UsageError("live models are compared on one task and one metric")
        outcome = run.plan.outcome
        tasks = [outcome.task]
        logs = answers_at_hand(stored, names, tasks, run.plan.item, run.observer.warn)
        run.plan = _restricted(run.plan, [logs[name] for name in stored])
        run.plan = replace(run.plan, rule=MarginKnown(margin / outcome.metric.scale.span))
        read = [StoredModel(spec.model(name), spec, run.plan.measured) for name in stored]
        for model in read:
            model.at_hand = logs[model.name]
        run.models = [*run.models, *read]
        ended, aside = run.ask(), run.book.tally.set_aside
        if aside or not ended:
            why = "; ".join(f"{name}: {reason}" for name, reason in aside.items())
            raise RunError(f"the comparison did not finish ({why or 'interrupted'})")
        difference, wider = (
            _difference(run.book, outcome.metric.scale, margin, question)
            for question in (BENCHMARK, POPULATION)
        )
        for model in read:
            if model.by_document:
                run.observer.warn(
                    f"{model.name} was asked by a chat template of its own: only its documents "
                    "are known to be the same, not few-shot examples and system message"
                )
        money = sum_of(run.book.tally.paid.values())
        return outcome, (names[0], names[1]), difference, wider, money


def _name(side: LiveSide, name: str | None, position: int) -> str:
    if name:
        return name
    if isinstance(side, Mapping):
        return str(side.get("name") or ("baseline", "candidate")[position])
    return Path(side).name


def _spec(
    sides: Mapping[str, LiveSide],
    metric: str | None,
    confidence: float,
    settings: Mapping[str, Any],
) -> Spec:
    entries = [
        {**side, "name": name} if isinstance(side, Mapping) else {"name": name}
        for name, side in sides.items()
    ]
    for key in ("models", "metrics", "confidence", "prior", "save_bank", "known"):
        if key in settings:
            raise UsageError(f"`{key}:` is not for a comparison")
    options = {k: v for k, v in settings.items() if v is not None}
    metrics = {} if metric is None else {"metrics": [metric]}
    return Spec.read({**options, **metrics, "confidence": confidence, "models": entries})


def _restricted(plan: Plan, stored: Sequence[Mapping[Any, EarlierAnswer]]) -> Plan:
    """The plan with the documents alone that stored runs have answers to."""
    outcome = plan.outcome
    if not stored:
        return plan
    have = np.array([all(d in one for one in stored) for d in outcome.bank.doc_ids])
    if not have.any():
        raise UsageError("the stored runs have no document in common with the task")
    bank: ItemBank = replace(outcome.bank, kept=outcome.bank.kept & have)
    [name] = plan.measured[outcome.task]
    return replace(plan, measured={outcome.task: {name: replace(outcome, bank=bank)}})


def _difference(book: Book, scale: Scale, margin: float, question: str) -> Difference:
    """Return the difference over the documents that both have, on the metric's own scale."""
    verdicts, belief = book.ranker.verdicts, book.ranker.belief(question)
    if question == POPULATION:  # nobody has looked at that before
        looks = verdicts.looks.anew.after(belief, 1.0 - verdicts.confidence)
        verdicts = replace(verdicts, belief=belief, looks=looks)
    n = int(belief.n.diagonal().min())
    return Difference.of(verdicts, documents=n, margin=margin, scale=scale)
