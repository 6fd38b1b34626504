"""The sides of a comparison: logs, score tables and what adaptive runs left, read alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ScoreTableError, UsageError
from ..runs.journal import Record
from ..scores import ScoreTable
from ..scores.readers.lm_eval.files import find_runs
from ..scores.readers.lm_eval.rows import sound_rows
from ..scores.table import reader_of
from ..scores.wanted import Logged
from ..simulation.audit import Claims, all_claims
from .fields import Values
from .spec import Spec, content_of, in_todays_words

StoredSide = ScoreTable | Claims
#: Fields of documents by doc_id.
Fields = Mapping[Any, Mapping[str, Any]]
SIDES = ("baseline", "candidate")


def opened(side: Any, warnings: list[str]) -> Any:
    """Open an adaptive run as its claims; return any other side unchanged.

    Parameters
    ----------
    side : ScoreTable or path
    warnings : list of str
        Is added to where a folder of logs turns out to hold estimates.
    """
    if isinstance(side, ScoreTable):
        return side
    path = Path(side)
    if not path.is_dir():
        content = _content(path) if path.suffix == ".json" and path.is_file() else {}
        return all_claims(path) if "adaptive" in content or "pairwise" in content else side
    if (path / "result.json").is_file():
        return all_claims(path)
    files = sorted(path.rglob("results_*.json"), key=lambda file: file.name)
    for file in files:
        blocks = (_content(file).get("adaptive") or {}).values()
        estimated = [b for b in blocks if isinstance(b, dict) and "estimate" in b]
        if not any(b["items"] < b["items_total"] for b in estimated):
            return side
    if not files:
        return side
    warnings.append(
        f"{path} holds adaptive runs: their estimates of the full benchmark are compared, by their "
        "standard errors"
    )
    latest: dict[Logged, Claims] = {}  # every model's, the models of an outcome together
    for claims in (c for file in files for c in all_claims(file)):
        before = latest.get(_outcome(claims), claims)
        latest[_outcome(claims)] = replace(claims, models={**before.models, **claims.models})
    return list(latest.values())


def without_files(
    sides: Sequence[Any], settings: Mapping[str, Any], warn: Callable[[str], None]
) -> tuple[list[Any], Values]:
    """YAML files of `rank` as their one model, and the settings with those that files state.

    Raises
    ------
    UsageError
        A file holds several models, or two state different values of one key.
    """
    plain: list[Any] = []
    stated: dict[str, Values] = {}
    for side in sides:
        if isinstance(side, (str, Path)) and Path(side).suffix in (".yaml", ".yml"):
            spec, content = Spec.read(side, warn=warn).require_ranking(), content_of(Path(side))
            if len(spec.models) != 1:
                raise UsageError(
                    f"{side}: a side of a comparison is one model; leave one under `models:`"
                )
            [side_of], names = content["models"], in_todays_words(content)
            stated[str(side)] = {
                k: getattr(spec, k) for k, v in names.items() if v is not None and k != "models"
            }
            side = side_of
        plain.append(side)
    by_flags = _flat(settings)
    joined = dict(by_flags)
    for values in stated.values():
        for key, value in _flat(values).items():
            if key not in by_flags and joined.setdefault(key, value) != value:
                raise UsageError(
                    f"{' and '.join(stated)} state different values of `{key}:`; both models are "
                    "asked the same way, so write one value in both files"
                )
    inner = [key for key in joined if key.startswith("harness.")]
    harness = {key.removeprefix("harness."): joined.pop(key) for key in inner}
    return plain, {**joined, **({"harness": harness} if harness else {})}


def _flat(values: Mapping[str, Any]) -> Values:
    """Options with those of ``harness`` beside them, each by its path."""
    outer = {key: value for key, value in values.items() if key != "harness"}
    return outer | {f"harness.{k}": v for k, v in (values.get("harness") or {}).items()}


def _content(path: Path) -> Record:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _outcome(claims: Claims) -> Logged:
    return Logged(claims.task, claims.metric or "score", claims.filter)


def shared_outcomes(
    sides: Sequence[Any], metrics: Sequence[str], task: str | None, filter: str | None
) -> list[Logged]:
    """Outcomes that both sides have, of those asked for.

    Raises
    ------
    UsageError
        There is none.
    """
    held = [
        _outcomes(side, which) or [Logged(task, m, filter) for m in metrics]
        for side, which in zip(sides, SIDES)
    ]
    wanted = [
        o
        for o in held[0]
        if (not metrics or o.metric in metrics)
        and (task is None or o.task in (None, task))
        and (filter is None or o.filter in (None, filter))
        and any(_same(o, other) for other in held[1])
    ]
    missing = [m for m in metrics if m not in {o.metric for o in wanted}]
    if missing or not wanted:
        both = sorted({f"{o.task}/{o.metric}" if o.task else o.metric for s in held for o in s})
        what = f"no metric {missing[0]!r}" if missing else "nothing"
        raise UsageError(f"the two sides share {what}; they hold {', '.join(both)}")
    return wanted


def _same(one: Logged, other: Logged) -> bool:
    return one.metric == other.metric and all(
        x is None or y is None or x == y
        for x, y in ((one.task, other.task), (one.filter, other.filter))
    )


def _outcomes(side: Any, which: str) -> list[Logged]:
    if isinstance(side, ScoreTable):
        return [Logged(side.task, side.metric, side.filter)]
    if isinstance(side, list):
        return [_outcome(claims) for claims in side]
    path = Path(side)
    try:
        return reader_of(path).outcomes(path)
    except ScoreTableError as error:
        if not path.is_dir() or any(path.rglob("results_*.json")):
            raise
        why = str(error).partition(" (what can be read")[0].removeprefix(f"{path}: ")
        raise ScoreTableError(
            f"{path}: the {which} holds no results; its run failed or has not finished ({why})"
        ) from None


def told_apart(a: Any, b: Any, names: tuple[str, str]) -> tuple[str, str]:
    """Names of two sides whose models have one name: what differs in their paths."""
    if isinstance(a, ScoreTable) or isinstance(b, ScoreTable) or Path(a) == Path(b):
        return names
    one, other = list(Path(a).parts), list(Path(b).parts)
    for end in (0, -1):
        while len(one) > 1 and len(other) > 1 and one[end] == other[end]:
            del one[end], other[end]
    return str(Path(*one)), str(Path(*other))


def scores_of_side(
    side: Any, outcome: Logged, range: tuple[float, float] | None, lower_is_better: bool | None
) -> StoredSide:
    """Return a side's scores on an outcome, or an adaptive run's estimates."""
    if isinstance(side, ScoreTable):
        return side
    if isinstance(side, list):
        claims: list[Claims] = side
        return next(one for one in claims if _same(_outcome(one), outcome))
    return ScoreTable.read(
        side, outcome.metric, outcome.task, outcome.filter,
        range=range, lower_is_better=lower_is_better,
    )  # fmt: skip


def model_of(side: StoredSide, name: str | None, which: str) -> str:
    """The model of a side that is meant.

    Raises
    ------
    UsageError
        There are several and none is named, or none of that name.
    """
    known = list(side.models)
    if name is None:
        if len(known) > 1:
            raise UsageError(
                f"the {which} holds {len(known)} models ({', '.join(known[:8])}"
                + (" ..." if len(known) > 8 else "")
                + "); name the two with --models BASELINE,CANDIDATE"
            )
        return known[0]
    if name not in known:
        raise UsageError(f"the {which} has no model {name!r}; it has {', '.join(known[:8])}")
    return name


def fields_of(items: Fields | None, sides: Sequence[Any], task: str | None) -> Fields:
    """The fields of each document: those of `items`, else of the documents in the logs.

    Parameters
    ----------
    items : mapping or None
        ``{doc_id: {field: value}}``.
    sides : sequence
        Paths of logs; what is no path is passed over.
    task : str or None
        Which task's logs.
    """
    if items is not None or task is None:
        return items or {}
    fields: dict[Any, Mapping[str, Any]] = {}
    for path in (Path(side) for side in sides if isinstance(side, (str, Path))):
        for run in find_runs(path, task)[0]:
            for row in sound_rows(run.samples):  # the reader of the scores speaks of damage
                if isinstance(row.get("doc"), dict):
                    fields.setdefault(row.get("doc_id"), row["doc"])
    return fields


def values_of_field(fields: Fields, name: str, ids: Sequence[Any]) -> NDArray[Any]:
    """The value of a field for some documents, as text.

    Raises
    ------
    UsageError
        No document has such a field.
    """
    values = [fields.get(d, {}).get(name) for d in ids]
    if all(v is None for v in values):
        known = sorted({str(k) for doc in fields.values() for k in doc})
        raise UsageError(
            f"no document has a field {name!r}"
            + (f"; there are {', '.join(known[:20])}" if known else "; give items=")
        )
    return np.array(["(none)" if v is None else str(v) for v in values])
