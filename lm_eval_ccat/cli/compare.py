"""``lm-eval-ccat compare``: is the candidate better than the baseline, or not worse?"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from ..errors import UsageError
from ..files import replace_text
from ..live.fields import Values
from ..live.surfaces import add_flags, given_by_flags
from .entries import MODELS, models_of
from .parsing import JSON, Opt, Options, add_command, add_options, prints_json, warn, write_json
from .reading import READING, reading_of

if TYPE_CHECKING:
    from ..live.comparison import Compared, Comparison

EPILOG = """\
examples:
  lm-eval-ccat compare logs/base logs/candidate --metric exact_match --margin 0.01
  lm-eval-ccat compare logs/ --models base,candidate --by subject
  lm-eval-ccat compare logs/base --task gsm8k --model hf --model_args pretrained=new \\
      --margin 0.02 --max_items 500
  lm-eval-ccat compare logs/base candidate.yaml -o comment.md -o compare.xml

Exit code 0: the candidate is not worse by more than the margin. 5: it is worse.
3: not known. docs/howto/recipes.md has a workflow for CI.
"""


_SIDE = "logs, a score table, an adaptive run, or a YAML file of `rank` with one model"
OPTIONS: Options = {
    "a=A?": f"the baseline: {_SIDE}",
    "b=B?": "the candidate: the same",
    "--models A,B": "which models, if the logs hold several",
    "--filter F": "filter of the task (default: all in common)",
    "--range WORST,BEST": READING["--range WORST,BEST"],
    "--margin D": Opt("largest loss to accept, on the metric's own scale", 0.0),
    "--question population|benchmark": "which question logs decide: about documents like these, or "
    "about these documents; both answers are printed",
    "--by FIELD": "also compare each group of documents",
    "--cluster FIELD": "treat documents with equal values as one cluster",
    **JSON,
    "-o --output FILE,": Opt(
        "also write, by its ending, a comment for a pull request (.md), a test report (.xml) or a "
        "page (.html); once per file",
        [],
    ),
}
_LIVE: Options = {**MODELS, "--run_dir DIR": "where the answers are kept"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``compare`` to the command line."""
    what = "Compare a candidate with a baseline on the documents that both have."
    parser = add_command(subparsers, "compare", run, OPTIONS, what, EPILOG)
    add_flags(parser, "compare")
    about = "are asked random documents of --task until the answer is known"
    add_options(parser.add_argument_group("live models", about), _LIVE)


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    from ..live.comparison import compare

    outputs = [Path(name) for name in args.output]
    for path in outputs:
        if path.suffix not in _FORMATS:
            raise UsageError(f"--output {path}: the ending must be one of {', '.join(_FORMATS)}")
    flags = given_by_flags(args, "compare")
    a, b = _sides(args, flags)
    tasks = flags.pop("tasks", None) or [None]
    if len(tasks) > 1:
        raise UsageError("compare takes one --task")
    wanted = reading_of(args)
    found = compare(
        a,
        b,
        flags.pop("metrics", None),
        args.margin,
        question=args.question,
        models=_named(args),
        task=tasks[0],
        confidence=flags.pop("confidence", 0.95),
        by=args.by,
        cluster=args.cluster,
        filter=wanted.filter,
        range=wanted.range,
        lower_is_better=wanted.lower_is_better,
        **_live(args, flags, any(isinstance(side, dict) for side in (a, b))),
    )
    write_json(args.json, found.to_dict())
    for path in outputs:
        _write(path, _FORMATS[path.suffix](found))
    if not prints_json(args.json):
        for line in report(found):
            print(line)
    for warning in found.warnings:
        warn(warning)
    return found.exit_code


def _named(args: argparse.Namespace) -> tuple[str | None, str | None]:
    """Names of the two, as ``--models`` gives them."""
    names = (args.models or ",").split(",")
    if len(names) != 2:
        raise UsageError(f"--models {args.models!r} is not BASELINE,CANDIDATE")
    return names[0] or None, names[1] or None


def _sides(args: argparse.Namespace, settings: Values) -> list[Any]:
    """Baseline and candidate: what is stored, then what is live; `settings` gets a file's."""
    sides: list[Any] = []
    stated: dict[str, Values] = {}
    for side in (args.a, args.b):
        if side is not None and side.endswith((".yaml", ".yml")):
            model, stated[side] = _of_file(Path(side))
            sides.append(model)
        elif side is not None:
            sides.append(side)
    _add_stated(settings, stated)
    sides += models_of(args)
    if len(sides) == 1 and all(_named(args)):
        sides *= 2
    if len(sides) != 2:
        raise UsageError(
            "compare takes two sides, logs or runs (A B) or live models (--model), or one that "
            f"holds both models (A --models BASELINE,CANDIDATE), not {len(sides)}"
        )
    return sides


def _of_file(file: Path) -> tuple[Values, Values]:
    """The one model of a YAML file, and what else it states."""
    from ..live.spec import Spec, content_of, values_of

    values = values_of(file, warn)
    Spec(**values).require_ranking()
    if len(values.pop("models")) != 1:
        raise UsageError(f"{file}: a side of a comparison is one model; leave one under `models:`")
    [model] = content_of(file)["models"]
    return dict(model), values


def _add_stated(settings: Values, stated: Mapping[str, Values]) -> None:
    """Add to the settings of the flags what files state and no flag does.

    Raises
    ------
    UsageError
        Two files state different values of one key.
    """
    harness = dict(settings.get("harness", {}))
    if len(stated) == 2:
        (one, ours), (other, theirs) = stated.items()
        for here, mine, its, dot in (
            (settings, ours, theirs, ""),
            (harness, ours.get("harness", {}), theirs.get("harness", {}), "harness."),
        ):
            for key in mine.keys() & its.keys() - here.keys() - {"harness"}:
                if mine[key] != its[key]:
                    raise UsageError(
                        f"{one} and {other} state different values of `{dot}{key}:`; both models "
                        "are asked the same way, so write one value in both files"
                    )
    for values in stated.values():
        harness = {**values.get("harness", {}), **harness}
        for key, value in values.items():
            settings.setdefault(key, value)
    if harness:
        settings["harness"] = harness


def _live(args: argparse.Namespace, settings: Values, live: bool) -> Values:
    """What only live models need."""
    if not live:
        if args.run_dir or settings:
            raise UsageError("--include_path, --max_items and the like are for live models")
        return {}
    from .live import Display

    return {"settings": settings, "run_dir": args.run_dir, "observer": Display(quiet=True)}


def report(found: Comparison) -> list[str]:
    """One line per outcome, then its groups."""
    from ..report.plain import figures, in_words, other_answer

    lines = []
    for one in found.outcomes:
        beside = "" if one.decisive else " (reported)"
        lines.append(f"{one.name}{beside}: {in_words(found, one.overall)}")
        width = max(map(len, one.groups), default=0)
        lines += [f"  {name:<{width}}  {figures(d)}" for name, d in one.groups.items()]
        lines += other_answer(found, one)
    return [*lines, *(note for note in found.notes if note not in found.warnings)]


def _page(found: Comparison) -> str:
    from ..report.plain import comparison_page

    return comparison_page(found)


def markdown(found: Comparison) -> str:
    """A comment on a pull request."""
    from ..report.plain import other_answer
    from ..report.words import difference, probability

    head = ("", "baseline", "candidate", "difference", "interval", "P(better)", "documents", "")
    lines = [
        f"### {found.candidate} against {found.baseline}: **{found.verdict}**",
        "",
        "| " + " | ".join(head) + " |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for one in found.outcomes:
        rows = [(one.name, one.overall), *((f"– {g}", d) for g, d in one.groups.items())]
        for name, d in rows:
            more = f" (about {d.more_documents:,} more decide)" if d.more_documents else ""
            low, at, high = difference(d.low, d.difference, d.high)
            cells = (
                name.replace("|", "\\|"),
                f"{d.baseline:.4g}",
                f"{d.candidate:.4g}",
                at,
                f"{low} to {high}",
                probability(d.p_better),
                f"{d.documents:,}",
                d.verdict + more,
            )
            lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    for one in found.outcomes:
        lines += [f"- {one.name}, {line.strip()}" for line in other_answer(found, one)]
    lines += ["", f"Margin {found.margin:g}, confidence {found.confidence:g}, two-sided."]
    return "\n".join([*lines, *(f"- {note}" for note in found.notes)]) + "\n"


def junit(found: Comparison) -> str:
    """A test report: an outcome fails where the candidate is worse, and is skipped if not known."""
    cases = [case for one in found.outcomes for case in _cases(found, one)]
    failed = sum("<failure" in case for case in cases)
    skipped = sum("<skipped" in case for case in cases)
    suite = f"{found.candidate} against {found.baseline}"
    return "\n".join(
        [
            '<?xml version="1.0" encoding="utf-8"?>',
            f'<testsuite name={quoteattr(suite)} tests="{len(cases)}" failures="{failed}" '
            f'errors="0" skipped="{skipped}">',
            *cases,
            "</testsuite>\n",
        ]
    )


#: What is written by the ending of a file.
_FORMATS = {".md": markdown, ".xml": junit, ".html": _page}


def _cases(found: Comparison, one: Compared) -> list[str]:
    from ..report.plain import in_words

    said = in_words(found, one.overall)
    inside = {
        "worse": f"<failure message={quoteattr(said)}/>",
        "not known": f"<skipped message={quoteattr(said)}/>",
    }.get(one.overall.verdict if one.decisive else "", f"<system-out>{escape(said)}</system-out>")
    cases = [(one.name, inside)]
    # Among many groups some look worse by chance: they are shown and fail nothing.
    for name, d in one.groups.items():
        cases.append((name, f"<system-out>{escape(in_words(found, d))}</system-out>"))
    return [
        f"  <testcase classname={quoteattr(one.name)} name={quoteattr(name)}>{shown}</testcase>"
        for name, shown in cases
    ]


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror or error})") from error
