"""`report`: a page or charts of a ranking."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..bank.suite import is_suite
from ..board.folder import LEDGER
from ..errors import UsageError
from ..live.result import state
from ..masking import mask_text
from ..plugins import existing
from ..report import read_run, write_report
from ..report.chart import FORMATS
from ..report.plots import plot_files, plot_ranking
from .parsing import Opt, Options, write_file

OPTIONS: Options = {
    "paths=PATH...": "a run directory of `rank`; with --plots also files of simulate, a bank or "
    "a suite",
    "-o --output FILE": "the page (.html; default: RUN_DIR/report.html) or its table (.md)",
    "--plots DIR": "write the charts into DIR as well",
    "--formats LIST": Opt("formats of the charts; png and pdf need the extra `plot`", "svg"),
}


def report(args: argparse.Namespace) -> int:
    """Make an HTML page of a finished or running ranking, or charts.

    examples:
      lm-eval-ccat report runs/my_task
      lm-eval-ccat report runs/my_task -o my_task.html --plots figures/
      lm-eval-ccat report sim_10.json sim_20.json sim_40.json --plots figures/
      lm-eval-ccat report my_task.bank.json --plots figures/
    """
    formats = _formats(args.formats)
    paths = [Path(path) for path in args.paths]
    runs = [path for path in paths if path.is_dir() and not is_suite(path)]
    if not runs:
        print(*_charts_of_files(paths, args.plots, formats), sep="\n")
        return 0
    if (runs[0] / LEDGER).is_file():
        raise UsageError(
            f"{runs[0]} is a board; its page: lm-eval-ccat board publish {runs[0]} -o site"
        )
    if len(paths) > 1:
        raise UsageError("give one run directory at a time")
    written = [_report_of(runs[0], args.output and Path(args.output))]
    if args.plots is not None:
        chart = plot_ranking(read_run(runs[0]))
        written += chart.save(Path(args.plots) / "ranking", formats)
    print(*written, sep="\n")
    return 0


def _formats(text: str) -> list[str]:
    """Return the formats of charts that ``--formats`` names; SVG where it names none."""
    names = [name.strip().lower() for name in text.split(",")]
    formats = [name for name in names if name] or ["svg"]
    for name in formats:
        if name not in FORMATS:
            raise UsageError(f"--formats takes svg, png and pdf, not {name!r}")
    return formats


def _charts_of_files(paths: list[Path], folder: str | None, formats: list[str]) -> list[Path]:
    """Draw files of simulations, a bank or a suite; return the charts' files."""
    for path in paths:
        existing(path, "run directory or file")
    if folder is None:
        raise UsageError(
            f"{paths[0]} is not a run's directory; of a file there are charts: --plots DIR"
        )
    return plot_files(paths, folder, formats)


def _report_of(run: Path, output: Path | None) -> Path:
    """Write the page of a run, or its table if the file's name ends with ``.md``."""
    if output and output.suffix not in (".html", ".md"):
        raise UsageError(f"--output {output}: the ending must be .html or .md")
    if output and output.suffix == ".md":
        write_file(output, mask_text(state(run).to_markdown()))
        return output
    return write_report(run, output)
