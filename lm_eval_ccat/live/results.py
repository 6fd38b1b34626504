"""What a ranking leaves: its result as one object and as JSON, and files for each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..harness.signature import scorer_of_run, signed
from ..masking import mask
from ..metrics.scale import Scale
from ..ranker import Ranking
from ..ranker.grid import ranking_grid
from ..ranker.headline import headline
from ..runs.book import Book
from ..runs.rebuild import rebuild
from ..runs.tally import ASSUMED, BILLED, COLUMNS, Tally
from ..shown import Grid, Shown
from .board import board_of
from .provenance import doubts, of_model

if TYPE_CHECKING:
    from ..harness.assembly import TaskRun
    from .models import SessionModel
    from .plan import Plan

DECIDED, TIES, PARTIAL = 0, 3, 4
#: Share of empty answers from which they are warned of.
MANY_EMPTY = 0.1


@dataclass(frozen=True, repr=False)
class Result(Shown):
    """The result of a ranking.

    Attributes
    ----------
    ranking : Ranking
        Scores on [0, 1], higher is better; its ``scale`` is the metric's own.
    content : dict
        JSON values as ``result.json`` holds them, figures on the metric's own scale.
    run_dir : Path or None

    Examples
    --------
    >>> from lm_eval_ccat import rank
    >>> models = [{"name": name, "model": "dummy"} for name in ("a", "b")]
    >>> result = rank(task="my_task.yaml", models=models, max_items=20)
    >>> result.content["items_administered"], result.exit_code
    (40, 3)
    >>> list(result.to_dataframe().columns[:4])
    ['rank', 'model', 'estimate', 'standard_error']
    """

    ranking: Ranking
    content: dict[str, Any]
    run_dir: Path | None = None

    @property
    def exit_code(self) -> int:
        """0 all decided, 3 ties left, 4 partial: that of the command ``rank``."""
        return int(self.content["exit_code"])

    def __str__(self) -> str:
        return str(self.content["headline"])

    def _grid(self) -> Grid:
        return ranking_grid(self.content, str(self))


def exit_code(ranking: Ranking, interrupted: bool = False) -> int:
    """0 when the goal of the run is met, 3 when it is not, 4 when a model failed or it was cut."""
    if interrupted or ranking.set_aside:
        return PARTIAL
    return DECIDED if ranking.goal_met else TIES


def _content(
    ranking: Ranking,
    tally: Tally,
    *,
    task: str,
    metric: str,
    key: str,
    estimand: str,
    currency: str,
    elapsed: float,
    interrupted: bool,
    lm_eval: str,
    bank: str,
    scorer: dict[str, Any] | None,
    run_dir: str | None,
) -> dict[str, Any]:
    """Everything that the run found, as JSON values."""
    content = ranking.to_dict()
    if interrupted:
        content["stopped_because"] = "interrupted"
    elif not ranking.order:
        content["stopped_because"] = "every model was set aside"
    for name, block in content["models"].items():
        sources = sorted(tally.token_sources.get(name, ()))
        block["seconds"] = tally.seconds.get(name, 0.0)
        if name in tally.money:
            block["money"] = dict(tally.money[name])
            block["usd"] = tally.money[name][BILLED] + tally.money[name][ASSUMED]
        if attempts := tally.attempts.get(name):
            block["attempts_lost"] = dict(attempts)
        if sources:
            block["tokens"] = {
                "input": tally.input_tokens.get(name, 0.0),
                "output": tally.output_tokens.get(name, 0.0),
                "counted_by": sources,
                "estimated": "estimate" in sources,
            }
        block |= of_model(tally, name)
        block["empty_outputs"] = tally.empty_outputs.get(name, 0)
        if name in tally.prior:
            block["from_prior"] = tally.prior[name]
    return {
        "headline": headline(content),
        "metric": metric,
        "key": key,
        "estimand": estimand,
        **content,
        "cost_unit": currency,
        "usd": tally.column(BILLED) + tally.column(ASSUMED) if tally.money else None,
        "money": {name: tally.column(name) for name in COLUMNS} if tally.money else None,
        "seconds": elapsed,
        "interrupted": interrupted,
        "changes": [said for record in tally.changes for said in record["settings"]],
        "warnings": [*empty_answers(tally, None)[0], *lacking_scores(tally), *doubts(tally)],
        "exit_code": exit_code(ranking, interrupted),
        "bank_sha256": bank,
        "run_dir": run_dir,
        "scorer": scorer,
        "signature": signed(ranking.signature, task, scorer, lm_eval),
    }


def result_of(plan: Plan, book: Book, run_dir: Path | None, interrupted: bool = False) -> Result:
    """The result of a run as it stands."""
    scorer = plan.session.scorer(plan.outcome.metric.name)
    found = _result(plan.facts(), book, run_dir, interrupted, book.elapsed(), scorer)
    said, over = empty_answers(book.tally, plan.config.fail_on_empty)
    found.content["warnings"] = list(dict.fromkeys([*said, *found.content["warnings"]]))
    if over:
        found.content["exit_code"] = PARTIAL
    return found


def empty_answers(tally: Tally, limit: float | None) -> tuple[list[str], bool]:
    """What to say of models with many empty answers, and whether a share exceeds the limit.

    Parameters
    ----------
    tally : Tally
    limit : float or None
        Largest share of empty answers that is put up with.
    """
    said, over = [], False
    for name, empty in tally.empty_outputs.items():
        n = tally.answered.get(name, 0)
        share = empty / n if n else 0.0
        above = limit is not None and share > limit
        if above or share >= MANY_EMPTY:
            said.append(
                f"{empty} of {n} answers of {name} are empty ({share:.0%}) and were scored as "
                "such: look at its stop sequences, token limit and chat template"
            )
        over = over or above
    return said, over


def lacking_scores(tally: Tally) -> list[str]:
    """What to say of models whose answers lack a score, because a judge failed."""
    return [
        f"{len(reasons)} of {tally.answered[name]} answers of {name} lack a score and keep the "
        f"others; last: {reasons[-1]}"
        for name, reasons in tally.unscored.items()
    ]


def state(folder: str | Path) -> Result:
    """Where a ranking stands, from its run directory alone; nothing is loaded or asked.

    ``content`` has two keys more than a result: ``finished``, and ``in_flight``, the documents
    that are claimed and not answered.

    Raises
    ------
    RunError
        There is no ranking in the folder, or its journal is damaged.
    """
    book, header = rebuild(folder)
    elapsed = book.tally.elapsed
    found = _result(header, book, Path(folder), False, elapsed, scorer_of_run(header))
    found.content["finished"] = book.done
    if not book.done:  # pairs that are decided so far need not stay so
        found.content["exit_code"] = found.exit_code or TIES
    found.content["in_flight"] = [
        {"model": ask.model, "doc_id": ask.item} for ask in book.unanswered
    ]
    return found


def _result(
    header: dict[str, Any],
    book: Book,
    run_dir: Path | None,
    interrupted: bool,
    elapsed: float,
    scorer: dict[str, Any] | None,
) -> Result:
    facts = header["report"]
    ranking = on_own_scales(book.ranker.result(), facts)
    content = _content(
        ranking,
        book.tally,
        task=(task := header["task"]["name"]),
        metric=facts["metric"],
        key=facts["key"],
        estimand=facts["estimand"],
        currency=facts["currency"],
        elapsed=elapsed,
        interrupted=interrupted,
        lm_eval=header["versions"]["lm_eval"],
        bank=header["bank_sha256"],
        scorer=scorer,
        run_dir=None if run_dir is None else str(run_dir),
    )
    content["last_line"] = book.journal.count
    if book.tally.put_aside:  # no other run asks just the same
        content["signature"] += f"|journal:{book.journal.digest[:12]}"
    if ranking.tasks:
        content["board"] = board_of(ranking)
    for name, block in content.get("outcomes", {}).items():
        content["outcomes"][name] = _of_outcome(block, facts["outcomes"][task][name])
    return Result(ranking, content, run_dir)


def on_own_scales(ranking: Ranking, facts: Mapping[str, Any]) -> Ranking:
    """A ranking with the scales that the run's header states, its parts included.

    The outcomes of an only task are then those of the ranking.
    """
    ranking = replace(ranking, scale=Scale.from_dict(facts["scale"]))
    stated = facts.get("outcomes") or {}
    tasks = {}
    for task, found in ranking.tasks.items():
        scales = {k: Scale.from_dict(one["scale"]) for k, one in stated[task].items()}
        parts = {k: replace(part, scale=scales[k]) for k, part in found.outcomes.items()}
        tasks[task] = replace(
            found, outcomes=parts, scale=found.scale if parts else next(iter(scales.values()))
        )
    if len(tasks) == 1:
        [only] = tasks.values()
        return replace(ranking, tasks={}, outcomes=only.outcomes, weights=only.weights)
    return replace(ranking, tasks=tasks)


def _of_outcome(block: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of one outcome beside the whole, with what it is."""
    about = ("rank", "rank_range", "p_best", "estimate", "standard_error", "interval", "n_items")
    return {
        **{key: facts[key] for key in ("metric", "filter", "key", "weight")},
        "order": block["order"],
        "ranking": block["ranking"],
        "models": {m: {key: one[key] for key in about} for m, one in block["models"].items()},
        "pairwise": block["pairwise"],
        "ties": block["ties"],
        "signature": block["signature"],
    }


def task_runs(plan: Plan, book: Book, model: SessionModel) -> dict[str, TaskRun]:
    """One model's documents and what the ranking says of it, by task; scored anew if need be."""
    from ..harness.outcome import leading
    from .beside import beside

    answers = {item: a for (name, item), a in book.answers.items() if name == model.name}
    model.restore(answers)
    ranking = book.ranker.result()
    runs = {}
    for task in plan.measured:
        given = {item: a for item, a in answers.items() if model.place(item)[0] == task}
        found = _runs_of_outcomes(plan, ranking, model, task, given)
        first = leading(plan.measured[task])
        lead = next(name for name, of in plan.measured[task].items() if of is first)
        shared = book.ranker.shared_errors(model.name).get(task, {})
        run = replace(found.pop(lead), beside=tuple(found.values()), covariances=shared)
        at = {i: model.place(i)[1] for i in given}
        drawn = {at[i]: p for i, p in ranking.draws.get(model.name, ()) if i in at}
        runs[task] = replace(run, beside=(*run.beside, *beside(run, drawn)))
    return runs


def _runs_of_outcomes(
    plan: Plan,
    ranking: Ranking,
    model: SessionModel,
    task: str,
    answers: Mapping[Any, Mapping[str, Any]],
) -> dict[str, TaskRun]:
    """One model's documents of one task, for each outcome."""
    from ..harness.assembly import TaskRun

    usd = [a["usd"] for a in answers.values() if a.get("usd") is not None]
    about: dict[str, Any] = {
        "session": model.sessions[task],
        "administered": {model.place(i)[1]: model.administered[i] for i in answers},
        "usd": sum(usd) if usd else None,
        "seconds": sum(a.get("seconds") or 0.0 for a in answers.values()),
    }
    of_task = ranking.tasks.get(task, ranking)
    found = {}
    for name, outcome in plan.measured[task].items():
        own = of_task.outcomes.get(name, of_task).only(model.name)
        own = replace(own, stopped_because=ranking.stopped_because)
        found[name] = TaskRun(outcome=outcome, ranking=own, **about)
    return found


def write_model_results(plan: Plan, book: Book, models: Sequence[Any], run_dir: Path) -> list[str]:
    """Write the harness's results and samples files of each model; what could not be written."""
    from ..harness import internals
    from ..harness.model_files import save_model
    from .tracking import HUB

    troubles = []
    hub = plan.config.harness.get(HUB) or {}
    for model in models:
        if not any(name == model.name for name, _ in book.answers):
            continue
        try:
            runs, arguments = task_runs(plan, book, model), mask(model.entry.model_args)
            kind = str(model.entry.model)
            save_model(run_dir, model.name, runs, plan.of_harness, kind, arguments, hub)
        except OSError as error:
            troubles.append(f"no results files for {model.name}: {error}")
        except internals.NotPushed as error:
            troubles.append(f"the results files of {model.name} are not on the hub: {error}")
    return troubles
