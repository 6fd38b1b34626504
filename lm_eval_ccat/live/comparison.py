"""`compare`: decide whether a candidate is better than a baseline, from stored results or live."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from ..bank.settings import SAMPLED, compare_scorers, sampling
from ..content import RESULT, RankingContent
from ..errors import MetricError, RunError, ScaleError, ScoreTableError, UsageError
from ..harness import TaskSession
from ..methods.belief import BENCHMARK, POPULATION, RUN
from ..methods.policy import Mask
from ..metrics.scale import Floats, Scale
from ..money import columns_in_words, sum_of
from ..options import AT_LEAST_0, CONFIDENCE, OptionPlace, choice
from ..ranker import StoppingRule
from ..ranker.difference import Difference, compare_scores
from ..ranker.looks import ROUNDING
from ..ranker.standing import Standing
from ..ranker.verdicts import DECIDED, EQUIVALENT, NOT_KNOWN, NOT_WORSE, OPEN, WORDS, WORSE
from ..records import Item, Tell
from ..runs.book import PROMPTS
from ..runs.directory import RunDirectory
from ..scores import ScoreTable
from ..scores.answers import EarlierAnswer
from ..scores.prompts import DIGITS, Marks, Texts, canonical, compare_prompts
from ..scores.readers.lm_eval import COMPARED
from ..scores.reading import Logged
from ..shown import Shown, ShownTable, plural
from .earlier import answers_at_hand
from .fields import METRICS
from .losses import MOST_LETTERS, Loss, losses_of, size_of
from .models import HarnessModel, StoredModel
from .plan import Plan, make_plan
from .result import Observer
from .run import Run, harness_models, holds_answers
from .sides import (
    Fields,
    Side,
    fields_of,
    prompts_in,
    require_one_scale,
    shared_outcomes,
    told_apart,
    values_of_field,
    without_files,
)
from .spec import Spec
from .stored import StoredRanking

#: Settings in which the two sides should agree.
_SIDES = ("baseline", "candidate")
_THE_SIDES = ("the baseline", "the candidate")


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
    weighted : bool
        Whether it is a weighted mean of several, whose terms `task` lists.
    n_items : int or None
        Documents of the task, if known.
    losses : tuple of Loss
        Documents on which the candidate scores lower, the largest loss first.
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
    weighted: bool = False
    n_items: int | None = None
    losses: tuple[Loss, ...] = ()

    @property
    def name(self) -> str:
        """Task and metric as a single name; of a weighted mean, its terms."""
        return str(self.task) if self.weighted else self.outcome.name

    @property
    def outcome(self) -> Logged:
        """Task, metric and filter."""
        return Logged(self.task, self.metric, self.filter)

    def has_too_few(self, difference: Difference) -> bool:
        """Whether the task is known to have fewer documents than would decide a difference."""
        needed = difference.documents + (difference.more_documents or 0)
        return self.n_items is not None and needed > self.n_items

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
        verdicts = [outcome.overall.verdict for outcome in self.outcomes if outcome.decisive]
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
            [outcome.name, group, *(getattr(of_group, name) for name in figures)]
            for outcome in self.outcomes
            for group, of_group in (("all", outcome.overall), *outcome.groups.items())
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
        outcomes = [outcome.to_dict() for outcome in self.outcomes]
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
        Metrics that decide, of all filters or of one (``"exact_match,strict-match"``); those of
        weight 0 (``"chrf=0"`` in a sequence) are only reported.
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
    task : str, optional
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
        ``accept_change``; for live models also further keys of a configuration of `rank`
        (``harness``, ``budget``, ...).
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
    (a, b), settings = without_files((a, b), settings or {})
    metric = settings.pop("metrics", None) if metric is None else metric
    tasks = settings.pop("tasks", (task,)) if task is None else (task,)
    if len(tasks) > 1:
        raise UsageError("compare takes one task")
    [task] = tasks
    level = settings.pop("confidence", None)
    confidence = level if confidence is None else confidence
    if confidence is not None:
        CONFIDENCE.check(confidence, "confidence")
    AT_LEAST_0.check(margin, "margin")
    choice(POPULATION, BENCHMARK, RUN).check(question, "question")
    weights = METRICS.read(metric, OptionPlace("metric")) if metric else {}
    if isinstance(a, Mapping) or isinstance(b, Mapping):
        if by or cluster or range:
            raise UsageError("--by, --cluster and --range are for stored scores")
        live = {**settings, "task": task, "metrics": list(weights)}
        live["confidence"] = Spec().confidence if confidence is None else confidence
        live["question"] = RUN if question == RUN else BENCHMARK
        return _live((a, b), models, margin, live, run_dir, observer)
    changes = {"accept_change": settings.pop("accept_change", ())}
    accepted = Spec.read(changes).accept_change
    if settings or run_dir:
        raise UsageError("--include_path, --max_items and the like are for live models")
    sides = Side(a, _SIDES[0]), Side(b, _SIDES[1])
    gate = Gate(margin, _confidence(sides, confidence), question)
    warnings = [side.warning for side in sides if side.warning]
    outcomes: list[Compared] = []
    names, refused = ("", ""), None
    for outcome, requested in shared_outcomes(sides, list(weights), task).items():
        try:
            first, second = (side.of(outcome, range, lower_is_better) for side in sides)
        except (MetricError, ScaleError) as error:
            if weights:
                raise
            refused = error
            warnings.append(f"{outcome.metric} is left out: {error}")
            continue
        names = sides[0].model(first.models, models[0]), sides[1].model(second.models, models[1])
        require_one_scale(outcome.metric, first, second)
        for named_task in _tasks(first, second):
            before, after = (
                AskedSide.of(side, name, path, named_task)
                for side, name, path in zip((first, second), names, (a, b))
            )
            warnings += _prompts(before, after, named_task, accepted)
        if isinstance(first, ScoreTable) and isinstance(second, ScoreTable):
            fields = fields_of(items, (a, b), outcome.task) if by or cluster else {}
            documents = SharedDocuments.of(first, second, names, warnings)
            compared = documents.compared(gate, fields, by, cluster)
            compared = replace(compared, n_items=size_of((a, b), outcome.task))
        elif by or cluster:
            raise UsageError("--by and --cluster need the scores of both sides, not an estimate")
        else:
            compared = _of_estimates(first, second, names, gate)
        steered = all(side.steers for side in (first, second) if isinstance(side, StoredRanking))
        decisive = weights[requested] > 0.0 if weights else steered
        outcomes.append(replace(compared, decisive=decisive))
    if refused is not None and not outcomes:
        raise refused
    if not any(compared.decisive for compared in outcomes):  # the other side lacks what steered
        outcomes = [replace(compared, decisive=True) for compared in outcomes]
    if names[0] == names[1] and models == (None, None):
        names = told_apart(a, b, names)
    return Comparison(*names, margin, gate.confidence, outcomes, list(dict.fromkeys(warnings)))


@dataclass(frozen=True)
class Gate:
    """What a comparison decides, and how sure it has to be.

    Attributes
    ----------
    margin : float
        How much worse is still good enough, on the metric's own scale.
    confidence : float
        Two-sided.
    question : {"population", "benchmark", "run"}
    """

    margin: float
    confidence: float
    question: str


def _confidence(sides: Sequence[Side], confidence: float | None) -> float:
    """Return the confidence of a comparison: that of the user, else that of the runs compared.

    Raises
    ------
    UsageError
        A run states its intervals at another confidence: they cannot be turned into others.
    """
    for ranking in (ranking for side in sides for ranking in side.rankings.values()):
        level = ranking.content["confidence"]
        if confidence is None:
            confidence = level
        elif not math.isclose(level, confidence):
            raise UsageError(
                f"{ranking.source} states its intervals at a confidence of {level:g}, not "
                f"{confidence:g}; leave --confidence out, or compare runs of one confidence"
            )
    return Spec().confidence if confidence is None else confidence


@dataclass(frozen=True)
class SharedDocuments:
    """Scores of baseline and candidate on the documents that both have.

    Attributes
    ----------
    outcome : Logged
    scale : Scale
    ids : list
        Names of the documents.
    baseline, candidate : ndarray of shape (n_documents,)
        On [0, 1], higher is better; repeats of a document are averaged.
    sampled : bool
        Whether answers are draws. Nobody knows how much of the differences of single answers is
        noise: it may be all of it.
    """

    outcome: Logged
    scale: Scale
    ids: list[Any]
    baseline: Floats
    candidate: Floats
    sampled: bool

    @classmethod
    def of(
        cls,
        first_table: ScoreTable,
        second_table: ScoreTable,
        names: tuple[str, str],
        warnings: list[str],
    ) -> SharedDocuments:
        """Match the documents of two models; what is left out goes to `warnings`."""
        warnings += [
            *first_table.warnings,
            *second_table.warnings,
            *_differing(first_table, second_table),
        ]
        scored: list[dict[Any, tuple[float, str | None]]] = []
        for table, name in zip((first_table, second_table), names):
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
            raise ScoreTableError(
                f"{' and '.join(names)} have no document of {first_table.metric} in common"
            )
        if alone := len(first) + len(second) - 2 * len(shared):
            warnings.append(
                f"{plural(alone, 'score')} left out: the other side has none for the same document"
            )
        outcome = Logged(
            first_table.task or second_table.task,
            first_table.metric,
            first_table.filter or second_table.filter,
        )
        baseline, candidate = (np.array([side[d][0] for d in ids]) for side in scored)
        sampled = any(map(_is_sampled, (first_table, second_table)))
        return cls(outcome, first_table.scale, ids, baseline, candidate, sampled)

    def compared(
        self, gate: Gate, fields: Fields, group_field: str | None, cluster: str | None
    ) -> Compared:
        """Compare all documents under both questions, and groups of them under the gate's."""
        all_documents = np.ones(len(self.ids), dtype=bool)
        clusters = values_of_field(fields, cluster, self.ids) if cluster else None
        groups: dict[str, Difference] = {}
        if group_field:
            values = values_of_field(fields, group_field, self.ids)
            for value in sorted(set(values.tolist())):
                groups[value] = self._difference(gate, gate.question, values == value, clusters)
        other_question = BENCHMARK if gate.question == POPULATION else POPULATION
        return Compared(
            self.outcome.task, self.outcome.metric, self.outcome.filter, self.scale.describe(),
            self._difference(gate, gate.question, all_documents, clusters), groups,
            question=gate.question, sampled=self.sampled,
            other_question=self._difference(gate, other_question, all_documents, clusters),
            higher_is_better=self.scale.higher_is_better,
            losses=losses_of(self.ids, self.baseline, self.candidate, self.scale),
        )  # fmt: skip

    def _difference(
        self, gate: Gate, question: str, rows: Mask, clusters: NDArray[Any] | None
    ) -> Difference:
        """Compare some of the documents under a question; clusters are a sample's alone."""
        by_cluster = clusters is not None and question == POPULATION
        return compare_scores(
            self.baseline[rows], self.candidate[rows], scale=self.scale,
            clusters=clusters[rows] if clusters is not None and by_cluster else None,
            exact=question == RUN or (question == BENCHMARK and not self.sampled),
            margin=gate.margin, confidence=gate.confidence,
        )  # fmt: skip


def _tasks(*sides: ScoreTable | StoredRanking) -> list[str | None]:
    """Return the tasks of an outcome, which are several if runs rank by a weighted mean."""
    named = (side.tasks if isinstance(side, StoredRanking) else [side.task] for side in sides)
    tasks = dict.fromkeys(task for tasks in named for task in tasks if task is not None)
    return list(tasks) or [None]


class AskedSide(NamedTuple):
    """How a side was asked the documents of a task.

    Attributes
    ----------
    marks : mapping of doc_id to (str or None)
    source : path or anything else
        Logs, which alone hold the prompts as texts.
    """

    marks: Marks
    source: Any

    @classmethod
    def of(
        cls, side: ScoreTable | StoredRanking, name: str, path: Any, task: str | None
    ) -> AskedSide:
        """Return how a model of a side, read from a path, was asked a task."""
        if isinstance(side, ScoreTable):
            return cls(side.prompts_of(name), path)
        file = side.source_of(name)
        # A run directory has the samples of its models below it.
        place = file.parent if file.name == RESULT else file
        return cls(side.prompts_of(name, str(task)), place)


def _prompts(
    baseline: AskedSide, candidate: AskedSide, task: str | None, accepted: Collection[str]
) -> list[str]:
    """Return what differs between the prompts of two sides or is not known, as warnings.

    Raises
    ------
    UsageError
        A prompt differs, and that is not accepted; the message names one document and, where logs
        hold both texts, the first place that differs.
    """
    if not (baseline.marks or candidate.marks):
        return []

    def texts(doc_ids: Sequence[Any]) -> Texts:
        first, second = (
            prompts_in(side.source, task, {doc_id: side.marks[doc_id] for doc_id in doc_ids})
            for side in (baseline, candidate)
        )
        return {
            doc_id: (text, second[doc_id]) for doc_id, text in first.items() if doc_id in second
        }

    marks = baseline.marks, candidate.marks
    difference, doubt = checked_prompts(marks, _THE_SIDES, texts, accepted)
    return [f"accepted: {difference}"] if difference else [doubt] if doubt else []


def checked_prompts(
    marks: tuple[Marks, Marks],
    names: tuple[str, str],
    texts: Callable[[Sequence[Any]], Texts],
    accepted: Collection[str],
) -> tuple[str, str]:
    """Return what `compare_prompts` says of two sides, of which `accepted` changes are accepted.

    Raises
    ------
    UsageError
        A prompt differs, and that is not accepted.
    """
    difference, doubt = compare_prompts(*marks, names, texts)
    if difference and PROMPTS not in accepted:
        raise UsageError(
            f"{difference}. Ask both models in the same way, or accept other prompts: "
            f"--accept_change {PROMPTS} (in Python settings={{'accept_change': '{PROMPTS}'}})"
        )
    return difference, doubt


def _is_sampled(table: ScoreTable) -> bool:
    """Whether a table has repeats, or its runs' settings say that answers are sampled."""
    settings = table.settings.get("generation_kwargs")
    drawn = isinstance(settings, Mapping) and sampling(settings)[0] == SAMPLED
    return drawn or table.repeated


def _differing(first_table: ScoreTable, second_table: ScoreTable) -> list[str]:
    """Return the settings in which the two sides differ, in words.

    Raises
    ------
    UsageError
        Another judge, encoder or checkpoint scored the candidate, so not only the models
        differ.
    """
    first, second = (table.settings.get("scorer") for table in (first_table, second_table))
    refused, differences = (
        [t.replace("the bank", "the baseline").replace("the run", "the candidate") for t in texts]
        for texts in compare_scorers(first, second, first_table.metric)
    )
    if refused:
        raise UsageError(
            f"the two sides were not scored alike: {'; '.join(refused)}; score both with one scorer"
        )
    for key in COMPARED:
        x, y = first_table.settings.get(key), second_table.settings.get(key)
        if (
            key != "scorer"
            and key in first_table.settings
            and key in second_table.settings
            and x != y
        ):
            differences.append(
                f"{key} differs: {x!r:.60} and {y!r:.60}; part of the difference may come from that"
            )
    return differences


def _of_estimates(
    first: ScoreTable | StoredRanking,
    second: ScoreTable | StoredRanking,
    names: tuple[str, str],
    gate: Gate,
) -> Compared:
    """Compare what runs state, or what one states with scores, on the full benchmark."""
    ranking = first if isinstance(first, StoredRanking) else second
    assert isinstance(ranking, StoredRanking)
    content, scale, outcome = ranking.content, ranking.scale, ranking.outcome
    baseline, candidate = (
        MeanScore.of(side, name, content, gate) for side, name in zip((first, second), names)
    )
    row = None
    if isinstance(first, StoredRanking) and isinstance(second, StoredRanking):
        row = first.pair(names[1], names[0]) if first.source == second.source else None
    if row is not None:
        overall = Difference.stated(
            (baseline.mean, candidate.mean), (row["low"], row["high"]), row["p"], row["decision"],
            scale, documents=min(baseline.documents, candidate.documents), margin=gate.margin,
            answers=baseline.fewer_answers(candidate),
        )  # fmt: skip
        # The ranking itself states what would decide.
        overall = replace(overall, more_documents=None, more_answers=None)
    else:
        size = float(content["items_of_benchmark"]) if _is_exact(content) else math.inf
        overall = _independent(baseline, candidate, scale, gate, size)
    return Compared(
        outcome.task, outcome.metric, outcome.filter, scale.describe(), overall, {},
        question=content["question"], sampled=content.get("sampled", False),
        higher_is_better=scale.higher_is_better, weighted=bool(ranking.terms),
    )  # fmt: skip


def _is_exact(content: RankingContent) -> bool:
    """Whether a ranking would be known exactly if every item were answered once."""
    return content["question"] == BENCHMARK and not content.get("sampled", False)


@dataclass(frozen=True)
class MeanScore:
    """A model's mean over the full benchmark with its interval, on the metric's own scale."""

    mean: float
    error: float
    low: float
    high: float
    documents: int
    answers: int | None = None  # where documents are asked repeatedly

    @classmethod
    def of(
        cls, side: ScoreTable | StoredRanking, name: str, content: RankingContent, gate: Gate
    ) -> MeanScore:
        """Return what a run states of a model, or what scores say under the question of a run.

        Parameters
        ----------
        side : ScoreTable or StoredRanking
        name : str
        content : dict
            What the run, of this side or the other, states.
        gate : Gate
        """
        if isinstance(side, StoredRanking):
            block = side.content["models"][name]
            # A reference model has full results, and was asked nothing.
            size = side.content["items_of_benchmark"]
            n = block["n_items"] or size
            answers = n if "answers_of_benchmark" in side.content else None
            low, high = sorted(block["interval"])
            mean, error = block["estimate"], block["standard_error"]
            return cls(mean, error, low, high, n if answers is None else min(n, size), answers)
        unit = side.select([name]).model_scores()[0]
        raw = side.scale.restore(unit[np.isfinite(unit)])
        n, mean = len(raw), float(raw.mean())
        unseen = max(1.0 - n / content["items_of_benchmark"], 0.0) if _is_exact(content) else 1.0
        spread = float(raw.std(ddof=1)) if n > 1 else side.scale.span
        error = spread * math.sqrt(unseen / n)
        half = error and error * float(stdtrit(max(n - 1, 1), 0.5 + 0.5 * gate.confidence))
        return cls(mean, error, mean - half, mean + half, n)

    def fewer_answers(self, second: MeanScore) -> int | None:
        """Return the answers of the side that has fewer; None where neither has several each."""
        if self.answers is second.answers is None:
            return None
        return min(side.answers or side.documents for side in (self, second))


def _independent(
    baseline: MeanScore, candidate: MeanScore, scale: Scale, gate: Gate, size: float
) -> Difference:
    """Compare two means that were estimated apart.

    The arms of the two intervals add up as the root of their squares (R. G. Newcombe, Statistics
    in Medicine 17, 1998), and hold at the looks at which these intervals hold.
    """
    gap = candidate.mean - baseline.mean
    low = gap - math.hypot(baseline.high - baseline.mean, candidate.mean - candidate.low)
    high = gap + math.hypot(baseline.mean - baseline.low, candidate.high - candidate.mean)
    error, up = math.hypot(baseline.error, candidate.error), gap if scale.higher_is_better else -gap
    better = float(ndtr(up / error)) if error else 0.5 * (1.0 + float(np.sign(up)))
    equal = max(abs(low), abs(high)) <= ROUNDING * scale.span
    decision = EQUIVALENT if equal else DECIDED if low > 0.0 or high < 0.0 else OPEN
    return Difference.stated(
        (baseline.mean, candidate.mean), (low, high), better, WORDS[decision], scale,
        documents=min(baseline.documents, candidate.documents), margin=gate.margin, n_items=size,
        answers=baseline.fewer_answers(candidate),
    )  # fmt: skip


# -- live models ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MarginKnown(StoppingRule):
    """Stop when it is known whether the second model is worse by more than `margin`, on [0, 1]."""

    margin: float

    def wants(self, standing: Standing) -> Any:
        if len(standing.items) < 2:
            return standing.nobody
        n = int(standing.items.min())
        difference = Difference.of(standing.verdicts, documents=n, margin=self.margin)
        return standing.nobody | (difference.verdict == NOT_KNOWN)

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
    baseline, candidate = names = [
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
    stored = _Stored(logs, margin, observer or Observer())
    with Run(
        spec, run_dir, observer, resume=resume, retry=resume, asked=asked,
        plan=stored.plan, models=stored.models,
    ) as run:  # fmt: skip
        ended, tally, outcome = run.ask(), run.book.tally, run.plan.outcome
        if tally.set_aside or not ended:
            why = "; ".join(f"{name}: {reason}" for name, reason in tally.set_aside.items())
            advice = "" if run_dir is None else f"; the same command goes on with {run_dir}"
            raise RunError(f"the comparison did not finish ({why or 'interrupted'}){advice}")
        verdicts, scale = run.book.ranker.verdicts, outcome.metric.scale
        on_benchmark, on_population = (
            run.book.ranker.belief(question) for question in (BENCHMARK, POPULATION)
        )
        # Nobody has looked at the answer to the other question.
        looks = verdicts.looks.anew.after(on_population, 1.0 - verdicts.confidence)
        overall, on_other_question = (
            Difference.of(
                view, documents=min(n, len(run.plan.offered)), margin=margin, scale=scale,
                answers=n if run.plan.most_repeats > 1 else None,
            )
            for view in (
                replace(verdicts, belief=on_benchmark),
                replace(verdicts, belief=on_population, looks=looks),
            )
            for n in [int(view.belief.n.diagonal().min())]
        )  # fmt: skip
        compared = Compared(
            outcome.task, outcome.metric.name, outcome.filter, scale.describe(), overall, {},
            question=spec.question, sampled=run.plan.sampled, other_question=on_other_question,
            higher_is_better=scale.higher_is_better, n_items=len(run.plan.offered),
            losses=_losses(run, names, scale),
        )  # fmt: skip
        result = run.state()
        warnings = [*run.plan.warnings, *result.warnings]
        warnings += [f"changed since the comparison began: {change}" for change in result.changes]
        return Comparison(
            baseline, candidate, margin, spec.confidence, [compared], list(dict.fromkeys(warnings)),
            sum_of(tally.paid.values()),
        )  # fmt: skip


def _losses(run: Run, names: Sequence[str], scale: Scale) -> tuple[Loss, ...]:
    """Return the documents of a live comparison on which the candidate scored lower."""
    answers: dict[str, dict[Any, list[Tell]]] = {name: {} for name in names}
    for (name, item), answer in run.book.answers.items():
        if isinstance(answer, Tell):
            answers[name].setdefault(item[1], []).append(answer)
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


@dataclass
class _Stored:
    """The sides of a live comparison that answer from their logs, by name.

    They limit the plan to the documents that all of them have.
    """

    logs: Mapping[str, Sequence[str]]
    margin: float
    observer: Observer
    at_hand: dict[str, dict[Item, EarlierAnswer]] = field(default_factory=dict)

    def plan(self, spec: Spec) -> Plan:
        """Return the plan of the comparison."""
        plan = make_plan(spec)
        if plan.alone is None:
            raise UsageError("live models are compared on one task and one metric")
        plan = replace(plan, rule=MarginKnown(self.margin / plan.scale.span))
        if not self.logs:
            return plan
        outcome, names = plan.outcome, [entry.name for entry in spec.models]
        session, warnings, accepted = plan.sessions[outcome.task], [*plan.warnings], []
        self.at_hand = answers_at_hand(self.logs, names, plan.repeats, self.observer.warn)
        for name in self.logs:
            if changed := self._leave_out_changed(name, session):
                documents = plural(changed, "document")
                warnings.append(f"{documents} of {name} left out: the same doc_id, another text")
            difference, doubt = self._prompts(name, spec, session)
            accepted += [f"accepted: {difference}"] if difference else []
            warnings += [doubt] if doubt else []
        answers = np.array([self._fewest(item, plan.most_repeats) for item in plan.items()])
        if not answers.any():
            raise UsageError("the stored runs have no document in common with the task")
        bank = replace(outcome.bank, kept=outcome.bank.kept & (answers > 0))
        [name] = plan.measured[outcome.task]
        repeats = int(answers[answers > 0].min())
        if repeats < plan.most_repeats:
            warnings.append(
                f"{' and '.join(self.logs)}: the logs have no more than "
                f"{plural(repeats, 'answer')} to some documents, so no document is asked more "
                f"often (repeats: {plan.most_repeats})"
            )
        return replace(
            plan, measured={outcome.task: {name: replace(outcome, bank=bank)}},
            spec=replace(spec, repeats=repeats) if repeats < plan.most_repeats else spec,
            warnings=tuple(warnings), accepted=(*plan.accepted, *accepted),
        )  # fmt: skip

    def _leave_out_changed(self, name: str, session: TaskSession) -> int:
        """Leave out the answers in a model's logs to documents that have another text now.

        Returns
        -------
        int
            Number of documents left out.
        """
        hashes = dict(zip(session.doc_ids, session.doc_hashes))
        answers = {item: a for item, a in self.at_hand[name].items() if item[1] in hashes}
        changed = {
            item[1]
            for item, answer in answers.items()
            if answer.doc_hash not in (None, hashes[item[1]])
        }
        self.at_hand[name] = {i: answer for i, answer in answers.items() if i[1] not in changed}
        return len(changed)

    def _fewest(self, item: Item, repeats: int) -> int:
        """Return how many answers to an item the logs of all sides have, at most `repeats`."""
        answers = (item, *((*item, repeat) for repeat in range(2, repeats + 1)))
        return min(
            sum(1 for _ in takewhile(self.at_hand[name].__contains__, answers))
            for name in self.logs
        )

    def _prompts(self, name: str, spec: Spec, session: TaskSession) -> tuple[str, str]:
        """Return how the prompts in a model's logs differ from the task's, and what is not known.

        Raises
        ------
        UsageError
            They differ, and that is not accepted.
        """
        chat = spec.template_for(spec.model(name))
        # A text that a template wrote is another prompt than the plain one.
        logged = {
            item[1]: answer.mark if chat else answer.prompt_hash[:DIGITS]
            for item, answer in self.at_hand[name].items()
        }

        def texts(doc_ids: Sequence[Any]) -> Texts:
            [source] = self.logs[name]
            marks = {doc_id: logged[doc_id] for doc_id in doc_ids}
            first = prompts_in(source, session.name, marks)
            return {d: (text, canonical(session.prompts(d)[0])) for d, text in first.items()}

        names = f"the logs of {name}", f"task {session.name} now"
        return checked_prompts((logged, session.marks), names, texts, spec.accept_change)

    def models(self, run: Run) -> list[HarnessModel]:
        """Return the models that are asked, and those that answer from their logs."""
        models = harness_models(run)
        for name in self.logs:
            entry = run.spec.model(name)
            model = StoredModel(entry, run.spec, run.plan.measured, run.warn_once)
            model.at_hand = self.at_hand[name]
            models.append(model)
        return models
