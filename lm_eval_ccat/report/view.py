"""What the templates print: the run's facts in the words and numbers of the page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .. import __version__
from ..harness.signature import in_words, scorer_of_run
from ..money import dollars, spent_in_words
from ..ranker.headline import headline, held, question
from .axes import Axis, axis
from .decision import chain, outlook, pairs_decided, rank_rows, stands_beyond
from .parts import parts
from .provenance import banks_of, command, configuration
from .replay import History
from .run import StoredRun
from .shapes import COLOURED, information_chart, progress, ticks
from .tables import model_cells
from .trust import sentences
from .words import date, duration, item_text, listed, percent, probability, whole_percent

#: Up to here every cell of the pairwise matrix is text in a table; beyond, the page draws it.
MATRIX_AS_TABLE = 24


def view(run: StoredRun, past: History | None) -> dict[str, object]:
    """Everything that the page shows of a run and its course, except for the documents' texts."""
    rows = ranking_rows(run)
    line = chain(run.result)
    return {
        "version": __version__,
        "title": title(run),
        "task": run.header.get("task") or {},
        "metric": metric_name(run),
        "estimand": run.facts["estimand"],
        "held": held(run.result.get("looks"), run.result["confidence"]),
        "scale": run.scale.describe(),
        "higher": run.scale.higher_is_better,
        "finished": run.finished,
        "headline": headline(run.result),
        "question": question(run.result),
        "beyond": stands_beyond(run.result),
        "chain": line,
        "not_shown": len(run.result["order"]) - sum(len(p.names) for p in line),
        "parts": parts(run.result),
        "ranks": rank_rows(run.result),
        "outlook": outlook(run.result, run.currency),
        "trust": list(sentences(run)),
        "any_ties": bool(run.result["ties"]),
        "confidence": f"{100 * run.result['confidence']:g}%",
        "stopped": run.result["stopped_because"],
        "facts": list(facts(run)),
        "warnings": list(warnings(run, past is not None)),
        "forest_ticks": ticks(_forest_axis(run)),
        "rows": rows,
        "places": places(run),
        "n_ranked": len(run.result["order"]),
        "matrix": matrix(run),
        "progress": None if past is None else progress(run, past),
        "information": information_chart(run) if run.has_curves else None,
        "coloured": COLOURED,
        "spending": spending(run),
        "currency": run.currency,
        "banks": banks_of(run),
        "signature": run.result["signature"],
        "command": command(run),
        "config": configuration(run),
        "scored_by": in_words(scorer_of_run(run.header) or {}),
        "versions": run.header.get("versions") or {},
        "started": date(run.started),
        "ended": date(run.ended),
    }


def title(run: StoredRun) -> str:
    """``5 models on my_task, bleu``."""
    task = (run.header.get("task") or {}).get("name") or "a benchmark"
    known = len(run.models) - len(run.tested)
    among = f" among {known} known ones" if known else ""
    models = "model" if len(run.tested) == 1 else "models"
    return f"{len(run.tested)} {models}{among} on {task}, {metric_name(run)}"


def metric_name(run: StoredRun) -> str:
    """The metric, as what was estimated is called (``sentence_bleu``, not ``bleu``)."""
    return str(run.facts["metric"])


class Fact(NamedTuple):
    """A figure at the head of the page, and what it is."""

    value: str
    label: str


def facts(run: StoredRun) -> Iterator[Fact]:
    """The figures at the head of the page."""
    result = run.result
    asked, full = result["items_administered"], result["items_of_benchmark"] * len(run.tested)
    share = percent(asked, full)
    yield Fact(f"{asked:,}", f"answers, of {full:,} in a full evaluation ({share})")
    used = len({a.doc for a in run.answers})
    yield Fact(f"{used:,}", f"of {result['items_of_benchmark']:,} documents used")
    if run.currency == "usd":
        whole = sum(row.full_cost or 0.0 for row in spending_rows(run))
        yield Fact(dollars(result["cost"]), f"spent; a full evaluation about {dollars(whole)}")
    elif usd := result.get("usd"):
        yield Fact(dollars(usd), "spent, where the price is known")
    pairs = pairs_decided(result)
    if pairs["pairs"]:
        same = f", {pairs['equivalent']} equivalent" if pairs["equivalent"] else ""
        yield Fact(
            f"{pairs['decided']:,} of {pairs['pairs']:,}",
            f"pairs decided at {100 * result['confidence']:g}% confidence{same}; "
            f"of neighbours {pairs['near_decided']} of {pairs['near']}",
        )
    if run.started and run.ended and run.ended > run.started:
        yield Fact(duration(run.ended - run.started), "from start to end")


class Warned(NamedTuple):
    """A kind of trouble, and what it is."""

    kind: str
    text: str


def warnings(run: StoredRun, with_course: bool = True) -> Iterator[Warned]:
    """What a reader must know before trusting the page, the gravest first."""
    if not run.finished:
        yield Warned("Running", "This run is not finished; the page shows its state so far.")
    for model, one in run.result["models"].items():
        if reason := one.get("set_aside"):
            yield Warned("Set aside", f"{model} is not in the order: {reason}")
    for model, n in Counter(f.model for f in run.failures).items():
        yield Warned(
            "Failed",
            f"{model} failed on {n} document{'s' if n > 1 else ''}; they are not scored, "
            "and its estimate treats them as not seen.",
        )
    estimated = {a.model for a in run.answers if (a.tokens or {}).get("source") == "estimate"}
    if names := listed([m for m in run.models if m in estimated]):
        yield Warned("Cost", f"Tokens of {names} are estimated from the length of the texts.")
    if run.torn:
        torn = "The journal ends in a line torn by a crash; that line is left out."
        yield Warned("Journal", torn)
    for task, bank in run.each_bank():
        yield from (Warned("Bank", f"{task}: {text}" if task else text) for text in bank.warnings)
    if run.banks is None:
        yield Warned(
            "Bank",
            "The run's copy of its item bank is gone or changed, so the course of the run, the "
            "information curve and the expected scores are left out.",
        )
    elif run.answers and not with_course:
        yield Warned(
            "Version",
            "This version's method gives other figures for the same answers than the run "
            "reported. The page shows what the run reported; its course is left out.",
        )


def _forest_axis(run: StoredRun) -> Axis:
    ends = [v for m in run.models for v in run.result["models"][m]["interval"]]
    return axis(ends, 7)


def ranking_rows(run: StoredRun) -> list[dict[str, object]]:
    """One row of the ranking per model."""
    scale = _forest_axis(run)
    return [
        {
            "index": n,
            "cells": cells,
            "x": scale.place(cells.value),
            "x_low": scale.place(cells.low_value),
            "x_high": scale.place(cells.high_value),
        }
        for n, cells in enumerate(model_cells(run.result))
    ]


def places(run: StoredRun) -> list[dict[str, object]]:
    """Where each new model stands among those with full results, where the run has such."""
    rows = []
    for m in run.tested:
        place = run.result["models"][m].get("place")
        if place:
            rows.append({"name": m, **place})
    return rows


def matrix(run: StoredRun) -> list[dict[str, object]]:
    """The pairwise probabilities, row by row in the order; empty where there are too many."""
    order = run.result["order"]
    if len(order) > MATRIX_AS_TABLE:
        return []
    rows = []
    for i, a in enumerate(order):
        cells: list[dict[str, object] | None] = []
        for b in order:
            p = run.pairwise.get((a, b))
            if p is None:
                cells.append(None)
                continue
            cells.append(
                {
                    "text": whole_percent(p),
                    "step": min(10, round(10 * p)),
                    "decided": (a, b) in run.decided,
                    "words": f"P({a} better than {b}) = {probability(p)}",
                }
            )
        rows.append({"rank": i + 1, "name": a, "cells": cells})
    return rows


@dataclass(frozen=True)
class SpendingRow:
    """What one model took, and a full evaluation of it would; None where it is not known."""

    name: str
    asked: int
    share: float
    share_text: str
    cost: float
    full_cost: float | None
    tokens_in: int | None
    tokens_out: int | None
    seconds: float | None
    failed: int

    @property
    def cost_text(self) -> str:
        """Dollars."""
        return dollars(self.cost)

    @property
    def full_cost_text(self) -> str:
        """Dollars."""
        return "" if self.full_cost is None else dollars(self.full_cost)


def spending_rows(run: StoredRun) -> list[SpendingRow]:
    """Items, cost, tokens and time of each model that was asked."""
    n_items, answers_of = run.result["items_of_benchmark"], defaultdict(list)
    for a in run.answers:
        answers_of[a.model].append(a)
    rows = []
    for m in run.tested:
        one, answers = run.result["models"][m], answers_of[m]
        asked, cost = one["n_items"], one["cost"]
        seconds = [a.seconds for a in answers if a.seconds is not None]
        tokens = [a.tokens for a in answers if a.tokens]
        rows.append(
            SpendingRow(
                m,
                asked,
                100.0 * asked / n_items,
                percent(asked, n_items),
                cost,
                cost / asked * n_items if asked else None,
                round(sum(t["input"] for t in tokens)) if tokens else None,
                round(sum(t["output"] for t in tokens)) if tokens else None,
                round(sum(seconds), 1) if seconds else None,
                len(one.get("failed") or []),
            )
        )
    return rows


def spending(run: StoredRun) -> dict[str, object]:
    """The section of the page: such rows, their sums, and what failed."""
    n_items, rows = run.result["items_of_benchmark"], spending_rows(run)
    return {
        "said": spent_in_words(run.result),
        "rows": rows,
        "n_items": n_items,
        "asked": sum(r.asked for r in rows),
        "full_items": n_items * len(rows),
        "cost_text": dollars(sum(r.cost for r in rows)),
        "full_cost_text": dollars(sum(r.full_cost or 0.0 for r in rows)),
        "tokens": any(r.tokens_in is not None for r in rows),
        "seconds": any(r.seconds is not None for r in rows),
        "failed": [
            {"model": f.model, "doc": item_text(f.doc), "reason": f.reason} for f in run.failures
        ],
    }
