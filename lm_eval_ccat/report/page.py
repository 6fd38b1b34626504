"""The HTML page of a run: one file that needs no network, safe with hostile model output."""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import CcatError, RunError
from ..files import replace_text
from ..harness.scorers import in_words, scorer_of_run
from ..masking import mask_text
from ..money import dollars, spent_in_words
from ..ranker.headline import headline, held, question
from ..shown import visible, visible_line
from .chart import axis
from .documents import documents
from .plots import COLOURED, information_chart, plot_ranking, progress
from .replay import History, course
from .run import StoredRun, read_run
from .sections import sections_of
from .tables import (
    chain,
    model_cells,
    outlook,
    pairs_decided,
    parts,
    rank_rows,
    stands_beyond,
)  # fmt: skip
from .trust import command, configuration, sentences, warnings
from .words import (
    date,
    difference,
    duration,
    item_text,
    one_look,
    percent,
    plain,
    probability,
    script_json,
    whole_percent,
)  # fmt: skip

#: Up to here every cell of the pairwise matrix is text in a table; beyond, the page draws it.
MATRIX_AS_TABLE = 24
#: Seconds between two pages, and the share of the time that writing them may take.
SECONDS = 10.0
_SHARE = 0.1


def write_report(
    run_dir: StoredRun | str | Path,
    output: str | Path | None = None,
    most_documents: int | None = None,
    refresh: float | None = None,
) -> Path:
    """Write the HTML page of a finished or running ranking.

    Parameters
    ----------
    run_dir : path or StoredRun
        The directory that `rank` wrote, or what was read there.
    output : path, optional
        The page; ``report.html`` in the run directory by default. Replaced in one step.
    most_documents : int, optional
        At most this many documents, those that weighed most in the decisions; default all.
    refresh : float, optional
        Seconds after which the page of a run that goes on loads itself again.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    RunError
        No readable run there, or the page cannot be written.

    Examples
    --------
    >>> write_report("runs/my_task")  # doctest: +SKIP
    PosixPath('runs/my_task/report.html')
    """
    run = run_dir if isinstance(run_dir, StoredRun) else read_run(run_dir)
    target = Path(output) if output is not None else run.path / "report.html"
    text = mask_text(render(run, most_documents, refresh))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_text(target, text, private=output is None)
    except OSError as error:
        raise RunError(f"cannot write the report {target}: {error.strerror or error}") from error
    return target


def render(run: StoredRun, most_documents: int | None = None, refresh: float | None = None) -> str:
    """The page of a run as HTML text; `refresh` is of use while the run goes on."""
    from markupsafe import Markup

    past = course(run)
    content = view(run, past)
    order = run.result["order"]
    place = {m: j for j, m in enumerate(run.models)}
    shown = documents(run, run.models, None if past is None else past.expected, most_documents)
    p = {pair: round(100 * p, 2) for pair, p in run.pairwise.items()}
    data = {
        "models": [visible_line(m) for m in run.models],
        "order": [place[m] for m in order],
        "confidence": run.result["confidence"],
        # Row by row in the order; -1 on the diagonal, and between two models with full results.
        "p": [[p.get((a, b), -1) for b in order] for a in order],
        "decided": ["".join("01"[(a, b) in run.decided] for b in order) for a in order],
        "drawn": len(order) > MATRIX_AS_TABLE,
        "higher": run.scale.higher_is_better,
        "docs": shown,
    }
    content |= {
        "matrix_as_table": len(order) <= MATRIX_AS_TABLE,
        "refresh": None if refresh is None or run.finished else f"{refresh:g}",
        "written": date(time.time()),
        "n_documents": len(shown),
        "data": script_json(data),
        # The drawing for a paper, escaped as it was drawn, and what its file is called.
        "figure": {"svg": Markup(plot_ranking(run).svg), "name": _task(run) or "ranking"},
        **own_files(asset("app.js"), asset("style.css")),
    }
    jinja = environment()
    content["chart"] = jinja.get_template("charts.html.j2").module
    content["sections"] = [
        {
            "name": section.name,
            "title": section.title,
            # Every value in it was escaped as the template was rendered.
            "html": Markup(
                (
                    jinja.from_string(section.text)
                    if section.text
                    else jinja.get_template(f"{section.name}.html.j2")
                ).render({**content, **its_content})
            ),
        }
        for section, its_content in sections_of(run, content)
    ]
    return str(jinja.get_template("page.html.j2").render(**content))


def view(run: StoredRun, past: History | None) -> dict[str, Any]:
    """Everything that the page shows of a run and its course, except for the documents' texts."""
    result = run.result
    line = chain(result)
    known = len(run.models) - len(run.tested)
    asked = {m: result["models"][m] for m in run.tested}
    n = result["items_of_benchmark"]
    spending = {
        "said": spent_in_words(result),
        "asked": sum(one["n_items"] for one in asked.values()),
        "cost": sum(one["cost"] for one in asked.values()),
        # Of asking each model everything, at the mean cost of its answers.
        "full_costs": {m: a["cost"] / a["n_items"] * n for m, a in asked.items() if a["n_items"]},
        "tokens": any(one.get("tokens") for one in asked.values()),
        "seconds": any(one.get("seconds") for one in asked.values()),
    }
    among = f" among {known} known ones" if known else ""
    models = f"{len(asked)} {'model' if len(asked) == 1 else 'models'}{among}"
    return {
        "run": run,
        "result": result,
        "version": __version__,
        "title": f"{models} on {_task(run) or 'a benchmark'}, {run.facts['metric']}",
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
        "facts": list(_facts(run, spending)),
        "warnings": list(warnings(run, past is not None)),
        "forest": axis([v for m in run.models for v in result["models"][m]["interval"]], 7),
        "rows": model_cells(result),
        "progress": None if past is None else progress(run, past),
        "information": information_chart(run) if run.has_curves else None,
        "coloured": COLOURED,
        "spending": spending,
        "command": command(run),
        "config": configuration(run),
        "scored_by": in_words(scorer_of_run(run.header) or {}),
        "started": date(run.started),
        "ended": date(run.ended),
    }


def _task(run: StoredRun) -> str:
    return str((run.header.get("task") or {}).get("name") or "")


def _facts(run: StoredRun, spending: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The figures at the head of the page, and what each is."""
    result = run.result
    asked, full = result["items_administered"], result["items_of_benchmark"] * len(run.tested)
    share = percent(asked, full)
    yield (f"{asked:,}", f"answers, of {full:,} in a full evaluation ({share})")
    used = len({a.doc for a in run.answers})
    yield (f"{used:,}", f"of {result['items_of_benchmark']:,} documents used")
    if run.currency == "usd":
        whole = dollars(sum(spending["full_costs"].values()))
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


class LivePage:
    """The page of a run that this process conducts, written by a thread beside it.

    Parameters
    ----------
    run_dir : path
        Where the run is, or will be.
    seconds : float, optional
        Between two pages.

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
        pause = 1.0
        while not self._stop.wait(pause):
            began = time.monotonic()
            try:
                # A result of before may still lie there when a run is resumed.
                run = replace(read_run(self._folder), finished=False)
                write_report(run, refresh=self._seconds)
            except CcatError:
                continue  # not begun yet; a page that cannot be written is said at the end
            pause = max(self._seconds, (time.monotonic() - began) / _SHARE)


def csp_hash(text: str) -> str:
    """The hash by which the page's policy allows exactly this script or style and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def own_files(script: str, style: str) -> dict[str, str]:
    """Script and style of a page, with their hashes."""
    hashes = {"script_hash": csp_hash(script), "style_hash": csp_hash(style)}
    return {"script": script, "style": style, **hashes}


def asset(name: str) -> str:
    """A template file's text."""
    return (resources.files(__package__) / "templates" / name).read_text(encoding="utf-8")


@cache
def environment() -> Any:
    """Jinja's environment: every value is escaped, and control characters are made visible."""
    try:
        import jinja2
    except ImportError:
        raise RunError("the report needs Jinja2: pip install jinja2") from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lm_eval_ccat.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Every text that a template prints goes through here, before it is escaped.
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    for show in (difference, dollars, item_text, percent, plain, probability, whole_percent):
        environment.filters[show.__name__] = show
    return environment
