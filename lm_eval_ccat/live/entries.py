"""The parts of a run's options that are mappings: its models, and what to do about failures."""

# ruff: noqa: RUF009 - an option is a field that knows what it is

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UsageError
from ..harness.internals import holds_weights
from ..harness.served import Price
from .fields import (
    MAPPING,
    PRICE,
    TEXT,
    Kind,
    OptionPlace,
    Values,
    number,
    option,
    schema_of,
    whole,
)

BATCH = Kind(TEXT.read, {"type": ["integer", "string"]}, "N")


@dataclass(frozen=True)
class ModelSpec:
    """One entry of ``models:``: how the harness builds the model, and what it costs."""

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
    batch_size: int | str | None = option(
        None, Kind(lambda v, p: v if isinstance(v, int) else TEXT.read(v, p), BATCH.schema), "As "
        "lm_eval takes it.",
    )
    device: str | None = option(None, TEXT, "As lm_eval takes it.")
    concurrency: int | None = option(
        None, whole(1), "Requests at the same time; by default what the model type says.",
        live=True,
    )
    memory: float | None = option(
        None, number(0.0, open_ends=True), "What its weights need, in the unit of the run's "
        "`memory`.", live=True,
    )
    num_gpus: float = option(0.0, number(0.0), "GPUs of its Ray actor.", live=True)
    num_cpus: float | None = option(
        None, number(0.0), "CPUs of its Ray actor; by default 1, and 0 for a model behind a "
        "server.", live=True,
    )
    # fmt: on

    @property
    def cpus(self) -> float:
        """CPUs of its Ray actor."""
        if self.num_cpus is not None:
            return self.num_cpus
        return 1.0 if self.model is None or holds_weights(self.model) else 0.0


@dataclass(frozen=True)
class FailureRule:
    """When to repeat a failed request, and when to set a model aside.

    The run tries a document ``attempts`` times. It waits ``backoff`` seconds before the second
    attempt and twice as long before each further one, at most ``max_backoff`` (or as long as the
    server asks). If the code that reads or scores an answer fails, it tries only once more, because
    every answer costs money. A document that fails every time is recorded and not scored; the
    estimate treats it as an item not asked.

    A server that is away (no connection, 429, 503, or ``in_a_row`` documents given up in a row)
    costs no document: after a pause, one request checks whether it is back. The model is set aside
    after ``outage_minutes``; at once after an answer that no repetition can mend (401, 402, 403,
    404); after ``in_a_row`` documents whose answers could not be scored; and if more than ``share``
    of ten or more documents failed.
    """

    # fmt: off
    attempts: int = option(4, whole(1), "How often to try a document before giving it up.")
    backoff: float = option(
        1.0, number(0.0), "Seconds before the second attempt; twice as long before each further "
        "one.",
    )
    max_backoff: float = option(30.0, number(0.0), "Longest such pause, in seconds.")
    in_a_row: int = option(
        3, whole(1), "Documents given up in a row after which the model counts as away, or is "
        "set aside if the server was reached.",
    )
    share: float = option(
        0.5, number(0.0, 1.0), "Set a model aside if a larger share of ten or more documents was "
        "given up.",
    )
    outage_minutes: float = option(
        15.0, number(0.0), "Set a model aside if its server is away for longer, in minutes.",
    )
    # fmt: on


def _named(models: Sequence[ModelSpec], place: OptionPlace) -> tuple[ModelSpec, ...]:
    """Models with a name each: the last part of what their arguments name, or all arguments."""
    short = []
    for n, model in enumerate(models):
        if not (model.name or model.model):
            raise UsageError(f"`{place.path}[{n}]` has neither a name: nor a model:")
        stated = (str(model.model_args.get(key, "")) for key in ("pretrained", "model", "path"))
        last = (Path(text).name for text in stated)
        short.append(model.name or next(filter(None, last), str(model.model)))
    names = []
    for name, model in zip(short, models):
        arguments = ",".join(f"{k}={v}" for k, v in model.model_args.items())
        long = model.name or f"{model.model}:{arguments}"
        names.append(name if short.count(name) == 1 else long)
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"`{place.path}:` holds two models called {name!r}; state a name for each"
            )
    return tuple(replace(model, name=name) for model, name in zip(models, names))


MODELS = Kind(_named, {"type": "array", "items": schema_of(ModelSpec)}, many=True, of=ModelSpec)
FAILURES = Kind(lambda rule, _: rule, schema_of(FailureRule), of=FailureRule)
