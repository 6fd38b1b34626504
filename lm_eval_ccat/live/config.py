"""The configuration of a ranking: read, checked, and turned into plain values.

The file is YAML; its keys are fixed by the design.  Every mistake is reported with the key's path
(``models[1].price.input``) and what may stand there, before anything is loaded or spent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..harness.internals import holds_weights
from ..harness.prices import Price
from ..masking import mask, remember_credentials
from .prior import parse_prior
from .suite import parse_tasks, parse_weights
from .tracking import HUB, TRACKERS
from .values import choice as _choice
from .values import flag as _flag
from .values import integer as _integer
from .values import number as _number
from .values import text as _text
from .weights import parse_metrics

BUDGET_KINDS = ("items", "usd", "seconds")
#: Settings of the harness that `rank` decides itself.
OWN_HARNESS_KEYS = {
    "tasks": "write `task:` at the top level",
    "model": "list the models under `models:`",
    "model_args": "write them with each model under `models:`",
    "limit": "an adaptive run chooses its documents; use `budget:` or `max_items:`",
    "samples": "an adaptive run chooses its documents; use `budget:` or `max_items:`",
    "output_path": "use --run_dir",
}


@dataclass(frozen=True)
class ModelConfig:
    """One model of the ranking: how the harness builds it, and what it costs."""

    name: str
    model: str | None
    model_args: dict[str, Any] = field(default_factory=dict)
    price: Price = field(default_factory=Price)
    batch_size: int | str | None = None
    device: str | None = None
    concurrency: int | None = None
    memory: float | None = None
    num_gpus: float = 0.0
    num_cpus: float = 1.0


@dataclass(frozen=True)
class FailureRule:
    """When a failed request is tried again, and when a model is set aside.

    A document is tried ``attempts`` times, waiting ``backoff`` seconds before the second and twice
    as long before each further one, at most ``max_backoff`` (or as long as the server asks); where
    the code that reads or scores the answer fails, it is tried only once more, as every answer is
    paid for.  A document that fails every time is recorded, is not scored and is not offered to
    that model again; the estimate treats it as an item not seen.

    A server that is away (no connection, 429, 503, or ``in_a_row`` documents given up without a
    success between them) costs no document: nobody asks it until one request, after a pause, finds
    it back.  After ``outage_minutes`` the model is set aside; at once after an answer that no
    repetition can mend (401, 402, 403, 404), after ``in_a_row`` documents whose answers could not
    be scored, and when of ten or more documents a larger share than ``share`` failed.
    """

    attempts: int = 4
    backoff: float = 1.0
    max_backoff: float = 30.0
    in_a_row: int = 3
    share: float = 0.5
    outage_minutes: float = 15.0


@dataclass(frozen=True)
class RankConfig:
    """Everything that decides a ranking, in plain values; without a bank the method is "sample"."""

    task: str
    models: tuple[ModelConfig, ...]
    tasks: tuple[str, ...] = ()
    weights: str | dict[str, float] = ""
    bank: str | dict[str, str] = ""
    metrics: dict[str, float] = field(default_factory=dict)
    confidence: float = 0.95
    budget: dict[str, float] = field(default_factory=dict)
    warmup: int = 10
    max_items: int | None = None
    seed: int = 0
    information: str = "first"
    familywise: bool = False
    stop_when_decided: bool = True
    audit: float = 0.0
    exposure: int = 1
    known: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    target_se: float | None = None
    rank_width: int | None = None
    percentile: float | None = None
    known_sampled: bool = False
    one_at_a_time: bool = False
    memory: float | None = None
    judge: Price = field(default_factory=Price)
    failures: FailureRule = field(default_factory=FailureRule)
    fail_on_empty: float | None = None
    prior: dict[str, list[str]] = field(default_factory=dict)
    save_bank: str | None = None
    strata: str | None = None
    harness: dict[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Tasks and groups, as the harness is asked for them."""
        return self.tasks or (self.task,)

    def model(self, name: str) -> ModelConfig:
        """The entry of ``models`` with this name."""
        for entry in self.models:
            if entry.name == name:
                return entry
        known = ", ".join(m.name for m in self.models)
        raise UsageError(f"no model named {name!r} in this ranking; it has: {known}")

    def public_dict(self) -> dict[str, Any]:
        """JSON values for files and comparison; credentials are masked."""
        values = asdict(self)
        # Settings that came later are left out while they say what was always so.
        later = ("tasks", "weights", "metrics", "rank_width", "percentile", "known_sampled")
        for name in (*later, "prior", "save_bank", "strata"):
            if not values[name]:
                values.pop(name)
        if set(self.metrics.values()) == {1.0}:
            values["metrics"] = list(self.metrics)
        values.pop("fail_on_empty")  # of each look at the run, not of the run
        if self.failures.outage_minutes == FailureRule.outage_minutes:
            values["failures"].pop("outage_minutes")
        return dict(mask(values))


def from_public(values: Mapping[str, Any], bank: str) -> RankConfig:
    """The configuration that :meth:`RankConfig.public_dict` was made of, without its secrets."""
    given = {key: value for key, value in values.items() if key != "lease"}
    models = tuple(
        ModelConfig(**{**entry, "price": Price(**entry["price"])}) for entry in given.pop("models")
    )
    given["judge"] = Price(**given["judge"])
    given["failures"] = FailureRule(**given["failures"])
    given["metrics"] = parse_metrics(given.get("metrics")) or {}
    given["tasks"] = tuple(given.get("tasks") or ())
    return RankConfig(**{**given, "bank": bank, "models": models})


def load_config(path: str | Path, overrides: Mapping[str, Any] | None = None) -> RankConfig:
    """Read and check a configuration file.

    Parameters
    ----------
    path : path
        A YAML file.  A relative ``bank`` and ``harness.include_path`` are looked up beside it
        first, then from the working directory.
    overrides : mapping, optional
        Top-level values that replace those of the file (from command line flags); of ``harness``
        each setting by itself.

    Raises
    ------
    UsageError
        Naming the key and what may stand there.
    """
    import yaml

    file = Path(path)
    try:
        with file.open(encoding="utf-8") as stream:  # the stream knows its name, for an error
            content = yaml.safe_load(stream)
    except FileNotFoundError:
        import difflib

        there = [path.name for path in file.parent.glob("*.y*ml")]
        close = difflib.get_close_matches(file.name, there, n=1)
        hint = f"; did you mean {file.parent / close[0]}?" if close else ""
        raise UsageError(f"no configuration file {file}{hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the configuration {file}: {error}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise UsageError(f"{file} must hold keys such as task:, bank: and models: at the top level")
    if content.get("format") in ("lm-eval-ccat/bank", "lm-eval-ccat/suite"):
        raise UsageError(
            f"{file} is an item bank, not a configuration: write `bank: {file}` in a YAML file "
            f"with task: and models:, or use rank --task TASK --bank {file} --model TYPE "
            "--model_args A=B (once per model)"
        )
    given = dict(overrides or {})
    if "harness" in given and isinstance(content.get("harness"), Mapping):
        given["harness"] = {**content["harness"], **given["harness"]}
    content = {**content, **given}
    try:
        return parse_config(content, folder=file.parent)
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None


def parse_config(content: Mapping[str, Any], folder: Path | None = None) -> RankConfig:
    """Check the values of a configuration; see :func:`load_config`.

    The credentials in it are masked from now on, wherever they turn up.
    """
    remember_credentials(content)
    known = set(RankConfig.__dataclass_fields__)
    _refuse_unknown(content, known, "")
    tasks = parse_tasks(content, folder)
    if content.get("models") in (None, "", []):
        raise UsageError("`models:` is missing")
    bank = _bank(content.get("bank"), folder)
    harness = _harness(content.get("harness"))
    if harness and folder is not None and "include_path" in harness:
        harness["include_path"] = _beside(harness["include_path"], folder)
    entries = content["models"]
    if not isinstance(entries, list):
        raise UsageError("`models:` must be a list of entries with name:, model:, model_args:")
    models = tuple(_model(entry, f"models[{i}]") for i, entry in enumerate(entries))
    names = [m.name for m in models]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"`models:` holds two entries named {name!r}; names must differ")
    optional: dict[str, Any] = {
        "tasks": tasks if len(tasks) > 1 else None,
        "weights": parse_weights(content.get("weights")),
        "metrics": parse_metrics(content.get("metrics")),
        "confidence": _number(content, "confidence", low=0.5, high=1.0, open_ends=True),
        "budget": _budget(content.get("budget")),
        "warmup": _integer(content, "warmup", low=0),
        "max_items": _integer(content, "max_items", low=1),
        "seed": _integer(content, "seed", low=0),
        "information": _choice(content, "information", ("first", "full")),
        "familywise": _flag(content, "familywise"),
        "stop_when_decided": _flag(content, "stop_when_decided"),
        "audit": _number(content, "audit", low=0.0, high=0.9),
        "exposure": _integer(content, "exposure", low=1),
        "known": _known(content.get("known"), folder),
        "options": _options(content.get("options")),
        "target_se": _number(content, "target_se", low=0.0, open_ends=True),
        "rank_width": _integer(content, "rank_width", low=1),
        "percentile": _number(content, "percentile", low=0.0, high=100.0, open_ends=True),
        "known_sampled": _flag(content, "known_sampled"),
        "one_at_a_time": _flag(content, "one_at_a_time"),
        "memory": _number(content, "memory", low=0.0, open_ends=True),
        "judge": Price.parse(content.get("judge"), "judge"),
        "failures": _failures(content.get("failures")),
        "fail_on_empty": _number(content, "fail_on_empty", low=0.0, high=1.0),
        "prior": parse_prior(content.get("prior"), folder),
        **{
            key: _text(content[key], key)
            for key in ("save_bank", "strata")
            if content.get(key) is not None
        },
        "harness": harness,
    }
    given = {key: value for key, value in optional.items() if value is not None}
    return RankConfig(task="+".join(tasks), bank=bank, models=models, **given)


def _model(entry: Any, where: str) -> ModelConfig:
    if not isinstance(entry, Mapping):
        raise UsageError(f"`{where}` must hold name:, model: and model_args:")
    _refuse_unknown(entry, set(ModelConfig.__dataclass_fields__), where)
    if not entry.get("name"):
        raise UsageError(f"`{where}.name` is missing")
    name = _text(entry["name"], f"{where}.name")
    kind = entry.get("model")
    arguments = entry.get("model_args") or {}
    if isinstance(arguments, str):
        arguments = _parse_argument_string(arguments, f"{where}.model_args")
    if not isinstance(arguments, Mapping):
        raise UsageError(f"`{where}.model_args` must be a mapping or a string a=b,c=d")
    weights = 1.0 if kind is None or holds_weights(str(kind)) else 0.0
    batch_size = entry.get("batch_size")
    if batch_size is not None and not isinstance(batch_size, int | str):
        raise UsageError(f"`{where}.batch_size` must be a number or auto, not {batch_size!r}")
    return ModelConfig(
        name=name,
        model=None if kind is None else _text(kind, f"{where}.model"),
        model_args=dict(arguments),
        price=Price.parse(entry.get("price"), f"{where}.price"),
        batch_size=batch_size,
        device=None if entry.get("device") is None else str(entry["device"]),
        concurrency=_integer(entry, "concurrency", low=1, where=where),
        memory=_number(entry, "memory", low=0.0, where=where, open_ends=True),
        num_gpus=_number(entry, "num_gpus", low=0.0, where=where) or 0.0,
        num_cpus=_number(entry, "num_cpus", low=0.0, where=where, default=weights) or 0.0,
    )


def _parse_argument_string(text: str, where: str) -> dict[str, Any]:
    import yaml

    values: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"`{where}`: {part!r} is not of the form key=value")
        values[key.strip()] = yaml.safe_load(value)
    return values


def _budget(value: Any) -> dict[str, float] | None:
    if value is None:
        return None
    form = "`budget:` must be one of {items: n}, {usd: x}, {seconds: s}"
    if not isinstance(value, Mapping) or len(value) != 1 or next(iter(value)) not in BUDGET_KINDS:
        raise UsageError(f"{form}, not {value!r}")
    kind = next(iter(value))
    amount = _number(value, kind, low=0.0, where="budget", open_ends=True)
    if amount is None:
        raise UsageError(f"{form}; the amount is missing")
    return {kind: amount}


def _bank(value: Any, folder: Path | None) -> str | dict[str, str]:
    """A file or folder, or one for each metric; beside the configuration if there is one."""
    if isinstance(value, Mapping):
        return {
            str(name): str(_bank(_text(v, f"bank.{name}"), folder)) for name, v in value.items()
        }
    bank = _text(value, "bank") if value else ""
    return str(folder / bank) if folder is not None and bank and (folder / bank).exists() else bank


def _failures(value: Any) -> FailureRule | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise UsageError(
            "`failures:` must hold attempts:, backoff:, max_backoff:, in_a_row:, share:, "
            "outage_minutes:"
        )
    _refuse_unknown(value, set(FailureRule.__dataclass_fields__), "failures")
    given = {
        "attempts": _integer(value, "attempts", low=1, where="failures"),
        "backoff": _number(value, "backoff", low=0.0, where="failures"),
        "max_backoff": _number(value, "max_backoff", low=0.0, where="failures"),
        "in_a_row": _integer(value, "in_a_row", low=1, where="failures"),
        "share": _number(value, "share", low=0.0, high=1.0, where="failures"),
        "outage_minutes": _number(value, "outage_minutes", low=0.0, where="failures"),
    }
    return FailureRule(**{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]


def _harness(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise UsageError("`harness:` must hold settings of lm_eval such as num_fewshot: 0")
    for key, remedy in OWN_HARNESS_KEYS.items():
        if key in value:
            raise UsageError(f"`harness.{key}` is not allowed: {remedy}")
    found = dict(value)
    for key in (*TRACKERS, HUB):
        if isinstance(found.get(key), str):
            found[key] = _parse_argument_string(found[key], f"harness.{key}")
        if found.get(key) is not None and not isinstance(found[key], Mapping):
            raise UsageError(f"`harness.{key}` must be a mapping or a string a=b,c=d")
    return found


def _known(value: Any, folder: Path | None) -> str | None:
    if value is None:
        return None
    path = _text(value, "known")
    if folder is not None and (folder / path).exists():
        return str(folder / path)
    if not Path(path).exists():
        raise UsageError(f"`known:` names a score table or logs that do not exist: {path}")
    return path


def _options(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise UsageError("`options:` must hold options of the method such as item_price: 0")
    return dict(value)


def _beside(paths: Any, folder: Path) -> list[str]:
    """Folders as given where they exist, else those beside the configuration."""
    given = [paths] if isinstance(paths, str) else list(paths or [])
    if any(not isinstance(path, str) for path in given):
        raise UsageError(f"`harness.include_path` must be a folder or several, not {paths!r}")
    return [str(folder / p) if (folder / p).is_dir() else p for p in given]


def _refuse_unknown(values: Mapping[Any, Any], known: set[str], where: str) -> None:
    for key in values:
        if key not in known:
            import difflib

            path = f"{where}.{key}" if where else str(key)
            close = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"known: {', '.join(sorted(known))}"
            raise UsageError(f"unknown key `{path}`; {hint}")
