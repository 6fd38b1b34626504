"""The HTML page of a run: one file that needs no network and is safe with hostile model output."""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np
from markupsafe import Markup
from scipy.special import expit

from .. import __version__
from ..bank import ItemBank
from ..content import JOURNAL_TAG, PAGE, RankingContent
from ..errors import CcatError
from ..files import replace_text, writing
from ..harness.internals.lms import DEMO_TYPE
from ..harness.scorers import in_words, scorer_of_run
from ..masking import mask_text
from ..methods.method import method_of
from ..metrics.scale import Floats
from ..money import dollars, prices_are_known, spent_in_words
from ..plugins import Plugins
from ..ranker import columns
from ..ranker.columns import columns_of, model_cells, paid
from ..ranker.headline import intervals_hold, lead_of, question
from ..shown import (
    difference_texts,
    exact_percent,
    is_named,
    item_text,
    plural,
    visible,
    visible_line,
    whole_percent,
)
from . import tables
from .chart import asset, axis
from .following import to_decide
from .plots import COLOURED, information_chart, plot_ranking, progress
from .stored_run import Course, StoredRun, read_run, replayed_course
from .trust import command, configuration, sentences, warnings

# -- sections -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """One section of the page.

    Attributes
    ----------
    name : str
        Target of links: the ``<section id=...>`` of the template.
    title : str
        Title in the page's list of sections.
    text : str
        Jinja template, in which all values are escaped; empty for the package's own sections,
        whose templates are files ``<name>.html.j2``.
    content : callable
        ``(run) -> dict``: what the template needs in addition to the content of the page.
    applies : callable
        ``(content) -> bool``: whether this run has the section.
    """

    name: str
    title: str
    text: str = ""
    content: Callable[[StoredRun], dict[str, object]] = lambda run: {}
    applies: Callable[[Mapping[str, Any]], bool] = lambda content: True

    def html(self, run: StoredRun, content: Mapping[str, Any]) -> Markup:
        """Return the section of a run's page, by the content of the page and its own."""
        if self.text:
            template = environment().from_string(self.text)
        else:
            template = environment().get_template(f"{self.name}.html.j2")
        # The template escaped every value in it.
        return Markup(template.render({**content, **self.content(run)}))


_BUILTIN = (
    Section("decision", "Which ranks are possible?", applies=lambda content: content["ranks_open"]),
    Section("ranking", "Estimates"),
    Section("parts", "Parts", applies=lambda content: bool(content["parts"])),
    Section("trust", "Can it be trusted?"),
    Section("documents", "Documents behind the decisions"),
    Section("progress", "Progress", applies=lambda content: bool(content["progress"])),
    Section(
        "pairs",
        "How sure is each pair?",
        applies=lambda content: len(content["result"]["order"]) > 1,
    ),
    Section("spending", "What it took"),
    Section(
        "information", "Where the items lie", applies=lambda content: bool(content["information"])
    ),
    Section("reproduce", "Reproduce"),
)

SECTIONS: Plugins[Section] = Plugins(
    "report section", Section, lambda: {section.name: section for section in _BUILTIN}
)


# -- the page -------------------------------------------------------------------------------------

#: Models up to which the pairwise matrix is a table of text; beyond, the page draws it.
MATRIX_AS_TABLE = 24
#: Seconds between two updates of a page, and the largest share of the time that writing takes.
SECONDS = 10.0
_WRITING_SHARE = 0.1


def write_report(
    run_dir: StoredRun | str | Path,
    output: str | Path | None = None,
    refresh: float | None = None,
) -> Path:
    """Write the HTML page of a finished or running ranking.

    Parameters
    ----------
    run_dir : path or StoredRun
        The directory that `rank` wrote, or a run that was read from it.
    output : path, optional
        File of the page; ``report.html`` in the run directory by default. Replaced in one step.
    refresh : float, optional
        Seconds after which the page of an unfinished run reloads itself.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    RunError
        If there is no readable run, or the page cannot be written.

    Examples
    --------
    >>> write_report("runs/my_task")  # doctest: +SKIP
    PosixPath('runs/my_task/report.html')
    """
    run = run_dir if isinstance(run_dir, StoredRun) else read_run(run_dir)
    target = Path(output) if output is not None else run.path / PAGE
    text = mask_text(render(run, refresh))
    with writing(target):
        replace_text(target, text, private=output is None)
    return target


def render(run: StoredRun, refresh: float | None = None) -> str:
    """Render the page of a run as HTML; `refresh` applies only to an unfinished run."""
    course = replayed_course(run)
    n_documents, data = _data(run, course)
    order = run.result["order"]
    content: dict[str, Any] = vars(View(run, course)) | {
        "matrix_as_table": len(order) <= MATRIX_AS_TABLE,
        "refresh": None if refresh is None or run.finished else f"{refresh:g}",
        "page_of": JOURNAL_TAG,
        "written": tables.date(time.time()),
        "n_documents": n_documents,
        "data": data,
        # The drawing for a paper, already escaped, and the name of its file.
        "figure": {"svg": Markup(plot_ranking(run).svg), "name": _task(run) or "ranking"},
        **own_files(script=asset("app.js"), style=asset("style.css")),
    }
    jinja = environment()
    content["chart"] = jinja.get_template("charts.html.j2").module
    content["sections"] = [
        {"name": section.name, "title": section.title, "html": section.html(run, content)}
        for section in SECTIONS
        if section.applies(content)
    ]
    return str(jinja.get_template("page.html.j2").render(**content))


def _data(run: StoredRun, course: Course | None) -> tuple[int, str]:
    """Return the number of documents on the page, and the JSON from which its script draws."""
    order = run.result["order"]
    position = {model: j for j, model in enumerate(run.models)}
    entries = documents(run, None if course is None else course.expected)
    # Of each model and those below it: P(better) in per cent, -1 where the result of a leaderboard
    # does not list the pair; how far it leads, in words; and whether it is decided.
    places = {model: n for n, model in enumerate(order)}
    n_below = range(len(order) - 1, -1, -1)
    percent = [[-1.0] * n for n in n_below]
    leads, decided = ([[empty] * n for n in n_below] for empty in ("", "0"))
    for pair in run.result["pairwise"]:
        above = places[pair["a"]]
        below = places[pair["b"]] - above - 1
        percent[above][below] = round(100 * pair["p"], 2)
        leads[above][below] = lead_of(run.result, pair).in_words()
        decided[above][below] = "01"[pair["decision"] == "decided"]
    data = {
        "models": [visible_line(model) for model in run.models],
        "order": [position[model] for model in order],
        "confidence": run.result["confidence"],
        "p": percent,
        "leads": leads,
        "decided": ["".join(marks) for marks in decided],
        "drawn": len(order) > MATRIX_AS_TABLE,
        "higher": run.scale.higher_is_better,
        "docs": entries,
    }
    return len(entries), tables.script_json(data)


class Spending:
    """What asking the models took, and what asking each of them everything would have taken.

    Attributes
    ----------
    in_full : int
        Answers of one model in a full evaluation.
    sentences : list of str
        Sentences about what was spent.
    asked : int
        Answers of all models.
    costs : dict of str to float
        By model, in the unit of the run.
    cost : float
        Of all models.
    full_costs : dict of str to float
        Of asking each model everything, at the mean cost of its answers; without those that have
        not answered.
    tokens, seconds : bool
        Whether the tokens, and the time, of some model are known.
    """

    def __init__(self, result: RankingContent, models: Sequence[str]) -> None:
        asked = {model: result["models"][model] for model in models}
        self.in_full = result.get("answers_of_benchmark", result["items_of_benchmark"])
        self.sentences = spent_in_words(result)
        self.asked = sum(row["n_items"] for row in asked.values())
        self.costs = {model: paid(row) for model, row in asked.items()}
        self.cost = sum(self.costs.values())
        self.full_costs = {
            model: row["cost"] / row["n_items"] * self.in_full
            for model, row in asked.items()
            if row["n_items"]
        }
        self.tokens = any(row.get("tokens") for row in asked.values())
        self.seconds = any(row.get("seconds") for row in asked.values())


class View:
    """What templates show of a run and its course, except for the documents' texts.

    Attributes
    ----------
    run : StoredRun
    result : RankingContent
    version : str
        Of this package.
    title, headline, question, held : str
        What was ranked, what came of it, what the order sorts by, and when intervals hold.
    order_told : bool
        Whether the headline tells the order, so that the chain of its parts need not.
    beyond, one_look, next_step : str or None
        What the result does not say of other items, what a single look promises, and what to do
        next; empty where there is nothing to say.
    chain : list of Link
        The parts of the order.
    not_shown : int
        Models of the order that the chain leaves out.
    parts : list of PartColumn
        Results by task and by metric.
    ranks : RankRows or None
        Which ranks are possible.
    ranks_open : bool
        Whether some model has several possible ranks.
    outlook : Outlook or None
        What would decide the open pairs.
    trust, warnings : list of Remark
    confidence : str
    facts : list of (str, str)
        The figures at the head of the page, each with its meaning.
    forest : Axis
        Of the models' intervals.
    rows : list of ModelCells
        The table of models, and its `columns`.
    columns : list of Column
    progress, information : dict or None
        Drawings of the run's course and of the items; None where they would show nothing.
    coloured : int
        Models that have a colour of their own.
    spending : Spending
    command, config, scored_by : str
        How to repeat the run, its configuration, and what scored the answers.
    started, ended : str or None
    """

    def __init__(self, run: StoredRun, course: Course | None) -> None:
        self.run, self.result, self.version = run, run.result, __version__
        result = self.result
        self.title = _title(run)
        self.held = intervals_hold(result.get("looks"), result["confidence"])
        self.headline = result["headline"]
        self.question = question(result)
        self.beyond = tables.beyond_these_items(result)
        self.chain = tables.chain(result)
        self.not_shown = len(result["order"]) - sum(len(link.names) for link in self.chain)
        self.parts = tables.parts(result)
        self.ranks = tables.rank_rows(result)
        self.ranks_open = self.ranks is not None and any(
            row.best < row.worst for row in self.ranks.cells
        )
        self.order_told = not self.ranks_open and all(
            is_named(model, self.headline) for model in result["order"]
        )
        self.next_step = to_decide(result)
        self.outlook = tables.outlook(result, run.currency)
        self.one_look = tables.one_look(result)
        self.trust = list(sentences(run))
        self.confidence = exact_percent(result["confidence"])
        self.spending = Spending(result, run.tested)
        self.facts = list(_facts(run, self.spending))
        self.warnings = list(warnings(run, with_course=course is not None))
        ends = [end for model in run.models for end in result["models"][model]["interval"]]
        self.forest = axis(ends, n_ticks=7)
        self.rows = model_cells(result)
        self.columns = columns_of(columns.PAGE, result, self.rows)
        self.progress = None if course is None else progress(run, course)
        self.information = information_chart(run) if run.has_curves else None
        self.coloured = COLOURED
        self.command, self.config = command(run), configuration(run)
        self.scored_by = in_words(scorer_of_run(run.header) or {})
        self.started, self.ended = tables.date(run.started), tables.date(run.ended)


def _title(run: StoredRun) -> str:
    """Say what was ranked: how many models, on which task, by which metric."""
    n_known = len(run.models) - len(run.tested)
    among = f" among {n_known} known ones" if n_known else ""
    models = f"{plural(len(run.tested), 'model')}{among}"
    return f"{models} on {_task(run) or 'a benchmark'}, {run.facts['metric']}"


def _task(run: StoredRun) -> str:
    """Return the name of a run's task; "" if it has none."""
    return str(run.header.task.get("name") or "")


def _facts(run: StoredRun, spending: Spending) -> Iterator[tuple[str, str]]:
    """Yield the figures at the head of the page, each with its meaning in words."""
    result = run.result
    asked, full = result["items_administered"], spending.in_full * len(run.tested)
    share = tables.percent(asked, full)
    yield (f"{asked:,}", f"answers, of {full:,} in a full evaluation ({share})")
    yield (f"{len(run.columns.docs):,}", f"of {result['items_of_benchmark']:,} documents used")
    if run.currency == "usd":
        in_full = dollars(sum(spending.full_costs.values()))
        # Play money must not look like a bill.
        of_demo = all(entry.get("model") == DEMO_TYPE for entry in run.config.get("models") or ())
        spent = "at prices that the demo made up" if of_demo else "spent"
        yield (dollars(spending.cost), f"{spent}; a full evaluation about {in_full}")
    elif run.currency == "tokens":
        yield (f"{result['cost']:,.0f}", "tokens spent, read and written")
    elif usd := result.get("usd"):
        known = "" if prices_are_known(result) else ", where the price is known"
        yield (dollars(usd), f"spent{known}")
    counts = tables.count_pairs(result)
    # A single model has no pairs, and an empty figure would look like a fault.
    if counts.pairs:
        equivalent = f", {counts.equivalent} equivalent" if counts.equivalent else ""
        yield (
            f"{counts.decided:,} of {counts.pairs:,}",
            f"pairs decided at {exact_percent(result['confidence'])} confidence{equivalent}; "
            f"of neighbours {counts.decided_neighbours} of {counts.neighbours}",
        )
    if run.started and run.ended and run.ended > run.started:
        yield (tables.duration(run.ended - run.started), "from start to end")


# -- documents ------------------------------------------------------------------------------------

#: Characters of all texts on the page; a browser opens a page of this size without delay.
TEXT_BUDGET = 16_000_000
#: Characters of a text that are shown, the largest number first that all texts have room for.
TEXT_LIMITS = (20_000, 8_000, 4_000, 2_000, 1_000, 500, 250, 120)


def documents(run: StoredRun, expected: Mapping[str, Floats] | None) -> list[dict[str, object]]:
    """Return the documents that were asked, those that weighed most in the decisions first.

    Parameters
    ----------
    run : StoredRun
    expected : mapping of str to ndarray, optional
        Expected scores on [0, 1] in bank order, to show which answers were surprising.

    Returns
    -------
    list of dict
        As many as fit `TEXT_BUDGET` with short texts. JSON values with short keys: ``id``, ``p``
        prompt, ``t`` target, ``s`` spread (largest less smallest score, [0, 1]), ``w`` share of
        the evidence (per cent), ``a`` answers ``[model, raw, score, expected, text, left off]``,
        with the model's place in `run.models`.
    """
    table, weight = run.columns, document_weights(run)
    spread = dict(zip(table.docs, table.spread().tolist()))

    def importance(number: int) -> tuple[float, float, str]:
        """Return what sorts the documents of the table, the most important first."""
        doc = table.docs[number]
        return -weight[doc], -spread[doc], str(doc)

    numbers = sorted(range(len(table.docs)), key=importance)
    # Even the shortest texts of all answers may be too much for a page; one document always fits.
    answers_so_far = np.cumsum(np.bincount(table.doc, minlength=len(spread))[numbers])
    n_fitting = int((answers_so_far <= TEXT_BUDGET // TEXT_LIMITS[-1]).sum())
    numbers = numbers[: max(n_fitting, 1)]
    docs = [table.docs[number] for number in numbers]
    lengths = table.length[np.isin(table.doc, numbers)].tolist()
    lengths += [len(source) for doc in docs for source in run.sources.get(doc, ())]
    limit = text_limit(lengths)
    answers_of = _answers_of(run, expected, docs, limit)
    return [
        {
            "id": visible(item_text(doc)),
            "s": round(spread[doc], 4),
            "w": round(100.0 * weight[doc], 3),
            # What the page has of a document is let go once it is written.
            "a": _best_first(answers_of.pop(doc)),
            **_texts_of_document(run, doc, limit),
        }
        for doc in docs
    ]


def _best_first(answers: Sequence[_ShownAnswer]) -> list[list[Any]]:
    """Return the cells of answers to a document, the best answer first."""
    ordered = sorted(answers, key=lambda answer: (-answer.score, answer.model))
    return [answer.cells for answer in ordered]


def _texts_of_document(run: StoredRun, doc: Any, limit: int) -> dict[str, object]:
    """Return the beginnings of a document's prompt and target, as far as the run has them."""
    prompt, target = run.sources.get(doc, ("", ""))
    return {key: list(_text(text, limit)) for key, text in (("p", prompt), ("t", target)) if text}


class _ShownAnswer(NamedTuple):
    """An answer on the page.

    Attributes
    ----------
    model : int
        Position in `run.models`.
    score : float
    cells : list
        What the page's script draws it from; see ``a`` of `documents`.
    """

    model: int
    score: float
    cells: list[Any]


def _answers_of(
    run: StoredRun, expected: Mapping[str, Floats] | None, docs: Sequence[Any], limit: int
) -> dict[Any, list[_ShownAnswer]]:
    """Return the answers to each document in the order of the run, as the page's script draws them.

    Parameters
    ----------
    run : StoredRun
    expected : mapping of model to ndarray, or None
        Expected scores on [0, 1] in bank order; None where the run was not replayed.
    docs : sequence
        Documents on the page.
    limit : int
        Largest number of characters of a text.
    """
    answers_of: dict[Any, list[_ShownAnswer]] = {doc: [] for doc in docs}
    model_numbers = {model: j for j, model in enumerate(run.models)}
    for answer in run.answers:
        if answer.doc in answers_of:
            model_number, expected_score = model_numbers[answer.model], None
            if expected is not None:
                bank_position = run.positions[answer.doc]
                expected_score = _number(expected[answer.model][bank_position])
            text, n_left_off = _text(answer.output, limit)
            # [model, raw, score, expected, text, left off], as `documents` describes them.
            cells = [
                model_number,
                _number(answer.raw),
                round(answer.score, 4),
                expected_score,
                text,
                n_left_off,
            ]
            answers_of[answer.doc].append(_ShownAnswer(model_number, answer.score, cells))
    return answers_of


def text_limit(lengths: Sequence[int], budget: int = TEXT_BUDGET) -> int:
    """Return the largest length limit per text under which all texts fit the budget.

    Examples
    --------
    >>> text_limit([100, 100]), text_limit([50_000] * 10_000)
    (20000, 1000)
    """
    # Long texts are cut before many are: the first characters tell most.
    sizes = np.asarray(lengths)
    for limit in TEXT_LIMITS:
        if np.minimum(sizes, limit).sum() <= budget:
            return limit
    return TEXT_LIMITS[-1]


def _text(text: str, limit: int) -> tuple[str, int]:
    """Return the beginning of a text, and how many characters are left off."""
    return visible(text[:limit]), max(0, len(text) - limit)


def _number(value: float | None) -> float | None:
    """Return a figure for JSON, which has no NaN."""
    return None if value is None or not np.isfinite(value) else round(value, 4)


# -- weights ------------------------------------------------------------------------------------


def document_weights(run: StoredRun) -> dict[Any, float]:
    """Return the share of each document in the evidence; the shares sum to 1.

    The evidence of a pair is what its documents add to the difference between the two models. With
    item curves a document adds its score less the score expected at the ability between the two,
    times the item's slope over its noise (the score function of the ability); without, the
    difference of the two scores. Absolute shares are averaged over the neighbours of the order.

    Returns
    -------
    dict of document to float
        Every document that was asked; all 0 if no document distinguishes neighbours.
    """
    # Models with full results were not asked, so that no document weighed for them.
    tested = set(run.tested)
    order = [model for model in run.result["order"] if model in tested]
    scores = _mean_scores(run, order)
    if run.has_curves and run.bank is not None:
        evidence_of_pairs = _evidence_by_curves(run, run.bank, order, scores)
    else:
        evidence_of_pairs = [
            np.nan_to_num(np.abs(first - second)) for first, second in pairwise(scores)
        ]
    total = np.zeros(len(run.columns.docs))
    for evidence in evidence_of_pairs:
        # Every pair counts alike, however large its scores are.
        total += evidence / (evidence.sum() or 1.0)
    shares = total / (total.sum() or 1.0)
    return dict(zip(run.columns.docs, shares.tolist()))


def _mean_scores(run: StoredRun, models: Sequence[str]) -> Floats:
    """Return each model's mean score of each document over its repeats; NaN if it was not asked."""
    answers = run.columns
    sums, counts = np.zeros((2, len(run.models), len(answers.docs)))
    np.add.at(sums, (answers.model, answers.doc), answers.score)
    np.add.at(counts, (answers.model, answers.doc), 1.0)
    rows = [run.models.index(model) for model in models]
    sums, counts = sums[rows], counts[rows]
    scores: Floats = np.full(sums.shape, np.nan)
    return np.divide(sums, counts, out=scores, where=counts > 0.0)


def _evidence_by_curves(
    run: StoredRun, bank: ItemBank, order: Sequence[str], scores: Floats
) -> list[Floats]:
    """Return the evidence of each document for each pair of neighbours; see `document_weights`.

    Parameters
    ----------
    run : StoredRun
    bank : ItemBank
        With item curves.
    order : sequence of str
        Models, the best first.
    scores : ndarray of shape (n_models, n_documents)
        In this order; NaN if a model was not asked a document.
    """
    method = method_of(bank)
    curves, scores = method.tested_curves(bank), method.tested_scores(bank, scores)
    items = np.array([bank.index[doc] for doc in run.columns.docs], dtype=int)
    abilities = [run.result["models"][model].get("ability") or 0.0 for model in order]
    evidence_of_pairs = []
    for pair_scores, pair_abilities in zip(pairwise(scores), pairwise(abilities)):
        # On the scale of the curves, where f and its derivative give the logit and its slope.
        between = 0.5 * sum(pair_abilities) - curves.origin
        asked = np.flatnonzero(np.isfinite(pair_scores).any(axis=0))
        value, slope = curves.basis.value_and_slope(between)
        coefficients, noise = curves.coefficients[items[asked]], curves.noise[items[asked]]
        expected, weight = expit(coefficients @ value), (coefficients @ slope) / noise
        # Each model has items of its own. A document that one of the two was not asked is evidence
        # by the other's score alone.
        first, second = (
            np.nan_to_num(weight * (model_scores[asked] - expected)) for model_scores in pair_scores
        )
        evidence = np.zeros(len(items))
        evidence[asked] = np.abs(first - second)
        evidence_of_pairs.append(evidence)
    return evidence_of_pairs


# -- while a run goes on --------------------------------------------------------------------------


class LivePage:
    """Keeps the page of a run in this process up to date, from a separate thread.

    The page says that the run goes on, also when it has ended: `write_report` writes the last one.

    Parameters
    ----------
    run_dir : path
        Run directory, which may not exist yet.
    seconds : float, optional
        Least seconds between two updates, and between two reloads of the page. The first update
        comes after a second.

    Examples
    --------
    >>> with LivePage("runs/my_task"):                          # doctest: +SKIP
    ...     rank("models.yaml", run_dir="runs/my_task")
    """

    def __init__(self, run_dir: str | Path, seconds: float = SECONDS) -> None:
        self._folder, self._seconds = run_dir, seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="live page", daemon=True)

    def __enter__(self) -> LivePage:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        """Write the page again and again until the context ends."""
        pause = 1.0
        while not self._stop.wait(pause):
            start = time.monotonic()
            try:
                # A resumed run may still have the result of its earlier part.
                run = replace(read_run(self._folder), finished=False)
            # No run yet.
            except CcatError:
                continue
            # An error in writing is reported by the attempt after the run. Until then the failed
            # attempts take as long as others, and are made as seldom.
            with suppress(CcatError):
                write_report(run, refresh=self._seconds)
            pause = max(self._seconds, (time.monotonic() - start) / _WRITING_SHARE)


def own_files(**texts: str) -> dict[str, str]:
    """Return script and style of a page, each with the hash by which the page allows no others."""
    digests = {name: hashlib.sha256(text.encode()).digest() for name, text in texts.items()}
    hashes = {
        f"{name}_hash": f"sha256-{base64.b64encode(digest).decode()}"
        for name, digest in digests.items()
    }
    return {**texts, **hashes}


@cache
def environment() -> jinja2.Environment:
    """Return Jinja's environment, which escapes values and makes control characters visible."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lm_eval_ccat.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Every text that a template prints goes through here, before it is escaped.
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters["dollars"] = dollars
    environment.filters["difference"] = difference_texts
    environment.filters["whole_percent"] = whole_percent
    environment.filters["capitalized"] = lambda text: text[:1].upper() + text[1:]
    environment.filters["item_text"] = item_text
    for name in ("percent", "plain"):
        environment.filters[name] = getattr(tables, name)
    return environment
