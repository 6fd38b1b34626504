"""What the templates print beside the rows of the result: sentences, axes and shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from .. import __version__
from ..harness.scorers import in_words, scorer_of_run
from ..money import dollars, spent_in_words
from ..ranker.headline import headline, held, question
from .axes import axis
from .replay import History
from .run import StoredRun
from .shapes import COLOURED, information_chart, progress, ticks
from .tables import (
    chain,
    model_cells,
    outlook,
    pairs_decided,
    parts,
    rank_rows,
    stands_beyond,
)
from .trust import SELF_CHECK_WORDS, command, configuration, sentences
from .words import date, duration, listed, one_look, percent


def view(run: StoredRun, past: History | None) -> dict[str, object]:
    """Everything that the page shows of a run and its course, except for the documents' texts."""
    result, line = run.result, chain(run.result)
    ends = axis([v for m in run.models for v in result["models"][m]["interval"]], 7)
    return {
        "run": run,
        "result": result,
        "version": __version__,
        "title": title(run),
        "held": held(result.get("looks"), result["confidence"]),
        "headline": headline(result),
        "question": question(result),
        "beyond": stands_beyond(result),
        "chain": line,
        "not_shown": len(result["order"]) - sum(len(p.names) for p in line),
        "parts": parts(result),
        "ranks": rank_rows(result),
        "outlook": outlook(result, run.currency),
        "one_look": one_look(result),
        "trust": list(sentences(run)),
        "confidence": f"{100 * result['confidence']:g}%",
        "facts": list(facts(run)),
        "warnings": list(warnings(run, past is not None)),
        "forest": ends,
        "forest_ticks": ticks(ends),
        "rows": model_cells(result),
        "progress": None if past is None else progress(run, past),
        "information": information_chart(run) if run.has_curves else None,
        "coloured": COLOURED,
        "spending": spending(run),
        "self_check_words": SELF_CHECK_WORDS,
        "command": command(run),
        "config": configuration(run),
        "scored_by": in_words(scorer_of_run(run.header) or {}),
        "started": date(run.started),
        "ended": date(run.ended),
    }


def title(run: StoredRun) -> str:
    """``5 models on my_task, bleu``."""
    task = (run.header.get("task") or {}).get("name") or "a benchmark"
    known = len(run.models) - len(run.tested)
    among = f" among {known} known ones" if known else ""
    models = "model" if len(run.tested) == 1 else "models"
    return f"{len(run.tested)} {models}{among} on {task}, {run.facts['metric']}"


def facts(run: StoredRun) -> Iterator[tuple[str, str]]:
    """The figures at the head of the page, and what each is."""
    result = run.result
    asked, full = result["items_administered"], result["items_of_benchmark"] * len(run.tested)
    share = percent(asked, full)
    yield (f"{asked:,}", f"answers, of {full:,} in a full evaluation ({share})")
    used = len({a.doc for a in run.answers})
    yield (f"{used:,}", f"of {result['items_of_benchmark']:,} documents used")
    if run.currency == "usd":
        whole = dollars(sum(_full_costs(run).values()))
        yield (dollars(result["cost"]), f"spent; a full evaluation about {whole}")
    elif usd := result.get("usd"):
        yield (dollars(usd), "spent, where the price is known")
    pairs = pairs_decided(result)
    if pairs["pairs"]:
        same = f", {pairs['equivalent']} equivalent" if pairs["equivalent"] else ""
        yield (
            f"{pairs['decided']:,} of {pairs['pairs']:,}",
            f"pairs decided at {100 * result['confidence']:g}% confidence{same}; "
            f"of neighbours {pairs['near_decided']} of {pairs['near']}",
        )
    if run.started and run.ended and run.ended > run.started:
        yield (duration(run.ended - run.started), "from start to end")


def warnings(run: StoredRun, with_course: bool = True) -> Iterator[tuple[str, str]]:
    """Return the page's warnings, each with its kind, the gravest first."""
    if not run.finished:
        yield ("Running", "This run is not finished; the page shows its state so far.")
    for model, one in run.result["models"].items():
        if reason := one.get("set_aside"):
            yield ("Set aside", f"{model} is not in the order: {reason}")
    for model, n in Counter(model for model, *_ in run.failed).items():
        yield (
            "Failed",
            f"{model} failed on {n} document{'s' if n > 1 else ''}; they are not scored, "
            "and its estimate treats them as not seen.",
        )
    models = run.result["models"]
    estimated = [m for m in run.models if models[m].get("tokens", {}).get("estimated")]
    if names := listed(estimated):
        yield ("Cost", f"Tokens of {names} are estimated from the length of the texts.")
    if run.torn:
        torn = "The journal ends in a line torn by a crash; that line is left out."
        yield ("Journal", torn)
    for task, bank in run.bank_of.items():
        yield from (("Bank", f"{task}: {text}" if task else text) for text in bank.warnings)
    if run.banks is None:
        yield (
            "Bank",
            "The run's copy of its item bank is gone or changed, so the course of the run, the "
            "information curve and the expected scores are left out.",
        )
    elif run.answers and not with_course:
        yield (
            "Version",
            "This version's method gives other figures for the same answers than the run "
            "reported. The page shows what the run reported; its course is left out.",
        )


def _full_costs(run: StoredRun) -> dict[str, float]:
    """What asking each model everything would cost, at the mean cost of its answers."""
    n, models = run.result["items_of_benchmark"], run.result["models"]
    each = {m: models[m] for m in run.tested}
    return {m: one["cost"] / one["n_items"] * n for m, one in each.items() if one["n_items"]}


def spending(run: StoredRun) -> Mapping[str, object]:
    """Compare what the run spent with the cost of a full evaluation."""
    rows = [run.result["models"][m] for m in run.tested]
    return {
        "said": spent_in_words(run.result),
        "asked": sum(one["n_items"] for one in rows),
        "cost": sum(one["cost"] for one in rows),
        "full_costs": _full_costs(run),
        "tokens": any(one.get("tokens") for one in rows),
        "seconds": any(one.get("seconds") for one in rows),
    }
