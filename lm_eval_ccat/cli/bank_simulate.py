"""``lm-eval-ccat bank simulate``: a board's year, replayed month by month."""

from __future__ import annotations

import argparse

from .parsing import add_exclude, add_json, names_of, prints_json, write_json
from .reading import add_reading_arguments, progress, read_scores

EPILOG = """\
example:
  lm-eval-ccat bank simulate scores.parquet --metric acc --start 40 --months 12 --items 30

Models arrive month by month and are tested by a bank that learns from each month's tests, and by
one that never learns.  Coverage of 95% intervals says whether they stay honest.
"""


def add_action(actions: argparse._SubParsersAction) -> None:
    """Add ``simulate``."""
    parser = actions.add_parser(
        "simulate", help="replay a board over months: do its intervals stay honest?", epilog=EPILOG
    )
    parser.add_argument("scores", metavar="LOGS_OR_TABLE", help="full results of many models")
    add_reading_arguments(parser)
    parser.add_argument("--start", type=int, default=20, metavar="N", help="models of the bank")
    parser.add_argument("--months", type=int, default=12, metavar="N", help="default: 12")
    parser.add_argument("--items", type=int, default=40, metavar="N", help="of each new model")
    parser.add_argument(
        "--full", type=int, default=0, metavar="N", help="new models of a month run in full"
    )
    parser.add_argument(
        "--arrival",
        choices=("given", "random", "better"),
        default="random",
        help="order of the models: as given, at random, or the better the later",
    )
    parser.add_argument("--seed", type=int, default=0)
    add_exclude(parser)
    add_json(parser, "every month")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Replay and print."""
    from ..upkeep.year import pooled, replay_year

    table = read_scores(args.scores, args)
    if names := names_of(args.exclude):
        table.select(names)  # an unknown name is an error, not a silent nothing
        table = table.without(names)
    with progress(f"replaying {args.months} months", "months") as show:
        rows = replay_year(
            table,
            start=args.start,
            months=args.months,
            items=args.items,
            full=args.full,
            arrival=args.arrival,
            seed=args.seed,
            on_progress=show,
        )
    whole = pooled(rows)
    write_json(args.json, {"months": rows, "all": whole})
    if prints_json(args.json):
        return 0
    print(
        f"{'month':>5}  {'updated':8} {'known':>6} {'tested':>6}  coverage  z rms    rmse    bias"
    )
    for r in rows:
        print(f"{r['month']:5}  {r['policy']:8} {r['known']:6} {r['tested']:6}  {_figures(r)}")
    for policy, one in whole.items():
        print(f"{'all':>5}  {policy:8} {'':6} {one['tested']:6.0f}  {_figures(one)}")
    return 0


def _figures(one: dict[str, float]) -> str:
    return f"{one['coverage']:8.1%}  {one['z_rms']:5.2f}  {one['rmse']:.4f}  {one['bias']:+.4f}"
