"""Methods by name: the package's own, those that a program registers, and installed ones.

The package's own are the folders beside this file that hold a ``method.py`` with an object
``METHOD``. Another package offers one as an entry point of the group ``lm_eval_ccat.methods``::

    [project.entry-points."lm_eval_ccat.methods"]
    mine = "my_package.my_method:METHOD"
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ..bank.bank import ItemBank
from ..errors import BankError, UsageError
from .method import Method, did_you_mean

GROUP = "lm_eval_ccat.methods"
_registered: dict[str, Method] = {}


def names() -> tuple[str, ...]:
    """Names of all methods there are, in alphabetical order.

    Examples
    --------
    >>> {"default", "paper"} <= set(names())
    True
    """
    return tuple(sorted(_own() | set(_registered) | set(entry_points(group=GROUP).names)))


def register(method: Method) -> Method:
    """Make a method known in this process; for programs and tests.

    Raises
    ------
    UsageError
        A method of the package has this name.
    """
    if method.name in _own():
        raise UsageError(f"{method.name!r} is a method of the package; take another name")
    _registered[method.name] = method
    return method


def method(name: str) -> Method:
    """The method of a name.

    Raises
    ------
    UsageError
        There is none, or what is installed under this name cannot be used.

    Examples
    --------
    >>> method("papre")
    Traceback (most recent call last):
    lm_eval_ccat.errors.UsageError: unknown method 'papre'; did you mean 'paper'?
    """
    if name in _own():
        found: Any = import_module(f"{__package__}.{name}.method").METHOD
    elif name in _registered:
        found = _registered[name]
    else:
        found = _installed(name)
    if not isinstance(found, Method):
        raise UsageError(f"the entry point of method {name!r} is not a Method but {found!r:.60}")
    return found


def method_of(bank: ItemBank) -> Method:
    """The method of a bank that holds what the method needs.

    Raises
    ------
    BankError
        The method is not installed here, or the bank lacks something.
    """
    try:
        found = method(bank.method)
    except UsageError as e:
        raise BankError(f"the bank cannot be used: {e}") from None
    found.requires(bank)
    return found


def _own() -> set[str]:
    return {p.parent.name for p in Path(__file__).parent.glob("*/method.py")}


def _installed(name: str) -> Any:
    points = entry_points(group=GROUP, name=name)
    if not points:
        raise UsageError(f"unknown method {name!r}{did_you_mean(name, names())}")
    point = next(iter(points))
    try:
        return point.load()
    except (ImportError, AttributeError) as e:
        raise UsageError(f"method {name!r} ({point.value}) cannot be loaded: {e}") from None
