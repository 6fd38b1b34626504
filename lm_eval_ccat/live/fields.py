"""Kinds of option values: how to read, check and describe each, for files, flags and Python.

A function that reads gets a `value` and its `place`, which names its key in errors and resolves
paths beside the file that it was written in (`OptionPlace`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ..bank import ItemBank
from ..bank.settings import TOKEN_LIMITS
from ..errors import UsageError
from ..harness import internals
from ..harness.opening import with_shipped_tasks
from ..integrations.trackers import SETTINGS as TRACKERS
from ..money import Price
from ..options import (
    ABOVE_0,
    AT_LEAST_0,
    FOLDER,
    SWITCH,
    TEXT,
    TEXTS,
    Kind,
    OptionPlace,
    Part,
    Values,
    listed,
    number_of,
    schema_of,
    whole,
)
from ..ranker.stopping import TargetError, rule_of
from ..scores import ScoreTable
from ..scores.reading import YAML


def _mapping(value: Any, place: OptionPlace) -> Values:
    """Read a mapping, or ``a=b,c=d``."""
    if isinstance(value, str):
        return pairs_of(value, place)
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise place.refuse("a mapping or a string a=b,c=d", value)
    return dict(value)


def pairs_of(text: str, place: OptionPlace) -> Values:
    """Parse ``a=b,c=d``, with values as on the harness's command line.

    Raises
    ------
    UsageError
        The text is not of that form.
    """
    try:
        pairs = internals.pairs_of(text)
    except ValueError:
        raise UsageError(f"`{place.path}`: {text!r} is not of the form key=value,...") from None
    return {key.strip(): value for key, value in pairs.items()}


BATCH = Kind(
    lambda value, place: value if isinstance(value, int) else TEXT.read(value, place),
    {"type": ["integer", "string"]},
    "N",
    typed=number_of,
)
MAPPING = Kind(_mapping, {"type": ["object", "string"]}, "A=B,C=D")


def _price(value: Any, place: OptionPlace) -> Price:
    """Read a mapping, or ``input=0.4,output=1.6`` on a command line."""
    # A flag that takes several values gives a list.
    if isinstance(value, list):
        value = ",".join(map(str, value))
    if isinstance(value, str):
        if "=" not in value:
            raise place.refuse("a price, such as item=0.01 or input=0.4,output=1.6", value)
        value = pairs_of(value, place)
    return Price.read(value, place)


PRICE = Kind(_price, schema_of(Price), "PART=X", many=True)


# -- tasks, banks, metrics, budgets ----------------------------------------------------------------

#: Kinds of budgets, with their help; a run has at most one.
BUDGETS = {
    "items": "most documents of all models and tasks together",
    "usd": "most dollars",
    "tokens": "most tokens, read and written",
    "seconds": "most seconds",
}
#: Words of `weights:`: tasks count by their numbers of documents, or alike; "" where none is given.
WEIGHTINGS = ("documents", "equal")
Weighting = str | dict[str, float]
#: Setting of the harness that pushes the results files of each model to the hub.
HUB = "hf_hub_log_args"
#: In `prior:`, the key of paths that may hold answers of any model.
ANY = ""
_BOUND_INSTEAD = "an adaptive run chooses its documents; use `budget:` or `max_items:`"
#: Settings of the harness that choose documents, with what to use instead.
CHOOSE_DOCUMENTS = {"limit": _BOUND_INSTEAD, "samples": _BOUND_INSTEAD}
#: Settings of the harness that `harness:` must not hold, with what to use instead.
NOT_OF_HARNESS = {
    "tasks": "write `task:` at the top level",
    "model": "list the models under `models:`",
    "model_args": "write them with each model under `models:`",
    **CHOOSE_DOCUMENTS,
    "output_path": "use --run_dir",
}
#: Settings of the harness's --config that determine how requests are built.
SESSION_KEYS = (
    "num_fewshot",
    "gen_kwargs",
    "metadata",
    "confirm_run_unsafe_code",
    "apply_chat_template",
    "fewshot_as_multiturn",
    "system_instruction",
    "cache_requests",
)
#: Settings of generation that models and servers know.
GENERATION_KEYS = (
    *TOKEN_LIMITS, "min_tokens", "min_new_tokens", "until", "stop", "do_sample", "temperature",
    "top_p", "top_k", "min_p", "seed", "repetition_penalty", "presence_penalty",
    "frequency_penalty", "length_penalty", "num_beams", "reasoning_effort",
)  # fmt: skip
#: Settings that `rank` reads itself.
RANK_KEYS = ("include_path", "use_cache", "batch_size", "max_batch_size", "device", "seed")
#: Settings that change neither requests nor scores; accepted so that a --config can be reused.
IDLE_KEYS = ("log_samples", "verbosity", "show_config", "write_out", "trust_remote_code")
_TEXTS_OR_MAPPING = {"anyOf": [*TEXTS.schema["anyOf"], {"type": "object"}]}


def _tasks(value: Any, place: OptionPlace) -> tuple[str, ...]:
    """Read names, in a list or by commas. A YAML file may be next to the configuration."""
    parts = [TEXT.read(part, place).split(",") for part in listed(value)]
    names = [name.strip() for part in parts for name in part]
    for name in names:
        if not name or names.count(name) > 1:
            problem = f"{name!r} twice" if name else "'' as a task"
            raise UsageError(f"`{place.path}:` names {problem}")
    return tuple(place.beside(name) if name.endswith(YAML) else name for name in names)


def own_task(name: str, folder: Path, searched: Sequence[str]) -> str:
    """Return the YAML file of a folder that defines a task; `name` if something else has the name.

    Parameters
    ----------
    name : str
    folder : Path
        That of the configuration, or of the command.
    searched : sequence of str
        Folders of tasks, which come first, as do the harness's own tasks.

    Raises
    ------
    UsageError
        Two files define it.
    """
    files = [file for kind in YAML for file in sorted(folder.glob(f"*{kind}"))]
    # A name that is a file, or that no file here defines, is left to the harness.
    if name.endswith(YAML) or not any(internals.defines_task(file, name) for file in files):
        return name
    # Else a file that lies here by chance would change what a task of the harness means.
    if internals.is_known(name, with_shipped_tasks(searched)):
        return name
    return str(internals.defining_file(name, files))


def _is_pair(value: Any, place: OptionPlace) -> bool:
    """Whether a value is ``TASK=FILE``, and no file with a ``=`` in its name."""
    return isinstance(value, str) and "=" in value and not Path(place.beside(value)).exists()


def _one_or_named(value: Any, place: OptionPlace, kinds: Any) -> Any:
    """Read a path, or an object of the types `kinds`, or several by name (``A=FILE`` in flags)."""
    if isinstance(value, list):
        # A flag with a single path.
        if len(value) == 1 and not _is_pair(value[0], place):
            return _one_or_named(value[0], place, kinds)
        named: dict[str, str] = {}
        for text in value:
            name, _, file = str(text).partition("=")
            if not (name and file):
                raise UsageError(f"`{place.path}`, {text!r}: write each of several as TASK=FILE")
            if name in named:
                raise UsageError(f"`{place.path}` names a task twice")
            named[name] = file
        value = named
    if isinstance(value, Mapping):
        return {str(n): _one_or_named(entry, place.at(n), kinds) for n, entry in value.items()}
    return value if isinstance(value, kinds) else place.beside(TEXT.read(value, place))


@dataclass(frozen=True)
class Donors:
    """Scores to borrow a bank from, and those of full runs of the task itself, if any."""

    paths: tuple[str, ...]
    full: str | None = None


def _bank(value: Any, place: OptionPlace) -> Any:
    """Read a file, folder or bank, several by task or metric, or `Donors`; "" is none."""
    if isinstance(value, Mapping) and "borrow" in value:
        if unknown := set(value) - {"borrow", "scores"}:
            raise UsageError(
                f"`{place.path}:` with `borrow:` takes `scores:`, not {unknown.pop()!r}"
            )
        donors = tuple(place.beside(TEXT.read(donor, place)) for donor in listed(value["borrow"]))
        scores = value.get("scores")
        return Donors(donors, None if scores is None else place.beside(TEXT.read(scores, place)))
    return _one_or_named(value, place, ItemBank | Path | Donors) or ""


def _metrics(value: Any, place: OptionPlace) -> dict[str, float]:
    """Read weights by metric; in a list a weight may follow its metric, as in ``chrf=0``."""
    must = "a metric, several as [bleu, chrf], or their weights {bleu: 1, chrf: 0}"
    if isinstance(value, Mapping):
        named = list(value.items())
    else:
        names = listed(value)
        if not all(isinstance(name, str) for name in names):
            raise place.refuse(must, value)
        parts = (name.partition("=") for name in names)
        named = [(name, weight if equals else 1.0) for name, equals, weight in parts]
    weights: dict[str, float] = {}
    for name, weight in named:
        if not isinstance(name, str) or not name:
            raise place.refuse(must, value)
        if name in weights:
            raise UsageError(f"`{place.path}:` holds {name} twice")
        weights[name] = AT_LEAST_0.read(weight, place.at(name))
    # Something has to rank the models.
    if weights and not any(weights.values()):
        raise UsageError(f"`{place.path}:` needs a metric with a weight above 0")
    return weights


def _weights(value: Any, place: OptionPlace) -> Weighting:
    """Read one of `WEIGHTINGS`, or a weight for each task or group, as a mapping or ``a=2,b=1``."""
    must = "documents, equal, or a weight per task or group such as {a: 2, b: 1}"
    if isinstance(value, str) and "=" in value:
        parts = [part.rpartition("=") for part in value.split(",") if part.strip()]
        # A name that stands twice is refused as the text that it is.
        if len({name.strip() for name, _, _ in parts}) == len(parts):
            value = {name.strip(): weight for name, _, weight in parts}
    if value in (*WEIGHTINGS, ""):
        return str(value)
    if not isinstance(value, Mapping) or not value:
        raise place.refuse(must, value)
    return {str(name): ABOVE_0.read(weight, place.at(name)) for name, weight in value.items()}


def _known(value: Any, place: OptionPlace) -> Any:
    """Read scores or logs of models with full results, or several of these by task."""
    known = _one_or_named(value, place, ScoreTable | Path)
    for scores in known.values() if isinstance(known, Mapping) else [known]:
        if isinstance(scores, Mapping):
            raise place.refuse("scores or logs of models, or these by task", value)
        missing = not isinstance(scores, ScoreTable) and not Path(scores).exists()
        # What a journal recorded may have been deleted since, and is not read again.
        if missing and not place.recorded:
            raise UsageError(
                f"`{place.path}:` names a score table or logs that do not exist: {scores}"
            )
    return known


def _prior(value: Any, place: OptionPlace) -> dict[str, list[str]]:
    """Read paths of earlier answers by model; in a list, ``NAME=PATH`` names the model."""
    by_model: dict[str, list[str]] = {}
    pairs = list(value.items()) if isinstance(value, Mapping) else [(ANY, value)]
    for name, paths in pairs:
        for entry in listed(paths):
            if not isinstance(entry, str | Path):
                raise place.refuse("logs, several, or {model: logs}", value)
            model, path = str(name), str(entry)
            # A path may have a `=` in its name, and then names no model.
            if not Path(place.beside(path)).exists() and "=" in path and not model:
                model, _, path = path.partition("=")
            path = place.beside(path)
            if not place.recorded and not Path(path).exists():
                raise UsageError(f"`{place.path}:` names logs that do not exist: {path}")
            by_model.setdefault(model, []).append(path)
    return by_model


def _stop(value: Any, place: OptionPlace) -> str:
    """Read the words of a stopping rule."""
    if not isinstance(value, str):
        raise place.refuse("words such as `decided` or `top 3 or se 0.02`", value)
    errors = [part.se for part in rule_of(value).parts() if isinstance(part, TargetError)]
    # Scores on 0 to 1 have no larger one; such a number was meant in points of the metric.
    if errors and max(errors) > 0.5:
        raise UsageError(
            f"`{place.path}`: a standard error of {max(errors):g} is on the scale of 0 to 1, where "
            "none exceeds 0.5; one point of a metric on 0 to 100 is 0.01"
        )
    return " ".join(value.split())


def _budget(value: Any, place: OptionPlace) -> dict[str, float]:
    """Read one of `BUDGETS` with its amount."""
    if not isinstance(value, Mapping) or len(value) != 1 or not set(value) <= set(BUDGETS):
        kinds = "{items: n}, {usd: x}, {tokens: n}, {seconds: s}"
        raise UsageError(f"`{place.path}:` must be one of {kinds}, not {value!r}")
    return {kind: ABOVE_0.read(amount, place.at(kind)) for kind, amount in value.items()}


def _harness(value: Any, place: OptionPlace) -> Values:
    """Read settings of the harness; refuse those that a ranking states elsewhere."""
    settings: Values = MAPPING.read(value, place)
    for key, remedy in NOT_OF_HARNESS.items():
        if key in settings:
            raise UsageError(f"`{place.at(key).path}` is not allowed: {remedy}")
    for key, read in _HARNESS_SETTINGS.items():
        if settings.get(key) is not None:
            settings[key] = read(settings[key], place.at(key))
    return settings


def _generation(value: Any, place: OptionPlace) -> Values:
    """Read settings of generation; refuse one that is nearly a known one."""
    settings: Values = MAPPING.read(value, place)
    # A server may take keys of its own, but none that is nearly one that all know.
    for key in settings.keys() - {*GENERATION_KEYS}:
        if close := get_close_matches(str(key), GENERATION_KEYS, n=1, cutoff=0.85):
            path = place.at(str(key)).path
            raise UsageError(f"`{path}`: no such setting; did you mean {close[0]}?")
    return settings


def _fewshot_seeds(value: Any, place: OptionPlace) -> list[int]:
    """Read one seed or several, of which the last draws the examples, as the harness's flag."""
    seeds = value.split(",") if isinstance(value, str) else listed(value)
    return [whole(0).read(seed, place) for seed in seeds]


def _folders(value: Any, place: OptionPlace) -> list[str]:
    """Read a folder or several, each looked up beside the configuration first."""
    paths = listed(value)
    if any(not isinstance(path, str) for path in paths):
        raise place.refuse("a folder or several", value)
    return [place.beside(path) for path in paths]


#: How settings of the harness that a ranking looks at are read.
_HARNESS_SETTINGS: dict[str, Callable[[Any, OptionPlace], Any]] = {
    **dict.fromkeys((*TRACKERS, HUB), MAPPING.read),
    "gen_kwargs": _generation,
    "num_fewshot": whole(0).read,
    "system_instruction": TEXT.read,
    "seed": _fewshot_seeds,
    "include_path": _folders,
}


TASKS = Kind(_tasks, TEXTS.schema, "TASK", many=True)
BANK = Kind(_bank, _TEXTS_OR_MAPPING, "FILE", many=True)
METRICS = Kind(_metrics, _TEXTS_OR_MAPPING, "METRIC[=WEIGHT]", many=True)
WEIGHTS = Kind(_weights, {"type": ["string", "object"]}, "W")
KNOWN = Kind(_known, _TEXTS_OR_MAPPING, "SCORES", many=True)
PRIOR = Kind(_prior, _TEXTS_OR_MAPPING, "[NAME=]LOGS", many=True)
STOP = Kind(_stop, {"type": "string"}, "WORDS")
BUDGET = Kind(
    _budget,
    {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": {kind: ABOVE_0.schema for kind in BUDGETS},
    },
    # A budget in tokens stands in configurations alone.
    parts={
        f"budget_{kind}": Part(kind, help, ABOVE_0)
        for kind, help in BUDGETS.items()
        if kind != "tokens"
    },
)
HARNESS = Kind(
    _harness,
    {"type": "object"},
    parts={
        "include_path": Part("include_path", "folder of task configurations", FOLDER),
        "num_fewshot": Part("num_fewshot", "few-shot examples", whole(0)),
        "apply_chat_template": Part(
            "apply_chat_template",
            "format prompts with the models' chat templates",
            SWITCH,
        ),
        "batch_size": Part("batch_size", "as lm_eval takes it", BATCH),
        "device": Part("device", "as lm_eval takes it, such as cuda:0", TEXT),
    },
)
