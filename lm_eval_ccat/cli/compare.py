"""`compare`: is a candidate better, worse, or not worse than a baseline?"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UsageError
from ..live import compare as comparing
from ..live.comparison import Comparison
from ..live.losses import with_answers
from ..live.sides import models_in
from ..live.surfaces import add_flags, given_by_flags
from ..report.following import after_comparison
from ..report.plain import format_of, lines
from ..scores.reading import YAML
from ..shown import some
from .live import Display
from .parsing import (
    JSON,
    MODELS,
    READING,
    Opt,
    Options,
    doubts_of_range,
    emit,
    models_of,
    reading_of,
    warn,
    write_file,
)

_SIDE = "logs, a score table, an adaptive run, or a YAML file of `rank` with one model"
_ABOUT = {
    "tasks": "Compare on this task only (default: all in common); a live model is asked its "
    "documents.",
    "metrics": "Metrics that decide, of all filters or of one (METRIC,FILTER); weight 0 only "
    "reports a metric. Default: all in common.",
    "accept_change": "Changes to accept: `prompts` (the sides were asked in other ways), `scoring` "
    "(other targets, task version, code or metric settings), `cut` (other limits of answers); of "
    "live models also `server`, as in `rank`. Each is told.",
    "max_items": "Maximum number of documents that a live model is asked; fewer than 10 "
    "decide nothing.",
}
OPTIONS: Options = {
    "a=A?": f"the baseline: {_SIDE}",
    "b=B?": "the candidate: the same",
    "--models A,B": "which models, if the logs hold several",
    "--range WORST,BEST": READING["--range WORST,BEST"],
    "--margin D": Opt("largest loss to accept, on the metric's own scale", 0.0),
    "--question population|benchmark|run": Opt(
        "which question logs decide: about documents like these (default), about these, or about "
        "these very answers even if they are sampled; a second answer is printed beside it"
    ),
    "--by FIELD": "also compare each group of documents with the same value",
    "--cluster FIELD": "treat documents with equal values as one cluster",
    **JSON,
    "-o --output FILE,": Opt(
        "also write a comment for a pull request (FILE.md), a test report (FILE.xml) or a page "
        "(FILE.html); once per file",
        [],
    ),
    "options of the comparison": partial(add_flags, command="compare", help_texts=_ABOUT),
    "live models, asked random documents of --task until the answer is known": {
        **MODELS,
        "--run_dir DIR": "where the answers are kept; the same command goes on from them",
    },
}


def compare(args: argparse.Namespace) -> int:
    r"""Compare a candidate with a baseline, document by document.

    examples:
      lm-eval-ccat compare logs/base logs/candidate --metric exact_match --margin 0.01
      lm-eval-ccat compare logs/ --models base,candidate --by subject
      lm-eval-ccat compare logs/base --task gsm8k --model hf --model_args pretrained=new \
          --margin 0.02 --max_items 500
      lm-eval-ccat compare logs/base candidate.yaml -o comment.md -o compare.xml

    Exit code 0: the candidate is not worse by more than the margin. 5: it is worse.
    3: not known. docs/howto/recipes.md has a workflow for CI.
    """
    format_of_file = {Path(name): format_of(Path(name)) for name in args.output}
    sides, options = _two_sides(args), given_by_flags(args, "compare")
    # What a comparison comes to is printed below, in the form that is asked for.
    display = Display(quiet=True)
    compared = _compared(args, sides, options, display)
    pages = [path for path in format_of_file if path.suffix == ".html"]
    # Only logs hold answers, and reading them again pays where a page shows them.
    if pages and not sides.are_live:
        compared = _with_answers(compared, sides)
    for path, text in format_of_file.items():
        write_file(path, text(compared))
    next_step = after_comparison(
        compared,
        pages,
        live=sides.are_live,
        max_items=options.get("max_items"),
        keeps_answers=not sides.are_live or args.run_dir is not None,
    )
    emit(args.json, compared.to_dict(), [*lines(compared), next_step])
    warn(*(warning for warning in compared.warnings if warning not in display.warned))
    return compared.exit_code


def _compared(
    args: argparse.Namespace, sides: _TwoSides, options: Mapping[str, Any], display: Display
) -> Comparison:
    """Return the comparison that the arguments ask for, with every warning that was printed."""
    query = reading_of(args)
    compared = comparing.compare(
        sides.baseline,
        sides.candidate,
        margin=args.margin,
        models=(sides.baseline_name or None, sides.candidate_name or None),
        by=args.by,
        cluster=args.cluster,
        run_dir=args.run_dir,
        observer=display,
        range=query.range,
        lower_is_better=query.lower_is_better,
        question=args.question,
        **options,
    )
    doubts = [
        doubt
        for outcome in compared.outcomes
        for doubt in doubts_of_range(args, outcome.metric, outcome.higher_is_better)
    ]
    # What was printed while live models were asked stands in every form of the result.
    return replace(
        compared, warnings=list(dict.fromkeys([*display.warned, *compared.warnings, *doubts]))
    )


def _with_answers(compared: Comparison, sides: _TwoSides) -> Comparison:
    """Return a comparison of logs whose losses have both models' answers."""
    models, sources = (compared.baseline, compared.candidate), (sides.baseline, sides.candidate)
    outcomes = [
        replace(outcome, losses=with_answers(outcome.losses, outcome.outcome, models, sources))
        for outcome in compared.outcomes
    ]
    return replace(compared, outcomes=outcomes)


class _TwoSides(NamedTuple):
    """What is compared, and the names that ``--models`` gives the models; "" without names."""

    baseline: Any
    candidate: Any
    baseline_name: str
    candidate_name: str

    @property
    def are_live(self) -> bool:
        """Whether a side is a model that is asked: a dictionary of its settings, or their file."""
        sources = (self.baseline, self.candidate)
        return any(isinstance(side, dict) or str(side).endswith(YAML) for side in sources)


def _two_sides(args: argparse.Namespace) -> _TwoSides:
    """Return what the arguments ask to compare.

    Raises
    ------
    UsageError
        There are more or fewer than two sides, or both are the same model.
    """
    sides = [*(side for side in (args.a, args.b) if side is not None), *models_of(args)]
    names = _two_names(args.models or ",", sides)
    # One source that holds both models is either side.
    if len(sides) == 1 and all(names):
        sides *= 2
    elif args.b is None and sides == [args.a] and len(models := models_in(args.a)) > 1:
        raise UsageError(
            f"{args.a} holds {len(models)} models ({some(models, 8)}); name the two, the baseline "
            f"first: lm-eval-ccat compare {shlex.quote(args.a)} --models "
            f"{shlex.quote(','.join(models[:2]))}"
        )
    if len(sides) != 2:
        raise UsageError(
            "compare takes two sides, logs or runs (A B) or live models (--model), or one that "
            f"holds both models (A --models BASELINE,CANDIDATE), not {len(sides)}"
        )
    # Two logs may well call two models by one name.
    (baseline, candidate), (name, other_name) = sides, names
    if name and name == other_name and baseline == candidate:
        raise UsageError(f"--models names {name} twice; a model is not compared with itself")
    return _TwoSides(baseline, candidate, baseline_name=name, candidate_name=other_name)


def _two_names(text: str, sides: Sequence[Any]) -> tuple[str, str]:
    """Split what ``--models`` says into the names of the baseline and of the candidate.

    Raises
    ------
    UsageError
        It is no two names; or of a name with a comma, the logs do not tell where it ends.
    """
    words = text.split(",")
    splits = [(",".join(words[:n]), ",".join(words[n:])) for n in range(1, len(words))]
    if len(splits) > 1:
        # A live side says nothing, so any name may be its. A single side holds both models, so that
        # its names stand for the second side, too.
        known = [() if isinstance(side, dict) else models_in(side) for side in sides]
        splits = [
            pair for pair in splits
            if all(name in (models or [name]) for name, models in zip(pair, known * 2))
        ]  # fmt: skip
    if len(splits) != 1:
        raise UsageError(f"--models {text!r} is not BASELINE,CANDIDATE")
    return splits[0]
