"""``lm-eval-ccat report``: the HTML page of a ranking, and charts as SVG, PNG and PDF."""

from __future__ import annotations

import argparse

from .parsing import Opt, Options, add_command

EPILOG = """\
examples:
  lm-eval-ccat report runs/my_task
  lm-eval-ccat report runs/my_task -o my_task.html --plots figures/
  lm-eval-ccat report sim_10.json sim_20.json sim_40.json --plots figures/
  lm-eval-ccat report my_task.bank.json --plots figures/
"""


OPTIONS: Options = {
    "paths=PATH...": "a run directory of `rank`; with --plots also files of simulate, a bank or "
    "a suite",
    "-o --output HTML": "the page (default: RUN_DIR/report.html)",
    "--plots DIR": "write the charts into DIR as well",
    "--formats LIST": Opt("formats of the charts; png and pdf need the extra `plot`", "svg"),
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``report`` to the command line."""
    what = "Make an HTML page of a finished or running ranking, or charts."
    add_command(subparsers, "report", run, OPTIONS, what, EPILOG)


def run(args: argparse.Namespace) -> int:
    """Write what was asked for, and print where it is."""
    from pathlib import Path

    from ..bank.suite import is_suite
    from ..errors import UsageError

    paths = [Path(p) for p in args.paths]
    runs = [p for p in paths if p.is_dir() and not is_suite(p)]
    if not runs:
        for path in paths:
            if not path.exists():
                raise UsageError(f"there is no run directory or file {path}")
        if args.plots is None:
            raise UsageError(f"{paths[0]} is not a run; name a folder for its charts: --plots DIR")
        from ..report.plots import plot_files

        written = plot_files(paths, args.plots, _formats(args.formats))
    else:
        if len(paths) > 1:
            raise UsageError("give one run directory at a time")
        from ..report import write_report

        written = [write_report(runs[0], args.output)]
        if args.plots is not None:
            from ..report.plots import plot_run

            written += plot_run(runs[0], args.plots, _formats(args.formats))
    for path in written:
        print(path)
    return 0


def _formats(text: str) -> list[str]:
    from ..errors import UsageError
    from ..report.chart import FORMATS

    wanted = [f.strip().lower() for f in text.split(",") if f.strip()]
    for name in wanted:
        if name not in FORMATS:
            raise UsageError(f"--formats takes svg, png and pdf, not {name!r}")
    return wanted or ["svg"]
