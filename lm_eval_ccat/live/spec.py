"""`Spec`: every option of a run, declared once.

The fields of `Spec` define the flags of ``rank``, ``run`` and ``compare``, the keys of a YAML file,
the keyword arguments, which options may change when a run is resumed, the table in the
documentation and the JSON schema (see `surfaces`). To add an option, add one field;
tests then say how to write `keywords.pyi` and the JSON schema anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ..bank import file as bank_file
from ..bank import suite
from ..errors import UsageError
from ..harness.internals import holds_weights, takes_messages
from ..masking import mask, remember_credentials
from ..methods.belief import BENCHMARK, POPULATION, RUN
from ..money import Price
from ..options import (
    ABOVE_0,
    AT_LEAST_0,
    CONFIDENCE,
    FILE,
    REPEATS,
    SWITCH,
    TEXT,
    Kind,
    OptionPlace,
    Values,
    choice,
    choices,
    nested,
    number,
    option,
    options_of,
    read_values,
    whole,
    yaml_of,
)
from ..ranker.stopping import StoppingRule, TargetError, rule_of, stop_words_in_words
from ..ranker.turns import WARMUP
from ..runs.differences import CHANGES
from ..scores.configuration import model_name_of
from .fields import (
    BANK,
    BATCH,
    BUDGET,
    CHOOSE_DOCUMENTS,
    HARNESS,
    KNOWN,
    MAPPING,
    METRICS,
    PRICE,
    PRIOR,
    RANK_KEYS,
    SESSION_KEYS,
    STOP,
    TASKS,
    WEIGHTS,
    Weighting,
    own_task,
)
from .line import GROWTH, WINDOW

#: Stopping rule of a single model with no goal, budget or limit of its own: an interval of about 4
#: points of 100 to either side.
TARGET = "se 0.02"


@dataclass(frozen=True)
class ModelSpec:
    """One entry of ``models:``: how the harness builds the model, and what it costs."""

    EXAMPLE: ClassVar[str] = "a mapping such as {model: hf, model_args: pretrained=gpt2}"
    # fmt: off
    name: str = option(
        "", TEXT, "What the model is called in results. Default: the last part of its "
        "`pretrained`, `model` or `path`.", "rank compare",
    )
    model: str | None = option(
        None, TEXT, "Model type of lm_eval (`hf`, `vllm`, `local-completions`, ...).",
        "rank compare",
    )
    model_args: Values = option(
        dict, MAPPING, "Its arguments, a mapping or `a=b,c=d`; credentials are masked in files.",
        "rank compare",
    )
    price: Price = option(
        Price, PRICE, "What it costs: `input` and `output` ($ per million tokens), `item` ($ per "
        "document), `hour` ($ per hour of measured time); the parts add up.", "rank compare",
        live=True,
    )
    batch_size: int | str | None = option(None, BATCH, "As lm_eval takes it.")
    device: str | None = option(None, TEXT, "As lm_eval takes it.")
    concurrency: int | None = option(
        None, whole(1), "Requests at the same time. Default: set by the model type.",
        live=True,
    )
    memory: float | None = option(
        None, ABOVE_0, "Memory that its weights need, in the unit of the run's "
        "`memory`.", live=True,
    )
    num_gpus: float = option(0.0, AT_LEAST_0, "GPUs for its Ray actor.", live=True)
    num_cpus: float | None = option(
        None, AT_LEAST_0, "CPUs for its Ray actor. Default: 1, or 0 for a model behind a "
        "server.", live=True,
    )
    # fmt: on

    @property
    def cpus(self) -> float:
        """CPUs for its Ray actor: ``num_cpus``, or the default for the model type."""
        if self.num_cpus is not None:
            return self.num_cpus
        return 1.0 if self.model is None or holds_weights(self.model) else 0.0


@dataclass(frozen=True)
class FailureRule:
    """When to repeat a failed request, and when to set a model aside.

    The run tries a document up to ``attempts`` times. It waits ``backoff`` seconds before the
    second attempt and twice as long before each further one, at most ``max_backoff`` (or as long as
    the server asks). The status 503 or 529 of a full server allows three times as many attempts. If
    the code that reads or scores an answer fails, the run tries only once more, because every
    answer costs money. A document that fails every time, or gets no answer for a minute in which
    younger requests do, is recorded without a score; the estimate treats it as an item not asked.

    An unavailable server (no connection, a status such as 503, a rate limit that asks for more than
    a minute of waiting, or ``in_a_row`` documents that fail without an answer between) costs no
    document: after a pause, one request checks whether it is back, at least every two seconds.
    Where such requests time out, pauses grow to 75 seconds, because each may be billed. After a
    minute the run goes on without its model. A model is set aside for good after an outage of
    ``outage_minutes``; immediately after a status that a retry cannot fix (401, 402, 403, 404), and
    if nobody is found at its address at first contact; after ``in_a_row`` documents whose answers
    could not be scored, or that were refused (ten, of a model that has answered); and when more
    than ``share`` of ten or more documents have failed.

    A judge that rates nothing is no failure of a model: answers are kept, and wait for it. If it is
    away for ``outage_minutes``, or refuses its key or model, the run ends, and ``--resume`` has the
    kept answers rated.
    """

    # fmt: off
    attempts: int = option(4, whole(1), "How often to try a document before giving it up.")
    backoff: float = option(
        1.0, AT_LEAST_0, "Seconds before the second attempt; twice as long before each further "
        "one.",
    )
    max_backoff: float = option(30.0, AT_LEAST_0, "Longest such pause, in seconds.")
    in_a_row: int = option(
        3, whole(1), "Documents that fail in a row after which the model counts as away, or is "
        "set aside if the server was reached (at ten or more, once it has answered).",
    )
    share: float = option(
        0.5, number(0.0, 1.0), "Set a model aside if a larger share of ten or more documents was "
        "given up.",
    )
    outage_minutes: float = option(
        15.0, AT_LEAST_0, "Set a model aside if its server is away for longer, in minutes, or no "
        "node of a Ray cluster has room for it.",
    )
    # fmt: on


MODEL = nested(ModelSpec)


def _models(value: Any, place: OptionPlace) -> tuple[ModelSpec, ...]:
    """Return the models of a list of entries, each with a name that no other has.

    An entry without a name gets its `_short_name`, or, where others share that, its `_long_name`.
    """
    if not isinstance(value, list | tuple):
        raise UsageError(f"`{place.path}:` must be a list of entries with model: and model_args:")
    models = [MODEL.read(entry, place.at(f"[{n}]")) for n, entry in enumerate(value)]
    for n, model in enumerate(models):
        # A model that the run opens has a type; one that answers from logs has a name alone.
        if not (model.name or model.model):
            raise UsageError(f"`{place.path}[{n}]` has neither a name: nor a model:")
    short_names = [_short_name(model) for model in models]
    # A journal masks credentials. A name with one would be that of no model there.
    names = [
        mask(name if short_names.count(name) == 1 else _long_name(model))
        for name, model in zip(short_names, models)
    ]
    for name in names:
        # Results of a model lie in a folder of its name.
        if not name.strip("."):
            raise UsageError(f"`{place.path}:` a model cannot be called {name!r}, like a folder")
        if names.count(name) > 1:
            raise UsageError(
                f"`{place.path}:` holds two models called {name!r}; give each its own `name:`"
            )
    return tuple(replace(model, name=name) for model, name in zip(models, names))


def _short_name(model: ModelSpec) -> str:
    """Return a model's own name, else the last part of its path, else its type."""
    kind = str(model.model)
    path = model_name_of(kind, model.model_args)
    # Where no argument is a path or a name, `model_name_of` lists all arguments after the type.
    last = "" if path.startswith(f"{kind}:") else Path(path).name
    return model.name or last or kind


def _long_name(model: ModelSpec) -> str:
    """Return a model's own name, else its type and arguments without credentials."""
    arguments = mask(model.model_args).items()
    return model.name or f"{model.model}:{','.join(f'{key}={value}' for key, value in arguments)}"


MODELS = Kind(_models, {"type": "array", "items": MODEL.schema})


@dataclass(frozen=True)
class Spec:
    """All options of a run, as plain values. Without a bank the method is "sample".

    Examples
    --------
    >>> spec = Spec.read({"task": "gsm8k", "models": [{"name": "a", "model": "hf"}]})
    >>> spec.tasks, spec.confidence, spec.stop
    (('gsm8k',), 0.95, 'decided')
    """

    # fmt: off
    tasks: tuple[str, ...] = option(
        (), TASKS, "A task, a group or the YAML file of a task; several as a list or separated by "
        "commas. Models are ranked by their weighted mean (`task` and `tasks` mean the same).",
        "plan rank compare",
    )
    models: tuple[ModelSpec, ...] = option((), MODELS, "The models; see below.")
    bank: Any = option(
        "", BANK, "Item bank: a file, a folder of banks, a hub name, or one of these per task or "
        "metric (TASK=FILE); or `{borrow: [SCORES, ...], scores: SCORES}`: scores of tasks on the "
        "same documents, and of full runs of this task. Without a bank all models answer the same "
        "random items (method `sample`).", "plan rank run",
    )
    metrics: dict[str, float] = option(
        dict, METRICS, "Metrics that score each answer, with weights. Models are ranked by the "
        "weighted mean, each metric on a scale of 0 to 1; weight 0 only reports a metric. "
        "Default: the bank's metric, else the task's first with a score per document.",
        "rank run compare", flag="metric",
    )
    weights: Weighting = option(
        "", WEIGHTS, "Weights of several tasks: `documents`, `equal`, or one per task or "
        "group (a=2,b=1). A group divides its weight among its tasks as the harness does. "
        "Default: the harness's weights for a single group, else `documents`.",
    )
    confidence: float = option(
        0.95, CONFIDENCE, "Two-sided confidence of verdicts and intervals.",
        "rank run compare", ranker=True,
    )
    familywise: bool = option(
        False, SWITCH, "Make `confidence` hold for all pairs together.", ranker=True,
    )
    min_difference: float = option(
        0.0, AT_LEAST_0, "Call models equivalent that surely differ by less than this. On the "
        "metric's own scale; with several outcomes, on 0 to 1.", "rank", ranker=True,
    )
    question: str = option(
        BENCHMARK, choice(BENCHMARK, POPULATION, RUN),
        "What the order is about: these documents (`benchmark`), or the population of documents "
        "that they are a sample of (`population`); where answers are sampled, both are about "
        "expected scores. `run` is about these very answers.", "rank run",
        ranker=True,
    )
    looks: str = option(
        "every", choice("every", "one"),
        "`every`: verdicts stay valid although results are checked after each answer. `one`: "
        "they are valid for a single look, at a number of items fixed in advance.",
        ranker=True,
    )
    budget: dict[str, float] = option(
        dict, BUDGET, "One of `{items: n}`, `{usd: x}`, `{tokens: n}`, `{seconds: s}`. Without "
        "a budget the run ends when its goal is met or every item has been asked.", "rank run",
        live=True,
    )
    max_items: int | None = option(
        None, whole(1), "Maximum number of items per model (`run`: per task), those of `warmup` "
        "among them. Default: the method's limit; of local weights that take turns a quarter of "
        "the items, at least 100.",
        "rank run compare", live=True, ranker=True,
    )
    warmup: int = option(
        WARMUP, whole(0), "Items that every model answers before models are compared. With several "
        "tasks, this many of each, but at most 15 in all and at least 2 of each.",
    )
    stop: str = option(
        "decided", STOP,
        lambda: f"When to stop: {stop_words_in_words()}, joined by `and` and `or`. "
        f"Default of `run` without `known`, budget or limit: `{TARGET}`.",
        "rank run",
        live=True,
    )
    known: Any = option(
        None, KNOWN, "Score table or logs of models with full results (per task: TASK=PATH). These "
        "models take part in the ranking and are not asked anything.", "run", flag="leaderboard",
    )
    repeats: int | None = option(
        None, REPEATS, "Most sampled answers of each item, in passes over the items that are the "
        "same for all models (avg@K, decided early). Default: the task's own `repeats`.",
        "rank run", live=True,
    )
    exposure: int = option(
        1, whole(1), "Draw each item from this many of the most informative ones; 1 takes the "
        "best.", "run", ranker=True,
    )
    seed: int = option(
        0, whole(0), "Seed of every random draw.", "rank run",
        flag={"run": "adaptive_seed"}, ranker=True,
    )
    options: Values = option(
        dict, MAPPING, "Further options of the method, such as `{item_price: 0}`.",
    )
    prior: dict[str, list[str]] = option(
        dict, PRIOR, "Earlier answers (harness logs with samples, or a run directory), a list of "
        "them, or one per model (NAME=LOGS). When the run reaches their documents, it scores these "
        "answers instead of asking, at no cost.", "rank", live=True,
    )
    save_bank: str | None = option(
        None, FILE, "Bank file to which each run adds the scores it observed; a folder for "
        "several tasks or metrics.", live=True,
    )
    ahead: int | None = option(
        None, whole(1), "Maximum number of items in flight per model. Default: "
        f"{WINDOW}, and {GROWTH:.0%} of what the model has answered. 1 asks one at a time.",
        live=True,
    )
    order: str = option(
        "asked", choice("asked", "arrival"),
        "When answers take effect: in the order `asked`, which makes runs reproducible, or "
        "on `arrival`, for more throughput.",
        live=True,
    )
    memory: float | None = option(
        None, ABOVE_0, "Memory that local models may hold together, in the "
        "unit of the models' `memory`. If not all fit, they take turns, and so do local models "
        "that do not state their memory.", live=True,
    )
    price: Price = option(Price, PRICE, "Price of each model without one.", "run", live=True)
    judge: Price = option(
        Price, PRICE, "Price of judging one answer, if the metric is an LLM judge.", live=True,
    )
    failures: FailureRule = option(
        FailureRule, nested(FailureRule), "When to repeat a request and when to set a model aside; "
        "see below.", live=True,
    )
    accept_change: tuple[str, ...] = option(
        (), choices(*CHANGES), "Changes to accept: `prompts` (other prompts than the bank's or "
        "known models got, under the settings that a bank states; it then assumes less of models), "
        "`scoring` (of known results, or before a resume), `server` (its model or fingerprint "
        "changed during the run), `cut` (known results were cut at another length, or more or less "
        "often). Each is recorded.",
        "rank run compare", live=True,
    )
    fail_on_empty: float | None = option(
        None, number(0.0, 1.0), "Exit with 4 if a larger share of a model's answers is "
        "empty.", live=True,
    )
    harness: Values = option(
        dict, HARNESS, "Any other setting of `lm_eval --config`, including trackers and the "
        "hub: `num_fewshot`, `apply_chat_template`, "
        "`system_instruction`, `gen_kwargs`, `include_path`, `use_cache`, ...", "rank compare",
    )
    # fmt: on

    @classmethod
    def read(
        cls,
        source: Mapping[str, Any] | str | Path | Spec,
        overrides: Mapping[str, Any] | None = None,
        *,
        folder: Path | None = None,
        recorded: bool = False,
    ) -> Spec:
        """Read options from a YAML file or a mapping; every mistake names its key.

        Credentials among the options are masked in everything that is written from now on.

        Parameters
        ----------
        source : mapping, path or Spec
        overrides : mapping, optional
            Options that replace those of `source`, such as flags or keyword arguments. Of
            ``harness`` each setting replaces the same setting.
        folder : Path, optional
            Folder in which the paths of a mapping are looked up first; those of a YAML file are
            looked up in the folder of the file.
        recorded : bool, optional
            Whether the options come from a journal, whose files may no longer exist.

        Raises
        ------
        UsageError
            A value is invalid; the message names the key and what it may hold.
        """
        overriding = read_values(cls, without_aliases(overrides or {}), OptionPlace())
        if isinstance(source, Spec):
            values = {field.name: getattr(source, field.name) for field in fields(cls)}
        elif isinstance(source, str | Path):
            values = cls._values_of_file(Path(source))
        else:
            place = OptionPlace("", folder, recorded)
            values = read_values(cls, without_aliases(source), place)
        # A flag replaces one setting of the harness, not the whole block of the file.
        if "harness" in overriding:
            overriding["harness"] = {**values.get("harness", {}), **overriding["harness"]}
        spec = cls(**{**values, **overriding})
        # A journal states where each task's file lay. It was checked when the run began.
        if recorded:
            return spec
        # The tasks of a Spec were found already, when it was read.
        if "tasks" in overriding or not isinstance(source, Spec):
            task_folder = Path(source).parent if isinstance(source, str | Path) else folder
            # A task named by a flag is looked up where the command runs.
            if "tasks" in overriding or task_folder is None:
                task_folder = Path()
            folders = spec.harness.get("include_path", ())
            tasks = (own_task(name, task_folder, folders) for name in spec.tasks)
            spec = replace(spec, tasks=tuple(tasks))
        spec._require_meaning()
        return spec

    @classmethod
    def _values_of_file(cls, file: Path) -> dict[str, Any]:
        """Return the values of a YAML file; every mistake names the file and the key."""
        content = content_of(file)
        # `content_of` names the file in its errors; what reads values knows of no file.
        try:
            return read_values(cls, without_aliases(content), OptionPlace("", file.parent))
        except UsageError as error:
            raise UsageError(f"{file}: {error}") from None

    def _require_meaning(self) -> None:
        """Refuse options that would have no effect where they stand.

        Raises
        ------
        UsageError
        """
        for key in self.options:
            if key in options_of(type(self)):
                raise UsageError(f"`options.{key}` is no option of a method; write `{key}:` alone")
        # Without a bank every item is drawn from all.
        if self.exposure > 1 and not self.bank:
            raise UsageError(
                f"exposure {self.exposure} is for a run with a bank, which says what items tell; "
                "name one (bank), or leave exposure out"
            )

    @classmethod
    def recorded(cls, values: Mapping[str, Any]) -> Spec:
        """Restore a `Spec` from the values of `public`."""
        return cls.read(without_unset(values), recorded=True)

    def public(self) -> Values:
        """Return JSON values for files and comparison, without the bank, credentials masked."""
        values = asdict(self)
        values["price"], values["judge"] = self.price.stated, self.judge.stated
        for entry, model in zip(values["models"], self.models):
            entry["price"] = model.price.stated
            entry["num_cpus"] = model.cpus
        # The bank is identified by its content; `fail_on_empty` is about one invocation.
        del values["bank"], values["fail_on_empty"]
        # Python may hand over what JSON cannot hold, such as a score table as `known`.
        return dict(json.loads(json.dumps(mask(values), default=lambda odd: type(odd).__name__)))

    def comparable(self) -> Values:
        """As `public`, with paths cut to their last parts: a run may go on from another folder."""
        values = self.public()
        values["tasks"] = [
            Path(task).name if task.endswith((".yaml", ".yml")) else task for task in self.tasks
        ]
        for entry in values["models"]:
            entry["model_args"] = {
                key: _last_part(value) for key, value in entry["model_args"].items()
            }
        values["known"] = _last_part(values["known"], is_path=True)
        return values

    def require_ranking(self) -> Spec:
        """Return this spec if it names what to rank.

        Raises
        ------
        UsageError
            A task or the models are missing.
        """
        for name, value, flag in (("task", self.tasks, "task"), ("models", self.models, "model")):
            if not value:
                raise UsageError(
                    f"`{name}:` is missing; write it in the configuration, or give --{flag}"
                )
        return self

    def for_the_ranker(self) -> Values:
        """Return the options that the Ranker takes under the same names."""
        options = options_of(Spec).items()
        return {name: getattr(self, name) for name, option in options if option.ranker}

    def template_for(self, entry: ModelSpec) -> bool | str:
        """Return the harness's ``apply_chat_template`` for a model.

        A type that takes only chat messages implies it. A model that answers from logs is asked as
        the models beside it are.
        """
        asked_alike = [entry] if entry.model else self.models
        implied = any(takes_messages(str(model.model)) for model in asked_alike)
        template: bool | str = self.harness.get("apply_chat_template") or implied
        return template

    def counts_tokens(self, entry: ModelSpec | Spec) -> bool:
        """Whether the tokens of a model are counted: its price or the budget is in tokens.

        Of the one model of ``run``, the spec itself states the price.
        """
        return entry.price.by_tokens or "tokens" in self.budget

    @property
    def rule(self) -> StoppingRule:
        """The stopping rule that `stop` states."""
        return rule_of(self.stop)

    @property
    def target_se(self) -> float | None:
        """The target standard error, if `stop` states one; the smallest of several."""
        errors = [part.se for part in self.rule.parts() if isinstance(part, TargetError)]
        return min(errors) if errors else None

    def model(self, name: str) -> ModelSpec:
        """Return the entry of ``models`` with this name.

        Raises
        ------
        UsageError
            No entry has this name.
        """
        if (entry := self._entry_of.get(name)) is None:
            raise UsageError(
                f"no model named {name!r} in this ranking; it has: {', '.join(self._entry_of)}"
            )
        return entry

    @cached_property
    def _entry_of(self) -> dict[str, ModelSpec]:
        return {entry.name: entry for entry in self.models}


#: Forms in which a caller may give the options of a run.
Config = Spec | Mapping[str, Any] | str | Path


def content_of(file: Path) -> Values:
    """Read the keys of a configuration.

    Raises
    ------
    UsageError
        The file is missing, not valid YAML, or not a configuration.
    """
    content = yaml_of(file, "configuration", "task:, bank: and models:")
    # A bank is YAML, too: its keys would be refused one by one as unknown options.
    if content.get("format") in (bank_file.FORMAT, suite.FORMAT):
        raise UsageError(
            f"{file} is an item bank, not a configuration: write `bank: {file}` in one, or use "
            f"rank --task TASK --bank {file} --model TYPE --model_args A=B (once per model)"
        )
    return content


def without_aliases(options: Mapping[str, Any]) -> Values:
    """Return options by their first names only; credentials among them are masked from now on.

    Raises
    ------
    UsageError
        An option is stated by both of its names, would choose documents, or is one of the harness
        or of a single model.
    """
    remember_credentials(options)
    values = dict(options)
    for key, remedy in CHOOSE_DOCUMENTS.items():
        if key in values:
            raise UsageError(f"`{key}:` is no key here: {remedy}")
    for key in (*SESSION_KEYS, *RANK_KEYS):
        if key in values and key not in options_of(Spec):  # `seed:` is both
            raise UsageError(f"unknown key `{key}`; did you mean harness.{key}?")
    for key in options_of(ModelSpec):
        if key in values and key not in options_of(Spec):
            raise UsageError(f"unknown key `{key}`; each entry of models has its own `{key}:`")
    for alias, name in ALIASES.items():
        if alias in values:
            if values.get(name) not in (None, "", [], {}) and values[alias]:
                raise UsageError(f"`{alias}:` and `{name}:` mean the same; give one of them")
            values[name] = values.pop(alias) or values.get(name)
    return values


#: Other names of options, as good as the first.
ALIASES = {"task": "tasks", "metric": "metrics", "leaderboard": "known"}


def _last_part(value: Any, is_path: bool = False) -> Any:
    """Return the last part of a path: of any text if `is_path`, else of one that looks like one."""
    if not isinstance(value, str) or "://" in value:
        return value
    return Path(value).name if is_path or value[:1] in (".", "/", "~") else value


def without_unset(value: Any) -> Any:
    """Return JSON values without those that are not set.

    >>> without_unset({"task": "t", "known": None, "harness": {"device": None}})
    {'task': 't'}
    """
    if isinstance(value, Mapping):
        values = {key: without_unset(entry) for key, entry in value.items()}
        return {key: entry for key, entry in values.items() if entry is not None and entry != {}}
    return [without_unset(entry) for entry in value] if isinstance(value, list) else value
