"""Ask two models, or one with logs of the other, until their difference is known.

The *sides* are baseline and candidate, always in this order; in matrices of pairs the entry [1, 0]
is of candidate less baseline. A *stored* side answers from its logs, a *live* one is asked.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import UnfinishedError, UsageError
from ..harness import TaskSession
from ..methods.belief import BENCHMARK, POPULATION
from ..metrics.scale import Scale
from ..money import Price
from ..ranker import StoppingRule
from ..ranker.difference import Difference
from ..ranker.standing import Standing
from ..ranker.verdicts import NOT_KNOWN
from ..records import Item, Tell
from ..runs.differences import PROMPTS
from ..runs.directory import RunDirectory
from ..scores import ScoreTable
from ..scores.answers import EarlierAnswer
from ..scores.prompts import PromptComparison, Texts
from ..scores.reading import Logged
from ..shown import plural
from .asked import AskedSide, checked_prompts
from .comparison import Compared, Comparison, require_margin
from .earlier import latest_prior_answers
from .losses import MOST_LETTERS, Loss, losses_of
from .models import HarnessModel, StoredModel
from .plan import Plan, make_plan
from .result import Observer
from .run import Run, harness_models, holds_answers
from .scored import Discrepancy, Scoring
from .sides import SIDES, prompts_in
from .spec import Spec


@dataclass(frozen=True)
class MarginKnown(StoppingRule):
    """Stop when it is known whether the second model is worse by more than `margin`, on [0, 1]."""

    margin: float

    def wants(self, standing: Standing) -> Any:
        # One model is left alone, or nothing that is asked will decide the pair.
        if len(standing.items) < 2 or standing.verdicts.barred[1, 0]:
            return standing.nobody
        n = int(standing.items.min())
        difference = Difference.of(standing.verdicts, documents=n, margin=self.margin)
        return standing.nobody | (difference.verdict == NOT_KNOWN)  # both models or none

    def why(self, standing: Standing) -> str:
        return "the difference is known well enough"


def compare_live(
    sides: Sequence[Any],
    models: Sequence[str | None],
    margin: float,
    options: Mapping[str, Any],
    run_dir: str | Path | None,
    observer: Observer | None,
) -> Comparison:
    """Ask two models, or one with logs of the other, until the difference is known.

    Both get the same random documents; a stored run answers from its logs.

    Parameters
    ----------
    sides : sequence of mapping or path
        Entries of live models, and logs of others; the baseline is first.
    models : sequence of str or None
        What to call each side; None for the name that `rank` would give it.
    margin : float
        How much worse the candidate may be, on the metric's own scale.
    options : mapping
        Options of `Spec` but the models.
    run_dir : path or None
        Where the comparison is kept; it goes on with what stands there already.
    observer : Observer or None

    Raises
    ------
    UsageError
        The options or the sides cannot be compared.
    UnfinishedError
        A model was set aside, or the comparison was interrupted.
    """
    _require_options(sides, options)
    names = _names(sides, models)
    resume = run_dir is not None and holds_answers(RunDirectory(run_dir))
    logs = {name: [str(side)] for name, side in zip(names, sides) if not isinstance(side, Mapping)}
    spec = _spec_of(sides, names, logs, options)
    asked = [name for name in names if name not in logs]
    stored = StoredSides(logs, margin, observer or Observer())
    with Run(
        spec, run_dir, observer, resume=resume, retry=resume, asked=asked,
        plan=stored.plan, models=stored.models, resumed_by="the same command",
    ) as run:  # fmt: skip
        ended, tally = run.ask(), run.book.tally
        _require_end(tally.set_aside, ended, run_dir)
        result = run.state()
        warnings = [*run.plan.warnings, *result.warnings]
        warnings += [f"changed since the comparison began: {change}" for change in result.changes]
        return Comparison(
            *names, margin, spec.confidence, [_compared(run, names, margin)],
            list(dict.fromkeys(warnings)), tally.money_of_all,
            {name: tally.asked.get(name, 0) for name in asked},
        )  # fmt: skip


def _compared(run: Run, names: Sequence[str], margin: float) -> Compared:
    """Return what the answers say of the two models by the metric of the run."""
    plan, outcome = run.plan, run.plan.outcome
    scale, differences = outcome.metric.scale, _differences(run, margin)
    return Compared(
        outcome.task, outcome.metric.name, outcome.filter, scale.describe(),
        differences.benchmark, {}, question=run.spec.question, sampled=plan.sampled,
        other_question=differences.population, higher_is_better=scale.higher_is_better,
        n_items=len(plan.offered), losses=_losses(run, names, scale),
    )  # fmt: skip


def _require_options(sides: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Refuse options that a comparison decides itself, and tables, which hold no samples.

    Raises
    ------
    UsageError
    """
    if options.get("question") == POPULATION:
        raise UsageError(
            "live models are asked until it is known which is better on these documents, and the "
            "answer for documents like these is printed beside it: leave --question out"
        )
    if any(isinstance(side, ScoreTable) for side in sides):
        raise UsageError("a live model is compared with logs that have samples, not with a table")
    for key in ("models", "prior", "save_bank", "known"):
        if key in options:
            raise UsageError(f"`{key}:` cannot be used in a comparison")
    if options.get("min_difference"):
        raise UsageError(
            "`min_difference:` cannot be used in a comparison; --margin says how much worse is "
            "still good enough"
        )


def _spec_of(
    sides: Sequence[Any],
    names: tuple[str, str],
    logs: Container[str],
    options: Mapping[str, Any],
) -> Spec:
    """Return the options with both sides as models; a side of `logs` has its name alone.

    Raises
    ------
    UsageError
        There is no task, or more than one metric.
    """
    entries = [{**({} if n in logs else side), "name": n} for n, side in zip(names, sides)]
    spec = Spec.read({**options, "models": entries})
    if "usd" in spec.budget or any(model.price.known for model in spec.models):
        # Dollars are counted, and answers from logs cost none.
        free = Price(item=0.0)
        priced = (
            replace(entry, price=free) if entry.name in logs else entry for entry in spec.models
        )
        spec = replace(spec, models=tuple(priced))
    if not spec.tasks or len(spec.metrics) > 1:
        raise UsageError(
            "a live model is compared on one task and by one metric; name the task (--task)"
        )
    # The only metric decides, whatever weight it is given.
    return replace(spec, metrics=dict.fromkeys(spec.metrics, 1.0))


def _require_end(set_aside: Mapping[str, str], ended: bool, run_dir: str | Path | None) -> None:
    """Refuse a comparison that lacks a model or was interrupted.

    Raises
    ------
    UnfinishedError
    """
    # A verdict of half a comparison would pass a gate.
    if set_aside or not ended:
        why = "; ".join(f"{name}: {reason}" for name, reason in set_aside.items())
        advice = "" if run_dir is None else f"; the same command goes on with {run_dir}"
        raise UnfinishedError(f"the comparison did not finish ({why or 'interrupted'}){advice}")


class _Differences(NamedTuple):
    """The difference on the benchmark's documents, and the one on documents like them."""

    benchmark: Difference
    population: Difference


def _differences(run: Run, margin: float) -> _Differences:
    """Return the difference of the models under either question."""
    scale = run.plan.outcome.metric.scale
    verdicts = run.book.ranker.verdicts
    on_benchmark, on_population = (
        run.book.ranker.belief(question) for question in (BENCHMARK, POPULATION)
    )
    # The run stopped by its looks at the benchmark; what is said of the population is a first look.
    looks = verdicts.looks.before_first_look.after(on_population, 1.0 - verdicts.confidence)
    differences = []
    for view in (
        replace(verdicts, belief=on_benchmark),
        replace(verdicts, belief=on_population, looks=looks),
    ):
        n_answers = int(view.belief.n.diagonal().min())  # of the model with fewer
        difference = Difference.of(
            view, documents=min(n_answers, len(run.plan.offered)), margin=margin, scale=scale,
            answers=n_answers if run.plan.most_repeats > 1 else None,
        )  # fmt: skip
        differences.append(difference)
    return _Differences(*differences)


def _names(sides: Sequence[Any], models: Sequence[str | None]) -> tuple[str, str]:
    """Return what to call the sides: as requested, else as `rank` would, or by the folder of logs.

    Raises
    ------
    UsageError
        Both are given the same name.
    """
    live = [isinstance(side, Mapping) for side in sides]
    first, second = (name or _usual_name(side) for side, name in zip(sides, models))
    # Such as a server's old and new weights. Those that the user did not name are called baseline
    # and candidate.
    if first == second:
        first, second = (
            role if is_live and not (name or side.get("name")) else first
            for side, role, is_live, name in zip(sides, SIDES, live, models)
        )
    if first == second:
        raise UsageError(f"both models are called {first}; name them: --models A,B")
    return first, second


def _usual_name(side: Any) -> str:
    """Return the name that `rank` gives a live model, or that of the folder of logs."""
    if isinstance(side, Mapping):
        return Spec.read({"models": [side]}).models[0].name
    return Path(os.path.abspath(side)).name


def _losses(run: Run, names: Sequence[str], scale: Scale) -> tuple[Loss, ...]:
    """Return the documents of a live comparison on which the candidate scored lower."""
    answers: dict[str, dict[Any, list[Tell]]] = {name: {} for name in names}
    for (name, item), answer in run.book.answers.items():
        if isinstance(answer, Tell):
            answers[name].setdefault(item.doc_id, []).append(answer)
    sides = first, second = tuple(answers.values())
    ids = [doc_id for doc_id in first if doc_id in second]
    baseline, candidate = (
        np.array([np.mean([answer.score for answer in side[doc_id]]) for doc_id in ids])
        for side in sides
    )
    return tuple(
        replace(
            loss,
            answers=(
                first[loss.doc_id][0].text[:MOST_LETTERS],
                second[loss.doc_id][0].text[:MOST_LETTERS],
            ),
        )
        for loss in losses_of(ids, baseline, candidate, scale)
    )


def _differences_to_state(
    differences: Iterable[Discrepancy], accepted: Collection[str]
) -> Iterator[Discrepancy]:
    """Yield what users are told of differences between logs and a task as it asks and scores now.

    Raises
    ------
    UsageError
        Answers are cut off in another way, or the task has another version, and that is not
        accepted.
    """
    for difference in differences:
        if difference.rescored:
            scored = "the answers of both models are scored as the task does now"
            yield Discrepancy(f"{difference.text}; {scored}")
        elif difference.change != PROMPTS:  # which are compared by themselves
            yield difference._replace(text=difference.warning_if_accepted(accepted))


@dataclass
class StoredSides:
    """The stored sides of a live comparison; they limit its plan to the documents of their logs.

    Attributes
    ----------
    logs : dict of name to sequence of str
        Paths of the logs of each stored side; empty if both sides are live.
    margin : float
        How much worse the candidate may be, on the metric's own scale.
    observer : Observer
    prior_answers : dict of name to (dict of Item to EarlierAnswer)
        What the logs hold, once `plan` has read them.
    """

    logs: Mapping[str, Sequence[str]]
    margin: float
    observer: Observer
    prior_answers: dict[str, dict[Item, EarlierAnswer]] = field(default_factory=dict)

    def plan(self, spec: Spec) -> Plan:
        """Return the plan of the comparison, limited to what the logs of stored sides hold.

        Raises
        ------
        UsageError
            There are several outcomes, or the logs have no document of the task.
        """
        plan = make_plan(spec)
        if plan.only_outcome is None:
            raise UsageError("live models are compared on one task and one metric")
        require_margin(self.margin, plan.outcome.metric.name, plan.scale)
        plan = replace(plan, rule=MarginKnown(self.margin / plan.scale.span))
        # Both sides are asked: nothing limits their documents.
        if not self.logs:
            return plan
        # Answers from logs cost nothing, so the budget is the live side's alone.
        free = dict.fromkeys(self.logs, 0.0)
        charges = replace(plan.charges, prices={**plan.charges.prices, **free})
        plan = replace(plan, charges=charges)
        names = [entry.name for entry in spec.models]
        self.prior_answers = latest_prior_answers(
            self.logs, names, plan.repeats, self.observer.warn
        )
        return self._limited_to_logs(self._compared_with_logs(plan))

    def _compared_with_logs(self, plan: Plan) -> Plan:
        """Return a plan that states how the logs' documents, prompts and scoring differ from it."""
        outcome, session = plan.outcome, plan.sessions[plan.outcome.task]
        warnings, accepted, sampled = [*plan.warnings], list[Discrepancy](), False
        logged = Logged(session.name, outcome.metric.name, outcome.filter)
        for name in self.logs:
            # The data may have changed since the logs were written.
            if changed := self._leave_out_changed(name, session):
                documents = plural(changed, "document")
                warnings.append(f"{documents} of {name} left out: the same doc_id, another text")
            prompts = self._prompts(name, plan.spec, session)
            if prompts.difference:
                accepted.append(Discrepancy(f"accepted: {prompts.difference}", PROMPTS))
            warnings += [prompts.doubt] if prompts.doubt else []
            if (scoring := self._scoring(name, logged)) is None:
                continue
            sampled |= scoring.sampled
            doc_ids = dict.fromkeys(item.doc_id for item in self.prior_answers[name])
            asked = Scoring.of_task(session, logged, doc_ids)
            names = f"the logs of {name}", f"task {session.name} now"
            differences = scoring.differences(asked, names)
            for difference in _differences_to_state(differences, plan.spec.accept_change):
                # What no `accept_change` is for is only told.
                if difference.change:
                    accepted.append(difference)
                else:
                    warnings.append(difference.text)
        return replace(
            plan,
            warnings=tuple(warnings),
            accepted=(*plan.accepted, *accepted),
            stored_draws=sampled,
        )

    def _limited_to_logs(self, plan: Plan) -> Plan:
        """Return a plan with the documents and the number of repeats that all logs have.

        Raises
        ------
        UsageError
            The logs have no document of the task.
        """
        outcome, warnings = plan.outcome, [*plan.warnings]
        n_answers = np.array([self._n_logged(item, plan.most_repeats) for item in plan.items()])
        if not n_answers.any():
            raise UsageError("the stored runs have no document in common with the task")
        bank = replace(outcome.bank, kept=outcome.bank.kept & (n_answers > 0))
        n_items, n_comparable = int(outcome.bank.kept.sum()), int(bank.kept.sum())
        if n_comparable < n_items:
            warnings.append(
                f"{' and '.join(self.logs)}: the logs hold {n_comparable:,} of the task's "
                f"{n_items:,} documents, so the comparison is of these alone"
            )
        [name] = plan.outcomes_by_task[outcome.task]
        spec, repeats = plan.spec, int(n_answers[n_answers > 0].min())
        if repeats < plan.most_repeats:
            spec = replace(spec, repeats=repeats)
            warnings.append(
                f"{' and '.join(self.logs)}: the logs have no more than "
                f"{plural(repeats, 'answer')} to some documents, so no document is asked more "
                f"often (repeats: {plan.most_repeats})"
            )
        return replace(
            plan,
            spec=spec,
            outcomes_by_task={outcome.task: {name: replace(outcome, bank=bank)}},
            warnings=tuple(warnings),
        )

    def _leave_out_changed(self, name: str, session: TaskSession) -> int:
        """Leave out the answers in a model's logs to documents that have another text now, or none.

        Returns
        -------
        int
            Number of documents that have another text.
        """
        hashes = dict(zip(session.doc_ids, session.doc_hashes))
        answers = {
            item: answer
            for item, answer in self.prior_answers[name].items()
            if item.doc_id in hashes
        }
        changed = {
            item.doc_id
            for item, answer in answers.items()
            if answer.doc_hash not in (None, hashes[item.doc_id])
        }
        self.prior_answers[name] = {
            item: answer for item, answer in answers.items() if item.doc_id not in changed
        }
        return len(changed)

    def _n_logged(self, item: Item, repeats: int) -> int:
        """Return how many answers to an item every stored side has, at most `repeats`."""
        # Repeats are asked in their order, so what comes after a missing one is of no use.
        items = (item, *(Item((*item, repeat)) for repeat in range(2, repeats + 1)))
        return min(
            sum(1 for _ in takewhile(self.prior_answers[name].__contains__, items))
            for name in self.logs
        )

    def _prompts(self, name: str, spec: Spec, session: TaskSession) -> PromptComparison:
        """Compare the prompts in a model's only log with the task's; a difference must be accepted.

        Raises
        ------
        UsageError
            They differ, and that is not accepted.
        """
        templated = bool(spec.template_for(spec.model(name)))
        logged = {
            item.doc_id: answer.mark_for(templated)
            for item, answer in self.prior_answers[name].items()
        }

        def texts(doc_ids: Sequence[Any]) -> Texts:
            [source] = self.logs[name]
            marks = {doc_id: logged[doc_id] for doc_id in doc_ids}
            first = prompts_in(source, session.name, marks)
            return {doc_id: (text, session.request_text(doc_id)) for doc_id, text in first.items()}

        names = f"the logs of {name}", f"task {session.name} now"
        return checked_prompts((logged, session.marks), names, texts, spec.accept_change)

    def _scoring(self, name: str, logged: Logged) -> Scoring | None:
        """Return how a model's logs asked and scored; None if they do not say."""
        [source] = self.logs[name]
        runs = AskedSide(name, logged.task, {}, source).runs(other_versions=True)
        return Scoring.of(runs, logged) if runs else None

    def models(self, run: Run) -> list[HarnessModel]:
        """Return the models that are asked, and those that answer from their logs."""
        models = harness_models(run)
        for name in self.logs:
            entry = run.spec.model(name)
            model = StoredModel(entry, run.spec, run.plan.outcomes_by_task, run.warn_once)
            model.prior_answers = self.prior_answers[name]
            models.append(model)
        return models
