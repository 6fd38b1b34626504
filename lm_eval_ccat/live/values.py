"""Values of a run that are more than a number or a text: tasks, banks, metrics, models' budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bank import ItemBank
from ..errors import UsageError
from ..harness.prices import Price
from ..integrations.trackers import SETTINGS as TRACKERS
from ..ranker.stopping import TargetError, rule_of
from ..scores import ScoreTable
from .fields import (
    MAPPING,
    SWITCH,
    TEXT,
    Kind,
    OptionPlace,
    Values,
    either,
    number,
    number_of,
    whole,
)

BUDGET_KINDS = ("items", "usd", "seconds")
WEIGHTINGS = ("documents", "equal")
Weighting = str | dict[str, float]
#: The harness's own setting for pushing the results files of each model.
HUB = "hf_hub_log_args"
#: Key of paths that are of whichever models they name.
ANY = ""
#: Settings of the harness that a run decides itself.
OURS = {
    "tasks": "write `task:` at the top level",
    "model": "list the models under `models:`",
    "model_args": "write them with each model under `models:`",
    "limit": "an adaptive run chooses its documents; use `budget:` or `max_items:`",
    "samples": "an adaptive run chooses its documents; use `budget:` or `max_items:`",
    "output_path": "use --run_dir",
}
_TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_PATHS = {"anyOf": [*_TEXTS["anyOf"], {"type": "object"}]}


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _tasks(value: Any, place: OptionPlace) -> tuple[str, ...]:
    """Names, in a list or by commas; a YAML file beside the configuration if there is one."""
    parts = [TEXT.read(part, place).split(",") for part in _listed(value)]
    names = [name.strip() for part in parts for name in part]
    for name in names:
        if not name or names.count(name) > 1:
            problem = f"{name!r} twice" if name else "'' as a task"
            raise UsageError(f"`{place.path}:` names {problem}")
    files = (".yaml", ".yml")
    return tuple(place.beside(name) if name.endswith(files) else name for name in names)


def _one_or_named(value: Any, place: OptionPlace, kinds: Any) -> Any:
    """A path or an object of some kinds; or one of these by name, ``A=FILE`` in flags."""
    if isinstance(value, list):
        if len(value) == 1 and not _assigns(value[0]):
            return _one_or_named(value[0], place, kinds)
        named = dict(_assigned(text, place) for text in value)
        if len(named) < len(value):
            raise UsageError(f"`{place.path}` names a task twice")
        value = named
    if isinstance(value, Mapping):
        return {str(n): _one_or_named(v, place.at(n), kinds) for n, v in value.items()}
    return value if isinstance(value, kinds) else place.beside(TEXT.read(value, place))


@dataclass(frozen=True)
class Donors:
    """Scores that a bank is borrowed from, and full runs of the task itself if there are any."""

    paths: tuple[str, ...]
    own: str | None = None


def _bank(value: Any, place: OptionPlace) -> Any:
    """A file, a folder, a bank; or one of these by task or by metric; or what to borrow from."""
    if isinstance(value, Mapping) and "borrow" in value:
        if unknown := set(value) - {"borrow", "scores"}:
            raise UsageError(f"`{place.path}:` with `borrow:` has no key {unknown.pop()!r}: scores")
        donors = tuple(place.beside(TEXT.read(v, place)) for v in _listed(value["borrow"]))
        scores = value.get("scores")
        return Donors(donors, None if scores is None else place.beside(TEXT.read(scores, place)))
    return _one_or_named(value, place, ItemBank | Path | Donors) or ""


def _assigns(text: Any) -> bool:
    return isinstance(text, str) and "=" in text and not Path(text).exists()


def _assigned(text: Any, place: OptionPlace) -> tuple[str, str]:
    name, equals, file = str(text).partition("=")
    if not (name and equals and file):
        raise UsageError(f"`{place.path}`, {text!r}: write each of several as TASK=FILE")
    return name, file


def _metrics(value: Any, place: OptionPlace) -> dict[str, float]:
    """Weights by metric; in a list a weight may stand behind its metric, as in ``chrf=0``."""
    must = "a metric, several as [bleu, chrf], or their weights {bleu: 1, chrf: 0}"
    if isinstance(value, Mapping):
        named = list(value.items())
    else:
        names = _listed(value)
        if not all(isinstance(name, str) for name in names):
            raise place.refuse(must, value)
        parts = (name.partition("=") for name in names)
        named = [(name, number_of(weight) if equals else 1.0) for name, equals, weight in parts]
    weights: dict[str, float] = {}
    for name, weight in named:
        if not isinstance(name, str) or not name:
            raise place.refuse(must, value)
        if name in weights:
            raise UsageError(f"`{place.path}:` holds {name} twice")
        weights[name] = number(0.0).read(weight, place.at(name))
    if weights and not any(weights.values()):
        raise UsageError(f"`{place.path}:` needs a metric with a weight above 0")
    return weights


def _weights(value: Any, place: OptionPlace) -> Weighting:
    must = "documents, equal, or a weight per task or group such as {a: 2, b: 1}"
    if isinstance(value, str) and "=" in value:
        parts = [part.rpartition("=") for part in value.split(",") if part.strip()]
        if len({name.strip() for name, _, _ in parts}) == len(parts):
            value = {name.strip(): number_of(weight) for name, _, weight in parts}
    if value in (*WEIGHTINGS, ""):
        return str(value)
    if not isinstance(value, Mapping) or not value:
        raise place.refuse(must, value)
    above = number(0.0, open_ends=True)
    return {str(name): above.read(weight, place.at(name)) for name, weight in value.items()}


def _known(value: Any, place: OptionPlace) -> Any:
    """Scores or logs of models with full results; or by task."""
    known = _one_or_named(value, place, ScoreTable | Path)
    for one in known.values() if isinstance(known, Mapping) else [known]:
        if isinstance(one, Mapping):
            raise place.refuse("scores or logs of models, or these by task", value)
        missing = not isinstance(one, ScoreTable) and not Path(one).exists()
        if missing and not place.recorded:
            raise UsageError(
                f"`{place.path}:` names a score table or logs that do not exist: {one}"
            )
    return known


def _prior(value: Any, place: OptionPlace) -> dict[str, list[str]]:
    """Paths of earlier answers by model; in a list ``NAME=PATH`` says whose they are."""
    by_model: dict[str, list[str]] = {}
    pairs = list(value.items()) if isinstance(value, Mapping) else [(ANY, value)]
    for name, paths in pairs:
        for entry in _listed(paths):
            if not isinstance(entry, str | Path):
                raise place.refuse("logs, several, or {model: logs}", value)
            model, path = str(name), str(entry)
            if not Path(place.beside(path)).exists() and "=" in path and not model:
                model, _, path = path.partition("=")
            path = place.beside(path)
            if not place.recorded and not Path(path).exists():
                raise UsageError(f"`{place.path}:` names logs that do not exist: {path}")
            by_model.setdefault(model, []).append(path)
    return by_model


def _stop(value: Any, place: OptionPlace) -> str:
    if not isinstance(value, str):
        raise place.refuse("words such as `decided` or `top 3 or se 0.02`", value)
    errors = [part.se for part in rule_of(value).parts() if isinstance(part, TargetError)]
    if errors and max(errors) > 0.5:
        raise UsageError(
            f"`{place.path}`: a standard error of {max(errors):g} is on the scale of 0 to 1, where "
            "none exceeds 0.5; one point of a metric on 0 to 100 is 0.01"
        )
    return " ".join(value.split())


def _harness(value: Any, place: OptionPlace) -> Values:
    settings: Values = MAPPING.read(value, place)
    for key, remedy in OURS.items():
        if key in settings:
            raise UsageError(f"`{place.at(key).path}` is not allowed: {remedy}")
    for key in (*TRACKERS, HUB, "gen_kwargs"):
        if settings.get(key) is not None:
            settings[key] = MAPPING.read(settings[key], place.at(key))
    if settings.get("include_path") is not None:
        paths = _listed(settings["include_path"])
        if any(not isinstance(path, str) for path in paths):
            raise place.at("include_path").refuse("a folder or several", settings["include_path"])
        settings["include_path"] = [place.beside(path) for path in paths]
    return settings


TASKS = Kind(_tasks, _TEXTS, "TASK", many=True)
BANK = Kind(_bank, _PATHS, "FILE", many=True)
METRICS = Kind(_metrics, _PATHS, "METRIC[=WEIGHT]", many=True)
WEIGHTS = Kind(_weights, {"type": ["string", "object"]}, "W")
KNOWN = Kind(_known, _PATHS, "SCORES", many=True)
PRIOR = Kind(_prior, _PATHS, "[NAME=]LOGS", many=True)
STOP = Kind(_stop, {"type": "string"}, "WORDS")
BUDGET = either(
    "one of {items: n}, {usd: x}, {seconds: s}",
    items=("most documents of all models and tasks together", number(0.0, open_ends=True)),
    usd=("most dollars", number(0.0, open_ends=True)),
    seconds=("most seconds", number(0.0, open_ends=True)),
)
HARNESS = Kind(
    _harness,
    {"type": "object"},
    parts={
        "include_path": ("include_path", "folder of task configurations", TEXT),
        "num_fewshot": ("num_fewshot", "few-shot examples", whole(0)),
        "apply_chat_template": (
            "apply_chat_template",
            "prompts by the models' chat templates",
            SWITCH,
        ),
        "batch_size": ("batch_size", "as lm_eval takes it", Kind(TEXT.read, {}, "N", number_of)),
        "device": ("device", "as lm_eval takes it, such as cuda:0", TEXT),
    },
)


def prices_of(price: Price) -> dict[str, float]:
    """The parts of a price that are stated."""
    parts = {k: getattr(price, k) for k in ("input", "output", "item", "hour")}
    return {key: amount for key, amount in parts.items() if amount is not None}
