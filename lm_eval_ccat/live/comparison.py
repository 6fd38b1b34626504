"""`compare`: decide whether a candidate is better than a baseline, from stored results or live."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..bank.settings import SAMPLED, compare_scorers, sampling
from ..errors import CcatError, MetricError, RunError, ScaleError, ScoreTableError, UsageError
from ..methods.belief import BENCHMARK, POPULATION, RUN
from ..metrics.scale import Scale
from ..money import columns_in_words, sum_of
from ..options import AT_LEAST_0, CONFIDENCE, OptionPlace, choice
from ..ranker import StoppingRule
from ..ranker.difference import Difference, compare_means, compare_scores
from ..ranker.standing import Standing
from ..ranker.verdicts import NOT_KNOWN, NOT_WORSE, OPEN, WORDS, WORSE
from ..runs.directory import RunDirectory
from ..scores import ScoreTable
from ..scores.readers.lm_eval import COMPARED
from ..shown import Shown, ShownTable, plural
from ..simulation.audit import Claims, terms_of
from .earlier import answers_at_hand
from .fields import METRICS
from .models import StoredModel
from .result import Observer
from .run import Run, holds_answers
from .sides import (
    Fields,
    Side,
    fields_of,
    shared_outcomes,
    told_apart,
    values_of_field,
    without_files,
)
from .spec import Spec

#: Settings in which the two sides should agree.
_SIDES = ("baseline", "candidate")


@dataclass(frozen=True)
class Compared:
    """The comparison on one metric and filter of one task.

    Attributes
    ----------
    task, metric, filter : str or None
    scale : str
        The scale in words.
    overall : Difference
    groups : dict of str to Difference
        Differences within groups of documents, if requested.
    decisive : bool
        Whether it counts for the verdict; of an adaptive run, only what steered the run counts.
    question : {"population", "benchmark", "run"}
        Whether `overall` is about documents like these, about these, or about these very answers.
    sampled : bool
        Whether answers are draws; the first two questions are then about expected scores.
    other_question : Difference or None
        The difference for the other question, if known.
    higher_is_better : bool
    """

    task: str | None
    metric: str
    filter: str | None
    scale: str
    overall: Difference
    groups: dict[str, Difference]
    decisive: bool = True
    question: str = BENCHMARK
    sampled: bool = False
    other_question: Difference | None = None
    higher_is_better: bool = True

    @property
    def name(self) -> str:
        """Task and metric as a single name; of a weighted mean, its terms."""
        if " x " in (self.task or ""):
            return " + ".join(terms_of(str(self.task)))
        key = f"{self.metric},{self.filter}" if self.filter not in (None, "none") else self.metric
        return f"{self.task}/{key}" if self.task else key

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        content = asdict(self)
        return {**content.pop("overall"), **content}


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """The result of `compare`.

    Attributes
    ----------
    baseline, candidate : str
        Names of the models.
    margin, confidence : float
    outcomes : list of Compared
    warnings : list of str
    money : dict of str to float, or None
        Cost of live models in dollars (billed, assumed, unknown); None without a known price.

    Examples
    --------
    >>> from lm_eval_ccat import ScoreTable, compare
    >>> old = ScoreTable.from_arrays([[0.2, 0.5, 0.1] * 30], ["old"])
    >>> new = ScoreTable.from_arrays([[0.4, 0.5, 0.3] * 30], ["new"])
    >>> comparison = compare(old, new)
    >>> comparison
    <Comparison: new against old: better>
    >>> comparison.exit_code, round(comparison.outcomes[0].overall.difference, 3)
    (0, 0.133)
    """

    baseline: str
    candidate: str
    margin: float
    confidence: float
    outcomes: list[Compared]
    warnings: list[str]
    money: Mapping[str, float] | None = None

    @property
    def verdict(self) -> str:
        """The worst verdict among decisive outcomes: "worse" before "not known" before others."""
        verdicts = [one.overall.verdict for one in self.outcomes if one.decisive]
        for bad in (WORSE, NOT_KNOWN):
            if bad in verdicts:
                return bad
        return verdicts[0] if len(set(verdicts)) == 1 else NOT_WORSE

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 0 not worse by more than the margin, 5 worse, 3 not known."""
        return {WORSE: 5, NOT_KNOWN: 3}.get(self.verdict, 0)

    @property
    def notes(self) -> list[str]:
        """Return costs and warnings, one sentence each."""
        return [*(columns_in_words(self.money) if self.money else ()), *self.warnings]

    def _grid(self) -> ShownTable:
        figures = (
            "baseline", "candidate", "difference", "low", "high", "p_better", "documents",
            "verdict",
        )  # fmt: skip
        rows = [
            [one.name, group, *(getattr(of_group, name) for name in figures)]
            for one in self.outcomes
            for group, of_group in (("all", one.overall), *one.groups.items())
        ]
        title = f"{self.candidate} against {self.baseline}: {self.verdict}"
        return ShownTable(title, ("outcome", "group", *figures), rows, tuple(self.notes))

    def to_dict(self) -> dict[str, Any]:
        """JSON values.

        Examples
        --------
        >>> from lm_eval_ccat import ScoreTable, compare
        >>> table = ScoreTable.from_arrays([[0.2, 0.5, 0.1] * 30], ["same"])
        >>> compare(table, table).to_dict()["verdict"]
        'equivalent'
        """
        outcomes = [one.to_dict() for one in self.outcomes]
        return {**asdict(self), "verdict": self.verdict, "outcomes": outcomes}


def compare(
    a: ScoreTable | Mapping[str, Any] | str | Path,
    b: ScoreTable | Mapping[str, Any] | str | Path,
    metric: str | Sequence[str] | Mapping[str, float] | None = None,
    margin: float = 0.0,
    *,
    question: str = POPULATION,
    models: tuple[str | None, str | None] = (None, None),
    task: str | None = None,
    filter: str | None = None,
    confidence: float | None = None,
    by: str | None = None,
    cluster: str | None = None,
    items: Mapping[Any, Mapping[str, Any]] | None = None,
    range: tuple[float, float] | None = None,
    lower_is_better: bool | None = None,
    settings: Mapping[str, Any] | None = None,
    run_dir: str | Path | None = None,
    observer: Observer | None = None,
) -> Comparison:
    """Compare a candidate with a baseline on the documents that both have.

    Parameters
    ----------
    a, b : ScoreTable or path
        Baseline and candidate: harness logs, a score table, or the output of an adaptive run (a run
        directory of ``rank``, or the results of ``run --adaptive`` or a folder of nothing else),
        whose estimates are compared. Or a live model, as ``{"model": "hf", "model_args": {...}}``
        or a YAML file of `rank` with one model: it is asked random documents until the difference
        is known.
    metric : str, sequence of str or mapping of str to float, optional
        Metrics that decide; those of weight 0 (``"chrf=0"`` in a sequence) are only reported.
        Default: every metric that both sides have; of an adaptive run, only the metrics that
        steered it decide.
    margin : float, optional
        Largest acceptable loss, on the metric's own scale.
    question : {"population", "benchmark", "run"}, optional
        Whether scores decide about documents like these, of which the benchmark is a sample, about
        these documents, or about these very answers, even if they are sampled. Live models decide
        about these documents or answers, and estimates about what their run asked.
    models : (str or None, str or None), optional
        Names of the two models, if a side holds several.
    task, filter : str, optional
        Default: all that both sides have.
    confidence : float, optional
        Two-sided confidence for each outcome and group; default 0.95.
    by, cluster : str, optional
        Field of the documents to group the comparison by, and field whose equal values form a
        cluster.
    items : mapping, optional
        Fields that the logs' documents lack: ``{doc_id: {field: value}}``.
    range, lower_is_better : optional
        As in `ScoreTable.read`.
    settings : mapping, optional
        For live models: further keys of a configuration of `rank` (``harness``, ``budget``, ...).
    run_dir : path, optional
        For live models: directory that keeps their answers; where it holds some already, the
        comparison goes on from them.
    observer : Observer, optional
        For live models: receives warnings and progress.

    Returns
    -------
    Comparison

    Raises
    ------
    UsageError
        A side holds several models and `models` names none, or the sides have nothing in common.
    ScoreTableError, ScaleError
        Scores cannot be read.

    Examples
    --------
    >>> table = ScoreTable.from_arrays(
    ...     [[0.2, 0.5, 0.1] * 30, [0.4, 0.5, 0.3] * 30], models=["old", "new"]
    ... )
    >>> compare(table, table, models=("old", "new")).verdict
    'better'
    """
    warnings: list[str] = []
    (a, b), settings = without_files((a, b), settings or {})
    metric = settings.pop("metrics", None) if metric is None else metric
    tasks = settings.pop("tasks", (task,)) if task is None else (task,)
    if len(tasks) > 1:
        raise UsageError("compare takes one task")
    [task] = tasks
    stated = settings.pop("confidence", Spec().confidence)
    confidence = stated if confidence is None else confidence
    CONFIDENCE.check(confidence, "confidence")
    AT_LEAST_0.check(margin, "margin")
    choice(POPULATION, BENCHMARK, RUN).check(question, "question")
    weights = METRICS.read(metric, OptionPlace("metric")) if metric else {}
    if isinstance(a, Mapping) or isinstance(b, Mapping):
        if by or cluster or filter or range:
            raise UsageError(
                "--by, --cluster, --filter and --range are for stored scores; the filter of a live "
                "model follows its metric: --metric METRIC,FILTER"
            )
        live = {**settings, "task": task, "metrics": list(weights), "confidence": confidence}
        live["question"] = RUN if question == RUN else BENCHMARK
        comparison = _live((a, b), models, margin, live, run_dir, observer)
        return replace(comparison, warnings=warnings)
    if settings or run_dir:
        raise UsageError("--include_path, --max_items and the like are for live models")
    judged = {"margin": margin, "confidence": confidence}
    outcomes, names = [], ("", "")
    refused: CcatError | None = None
    one_side, other_side = sides = Side(a, _SIDES[0]), Side(b, _SIDES[1])
    warnings += [side.warning for side in sides if side.warning]
    for outcome in shared_outcomes(sides, list(weights), task, filter):
        try:
            pair = [side.of(outcome, range, lower_is_better) for side in sides]
        except (MetricError, ScaleError) as error:
            if weights:
                raise
            refused = error
            warnings.append(f"{outcome.metric} is left out: {error}")
            continue
        one, other = pair
        names = one_side.model(one.models, models[0]), other_side.model(other.models, models[1])
        if isinstance(one, ScoreTable) and isinstance(other, ScoreTable):
            fields = fields_of(items, (a, b), outcome.task) if by or cluster else {}
            how = by, cluster, question == RUN
            compared = _paired(one, other, names, fields, *how, judged, warnings)
            if question != POPULATION and (wanted := compared.other_question):
                compared = replace(
                    compared, question=question, overall=wanted, other_question=compared.overall
                )
        elif by or cluster:
            raise UsageError("--by and --cluster need the scores of both sides, not an estimate")
        else:
            compared = _of_estimates(one, other, names, judged)
        steered = all(side.steers for side in pair if isinstance(side, Claims))
        decisive = weights[outcome.metric] > 0.0 if weights else steered
        outcomes.append(replace(compared, decisive=decisive))
    if refused is not None and not outcomes:
        raise refused
    if not any(one.decisive for one in outcomes):  # the other side lacks what steered
        outcomes = [replace(one, decisive=True) for one in outcomes]
    if names[0] == names[1] and models == (None, None):
        names = told_apart(a, b, names)
    return Comparison(*names, margin, confidence, outcomes, list(dict.fromkeys(warnings)))


def _paired(
    one: ScoreTable,
    other: ScoreTable,
    names: tuple[str, str],
    fields: Fields,
    by: str | None,
    cluster: str | None,
    these: bool,
    judged: Mapping[str, float],
    warnings: list[str],
) -> Compared:
    """Compare scores, each document's repeats averaged first; `these`: of these very answers."""
    warnings += [*one.warnings, *other.warnings, *_differing(one, other)]
    scored: list[dict[Any, tuple[float, str | None]]] = []
    for table, name in zip((one, other), names):
        table = table.select([name])
        hashes = table.doc_hashes or (None,) * table.n_items
        rows = zip(table.doc_ids, table.model_scores()[0], hashes)
        scored.append({d: (score, hash) for d, score, hash in rows if np.isfinite(score)})
    first, second = scored
    shared = [d for d in first if d in second]
    ids = [d for d in shared if len({first[d][1], second[d][1]} - {None}) < 2]
    if changed := len(shared) - len(ids):
        warnings.append(
            f"{plural(changed, 'document')} left out: the same doc_id, but different text"
        )
    if not ids:
        raise ScoreTableError(f"{' and '.join(names)} have no document of {one.metric} in common")
    if alone := len(first) + len(second) - 2 * len(shared):
        warnings.append(
            f"{plural(alone, 'score')} left out: the other side has none for the same document"
        )
    # Nobody knows how much of the differences of single answers is noise: it may be all of it.
    sampled = any(map(_is_sampled, (one, other)))
    scale = one.scale
    x, y = (scale.restore(np.array([side[d][0] for d in ids])) for side in scored)
    how: dict[str, Any] = {**judged, "higher_is_better": scale.higher_is_better}
    labels = values_of_field(fields, cluster, ids) if cluster else None
    groups: dict[str, Difference] = {}
    if by:
        of = values_of_field(fields, by, ids)
        for label in sorted(set(of.tolist())):
            rows = of == label
            within = None if labels is None else labels[rows]
            difference = compare_scores(x[rows], y[rows], clusters=within, **how)
            groups[label] = _possible(difference, scale)
    return Compared(
        task=one.task or other.task,
        metric=one.metric,
        filter=one.filter or other.filter,
        scale=scale.describe(),
        overall=_possible(compare_scores(x, y, clusters=labels, **how), scale),
        groups=groups,
        question=POPULATION,
        sampled=sampled,
        other_question=compare_scores(x, y, exact=these or not sampled, **how),
        higher_is_better=scale.higher_is_better,
    )


def _is_sampled(table: ScoreTable) -> bool:
    """Whether the settings of a table's runs say that its answers are sampled."""
    settings = table.settings.get("generation_kwargs")
    return isinstance(settings, Mapping) and sampling(settings)[0] == SAMPLED


def _possible(difference: Difference, scale: Scale) -> Difference:
    """Cut the interval of a difference to what the metric's scale allows."""
    low, high = max(difference.low, -scale.span), min(difference.high, scale.span)
    return replace(difference, low=low, high=high)


def _differing(one: ScoreTable, other: ScoreTable) -> list[str]:
    """Return the settings in which the two sides differ, in words.

    Raises
    ------
    UsageError
        Another judge, encoder or checkpoint scored the candidate, so not only the models
        differ.
    """
    first, second = (table.settings.get("scorer") for table in (one, other))
    refused, differences = (
        [t.replace("the bank", "the baseline").replace("the run", "the candidate") for t in texts]
        for texts in compare_scorers(first, second, one.metric)
    )
    if refused:
        raise UsageError(
            f"the two sides were not scored alike: {'; '.join(refused)}; score both with one scorer"
        )
    for key in COMPARED:
        x, y = one.settings.get(key), other.settings.get(key)
        if key != "scorer" and key in one.settings and key in other.settings and x != y:
            differences.append(
                f"{key} differs: {x!r:.60} and {y!r:.60}; part of the difference may come from that"
            )
    if one.scale != other.scale:
        differences.append(f"scales differ: {one.scale.describe()}, {other.scale.describe()}")
    return differences


def _of_estimates(
    one: ScoreTable | Claims,
    other: ScoreTable | Claims,
    names: tuple[str, str],
    judged: Mapping[str, Any],
) -> Compared:
    """Compare estimates of the full benchmark, at least one of them from an adaptive run."""
    both = one, other
    claims = next(side for side in both if isinstance(side, Claims))
    table = next((side for side in both if isinstance(side, ScoreTable)), None)
    means, errors, documents = zip(
        *(_estimate(side, name, claims) for side, name in zip(both, names))
    )
    variance, reach, undecided = errors[0] ** 2 + errors[1] ** 2, None, False
    if isinstance(one, Claims) and isinstance(other, Claims) and one.source == other.source:
        error = one.error_of_difference(names[1], names[0])
        variance = variance if error is None else error**2
        # The ranking looked after every answer: one look must not decide a pair that it left open.
        decisions = (one.pair(*pair).get("decision") for pair in (names, names[::-1]))
        undecided = WORDS[OPEN] in decisions
        usual = float(ndtri((1.0 + judged["confidence"]) / 2.0))
        reach = max(usual, one.reach(names[1], names[0]))
    up = claims.higher_is_better if table is None else table.scale.higher_is_better
    overall = compare_means(
        means, variance, documents=min(documents), undecided=undecided, reach=reach,
        higher_is_better=up, **judged,
    )  # fmt: skip
    more, size = overall.more_documents, claims.items_of_benchmark
    if reach is not None:  # the ranking itself states what would decide
        overall = replace(overall, more_documents=None)
    elif more and size and not claims.sampled and claims.question == BENCHMARK:
        # All of them leave no error.
        overall = replace(overall, more_documents=min(more, size - min(documents)) or None)
    if table is not None:
        overall = _possible(overall, table.scale)
    scale = "the metric's own scale" if table is None else table.scale.describe()
    return Compared(
        claims.task, claims.metric or "score", claims.filter, scale, overall, {},
        question=claims.question, sampled=claims.sampled, higher_is_better=up,
    )  # fmt: skip


def _estimate(side: ScoreTable | Claims, name: str, claims: Claims) -> tuple[float, float, int]:
    """Return the mean over the full benchmark, its standard error and the number of documents."""
    if isinstance(side, Claims):
        of = side.models[name]
        # A reference model has full results, and was asked nothing.
        documents = of["n_items"] or side.items_of_benchmark or 0
        return of["estimate"], of["standard_error"], documents
    unit = side.select([name]).model_scores()[0]
    y = np.asarray(side.scale.restore(unit[np.isfinite(unit)]))
    n, size = len(y), float(max(claims.items_of_benchmark or 0, len(y)))
    if claims.sampled or claims.question == POPULATION:
        size = math.inf
    spread = float(y.std(ddof=1)) if n > 1 else 1.0
    return float(y.mean()), spread * float(np.sqrt((1.0 - n / size) / n)), n


# -- live models ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MarginKnown(StoppingRule):
    """Stop when it is known whether the second model is worse by more than `margin`, on [0, 1]."""

    margin: float

    def wants(self, standing: Standing) -> Any:
        if len(standing.items) < 2:
            return standing.nobody
        n = int(standing.items.min())
        now = Difference.of(standing.verdicts, documents=n, margin=self.margin)
        return standing.nobody | (now.verdict == NOT_KNOWN)

    def why(self, standing: Standing) -> str:
        return "the difference is known well enough"


def _live(
    sides: tuple[Any, Any],
    models: tuple[str | None, str | None],
    margin: float,
    settings: Mapping[str, Any],
    run_dir: str | Path | None,
    observer: Observer | None,
) -> Comparison:
    """Ask two models, or one with logs of the other, until the difference is known.

    Both get the same random documents; a stored run answers from its logs.
    """
    names = [
        name or (str(side.get("name") or which) if isinstance(side, Mapping) else Path(side).name)
        for side, name, which in zip(sides, models, _SIDES)
    ]
    if any(isinstance(side, ScoreTable) for side in sides):
        raise UsageError("a live model is compared with logs that have samples, not with a table")
    if settings["task"] is None or len(settings["metrics"]) > 1:
        raise UsageError(
            "a live model is compared on one task and by one metric; name the task (--task)"
        )
    for key in ("models", "prior", "save_bank", "known"):
        if key in settings:
            raise UsageError(f"`{key}:` cannot be used in a comparison")
    if names[0] == names[1]:
        raise UsageError(f"both models are called {names[0]}; name them: --models A,B")
    resume = run_dir is not None and holds_answers(RunDirectory(run_dir))
    logs = {name: [str(s)] for name, s in zip(names, sides) if not isinstance(s, Mapping)}
    entries = [{**({} if n in logs else side), "name": n} for n, side in zip(names, sides)]
    options = {key: value for key, value in settings.items() if value not in (None, [])}
    spec = Spec.read({**options, "models": entries})
    asked = [name for name in names if name not in logs]
    with Run(spec, run_dir, observer, resume=resume, retry=resume, asked=asked) as run:
        if run.plan.alone is None:
            raise UsageError("live models are compared on one task and one metric")
        run.plan = replace(run.plan, rule=MarginKnown(margin / run.plan.scale.span))
        stored = _stored_models(run, logs)
        run.models = [*run.models, *stored]
        ended, tally, outcome = run.ask(), run.book.tally, run.plan.outcome
        if tally.set_aside or not ended:
            why = "; ".join(f"{name}: {reason}" for name, reason in tally.set_aside.items())
            kept = "" if run_dir is None else f"; the same command goes on with {run_dir}"
            raise RunError(f"the comparison did not finish ({why or 'interrupted'}){kept}")
        for model in (model for model in stored if model.by_document):
            run.observer.warn(
                f"{model.name} was asked with a chat template of its own: only its documents "
                "are known to be the same, not few-shot examples and system message"
            )
        verdicts, scale = run.book.ranker.verdicts, outcome.metric.scale
        near, wider = (run.book.ranker.belief(question) for question in (BENCHMARK, POPULATION))
        looks = verdicts.looks.anew.after(wider, 1.0 - verdicts.confidence)  # nobody has looked
        overall, other = (
            _possible(
                Difference.of(
                    one, documents=int(one.belief.n.diagonal().min()), margin=margin, scale=scale
                ),
                scale,
            )
            for one in (
                replace(verdicts, belief=near), replace(verdicts, belief=wider, looks=looks)
            )
        )  # fmt: skip
        compared = Compared(
            outcome.task, outcome.metric.name, outcome.filter, scale.describe(), overall, {},
            question=spec.question, sampled=run.plan.sampled, other_question=other,
            higher_is_better=scale.higher_is_better,
        )  # fmt: skip
        money = sum_of(tally.paid.values())
        return Comparison(names[0], names[1], margin, spec.confidence, [compared], [], money)


def _stored_models(run: Run, logs: Mapping[str, Sequence[str]]) -> list[StoredModel]:
    """Return models that answer from their logs; limit the plan to documents that all have."""
    if not logs:
        return []
    plan, outcome = run.plan, run.plan.outcome
    names = [entry.name for entry in run.spec.models]
    at_hand = answers_at_hand(logs, names, [outcome.task], run.observer.warn)
    have = np.array([all(item in at_hand[name] for name in logs) for item in plan.items()])
    if not have.any():
        raise UsageError("the stored runs have no document in common with the task")
    bank = replace(outcome.bank, kept=outcome.bank.kept & have)
    [name] = plan.measured[outcome.task]
    measured = {outcome.task: {name: replace(outcome, bank=bank)}}
    run.plan = replace(plan, measured=measured)
    models = []
    for name in logs:
        model = StoredModel(run.spec.model(name), run.spec, measured, run.warn_once)
        model.at_hand = at_hand[name]
        models.append(model)
    return models
