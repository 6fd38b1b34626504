"""Readers of option values: one per kind of value, for files, flags, Python and schema."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from ..errors import UsageError
from ..harness.prices import Price
from ..plugins import did_you_mean

T = TypeVar("T")
Schema = dict[str, Any]
#: Options by name, as files, flags and Python give them.
Values = dict[str, Any]


@dataclass(frozen=True)
class OptionPlace:
    """Where a value was written: its key, its file's folder, and whether a journal holds it.

    Attributes
    ----------
    path : str
        Of its key, for messages.
    folder : Path or None
        Beside which relative paths are looked for first.
    recorded : bool
        Whether it is of a journal: files that it names may have gone.
    """

    path: str = ""
    folder: Path | None = None
    recorded: bool = False

    def at(self, key: object) -> OptionPlace:
        """The place of a key inside this one."""
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
        ``(value, place) -> value``, checked; raises UsageError naming the place.
    schema : dict
        JSON schema of what may stand in a file.
    shown : str
        What stands for the value in the help of its flag.
    typed : callable
        What the text of a flag says, before it is read.
    many : bool
        Whether its flag takes several texts.
    switch : bool
        Whether its flag takes none.
    parts : dict of str to (str, str, Kind)
        Where it has flags of its own in place of one: key, help and kind by flag.
    """

    read: Callable[[Any, OptionPlace], Any]
    schema: Schema
    shown: str = "TEXT"
    typed: Callable[[str], Any] = str
    many: bool = False
    switch: bool = False
    parts: Mapping[str, tuple[str, str, Kind]] = field(default_factory=dict)


@dataclass(frozen=True)
class Option:
    """One option of a run: what its field in a dataclass carries beside name and default.

    Attributes
    ----------
    kind : Kind
    help : str
        What it does, with its unit.
    flags : dict of str to str
        Name of its flag by command; a command that is not there has none.
    live : bool
        Whether it may change while a run lives.
    ranker : bool
        Whether the Ranker is made with it under the same name.
    """

    kind: Kind
    help: str
    flags: Mapping[str, str]
    live: bool = False
    ranker: bool = False


def option(
    default: Any,
    kind: Kind,
    help: str,
    flags: str = "",
    *,
    live: bool = False,
    ranker: bool = False,
    flag: str | Mapping[str, str] = "",
) -> Any:
    """A field of a dataclass that is an option; ``flags`` are the commands that have its flag.

    Parameters
    ----------
    default
        A class stands for what it makes.
    kind, help, live, ranker
        See `Option`.
    flags : str
        Commands, by spaces.
    flag : str or mapping, optional
        The flag's name where it is not the option's own; by command where they differ.
    """
    named = {c: flag if isinstance(flag, str) else flag.get(c, "") for c in flags.split()}
    about = {"option": Option(kind, help, named, live, ranker)}
    if isinstance(default, type):
        return field(default_factory=default, metadata=about)
    return field(default=default, metadata=about)


def options_of(cls: Any) -> dict[str, Option]:
    """The options of a dataclass by name."""
    return {f.name: f.metadata["option"] for f in fields(cls) if "option" in f.metadata}


def read_values(cls: Any, values: Any, place: OptionPlace) -> Values:
    """Checked values of a dataclass's options, those that are not None.

    Raises
    ------
    UsageError
        It is no mapping, a key is unknown, or a value is not what it must be; names the key.
    """
    known = options_of(cls)
    if not isinstance(values, Mapping):
        raise place.refuse(f"a mapping with {', '.join(f'{name}:' for name in known)}", values)
    for key in values:
        if key not in known:
            suggestion = did_you_mean(str(key), list(known))
            raise UsageError(f"unknown key `{place.at(key).path}`{suggestion}")
    stated = {name: value for name, value in values.items() if value is not None}
    return {name: known[name].kind.read(value, place.at(name)) for name, value in stated.items()}


def schema_of(cls: Any) -> Schema:
    """The JSON schema of a dataclass's options."""
    known: dict[str, Field[Any]] = {f.name: f for f in fields(cls) if "option" in f.metadata}
    properties = {}
    for name, one in known.items():
        about: Option = one.metadata["option"]
        default = {} if one.default in (MISSING, None, "", ()) else {"default": one.default}
        properties[name] = {**about.kind.schema, "description": about.help, **default}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def nested(cls: Any) -> Kind:
    """A mapping of a dataclass's options."""

    def read(value: Any, place: OptionPlace) -> Any:
        return value if isinstance(value, cls) else cls(**read_values(cls, value, place))

    return Kind(read, schema_of(cls))


# -- kinds ----------------------------------------------------------------------------------------


def number(
    low: float = -math.inf, high: float = math.inf, *, open_ends: bool = False, whole: bool = False
) -> Kind:
    """A finite number from `low` to `high`, with `open_ends` strictly between them."""
    bounds = []
    if math.isfinite(low):
        bounds.append(f"above {low:g}" if open_ends else f"of at least {low:g}")
    if math.isfinite(high):
        bounds.append(f"below {high:g}" if open_ends else f"at most {high:g}")
    must = f"a {'whole ' if whole else ''}number {' and '.join(bounds)}".rstrip()

    def read(value: Any, place: OptionPlace) -> Any:
        proper = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not proper or not math.isfinite(value):
            raise place.refuse(must, value)
        if not (low < value < high if open_ends else low <= value <= high):
            raise place.refuse(must, value)
        return value if whole else float(value)

    ends = ("exclusiveMinimum", "exclusiveMaximum") if open_ends else ("minimum", "maximum")
    limits = {k: v for k, v in zip(ends, (low, high)) if math.isfinite(v)}
    schema = {"type": "integer" if whole else "number", **limits}
    return Kind(read, schema, "N" if whole else "X", number_of)


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
    """A whole number of at least `low`."""
    return number(low, whole=True)


def choice(*words: str) -> Kind:
    """One of some words."""

    def read(value: Any, place: OptionPlace) -> str:
        if value not in words:
            raise place.refuse(f"one of {', '.join(words)}", value)
        return str(value)

    return Kind(read, {"enum": list(words)}, "{" + ",".join(words) + "}")


def _switch(value: Any, place: OptionPlace) -> bool:
    if not isinstance(value, bool):
        raise place.refuse("true or false", value)
    return value


def _text(value: Any, place: OptionPlace) -> str:
    if not isinstance(value, str | int | float | Path) or isinstance(value, bool):
        raise place.refuse("a text", value)
    return str(value)


def _file(value: Any, place: OptionPlace) -> str:
    return place.beside(_text(value, place))


def _mapping(value: Any, place: OptionPlace) -> Values:
    if isinstance(value, str):
        return pairs_of(value, place)
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise place.refuse("a mapping or a string a=b,c=d", value)
    return dict(value)


def pairs_of(text: str, place: OptionPlace) -> Values:
    """Parse ``a=b,c=d``, with values as in YAML.

    Raises
    ------
    UsageError
        A part is not of that form.
    """
    import yaml

    values: Values = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"`{place.path}`: {part!r} is not of the form key=value")
        values[key.strip()] = yaml.safe_load(value)
    return values


SWITCH = Kind(_switch, {"type": "boolean"}, switch=True)
TEXT = Kind(_text, {"type": ["string", "number"]})
FILE = Kind(_file, {"type": "string"}, "FILE")
MAPPING = Kind(_mapping, {"type": ["object", "string"]}, "A=B,C=D")


def _price(value: Any, place: OptionPlace) -> Price:
    """A mapping, or ``input=0.4,output=1.6`` on a command line."""
    if isinstance(value, list):
        value = ",".join(map(str, value))
    if isinstance(value, str):
        value = pairs_of(value, place)
    return value if isinstance(value, Price) else Price.parse(value, place.path)


PRICE = Kind(
    _price,
    {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            key: {"type": "number", "minimum": 0} for key in ("input", "output", "item", "hour")
        },
    },
    "PART=X",
    many=True,
)


def either(must: str, **shapes: tuple[str, Kind]) -> Kind:
    """A mapping with exactly one key, such as ``{items: 80}``, with a flag for each key."""
    kinds = {key: kind for key, (_, kind) in shapes.items()}

    def read(value: Any, place: OptionPlace) -> Values:
        if not isinstance(value, Mapping) or len(value) != 1 or next(iter(value)) not in kinds:
            raise UsageError(f"`{place.path}:` must be {must}, not {value!r}")
        [(key, amount)] = value.items()
        return {key: kinds[key].read(amount, place.at(key))}

    schema = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": {key: kind.schema for key, kind in kinds.items()},
    }
    flags = {f"budget_{key}": (key, help, kind) for key, (help, kind) in shapes.items()}
    return Kind(read, schema, parts=flags)
