"""Uses of the options of a run: flags, keyword arguments, JSON schema and allowed changes.

``python -m lm_eval_ccat.live.surfaces`` prints ``docs/config.schema.json``.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import yaml

from ..errors import UsageError
from ..money import Price
from ..options import Kind, Schema, Values, number_of, options_of, schema_of
from ..runs.differences import MODEL
from .spec import ModelSpec, Spec

#: Prefix of options' names among parsed arguments, because the harness has a ``seed`` of its own.
_PREFIX = "option_"


def may_change(*patterns: str) -> re.Pattern[str]:
    """Return a pattern of what may change on resuming: paths such as ``config.budget.items``.

    Paths that one of the given `patterns` matches may change, too.
    """
    names = [name for name, option in options_of(Spec).items() if option.live]
    model_names = [name for name, option in options_of(ModelSpec).items() if option.live]
    return re.compile(
        rf"versions\..*|config\.({'|'.join(names)})([.\[].*)?|"
        r"config\.harness\.(batch_size|max_batch_size|device|use_cache|cache_requests|include_path)"
        r"(\[.*)?|config\.harness\.(hf_hub_log|wandb|mlflow|trackio)_args(\..*)?|"
        rf"{MODEL}\.({'|'.join(model_names)})(\..*)?|"
        rf"{MODEL}\.model_args\.(base_url|ca_cert_path|verify_certificate|num_concurrent|"
        r"timeout|max_retries|batch_size|device)" + "".join(f"|{pattern}" for pattern in patterns)
    )


def schema() -> Schema:
    """Return the JSON schema of a configuration file."""
    spec_schema = schema_of(Spec)
    task = {**spec_schema["properties"]["tasks"], "description": "As `tasks`."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of lm-eval-ccat rank",
        **spec_schema,
        "properties": {"task": task, **spec_schema["properties"]},
        "required": ["models"],
        "anyOf": [{"required": ["task"]}, {"required": ["tasks"]}],
    }


F = TypeVar("F", bound=Callable[..., Any])


def takes_options(*left_out: str) -> Callable[[F], F]:
    """Add the options of a run, except those left out, to the signature of a function.

    Its last parameter takes them all: ``**options``.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        *named, catch_all = signature.parameters.values()
        names = [name for name in ("task", *options_of(Spec)) if name not in left_out]
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names
        ]
        # Of a function that leaves some out, other arguments go to the harness.
        parameters = [*named, *keywords, *([catch_all] if left_out else [])]
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return decorate


#: Options that a starting configuration shows although they are not set, with examples.
STARTER: dict[str, object] = {
    "tasks": "gsm8k", "bank": "my_task.bank.json", "metrics": ["exact_match"],
    "budget": {"items": 200}, "max_items": 100, "min_difference": 0.01, "confidence": 0.95,
    "stop": "top 3", "harness": {"num_fewshot": 0},
}  # fmt: skip


def starter(spec: Spec) -> str:
    """Return a YAML file of a run's options, each below its help; unset ones as comments."""
    options, default = options_of(Spec), Spec()
    stated = {
        name: getattr(spec, name)
        for name in options
        if name != "models" and getattr(spec, name) != getattr(default, name)
    }
    lines = ["# lm-eval-ccat rank THIS_FILE; docs/config.schema.json has all keys", ""]
    for name, value in {**STARTER, **stated}.items():
        key = "task" if name == "tasks" else name
        value = value[0] if name == "tasks" and len(value) == 1 else value
        text = _yaml({key: value.stated if isinstance(value, Price) else value})
        lines += [*_comment(options[name].help), *_comment(text, commented=name not in stated), ""]
    # The keys of a model that can be stated by flags are those that most files need.
    model_options = {
        name: option for name, option in options_of(ModelSpec).items() if "rank" in option.flags
    }
    lines += ["# Each model:"]
    for name, option in model_options.items():
        lines += _comment(f"{name}: {option.help}", indent="  ")
    entries = []
    for model in spec.models:
        values = {name: getattr(model, name) for name in model_options}
        values["price"] = model.price.stated
        entries.append({name: value for name, value in values.items() if value})
    return "\n".join([*lines, _yaml({"models": entries})])


def _yaml(value: Any) -> str:
    """Return a value as YAML, with whole numbers as such: 2, not 2.0."""
    plain = json.loads(
        json.dumps(value, default=str), parse_float=lambda text: number_of(text.removesuffix(".0"))
    )
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=96)


def _comment(text: str, commented: bool = True, indent: str = "") -> list[str]:
    """Return a text's lines as comments, wrapped if it has one; if not `commented`, as they are."""
    if not commented:
        return text.rstrip().split("\n")
    wrap = textwrap.wrap(text, 96 - len(indent)) if "\n" not in text else text.rstrip().split("\n")
    return [f"# {indent}{line}" for line in wrap]


class _Flag(NamedTuple):
    """A flag of a command, which gives an option, or a part of one that has several."""

    option: str
    part: str
    names: list[str]
    kind: Kind
    help: str

    @property
    def argument(self) -> str:
        """Its name among parsed arguments."""
        return f"{_PREFIX}{self.option}.{self.part}"


def _flags(command: str) -> Iterator[_Flag]:
    """Yield the flags of a command."""
    for name, option in options_of(Spec).items():
        if command not in option.flags:
            continue
        # An option with parts, such as a budget, has a flag for each.
        if not option.kind.parts:
            names = ["task", "tasks"] if name == "tasks" else [option.flags[command] or name]
            yield _Flag(name, "", names, option.kind, option.help)
        for flag, (part, help, kind) in option.kind.parts.items():
            # The others of `compare` go into a YAML file.
            if command != "compare" or flag == "include_path":
                yield _Flag(name, part, [flag], kind, help)


def add_flags(parser: Any, command: str, help_texts: Mapping[str, str] | None = None) -> None:
    """Add the flags of a run's options to the parser of a command.

    Parameters
    ----------
    parser : argparse parser or group
    command : {"rank", "run", "compare"}
    help_texts : mapping of str to str, optional
        Help of options that mean something else to this command.
    """
    for flag in _flags(command):
        form: dict[str, Any] = {"metavar": flag.kind.metavar, "type": flag.kind.typed}
        if flag.kind.switch:
            form = {"action": "store_const", "const": True}
        elif flag.kind.many:
            form.update(nargs="+", action="extend")
        help = (help_texts or {}).get(flag.option, flag.help)
        form["help"] = help.replace("%", "%%").replace("`", "'")
        # From 0.5 on the harness has --repeats itself, which it writes into the tasks.
        with suppress(argparse.ArgumentError):
            parser.add_argument(*(f"--{name}" for name in flag.names), dest=flag.argument, **form)


def flags_given(args: argparse.Namespace, command: str) -> list[str]:
    """Return the flags of a run's options that a command line has."""
    values = vars(args)
    return [
        f"--{flag.names[0]}" for flag in _flags(command) if values.get(flag.argument) is not None
    ]


def given_by_flags(args: argparse.Namespace, command: str) -> Values:
    """Return the options that a command's flags give, and remove them from `args`.

    Raises
    ------
    UsageError
        Flags conflict, such as two kinds of budget.
    """
    options: Values = {}
    for flag in _flags(command):
        value = vars(args).pop(flag.argument, None)
        # A switch that is off is a value, too.
        if value is not None and flag.part:
            options.setdefault(flag.option, {})[flag.part] = value
        elif value is not None:
            options[flag.option] = value
    if len(options.get("budget", ())) > 1:
        raise UsageError("give one of --budget_items, --budget_usd and --budget_seconds")
    return options


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2))
