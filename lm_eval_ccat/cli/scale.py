"""``lm-eval-ccat scale``: per-item scaling of scores over the calibration configs."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import UsageError
from .parsing import add_exclude, names_of

EPILOG = """\
examples:
  # ends from the calibration models, kept for later
  lm-eval-ccat scale logs/ --task ccat_biolaysumm_plos --metric fkgl \\
      --write_scaling fkgl.scaling.json -o fkgl.scaled.parquet
  lm-eval-ccat calibrate fkgl.scaled.parquet -o fkgl.bank.json

  # a model that was not among them, by the same ends
  lm-eval-ccat scale new_logs/ --task ccat_biolaysumm_plos --metric fkgl \\
      --scaling fkgl.scaling.json -o new.scaled.parquet
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``scale`` to the command line."""
    parser = subparsers.add_parser(
        "scale",
        help="scale each item's scores to [0, 1] over the calibration configs",
        description=(
            "Item by item, (y - min)/(max - min) over the calibration configs, as the paper scales "
            "BioLaySumm. The ends come from calibration data alone."
        ),
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scores", metavar="LOGS_OR_TABLE", help="harness logs or a score table")
    parser.add_argument("-o", "--output", required=True, help="score table, .parquet or .csv")
    parser.add_argument("--metric", help="needed where there are several")
    parser.add_argument("--task", help="needed where the logs hold several")
    parser.add_argument("--filter", help="needed where the task has several")
    add_exclude(parser, "models to leave out of the calibration, by commas; they are scaled, too")
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument("--scaling", metavar="FILE", help="use the ends of this file")
    ends.add_argument("--write_scaling", metavar="FILE", help="keep the ends in this file")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Scale a table."""
    from ..scores.item_scaling import ItemScaling
    from ..scores.table import ScoreTable

    output = Path(args.output)
    if output.suffix not in (".parquet", ".csv"):
        raise UsageError(f"a score table is a .parquet or a .csv file, not {output.name}")
    table = ScoreTable.read(args.scores, metric=args.metric, task=args.task, filter=args.filter)
    excluded = names_of(args.exclude)
    unknown = sorted(set(excluded) - set(table.models))
    if unknown:
        raise UsageError(f"no model {unknown[0]!r} to exclude; there are {', '.join(table.models)}")
    if args.scaling:
        scaling = ItemScaling.load(args.scaling)
    else:
        scaling = ItemScaling.fit(table.without(excluded) if excluded else table)
    if args.write_scaling:
        scaling.save(args.write_scaling)
    scaled = scaling.apply(table)
    scaled.write(output)
    flat = int((scaling.low == scaling.high).sum())
    print(
        f"{output}: {scaled.metric} of {len(scaled.models)} models and {len(scaled.doc_ids)} "
        f"items, ends over {scaling.rows} calibration configs"
        + (f"; {flat} items are the same for all and became 0.5" if flat else "")
    )
    return 0
