"""Options that a dataclass declares: how to read, check and describe the value of each.

A dataclass whose fields are made by `option` is read from a mapping with `read_values`. Errors name
the key, the value and what it may hold.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .errors import UsageError
from .plugins import did_you_mean, near_path

Schema = dict[str, Any]
#: Options by name, as given by files, flags and Python.
Values = dict[str, Any]


@dataclass(frozen=True)
class OptionPlace:
    """Where a value was written: its key, its file's folder, and whether a journal holds it.

    Attributes
    ----------
    path : str
        Path of its key, for messages.
    folder : Path or None
        Folder in which relative paths are looked up first.
    recorded : bool
        Whether it comes from a journal, whose files may no longer exist.
    """

    path: str = ""
    folder: Path | None = None
    recorded: bool = False

    def at(self, key: object) -> OptionPlace:
        """Return the place of a key inside this one."""
        inner = str(key) if str(key).startswith("[") or not self.path else f".{key}"
        return OptionPlace(f"{self.path}{inner}", self.folder, self.recorded)

    def refuse(self, must: str, value: Any) -> UsageError:
        """Return the error for an invalid value."""
        return UsageError(f"`{self.path}` must be {must}, not {value!r}")

    def beside(self, path: str) -> str:
        """Resolve a path against this place's folder if it exists there."""
        if self.folder is not None and path and (self.folder / path).exists():
            return str(self.folder / path)
        return path


@dataclass(frozen=True)
class Kind:
    """A kind of value.

    Attributes
    ----------
    read : callable
        ``(value, place) -> value``, checked; raises a UsageError that names the place.
    schema : dict
        JSON schema of the values allowed in a file.
    metavar : str
        Placeholder for the value in the help of its flag.
    typed : callable
        Converts the text of a flag to a value for `read`.
    many : bool
        Whether its flag takes several values.
    switch : bool
        Whether its flag takes no value.
    parts : dict of str to Part
        Flags that replace the single one, if any: what each gives, by flag.
    """

    read: Callable[[Any, OptionPlace], Any]
    schema: Schema
    metavar: str = "TEXT"
    typed: Callable[[str], Any] = str
    many: bool = False
    switch: bool = False
    parts: Mapping[str, Part] = field(default_factory=dict)

    def check(self, value: Any, name: str) -> Any:
        """Read an argument, in which a text stands for no number.

        Examples
        --------
        >>> number(0.0, 1.0).check("0.9", "share")
        Traceback (most recent call last):
        lm_eval_ccat.errors.UsageError: `share` must be a number, not '0.9'
        """
        if isinstance(value, str) and self.typed is number_of:
            raise OptionPlace(name).refuse("a number", value)
        return self.read(value, OptionPlace(name))


class Part(NamedTuple):
    """One key of an option that is a mapping: what a flag of its own gives, its help and kind."""

    key: str
    help: str
    kind: Kind


@dataclass(frozen=True)
class Option:
    """One option: what its dataclass field carries besides name and default.

    Attributes
    ----------
    kind : Kind
    text : str or callable
        What it does, with its unit; empty if no page shows it. A callable returns it when a page
        is made, because plugins may add to it.
    flags : dict of str to str
        Name of its flag by command, "" where it is the option's own; other commands have none.
    live : bool
        Whether it may change when a run is resumed.
    ranker : bool
        Whether the Ranker takes it as an argument of the same name.
    """

    kind: Kind
    text: str | Callable[[], str]
    flags: Mapping[str, str]
    live: bool = False
    ranker: bool = False

    @property
    def help(self) -> str:
        """The text."""
        return self.text if isinstance(self.text, str) else self.text()


def option(
    default: Any,
    kind: Kind,
    help: str | Callable[[], str] = "",
    flags: str = "",
    *,
    live: bool = False,
    ranker: bool = False,
    flag: str | Mapping[str, str] = "",
) -> Any:
    """Return a dataclass field that is an option.

    Parameters
    ----------
    default
        Default value, or a class to call for one.
    kind, help, live, ranker
        See `Option`; `help` is its text.
    flags : str
        Commands that have its flag, separated by spaces.
    flag : str or mapping, optional
        Name of the flag if it differs from the option's; by command if the commands differ.
    """
    named = {
        command: flag if isinstance(flag, str) else flag.get(command, "")
        for command in flags.split()
    }
    metadata = {"option": Option(kind, help, named, live, ranker)}
    # A mutable default would be shared by all runs of the process.
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def options_of(cls: Any) -> dict[str, Option]:
    """Return the options of a dataclass by name."""
    return {
        field.name: field.metadata["option"] for field in fields(cls) if "option" in field.metadata
    }


def read_values(cls: Any, values: Any, place: OptionPlace) -> Values:
    """Read and check the values of a dataclass's options, except those that are None.

    Raises
    ------
    UsageError
        `values` is no mapping, a key is unknown, or a value is invalid; names the key.
    """
    known = options_of(cls)
    if not isinstance(values, Mapping):
        keys = ", ".join(f"{name}:" for name in known)
        raise place.refuse(getattr(cls, "EXAMPLE", f"a mapping with {keys}"), values)
    for key in values:
        if key not in known:
            # A key may be that of a part, as `usd` of `budget`.
            parts = (
                f"{name}.{part.key}"
                for name, option in known.items()
                for part in option.kind.parts.values()
            )
            suggestion = did_you_mean(str(key), [*known, *parts], listing=False)
            suggestion = suggestion or did_you_mean(str(key), known)
            raise UsageError(f"unknown key `{place.at(key).path}`{suggestion}")
    return {
        name: known[name].kind.read(value, place.at(name))
        for name, value in values.items()
        if value is not None
    }


def schema_of(cls: Any) -> Schema:
    """Return the JSON schema of a dataclass's options."""
    known: dict[str, Field[Any]] = {
        field.name: field for field in fields(cls) if "option" in field.metadata
    }
    properties = {}
    for name, member in known.items():
        described: Option = member.metadata["option"]
        default = {} if member.default in (MISSING, None, "", ()) else {"default": member.default}
        properties[name] = {**described.kind.schema, "description": described.help, **default}
    return {"type": "object", "additionalProperties": False, "properties": properties}


#: Most values in a YAML file: with aliases, a page of it can expand to 10^10.
_MOST_VALUES = 1_000_000


def _size(value: Any, sizes: dict[int, float]) -> float:
    """Count all values, each alias as many times as it is used; `sizes` has them by `id`."""
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in sizes:
        sizes[id(value)] = math.inf  # until it is known: an alias may be part of what it names
        values = value.values() if isinstance(value, dict) else value
        sizes[id(value)] = 1 + sum(_size(element, sizes) for element in values)
    return sizes[id(value)]


@functools.cache
def _strict_loader() -> Any:
    """Return YAML's safe loader, but that reads dates as texts and refuses a key that stands twice.

    A revision 2024-08-06 of a model is a name, which no journal could hold as a date.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_mapping_node(self, anchor: Any) -> Any:
            """Read a mapping; refuse one in which a key stands twice."""
            node, keys = super().compose_mapping_node(anchor), set[str]()
            for key, _ in node.value:
                # PyYAML takes the last: a second `models:` would hide the first.
                if isinstance(key.value, str) and key.value in keys:
                    raise yaml.MarkedYAMLError(
                        problem=f"key {key.value!r} stands here a second time",
                        problem_mark=key.start_mark,
                    )
                keys |= {key.value} if isinstance(key.value, str) else set()
            return node

    Loader.yaml_implicit_resolvers = {
        first_letter: [(tag, form) for tag, form in resolvers if not tag.endswith(":timestamp")]
        for first_letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return Loader


def yaml_of(file: Path, what: str, keys: str) -> Values:
    """Read the keys of a YAML file.

    Parameters
    ----------
    file : Path
    what, keys : str
        What it is, and some of its keys, for errors.

    Raises
    ------
    UsageError
        The file is missing or not valid YAML, or holds no keys.
    """
    import yaml

    try:
        with file.open(encoding="utf-8") as stream:  # a stream, so that YAML errors name the file
            content = yaml.load(stream, Loader=_strict_loader())  # a safe one
    except FileNotFoundError:
        raise UsageError(f"no {what} file {file}{near_path(file)}") from None
    # A run's directory is easily named in place of its configuration.
    except IsADirectoryError:
        raise UsageError(f"{file} is a folder; name the {what}'s YAML file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the {what} {file}: {error}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is not valid YAML: {error}") from error
    if _size(content, {}) > _MOST_VALUES:
        raise UsageError(
            f"{file}: its aliases (*name) stand for more than {_MOST_VALUES:,} values; write out "
            "what they stand for"
        )
    if not isinstance(content, dict):
        raise UsageError(f"{file} must hold keys such as {keys} at the top level")
    return content


# -- kinds ----------------------------------------------------------------------------------------


def number(
    low: float = -math.inf,
    high: float = math.inf,
    *,
    open_ends: bool = False,
    integral: bool = False,
) -> Kind:
    """Kind of a finite number from `low` to `high`; with `open_ends`, strictly between them."""
    bounds = []
    if math.isfinite(low):
        bounds.append(f"above {low:g}" if open_ends else f"of at least {low:g}")
    if math.isfinite(high):
        bounds.append(f"below {high:g}" if open_ends else f"at most {high:g}")
    must = f"a {'whole ' if integral else ''}number {' and '.join(bounds)}".rstrip()

    def read(value: Any, place: OptionPlace) -> Any:
        value = number_of(value) if isinstance(value, str) else value  # YAML reads 1e-3 as a text
        proper = isinstance(value, Integral if integral else Real) and not isinstance(value, bool)
        if not proper or not math.isfinite(value):
            raise place.refuse(must, value)
        if not (low < value < high if open_ends else low <= value <= high):
            raise place.refuse(must, value)
        return int(value) if integral else float(value)

    ends = ("exclusiveMinimum", "exclusiveMaximum") if open_ends else ("minimum", "maximum")
    limits = {name: limit for name, limit in zip(ends, (low, high)) if math.isfinite(limit)}
    schema = {"type": "integer" if integral else "number", **limits}
    return Kind(read, schema, metavar="N" if integral else "X", typed=number_of)


def number_of(text: str) -> Any:
    """Return the number that a text states; the text itself if it is not a number.

    >>> number_of("3"), number_of("1e-3"), number_of("many")
    (3, 0.001, 'many')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def whole(low: int = 0) -> Kind:
    """Kind of a whole number of at least `low`."""
    return number(low, integral=True)


def choice(*words: str) -> Kind:
    """Kind of a word out of `words`."""

    def read(value: Any, place: OptionPlace) -> str:
        if value not in words:
            raise place.refuse(f"one of {', '.join(words)}", value)
        return str(value)

    return Kind(read, {"enum": list(words)}, "{" + ",".join(words) + "}")


def choices(*words: str) -> Kind:
    """Kind of several of `words`, in a list or separated by commas."""
    kind = choice(*words)

    def read(value: Any, place: OptionPlace) -> tuple[str, ...]:
        texts = value.split(",") if isinstance(value, str) else listed(value)
        chosen_words = (
            kind.read(text.strip() if isinstance(text, str) else text, place) for text in texts
        )
        return tuple(dict.fromkeys(chosen_words))

    array = {"type": "array", "items": kind.schema}
    return Kind(read, {"anyOf": [kind.schema, array]}, ",".join(words).upper())


def nested(cls: Any) -> Kind:
    """Kind of a mapping that holds the options of a dataclass."""

    def read(value: Any, place: OptionPlace) -> Any:
        return value if isinstance(value, cls) else cls(**read_values(cls, value, place))

    return Kind(read, schema_of(cls))


def mapping(values: Kind | None = None) -> Kind:
    """Kind of a mapping with texts as keys; all its values are of the kind `values`, if stated."""

    def read(value: Any, place: OptionPlace) -> Values:
        if not isinstance(value, Mapping):
            raise place.refuse("a mapping", value)
        return {
            str(key): values.read(entry, place.at(key)) if values else entry
            for key, entry in value.items()
        }

    return Kind(
        read, {"type": "object", **({"additionalProperties": values.schema} if values else {})}
    )


def listed(value: Any) -> list[Any]:
    """Return a list; a value that is none becomes one of a single value."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _switch(value: Any, place: OptionPlace) -> bool:
    # A text is true in Python, even "false".
    if not isinstance(value, bool | np.bool_):
        raise place.refuse("true or false", value)
    return bool(value)


def _text(value: Any, place: OptionPlace) -> str:
    # YAML reads names such as 7 as numbers, and `no` as false, which no name is.
    if not isinstance(value, str | int | float | Path) or isinstance(value, bool):
        raise place.refuse("a text", value)
    return str(value)


ABOVE_0, AT_LEAST_0 = number(0.0, open_ends=True), number(0.0)
#: Answers to an item; more than anyone reports are a slip of the pen, which would fill the memory.
REPEATS = number(1, 10_000, integral=True)
#: A two-sided confidence.
CONFIDENCE = number(0.5, 1.0, open_ends=True)
SWITCH = Kind(_switch, {"type": "boolean"}, switch=True)
TEXT = Kind(_text, {"type": ["string", "number"]})
FILE, FOLDER = replace(TEXT, metavar="FILE"), replace(TEXT, metavar="DIR")
TEXTS = Kind(
    lambda value, place: tuple(TEXT.read(text, place) for text in listed(value)),
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
)
