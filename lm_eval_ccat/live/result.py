"""`Result`: what a run found, as rows and as JSON, and warnings that cast doubt on it.

Scores alone do not show that a server swapped the model, or cut short or withheld half of the
answers. Warnings say so wherever a result is shown.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .. import __version__
from ..bank.settings import TOKEN_LIMITS, differing_generation
from ..content import (
    RESULT,
    AskContent,
    CellContent,
    ColumnContent,
    ModelContent,
    RankingContent,
    TermContent,
    pairs_by_models,
)
from ..errors import RunError
from ..harness.scorers import scorer_of_run, signed
from ..journal import Journal, read_journal
from ..metrics.scale import Scale
from ..money import ASSUMED, BILLED, spent_in_words, sum_of
from ..ranker import Ranking
from ..ranker.columns import ranking_grid
from ..ranker.headline import headline, share_saved
from ..ranker.rows import ModelRow, PairRow
from ..records import (
    Accept,
    Header,
    Interrupt,
    Record,
    Session,
    Warn,
    Windows,
)
from ..runs.book import Book
from ..runs.differences import CUT_SHORT, SERVER
from ..runs.directory import RunDirectory, read_result, rebuild
from ..runs.tally import CUT_REASONS, ScoreRange, Tally
from ..shown import Shown, ShownTable, some
from .copies import doubts_of_repeats
from .line import ALL_ASIDE

if TYPE_CHECKING:
    from .plan import Plan


#: Tolerance within which figures count as equal.
CLOSE = 1e-9
#: Exit codes: goal met, ties remain, partial (interrupted, a model set aside, or empty answers).
MET, TIES, PARTIAL = 0, 3, 4
#: Share of empty answers from which on the result warns of them.
MANY_EMPTY = 0.1
#: Fewest answers of a model before equal scores of all of them cast doubt on its task.
FEWEST_ALIKE = 10
#: Version of the JSON; the first results stated none.
SCHEMA = 1
#: Fewest items of a model in a column of a board for which the column shows its score.
FEWEST_ITEMS = 5
#: Settings in which the requests of a run are compared with those of a calibration, in words.
_SETTINGS_IN_WORDS = {"temperature": "temperature", TOKEN_LIMITS[0]: "token limit"}


@dataclass(frozen=True, repr=False)
class Result(Shown):
    """The result of a run: its ranking, its cost, and warnings.

    Attributes
    ----------
    ranking : Ranking
        Scores on [0, 1], higher is better; its ``scale`` is the metric's own.
    header : Header
        What the run measures (see `header_of_plan`).
    tally : Tally
        What each model was asked and cost, and what its server reported.
    scorer : dict or None
        Code or model that computed the metric.
    run_dir : Path or None
    seconds : float
        How long the run took so far.
    interrupted : str
        Why the last session ended early; "" if it did not.
    finished : bool or None
        Whether the run is over, if it was read from its directory.
    in_flight : list of dict
        Asks without an answer in such a run, as ``model`` and ``doc_id``.
    changes, warnings : list of str
        Changes during the run, and warnings to the reader.
    early_warnings : sequence of str
        Those of the warnings that were given before anything was asked.
    exit_code : int
        Exit code of the command ``rank``: 0 goal met, 3 ties remain, 4 partial.
    signature : str
        Line that names how the ranking came about (see `_signature`).
    last_line : int
        Number of journal lines that the result is based on.
    journal_sha256 : str
        SHA-256 of these lines.
    further : dict of str to dict
        Other scores of the same answers, as JSON, once the run has ended.
    held_up : str
        Says how many answers do not count yet, and why; "" if all count (see `Book.held_up`).

    Examples
    --------
    >>> from lm_eval_ccat import rank
    >>> models = [{"name": name, "model": "dummy"} for name in ("a", "b")]
    >>> result = rank(task="my_task.yaml", models=models, stop="limits", max_items=20)
    >>> result.content["items_administered"], result.exit_code in (0, 3)
    (40, True)
    >>> list(result.to_dataframe().columns[:4])
    ['rank', 'model', 'estimate', 'standard_error']
    """

    ranking: Ranking
    header: Header = field(default_factory=Header)
    tally: Tally = field(default_factory=Tally)
    scorer: Mapping[str, Any] | None = None
    run_dir: Path | None = None
    seconds: float = 0.0
    interrupted: str = ""
    finished: bool | None = None
    in_flight: list[AskContent] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    early_warnings: Sequence[str] = ()
    exit_code: int = MET
    signature: str = ""
    last_line: int = 0
    journal_sha256: str = ""
    further: Mapping[str, RankingContent] = field(default_factory=dict)
    held_up: str = ""

    @property
    def models(self) -> tuple[ModelRow, ...]:
        """One row per model."""
        return self.ranking.models

    @property
    def pairs(self) -> tuple[PairRow, ...]:
        """One row per pair of models."""
        return self.ranking.pairs

    @property
    def late_warnings(self) -> list[str]:
        """Warnings that were not given before anything was asked."""
        return [text for text in self.warnings if text not in self.early_warnings]

    @cached_property
    def money(self) -> dict[str, float] | None:
        """Dollars over all models: billed, assumed and unknown; None if no price is known."""
        paid = (self.tally.money(row.name) for row in self.models)
        return sum_of(columns for columns in paid if columns is not None)

    def __str__(self) -> str:
        return str(self.content["headline"])

    def _grid(self) -> ShownTable:
        grid = ranking_grid(self.content, str(self))
        return replace(grid, notes=(*grid.notes, *spent_in_words(self.content)))

    @cached_property
    def content(self) -> RankingContent:
        """JSON values of ``result.json``.

        Estimates and their errors are on the metric's own scale; those of `ranking` are on [0, 1].
        """
        ranking, report = self._ranking_content(), self.header.report
        content: RankingContent = {
            "schema": SCHEMA,
            "headline": "",  # keeps its place in the file until all it is made of is known
            "metric": report.get("metric", ""),
            "key": report.get("key", ""),
            "estimand": report.get("estimand", ""),
            **ranking,
            "cost_unit": report.get("currency", "items"),
            "asked": sum(self.tally.asked.values()),
            "usd": _paid(self.money),
            "money": self.money,
            "seconds": self.seconds,
            "interrupted": bool(self.interrupted),
            "changes": self.changes,
            "warnings": self.warnings,
            "exit_code": self.exit_code,
            "bank_sha256": self.header.bank_sha256,
            "run_dir": None if self.run_dir is None else str(self.run_dir),
            "scorer": None if self.scorer is None else dict(self.scorer),
            "signature": self.signature,
            "last_line": self.last_line,
            "journal_sha256": self.journal_sha256,
        }
        # Only where items are asked more than once; otherwise `share_saved` returns None.
        if (share := share_saved(content)) is not None:
            content["share_saved"] = share
        content["headline"] = self._headline(content)
        if self.further:
            content["further"] = dict(self.further)
        # Only a ranking over several tasks has a board: the average, groups, and each task.
        if self.ranking.tasks:
            content["board"] = board_of(self.ranking)
        # A result that was read from a run directory may be of a run that still goes on.
        if self.finished is not None:
            content["finished"] = self.finished
            content["in_flight"] = self.in_flight
        return content

    def _ranking_content(self) -> RankingContent:
        """Return what the ranker states, with what answers cost and the terms of the score."""
        ranking = self.ranking.to_dict()
        # The ranker states why it stopped. It knows of no interrupt, and has other words, or none,
        # where every model was set aside.
        if self.interrupted:
            ranking["stopped_because"] = self.interrupted
        elif not ranking["order"]:
            ranking["stopped_because"] = ALL_ASIDE
        for name, block in ranking["models"].items():
            block |= _cost_block(self.tally, name)
        # Only a ranking of one task by several outcomes has them: the header's task is that one.
        if "outcomes" in ranking:
            facts_by_outcome = self.header.report["outcomes"][self.header.task["name"]]
            ranking["outcomes"] = {
                name: outcome_block(block, facts_by_outcome[name])
                for name, block in ranking["outcomes"].items()
            }
        # Only a header that names a task says which terms the score has.
        if self.header.task:
            state_terms(ranking, self.header)
        return ranking

    def _headline(self, content: RankingContent) -> str:
        # Without an answer that counts, the usual headline would tell of the prior belief alone.
        is_counted = any(block["n_items"] for block in content["models"].values())
        if self.held_up and not is_counted:
            return f"nothing is ranked yet: {self.held_up}"
        return headline(content)


def _paid(money: Mapping[str, float] | None) -> float | None:
    """Return the dollars billed or assumed, without unknown ones; None if no price is known."""
    return None if money is None else money[BILLED] + money[ASSUMED]


def _cost_block(tally: Tally, name: str) -> ModelContent:
    """Return what asking one model took, as JSON values; keys without a value are left out."""
    money, sources = tally.money(name), sorted(tally.token_sources.get(name, ()))
    counted = tally.tokens.get(name)
    tokens = counted and {
        "input": counted.input,
        "output": counted.output,
        **({"cached": counted.cached} if counted.cached else {}),
        **({"outside": n} if (n := tally.outside.get(name)) else {}),
        **({} if counted.usd is None else {"usd": counted.usd}),
        "counted_by": sources,
        "estimated": "estimate" in sources and counted.usd is None,
    }
    values = {
        "asked": tally.asked.get(name, 0),
        "seconds": tally.seconds.get(name, 0.0),
        "money": money,
        "usd": _paid(money),
        "attempts_lost": dict(tally.attempts.get(name, {})) or None,
        "tokens": tokens,
        "served": [
            {"model": model or None, "fingerprint": fingerprint or None, "answers": n}
            for (model, fingerprint), n in tally.served.get(name, {}).items()
        ]
        or None,
        "finish": dict(sorted(tally.finished.get(name, {}).items())) or None,
        "from_prior": tally.prior.get(name),
        "empty_outputs": tally.empty_outputs.get(name, 0),
    }
    return cast(ModelContent, {key: value for key, value in values.items() if value is not None})


def result_of(
    ranking: Ranking,
    header: Header,
    scorer: Mapping[str, Any] | None,
    book: Book,
    run_dir: Path | None,
    *,
    seconds: float | None = None,
    fail_on_empty: float | None = None,
) -> Result:
    """Return the current result of a run, whether it has ended or not.

    Parameters
    ----------
    ranking : Ranking
        The current one of the book's ranker.
    header : Header
        As `header_of_plan` returns it.
    scorer : mapping or None
        By what code and models answers are scored, for the signature.
    book : Book
    run_dir : Path or None
    seconds : float, optional
        How long the run took; default: the time until now.
    fail_on_empty : float, optional
        Largest share of a model's answers that may be empty: above it the run counts as partial.
    """
    ranking, tally = with_scales_of_header(ranking, header.report), book.tally
    most_empty = math.inf if fail_on_empty is None else fail_on_empty
    # A model that the user has taken out of the configuration leaves no gap.
    failed_models = set(ranking.set_aside) - tally.leaving_models
    mostly_empty = any(share > most_empty for share in _shares_empty(tally).values())
    partial = book.interrupted or failed_models or mostly_empty
    accepted_changes = header.report.get("accepted", {}).values()
    stated_before = [*header.report.get("warnings", ()), *chain(*accepted_changes)]
    early_warnings = [*stated_before, *tally.warnings]
    return Result(
        ranking,
        header,
        tally,
        scorer,
        run_dir,
        seconds=book.elapsed() if seconds is None else seconds,
        interrupted=book.interrupted,
        changes=[text for change in tally.changes for text in change.settings],
        warnings=list(dict.fromkeys(_warnings(book, early_warnings, most_empty))),
        early_warnings=early_warnings,
        exit_code=PARTIAL if partial else MET if ranking.goal_met else TIES,
        signature=_signature(ranking, header, scorer, book),
        last_line=book.journal.count,
        journal_sha256=book.journal.digest,
        held_up=book.held_up(),
    )


def _shares_empty(tally: Tally) -> dict[str, float]:
    """Return the share of each model's answers that are empty, if any is."""
    return {name: n / max(tally.answered[name], 1) for name, n in tally.empty_outputs.items()}


def _warnings(book: Book, early_warnings: Iterable[str], most_empty: float) -> Iterator[str]:
    """Yield all that may be doubted of a result; some of it may come twice."""
    tally = book.tally
    # Else a reader takes the answers that were paid, and do not count yet, for lost.
    if book.interrupted and (held_up := book.held_up()):
        yield held_up
    yield from _doubts_of_empty_answers(tally, most_empty)
    yield from doubts(tally, book.ranker.bank.settings.get("generation_kwargs"), book.accepted)
    yield from doubts_of_repeats(book, tally.answered)
    yield from early_warnings
    if tally.by_clock:
        yield f"{tally.by_clock}, so another run with the same seed may ask other items"


def _signature(
    ranking: Ranking, header: Header, scorer: Mapping[str, Any] | None, book: Book
) -> str:
    """Return a line that names how a ranking came about: two runs of one signature are alike."""
    signature = signed(
        ranking.signature,
        header.task["name"],
        scorer,
        header.versions["lm_eval"],
        header.report.get("asking", ()),
    )
    # Such a run cannot be repeated, because what it asked depended on how fast servers answered.
    # Its signature names the journal, where a reader can see what was asked.
    if book.tally.ever_set_aside or book.tally.by_clock:
        signature += f"|journal:{book.journal.digest[:12]}"
    return signature


def state(folder: str | Path, lines: int | None = None) -> Result:
    """Return a ranking's state from its run directory, without loading or asking anything.

    Parameters
    ----------
    folder : path
    lines : int, optional
        Number of journal lines after which to take the state; default: all.

    Raises
    ------
    RunError
        The folder holds no ranking, or its journal is damaged.
    """
    return state_of(rebuild(folder, lines), Path(folder))


def state_of(book: Book, folder: Path, recorded: RankingContent | None = None) -> Result:
    """Return the state of a ranking whose book was rebuilt from its run directory.

    `recorded` is the content of its ``result.json``, if that is read already.
    """
    header, elapsed = book.journal.header, book.tally.elapsed
    ranking, scorer = book.ranker.result(), scorer_of_run(header)
    result = result_of(ranking, header, scorer, book, folder, seconds=elapsed)
    return replace(
        result,
        finished=book.done,
        in_flight=[
            {"model": ask.model, "doc_id": book.journal.item_to_json(ask.item)}
            for ask in (*book.unanswered, *book.unheard)
        ],
        # Until a run is over, pairs that are decided may be reopened: no goal counts as met.
        exit_code=result.exit_code if book.done else result.exit_code or TIES,
        further=_further(folder, result.journal_sha256, recorded),
    )


def latest_content(folder: str | Path) -> RankingContent:
    """Return the content of a run's result, made anew from its journal.

    What another version recorded of this journal is kept, as this one may judge otherwise.

    Raises
    ------
    RunError
        The folder holds no ranking, or its journal is damaged.
    BankError
        The directory's copy of the bank is missing or damaged.
    """
    file = Path(folder) / RESULT
    journal, records = read_journal(RunDirectory(folder).journal.path)
    # A verdict that another version gave must not change by reading it.
    if file.is_file() and journal.header.versions["lm_eval_ccat"] != __version__:
        stored = read_result(file)
        if is_of_journal(stored, journal, records):
            return stored
    return state(folder).content


def leaves_ranking(record: Record) -> bool:
    """Return whether a record leaves a ranking as it is: a result from before it still holds."""
    return record.beyond or isinstance(record, Session | Windows | Accept | Warn | Interrupt)


def is_of_journal(
    result: RankingContent | None, journal: Journal, records: Iterable[Record]
) -> bool:
    """Return whether a result was made from this journal, and nothing has changed it since.

    Parameters
    ----------
    result : dict or None
        None is of no journal.
    journal : Journal
        Of which nothing is read beyond `records`.
    records : iterable of Record
        All of them, as the journal yields them; they are read to the end.
    """
    stated = result or {"last_line": 0, "journal_sha256": ""}
    last_of_ranking, digest = 0, ""
    for number, record in enumerate(records, 1):
        # `complete` and people add records to a journal, and the result stays that of the ranking.
        if not leaves_ranking(record):
            last_of_ranking = number
        if number == stated["last_line"]:
            digest = journal.digest
    return last_of_ranking <= stated["last_line"] and digest == stated.get("journal_sha256")


def _further(
    folder: Path, digest: str, recorded: RankingContent | None
) -> Mapping[str, RankingContent]:
    """Return the further scores of ``result.json``, if up to date; the journal lacks them."""
    with suppress(RunError):
        stored = recorded or read_result(folder / RESULT)
        return stored.get("further", {}) if stored.get("journal_sha256") == digest else {}
    return {}


def with_scales_of_header(ranking: Ranking, report: Mapping[str, Any]) -> Ranking:
    """Return a ranking with the scales that the header states; the ranker knows only the banks'.

    They are those of the ranking itself, of outcomes, and of tasks of one outcome. Groups, and
    tasks of several outcomes, keep the ranker's. A ranking of one task has the task's outcomes in
    place of `tasks`.
    """
    ranking = replace(ranking, scale=Scale.from_dict(report["scale"]))
    tasks: dict[str, Ranking] = {}
    for task, part in ranking.tasks.items():
        facts_by_outcome = report["outcomes"][task].items()
        scales = {name: Scale.from_dict(facts["scale"]) for name, facts in facts_by_outcome}
        outcomes = {
            name: replace(outcome, scale=scales[name]) for name, outcome in part.outcomes.items()
        }
        # The ranker gives a task of one outcome no `outcomes`. The only scale that the header
        # states for such a task is that of its outcome.
        scale = part.scale if outcomes else next(iter(scales.values()))
        tasks[task] = replace(part, outcomes=outcomes, scale=scale)
    # The only task would say again what the ranking says, so just its outcomes are taken over. A
    # ranking by one outcome alone has no `tasks` to begin with.
    if len(tasks) == 1:
        [part] = tasks.values()
        # Weights sum to 1. Beside a weight of 1 the other outcomes are only reported, and the
        # ranking by this one is the whole ranking, whose verdicts it takes over.
        outcomes = {
            name: replace(outcome, verdicts=ranking.verdicts, beyond=ranking.beyond)
            if part.weights[name] == 1.0
            else outcome
            for name, outcome in part.outcomes.items()
        }
        return replace(ranking, tasks={}, outcomes=outcomes, weights=part.weights)
    return replace(ranking, tasks=tasks)


def outcome_block(block: RankingContent, facts: Mapping[str, Any]) -> RankingContent:
    """Return what ``result.json`` states of the ranking by one outcome.

    It stands there under ``outcomes``, or under ``further`` if the outcome has no weight in the
    ranking of the run.

    Parameters
    ----------
    block : dict
        The ranking by this outcome alone, as `Ranking.to_dict` returns it.
    facts : mapping
        As `facts_of_outcome` returns them, or as the journal's header states them; used are
        ``metric``, ``filter``, ``key`` and ``weight``.
    """
    # Items, draws, failures and costs are of answers, whatever they are scored by: the ranking of
    # the run states them once.
    keys_of_model = (
        "rank", "rank_range", "p_best", "estimate", "standard_error", "interval", "n_items",
    )  # fmt: skip
    keys_of_ranking = (
        "order", "ranking", "question", "sampled", "pairwise", "scale", "confidence", "familywise",
        "looks", "items_of_benchmark", "ties", "signature",
    )  # fmt: skip
    content = {key: facts[key] for key in ("metric", "filter", "key", "weight")}
    # Answers that are not sampled have no "sampled".
    content |= {key: dict(block)[key] for key in keys_of_ranking if key in block}
    content["models"] = {
        model: {key: dict(row)[key] for key in keys_of_model}
        for model, row in block["models"].items()
    }
    return cast(RankingContent, content)


def state_terms(content: RankingContent, header: Header) -> None:
    """Write into a ranking, and into each of its parts, its ``terms``.

    The terms are the outcomes that its score is a mean of, each with its share of the mean.

    Parameters
    ----------
    content : dict
        As `Ranking.to_dict` returns it.
    header : Header
        See `header_of_plan`.
    """
    task = header.task
    facts_by_task = header.report.get("outcomes") or {
        task["name"]: {"": {key: task[key] for key in ("metric", "filter")}}
    }
    # A ranking of one task is a mean of its outcomes alone.
    if "tasks" not in content:
        [(task_name, facts)] = facts_by_task.items()
        _state_terms_of_task(content, task_name, facts)
        return
    content["terms"] = []
    for name, block in content["tasks"].items():
        _state_terms_of_task(block, name, facts_by_task[name])
        task_weight = content["weights"][name]
        content["terms"] += [
            {**term, "weight": task_weight * term["weight"]} for term in block["terms"]
        ]


def _state_terms_of_task(
    block: RankingContent, task: str, facts: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write the terms into the ranking of one task, and into that by each of its outcomes.

    Parameters
    ----------
    block : dict
        The task's part of the ranking, or a whole ranking of that task.
    task : str
    facts : mapping of outcome to mapping
        What the header states of each outcome.
    """
    weights = block.get("weights") if "outcomes" in block else None
    shares = {name: weight for name, weight in (weights or {}).items() if weight > 0.0}
    # A ranking by a single outcome states no weights. If other outcomes are only reported, the
    # single one is that with the largest weight, because theirs are 0.
    if not shares:
        shares = {max(facts, key=lambda name: facts[name].get("weight", 1.0)): 1.0}
    # The score of an outcome by itself is a mean of that outcome alone.
    for name, part in block.get("outcomes", {}).items():
        part["terms"] = [_term(task, facts[name], 1.0)]
    total = sum(shares.values())
    block["terms"] = [_term(task, facts[name], share / total) for name, share in shares.items()]


def _is_cut(model: ModelContent) -> bool:
    """Whether an estimate may be cut to what is possible: it stands at an end of its interval."""
    low, high = model.get("interval") or (0.0, 0.0)
    return low < high and min(abs(model["estimate"] - end) for end in (low, high)) <= CLOSE


def contradictory_pairs(result: RankingContent) -> Iterator[str]:
    """Yield where the pairs of a result contradict its estimates, themselves or each other."""
    models, place = result["models"], {name: n for n, name in enumerate(result["order"])}
    for (a, b), pair in pairs_by_models(result).items():
        difference, low, high = pair["difference"], pair["low"], pair["high"]
        if not {a, b} <= place.keys():
            yield f"{a} over {b}: no such model"
            continue
        gap = models[a]["estimate"] - models[b]["estimate"]
        uncut = not (_is_cut(models[a]) or _is_cut(models[b]))
        # An estimate that is cut to what is possible no longer differs by the pair's difference.
        if uncut and not math.isclose(difference, gap, rel_tol=CLOSE, abs_tol=CLOSE):
            yield f"{a} over {b}: difference {difference}, of the estimates {gap}"
        if not low - CLOSE <= difference <= high + CLOSE:
            yield f"{a} over {b}: difference {difference} outside {low} to {high}"
        excludes_0 = low > 0 or high < 0
        # The interval of an equivalent pair may exclude 0: it lies within the least difference that
        # matters.
        if pair["decision"] != "equivalent" and excludes_0 != (pair["decision"] == "decided"):
            yield f"{a} over {b}: {pair['decision']}, from {low} to {high}"
        if place[a] > place[b]:
            yield f"{a} over {b}: {b} stands before {a} in the order"


def _term(task: str, outcome: Mapping[str, Any], weight: float) -> TermContent:
    return {
        "task": task, "metric": outcome["metric"], "filter": outcome["filter"], "weight": weight,
    }  # fmt: skip


def board_of(ranking: Ranking) -> list[ColumnContent]:
    """Return one entry per column: the average first, then groups, then tasks.

    Parameters
    ----------
    ranking : Ranking
        Ranking of several tasks, with its parts on their own scales.

    Returns
    -------
    list of dict
        ``name``, ``kind`` ("average", "group" or "task"), ``weight`` (of a task), ``items`` of the
        benchmark, and ``models``: by name ``estimate``, ``standard_error`` and ``items``, or only
        ``items`` if they are too few (``too_few``) for a score of their own.
    """
    columns = [_column("average", "average", ranking, known=ranking.known)]
    columns += [_column(name, "group", part) for name, part in ranking.groups.items()]
    for name, part in ranking.tasks.items():
        columns.append({**_column(name, "task", part), "weight": ranking.weights[name]})
    return columns


def _column(
    name: str, kind: str, part: Ranking, known: Container[str] = frozenset()
) -> ColumnContent:
    """Return a column of a board: the scores of all models on a part of its items."""
    models: dict[str, CellContent] = {}
    for model, estimate in part.estimates.items():
        n = len(part.items.get(model, ()))
        # A column shows no score that a few items happen to give; known models have full results.
        too_few = n < min(FEWEST_ITEMS, part.n_items) and model not in known
        models[model] = {"items": n, "too_few": too_few}
        if not too_few:
            error = float(part.scale.restore_error(part.standard_errors[model]))
            models[model]["estimate"] = float(part.scale.restore(estimate))
            models[model]["standard_error"] = error
    return {"name": name, "kind": kind, "items": part.n_items, "models": models}


# -- what servers said of their answers ------------------------------------------------------------


def doubts(tally: Tally, calibrated: object = None, accepted: Collection[str] = ()) -> list[str]:
    """Return a sentence for each reason why answers may not be comparable.

    Parameters
    ----------
    tally : Tally
    calibrated : mapping, optional
        Generation settings of the bank's calibration, by the harness's names.
    accepted : collection of str, optional
        Changes that the user accepts, as `accept_change` takes them.
    """
    bank_settings = calibrated if isinstance(calibrated, Mapping) else {}
    sentences = [
        f"{len(reasons)} of {tally.answered[name]} answers of {name} lack the score of one metric; "
        f"last: {reasons[-1]}"
        for name, reasons in tally.unscored.items()
    ]
    sentences += [
        f"the bank was calibrated on other requests: {name} was asked {' and '.join(differences)}"
        for name, sent in tally.sent.items()
        if bank_settings and (differences := _differing_requests(sent, bank_settings))
    ]
    sentences += _doubts_of_changed_servers(tally, accepted)
    sentences += _doubts_of_cut_answers(tally, accepted)
    sentences += [
        f"{n} of {tally.answered[name]} answers of {name} ({n / tally.answered[name]:.0%}) are "
        'refusals (such as "I cannot help with that") and were scored as they are'
        for name, n in tally.refusals.items()
        if n >= max(1.0, MANY_EMPTY * tally.answered[name])
    ]
    sentences += _doubts_of_what_servers_state(tally)
    for (task, outcome), by_model in tally.scores.items():
        sentences += warnings_of_equal_scores(by_model, f"{task}/{outcome}" if outcome else task)
    return sentences


def _doubts_of_what_servers_state(tally: Tally) -> Iterator[str]:
    """Yield a sentence for each server that states another model, or tokens that do not add up."""
    for name, (asked, served) in tally.instead_of.items():
        yield f"the server of {name} was asked for {asked}, and says that {served} answered"
    for name, n_by_tier in tally.tiers.items():
        for tier, n in n_by_tier.items():
            yield (
                f"the server of {name} served {n:,} answers at the tier {tier!r}, which was not "
                "asked for; the bill has the price that you state"
            )
    for name, n in tally.outside.items():
        if n:
            yield (
                f"the server of {name} counts {n:,} tokens in its total alone (reasoning, say); "
                "they are paid as generated tokens"
            )
    for name, counts in tally.refused_usage.items():
        yield f"the server of {name} reports impossible token counts: {counts}"


def _doubts_of_changed_servers(tally: Tally, accepted: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each server that named another model, or fingerprint, during the run."""
    for name in sorted(tally.changed_models):
        named = [
            " ".join(filter(None, (model, fingerprint and f"({fingerprint})"))) or "no name"
            for model, fingerprint in tally.served[name]
        ]
        change = f"the server of {name} changed during the run ({', then '.join(named)})"
        yield _unless_accepted(SERVER, change, f"with {name}", accepted)


def _doubts_of_empty_answers(tally: Tally, most_empty: float) -> Iterator[str]:
    """Yield a sentence for each model of whose answers many are empty.

    Many are a tenth, or more than the share that the user allows, `most_empty`.
    """
    for name, share in _shares_empty(tally).items():
        if share > most_empty or share >= MANY_EMPTY:
            remedy = "look at its stop sequences, token limit and chat template"
            # A model that reasons can use up all its tokens before it writes the answer.
            if (at_limit := tally.empty_at_limit[name]) > tally.empty_outputs[name] / 2:
                remedy = (
                    f"{at_limit} reached the token limit before any text, as long reasoning does: "
                    "raise it for all models by `harness: {gen_kwargs: {max_gen_toks: N}}`"
                )
            yield (
                f"{tally.empty_outputs[name]} of {tally.answered[name]} answers of {name} are "
                f"empty ({share:.0%}) and were scored as such: {remedy}"
            )


def _doubts_of_cut_answers(tally: Tally, accepted: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each reason by which answers of models ended at different rates."""
    for reason, words in CUT_REASONS.items():
        if pairs := tally.unlike_pairs(reason):
            shares = ", ".join(
                f"{ends.get(reason, 0) / tally.answered[name]:.0%} of those of {name}"
                for name, ends in tally.finished.items()
                if any(name in pair for pair in pairs)
            )
            change = f"answers were {words} at different rates: {shares}"
            yield _unless_accepted(CUT_SHORT, change, "of different rates", accepted)


def _unless_accepted(kind: str, change: str, pairs: str, accepted: Collection[str]) -> str:
    """Say that a change is accepted, or which pairs (``"with a"``) are not decided until it is."""
    if kind in accepted:
        return f"accepted: {change}"
    return f"{change}; no pair {pairs} is decided unless you accept that (accept_change: {kind})"


def warnings_of_equal_scores(scores: Mapping[str, ScoreRange], where: str) -> list[str]:
    """Warn where all answers of a model have the lowest score, or those of all models the highest.

    A model with fewer than `FEWEST_ALIKE` answers is not named.

    Parameters
    ----------
    scores : mapping of model to ScoreRange
    where : str
        The task or outcome, as the warnings call it.

    Returns
    -------
    list of str
        At most two, of the lowest score first.

    Examples
    --------
    >>> a, b, c = ScoreRange(50, 0.0, 0.0), ScoreRange(50, 0.0, 0.0), ScoreRange(50, 0.0, 1.0)
    >>> warnings_of_equal_scores({"a": a, "b": b}, "t/acc")
    ['all 100 answers of a, b score 0 on t/acc: answers may be extracted wrongly']
    >>> warnings_of_equal_scores({"a": a, "c": c}, "acc")[0].partition(": answers")[0]
    'all 50 answers of a score 0 on acc, unlike those of other models'
    """
    warnings = []
    for end, doubt in (
        (0.0, "answers may be extracted wrongly"),
        (1.0, "the task may be too easy"),
    ):
        alike = [model for model, reached in scores.items() if reached.low == reached.high == end]
        models = [model for model in alike if scores[model].count >= FEWEST_ALIKE]
        all_models = len(alike) == len(scores)
        # That some models are right everywhere and others are not casts no doubt on the task.
        if models and (all_models or end == 0.0):
            answers, raw = sum(scores[model].count for model in models), scores[models[0]].raw
            unlike = "" if all_models else ", unlike those of other models"
            warnings.append(
                f"all {answers:,} answers of {some(models, 4)} score "
                f"{end if raw is None else raw:g} on {where}{unlike}: {doubt}"
            )
    return warnings


def _differing_requests(sent: Mapping[str, Any], calibrated: Mapping[str, Any]) -> list[str]:
    """Say in what requests that were sent differ from the calibration's; [] if in nothing.

    Examples
    --------
    >>> _differing_requests({"temperature": 1, "stop": ["Q:"]}, {"until": ["Q:"]})
    ['with temperature 1 in place of 0.0']
    """
    differences = [
        f"with {_SETTINGS_IN_WORDS[setting.name]} {setting.run} in place of {setting.recorded}"
        for setting in differing_generation(calibrated, sent)
        if setting.name in _SETTINGS_IN_WORDS and None not in (setting.run, setting.recorded)
    ]
    if calibrated.get("until") and not sent.get("stop"):
        differences.append("without its stop sequences")
    return differences


# -- who watches a run -----------------------------------------------------------------------------


class Observer:
    """Receives the events of a run, in the thread that waits for it; by default prints warnings."""

    def warn(self, message: str) -> None:
        """Warn the person; may be called from any thread."""
        print(f"warning: {message}", file=sys.stderr)

    def note(self, message: str) -> None:
        """Report something useful that is no problem."""

    def confirm(self, question: str) -> bool:
        """Ask the person whether to go on; the default does not ask and goes on."""
        return True

    def begin(self, plan: Plan, book: Book) -> None:
        """Note that a ranking starts; read `book` only from this thread."""

    def tick(self) -> None:
        """Note that time has passed or an answer has arrived."""

    def end(self) -> None:
        """Note that the run asks nothing more."""

    def finished(self, result: Result) -> None:
        """Receive the result, before files are written, in case the disk is full."""
        for warning in result.late_warnings:
            self.warn(warning)


class ProgressBar(Observer):
    """A progress bar of a run of one model, in the style of the harness: items and estimate."""

    def begin(self, plan: Plan, book: Book) -> None:
        """Draw the bar."""
        from tqdm import tqdm  # comes with the harness

        self.plan, self.book = plan, book
        self._bar: Any = tqdm(
            total=len(plan.documents()),
            desc=f"{plan.title} (adaptive)",
            unit="doc",
            leave=True,
        )

    def tick(self) -> None:
        """Move the bar to the documents answered."""
        answered = self.book.tally.answered
        n = sum(answered.values())
        if n == self._bar.n:
            return
        estimate, se = self.book.ranker.estimate(next(iter(answered)))
        scale = self.plan.scale
        # One answer does not tell by how much the next ones differ.
        error = f" ± {float(scale.restore_error(se)):.2g}" if n > 1 else ""
        self._bar.set_postfix_str(
            f"{self.plan.label} {float(scale.restore(estimate)):.4g}{error}", refresh=False
        )
        self._bar.update(n - self._bar.n)

    def end(self) -> None:
        """Bring the bar up to date and close it."""
        self.tick()
        self._bar.close()
