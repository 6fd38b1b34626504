"""Read a run from its directory: ranking, answers, configuration and course."""

from __future__ import annotations

import json
import math
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from ..bank import ItemBank, SuiteBank
from ..content import RESULT, Pair, PairContent, RankingContent, pair_of, pairs_by_models
from ..errors import CcatError
from ..journal import JOURNAL, JournalFile, read_journal
from ..live.result import is_of_journal, state
from ..methods.method import method_of
from ..metrics.scale import Floats, Scale
from ..plugins import existing
from ..records import Answered, Header, Item, Record, Tell
from ..runs.book import Book
from ..runs.directory import RunDirectory, load_banks, make_ranker, read_result
from ..scores.prompts import requests_of

#: Largest number of checkpoints of a run, and of estimates over all checkpoints and models.
CHECKPOINTS = 60
_MAX_ESTIMATES = 10_000


@dataclass(frozen=True)
class StoredAnswer:
    """An answer of one model to one document.

    Attributes
    ----------
    model : str
    doc : doc_id, or (task, doc_id) of a run of several tasks
    score : float
        On [0, 1].
    raw : float or None
        On the metric's own scale.
    output : str
        The model's text.
    """

    model: str
    doc: Any
    score: float
    raw: float | None
    output: str


class StoredAnswers(Collection[StoredAnswer]):
    """The answers of a result, in the order of the journal, which every iteration reads anew.

    Answers that came after the deciding one are in the journal but not among them.
    """

    def __init__(self, journal: JournalFile, header: Header, result: RankingContent) -> None:
        self._path, tasks = journal.path, header.report.get("outcomes") or {}
        self._several = len(tasks) > 1
        self._leading_outcome = _leading_outcome(header, next(iter(tasks))) if tasks else ""
        self._journal = journal
        self._items = {model: row["items"] for model, row in result["models"].items()}

    def __len__(self) -> int:
        return sum(map(len, self._items.values()))

    def __contains__(self, answer: object) -> bool:
        return any(answer == stored for stored in self)

    def __iter__(self) -> Iterator[StoredAnswer]:
        # Each item has a number, and each model a byte for every number, which says whether the
        # result has its answer: sets of items would take 50 times the memory. Items that later
        # models bring have numbers beyond a model's bytes.
        number_of, answered = dict[Item, int](), dict[str, bytearray]()
        for model, items in self._items.items():
            numbers = [
                number_of.setdefault(item, len(number_of))
                for item in map(self._journal.item, items)
            ]
            answered[model] = bytearray(len(number_of))
            for number in numbers:
                answered[model][number] = True
        for record in JournalFile(self._path).read_new():
            if not isinstance(record, Tell):
                continue
            number, of_model = number_of.get(record.item, -1), answered.get(record.model, b"")
            # What came after the deciding answer is in the journal, and not in the result.
            if 0 <= number < len(of_model) and of_model[number]:
                doc = record.item.document if self._several else record.item.doc_id
                scores = _scores(record, self._leading_outcome)
                yield StoredAnswer(
                    record.model, doc, score=scores.score, raw=scores.raw, output=record.text
                )


class AnswerColumns:
    """The figures of answers, without their texts, of which a long run has more than memory.

    Parameters
    ----------
    answers : iterable of StoredAnswer
    models : sequence of str

    Attributes
    ----------
    docs : list
        The documents that were asked, in the order of the first answer.
    doc, model : ndarray of int
        Position of each answer's document in `docs`, and of its model in `models`.
    score : ndarray
        On [0, 1].
    length : ndarray of int
        Characters of the output.
    """

    def __init__(self, answers: Iterable[StoredAnswer], models: Sequence[str]) -> None:
        model_position = {model: j for j, model in enumerate(models)}
        doc_position: dict[Any, int] = {}
        columns = np.fromiter(
            (
                (
                    doc_position.setdefault(answer.doc, len(doc_position)),
                    model_position[answer.model],
                    answer.score,
                    len(answer.output),
                )
                for answer in answers
            ),
            dtype=[("doc", "i4"), ("model", "i4"), ("score", "f8"), ("length", "i4")],
        )
        self.docs = list(doc_position)
        self.doc, self.model = columns["doc"], columns["model"]
        self.score, self.length = columns["score"], columns["length"]

    def spread(self) -> Floats:
        """Return the largest less the smallest score of each document."""
        highest, lowest = np.zeros(len(self.docs)), np.ones(len(self.docs))
        np.maximum.at(highest, self.doc, self.score)
        np.minimum.at(lowest, self.doc, self.score)
        return highest - lowest


class FailedItem(NamedTuple):
    """An item that a model failed on, and why.

    `doc` is a doc_id, or (task, doc_id) in a run of several tasks.
    """

    model: str
    doc: Any
    reason: str


class DocumentTexts(NamedTuple):
    """What the harness's samples files say of a document."""

    prompt: str
    target: str


@dataclass(frozen=True)
class StoredRun:
    """A finished or running ranking, read from its directory.

    Attributes
    ----------
    path : Path
    header : Header
        The journal's first record: configuration, task, versions.
    result : dict
        Content of ``result.json``; for an unfinished run, the same rebuilt from the journal.
    answers : StoredAnswers
        Answers in the order in which they were recorded.
    banks : ItemBank, mapping of task to (mapping of outcome to ItemBank), or None
        All banks, as a Ranker takes them. None if the directory's copy is missing or changed; the
        page then omits what needs it.
    finished : bool
        Whether ``result.json`` exists and nothing was asked after it.
    started, ended : float or None
        Times of the first and last dated record, in seconds of the epoch.
    torn : bool
        Whether the journal ends in a line torn by a crash.
    n_lines : int
        Lines of the journal when it was read.
    """

    path: Path
    header: Header
    result: RankingContent
    answers: Collection[StoredAnswer]
    finished: bool
    started: float | None = None
    ended: float | None = None
    torn: bool = False
    n_lines: int = 0
    banks: ItemBank | Mapping[str, Mapping[str, ItemBank]] | None = None

    @cached_property
    def bank_of(self) -> dict[str, ItemBank]:
        """The bank of each task's outcome with the largest weight.

        A single task's key is "", whatever its name.
        """
        if isinstance(self.banks, ItemBank):
            return {"": self.banks}
        leading = {
            task: outcomes[_leading_outcome(self.header, task)]
            for task, outcomes in (self.banks or {}).items()
        }
        return leading if len(leading) > 1 else dict(zip([""], leading.values()))

    @property
    def bank(self) -> ItemBank | None:
        """The bank of a single task; None for several, or without the directory's copy."""
        return self.bank_of.get("")

    @cached_property
    def positions(self) -> dict[Any, int]:
        """Position of each document in bank order, task after task."""
        if self.bank is not None:
            return self.bank.index
        items = [(task, doc_id) for task, bank in self.bank_of.items() for doc_id in bank.doc_ids]
        return {item: n for n, item in enumerate(items)}

    @cached_property
    def models(self) -> list[str]:
        """Models in the order of the ranking; those set aside come last."""
        return list(dict.fromkeys([*self.result["order"], *self.result["models"]]))

    @cached_property
    def tested(self) -> list[str]:
        """The models that were asked, without those known by full results alone."""
        return [model for model in self.models if not self.result["models"][model].get("known")]

    @cached_property
    def columns(self) -> AnswerColumns:
        """The figures of all answers, with positions of models in `models`."""
        return AnswerColumns(self.answers, self.models)

    @property
    def config(self) -> dict[str, Any]:
        """The configuration as the run understood it, credentials masked."""
        return dict(self.header.config)

    @property
    def facts(self) -> dict[str, Any]:
        """Metric, key, estimand and currency, as the run recorded them."""
        return dict(self.header.report)

    @cached_property
    def scale(self) -> Scale:
        """The metric's own scale, as the task reports it."""
        return Scale.from_dict(self.facts["scale"])

    @property
    def currency(self) -> str:
        """What costs are counted in: ``"usd"``, ``"tokens"`` or ``"items"``."""
        return str(self.facts["currency"])

    @cached_property
    def pairs(self) -> dict[Pair, PairContent]:
        """The pairs that the result lists.

        Of a leaderboard's run it lists few of those with known models.
        """
        return pairs_by_models(self.result)

    def pair(self, a: str, b: str) -> PairContent | None:
        """Return the row of two models, `a` less `b`; None if the result does not list it."""
        return pair_of(self.pairs, a, b)

    @cached_property
    def failed(self) -> list[FailedItem]:
        """Every item that a model failed on."""
        several = len(self.facts.get("outcomes") or ()) > 1

        def document(doc_id: Any) -> Any:
            """Return the document of a failed item, which may be a repeat of it."""
            if several:
                return tuple(doc_id[:2])
            return doc_id[1] if isinstance(doc_id, list) else doc_id

        return [
            FailedItem(model, document(failure["doc_id"]), failure["reason"])
            for model, row in self.result["models"].items()
            for failure in row.get("failed") or ()
        ]

    @property
    def has_curves(self) -> bool:
        """Whether every model has an ability, on the curves of the bank's items."""
        abilities = [self.result["models"][model].get("ability") for model in self.tested]
        return None not in abilities and self.bank is not None and method_of(self.bank).has_curves

    @cached_property
    def sources(self) -> dict[Any, DocumentTexts]:
        """Prompt and target of each document that the harness's samples files hold."""
        tasks, sources = self.facts.get("outcomes") or {}, {}
        for file in sorted(self.path.glob("*/**/samples_*.jsonl")):
            # The longest name that fits: one task's may begin with another's.
            named = (task for task in tasks if file.name.startswith(f"samples_{task}_"))
            task = max(named, key=len, default="")
            with file.open("rb") as stream:
                for line in stream:
                    try:
                        row = json.loads(line)
                        doc = (task, row["doc_id"]) if len(tasks) > 1 else row["doc_id"]
                        if doc not in sources:
                            target = str(row.get("target", ""))
                            requests = requests_of(row.get("arguments")) or [("", None)]
                            first_prompt, _ = requests[0]
                            sources[doc] = DocumentTexts(str(first_prompt), target)
                    except (ValueError, KeyError, TypeError, AttributeError):
                        continue  # a torn or foreign line costs its prompt, not the page
        return sources


def read_run(path: str | Path) -> StoredRun:
    """Read a run directory.

    Parameters
    ----------
    path : path
        Directory that `rank` wrote; the run may be unfinished.

    Returns
    -------
    StoredRun

    Raises
    ------
    UsageError
        If there is no such directory.
    RunError
        If it holds no run, or its files are damaged.
    BankError
        If the directory's bank is damaged, and the run is not finished.
    """
    folder = RunDirectory(existing(path, "run directory"))
    journal, records = read_journal(folder.journal.path)
    header = journal.header
    file = folder.path / RESULT
    stored = read_result(file) if file.is_file() else None
    times = array("d")

    def noting_times() -> Iterator[Record]:
        """Yield the records of the journal, and keep the time of each that has one."""
        for record in records:
            if record.time is not None:
                times.append(record.time)
            yield record

    # Only the journal shows whether a run went on after its result, so that it is not finished.
    finished = is_of_journal(stored, journal, noting_times())
    if stored is not None and finished:
        result = stored
    # A journal that has grown meanwhile is read as far as before: all figures are of one moment.
    else:
        result = state(folder.path, journal.count).content
    for row in result["models"].values():
        row["draws"] = []  # the page shows none, and those of a long run fill the memory
    return StoredRun(
        path=folder.path,
        header=header,
        result=result,
        answers=StoredAnswers(journal, header, result),
        banks=_banks(folder.path, header),
        finished=finished,
        started=min(times, default=None),
        ended=max(times, default=None),
        torn=journal.torn is not None,
        n_lines=journal.count,
    )


def _leading_outcome(header: Header, task: str) -> str:
    """Return the name of the task's outcome that has the largest weight."""
    outcomes = header.report["outcomes"][task]
    return str(max(outcomes, key=lambda name: outcomes[name]["weight"]))


class _AnswerScores(NamedTuple):
    """An answer's score on [0, 1], and the one on the metric's own scale, if it is known."""

    score: float
    raw: float | None


def _scores(answer: Tell, leading_outcome: str) -> _AnswerScores:
    """Return an answer's scores by the outcome with the largest weight."""
    score, raw = answer.score, answer.raw
    # An answer of several outcomes has a score by each.
    if isinstance(score, Mapping):
        name = leading_outcome if leading_outcome in score else next(iter(score))
        score, raw = score[name], (raw or {}).get(name)
    return _AnswerScores(float(score), None if raw is None else float(raw))


def _banks(folder: Path, header: Header) -> ItemBank | Mapping[str, Mapping[str, ItemBank]] | None:
    """Return the run's copy of its banks; None if it is missing or was changed."""
    try:
        banks = load_banks(folder)
    except CcatError:
        return None
    suite = SuiteBank({"": banks} if isinstance(banks, ItemBank) else banks)
    # Figures of another bank would contradict those of the run.
    hashes = "+".join(entry.bank.sha256 for entry in suite.banks())
    return banks if hashes == header.bank_sha256 else None


# -- the course of a run ---------------------------------------------------------------------------


@dataclass
class Course:
    """The ranking at T moments of a run, the last of which is its end.

    Attributes
    ----------
    items : list of int, length T
        Answers of all models together until then.
    estimates, low, high : dict of str to list of float
        Each model's estimate and the ends of its interval, on the metric's own scale; NaN before
        its first item.
    ranks : dict of str to list of int
        Place of each model, 1 the best; 0 where it has no score, or was set aside.
    undecided : list of int
        Neighbours in the order that are not decided.
    half_width : list of float
        Median half width of the intervals of the models in the order that have a score, on the
        metric's own scale; NaN where no model has.
    expected : dict of str to ndarray of shape (n_items,)
        Each model's expected score on every item at the end, on [0, 1], in bank order.
    ties : list of list of str
        Runs of models at the end of which no neighbours are decided.
    """

    items: list[int] = field(default_factory=list)
    estimates: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    low: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    high: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    ranks: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    undecided: list[int] = field(default_factory=list)
    half_width: list[float] = field(default_factory=list)
    expected: dict[str, Floats] = field(default_factory=dict)
    ties: list[list[str]] = field(default_factory=list)


class _RecordingBook(Book):
    """Replays a journal and records the ranking after each of these numbers of scored answers."""

    def __init__(self, run: StoredRun, moments: set[int]) -> None:
        assert run.banks is not None
        super().__init__(make_ranker(run.banks, run.header), JournalFile(run.path / JOURNAL))
        self._run, self._moments, self.n_replayed, self.course = run, moments, 0, Course()
        # Models that have a score; those with full results have theirs from the beginning.
        self._scored = set(run.models) - set(run.tested)

    def _tell(self, answer: Answered) -> None:
        """Record the ranking before the answer that follows one of the moments is told."""
        if isinstance(answer, Tell):
            if self.n_replayed in self._moments:
                self.checkpoint()
            self.n_replayed += 1
            self._scored.add(answer.model)
        super()._tell(answer)

    def checkpoint(self) -> None:
        """Record the ranking as it is now."""
        ranking, course = self.ranker.result(parts=False), self.course
        restore = self._run.scale.restore
        course.items.append(self.n_replayed)
        # A tie is a run of undecided neighbours: n models have n - 1 such pairs.
        course.undecided.append(sum(len(tie) - 1 for tie in ranking.ties))
        course.ties = list(map(list, ranking.ties))
        position = {model: n for n, model in enumerate(ranking.order, start=1)}
        half_widths = []
        for model in self._run.models:
            value = low = high = math.nan
            # A model without a score may not have joined the run yet.
            if scored := model in self._scored:
                low, high = sorted(float(restore(end)) for end in ranking.interval(model))
                value = float(restore(ranking.estimates[model]))
            if scored and model in position:
                half_widths.append((high - low) / 2.0)
            course.estimates[model].append(value)
            course.low[model].append(low)
            course.high[model].append(high)
            course.ranks[model].append(position.get(model, 0) if scored else 0)
        # There is none while no model in the order has a score.
        course.half_width.append(median(half_widths) if half_widths else math.nan)


def _replay(run: StoredRun) -> Course:
    """Return the ranking at evenly spaced moments, by a replay of a run that has its banks."""
    total = len(run.answers)
    n_moments = min(CHECKPOINTS, max(12, _MAX_ESTIMATES // len(run.models)))
    moments = np.linspace(min(total, len(run.tested)), total, n_moments).round().astype(int)
    book = _RecordingBook(run, set(moments.tolist()))
    # A running journal grows on; the page is of the moment at which it was read.
    book.replay(islice(book.journal.read_new(), run.n_lines))
    book.settle()
    # The last checkpoint is at the end of the journal: what came after the last answer counts too.
    book.checkpoint()
    book.course.expected = {model: book.ranker.expected(model) for model in run.tested}
    return book.course


def replayed_course(run: StoredRun) -> Course | None:
    """Return the course of a run, that is its ranking at moments from the first to the last answer.

    There is none if its end contradicts what the run reported.

    Returns
    -------
    Course or None
        None without answers or the bank, and if the replay does not end with the run's own figures,
        as another version's method may give others for the same answers.
    """
    if run.banks is None or not run.answers:
        return None
    replayed = _replay(run)
    models = run.result["models"]
    close = all(
        math.isnan(estimates[-1])
        or math.isclose(estimates[-1], models[model]["estimate"], rel_tol=1e-6)
        for model, estimates in replayed.estimates.items()
    )
    return replayed if close and replayed.ties == run.result["ties"] else None
