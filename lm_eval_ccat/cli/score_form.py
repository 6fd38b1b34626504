"""``lm-eval-ccat score-form``: the whole benchmark's score from the logs of a fixed form."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import UsageError
from .parsing import add_json, prints_json, write_json

EPILOG = """\
example:
  lm-eval-ccat score-form gsm8k.form out/

FORM is what `bank form` wrote, LOGS those of its tasks (or of the whole task).
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``score-form`` to the command line."""
    parser = subparsers.add_parser(
        "score-form",
        help="estimate the whole score from the logs of a fixed form",
        description="Estimate the whole benchmark's score from the logs of a fixed form.",
        epilog=EPILOG,
    )
    parser.add_argument("form", metavar="FORM", help="folder that `bank form` wrote")
    parser.add_argument("logs", metavar="LOGS", help="logs of the form's task")
    parser.add_argument(
        "--confidence", type=float, default=0.95, help="of the intervals (default: 0.95)"
    )
    add_json(parser, "the estimates")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Estimate and print."""
    from ..upkeep.form_files import Forms, score_forms

    if not 0.5 <= args.confidence < 1.0:
        raise UsageError(f"--confidence {args.confidence:g} is not in [0.5, 1)")
    if not Path(args.logs).exists():
        raise UsageError(f"{args.logs}: no such file or directory of scores")
    forms = Forms.load(args.form)
    found = score_forms(forms, args.logs, args.confidence)
    filter = f", filter {forms.filter}" if forms.filter else ""
    write_json(
        args.json,
        {
            "estimand": f"mean {forms.metric} over all {forms.n_items} documents of {forms.task}",
            "metric": forms.metric,
            "filter": forms.filter,
            "scale": forms.scale.describe(),
            "confidence": args.confidence,
            "models": found,
        },
    )
    if prints_json(args.json):
        return 0
    print(f"{forms.task}: mean {forms.metric}{filter} over all {forms.n_items} documents, "
          f"estimated; intervals at {100 * args.confidence:g}%")  # fmt: skip
    width = max(map(len, found))
    for model, entries in found.items():
        for one in entries:
            low, high = one["interval"]
            print(
                f"  {model:<{width}}  {one['estimate']:.4g} ± {one['standard_error']:.2g}  "
                f"({low:.4g} to {high:.4g})  form {one['form']}, {one['items']} items"
            )
    return 0
