"""The HTML page of a run: one file that needs no network, safe with hostile model output."""

from __future__ import annotations

import base64
import hashlib
import time
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import RunError
from ..files import replace_text
from ..masking import mask_text
from ..money import dollars
from ..visible import visible, visible_line
from .documents import documents
from .replay import course
from .run import StoredRun, read_run
from .sections import Section, sections_of
from .view import view
from .words import (
    date,
    difference,
    item_text,
    percent,
    plain,
    probability,
    script_json,
    whole_percent,
)

#: Up to here every cell of the pairwise matrix is text in a table; beyond, the page draws it.
MATRIX_AS_TABLE = 24


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
    past = course(run)
    content = view(run, past)
    models = run.models
    order = run.result["order"]
    place = {m: j for j, m in enumerate(models)}
    shown = documents(run, models, None if past is None else past.expected, most_documents)
    data = {
        "models": [visible_line(m) for m in models],
        "order": [place[m] for m in order],
        "confidence": run.result["confidence"],
        # Row by row in the order; -1 on the diagonal, and between two models with full results.
        "p": [[_per_cent(run.pairwise.get((a, b))) for b in order] for a in order],
        "decided": ["".join("01"[(a, b) in run.decided] for b in order) for a in order],
        "drawn": len(order) > MATRIX_AS_TABLE,
        "higher": run.scale.higher_is_better,
        "docs": shown,
    }
    script, style = asset("app.js"), asset("style.css")
    content |= {
        "matrix_as_table": len(order) <= MATRIX_AS_TABLE,
        "refresh": None if refresh is None or run.finished else f"{refresh:g}",
        "written": date(time.time()),
        "n_documents": len(shown),
        "data": script_json(data),
        "script": script,
        "style": style,
        "script_hash": csp_hash(script),
        "style_hash": csp_hash(style),
    }
    content["figure"] = _figure(run)
    content["sections"] = _sections(run, content)
    return str(environment().get_template("page.html.j2").render(**content))


def _sections(run: StoredRun, content: dict[str, object]) -> list[dict[str, object]]:
    """Name, title and HTML of each section of the page."""
    from markupsafe import Markup

    jinja = environment()
    chart = jinja.get_template("charts.html.j2").module

    def html(section: Section, content_of_section: dict[str, object]) -> Markup:
        template = (
            jinja.from_string(section.text)
            if section.text
            else jinja.get_template(f"{section.name}.html.j2")
        )
        # Every value in it was escaped as the template was rendered.
        return Markup(template.render({"chart": chart, **content, **content_of_section}))

    return [
        {"name": section.name, "title": section.title, "html": html(section, its_content)}
        for section, its_content in sections_of(run, content)
    ]


def _figure(run: StoredRun) -> dict[str, object]:
    """The drawing for a paper, and what its file is called."""
    from markupsafe import Markup

    from .plots import plot_ranking

    name = (run.header.get("task") or {}).get("name") or "ranking"
    return {"svg": Markup(plot_ranking(run).svg), "name": str(name)}  # escaped as it was drawn


def _per_cent(p: float | None) -> float:
    return -1 if p is None else round(100 * p, 2)


def csp_hash(text: str) -> str:
    """The hash by which the page's policy allows exactly this script or style and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


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
        finalize=_finalize,
    )
    for show in (difference, dollars, item_text, percent, plain, probability, whole_percent):
        environment.filters[show.__name__] = show
    return environment


def _finalize(value: Any) -> Any:
    # Every text that a template prints goes through here, before it is escaped.
    return visible(value) if type(value) is str else value
