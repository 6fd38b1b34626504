"""Methods by name: the package's own, those that a program registers, and installed ones.

The package's own are the folders beside this file that hold a ``method.py`` with an object
``METHOD``. Another package offers one as an entry point::

    [project.entry-points."lm_eval_ccat.methods"]
    mine = "my_package.my_method:METHOD"
"""

from __future__ import annotations

from pathlib import Path

from ..bank.bank import ItemBank
from ..errors import BankError, UsageError
from ..plugins import Plugins
from .method import Method


def _own() -> dict[str, str]:
    folders = sorted(p.parent.name for p in Path(__file__).parent.glob("*/method.py"))
    return {name: f"{__package__}.{name}.method:METHOD" for name in folders}


METHODS = Plugins("method", Method, _own)


def names() -> tuple[str, ...]:
    """Names of all methods there are.

    Examples
    --------
    >>> {"default", "paper"} <= set(names())
    True
    """
    return METHODS.names()


def register(method: Method) -> Method:
    """Make a method known in this process, for programs and tests.

    Raises
    ------
    UsageError
        A method of the package has this name.
    """
    return METHODS.register(method)


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
    lm_eval_ccat.errors.UsageError: unknown method 'papre'; did you mean paper?
    """
    return METHODS.get(name)


def method_of(bank: ItemBank) -> Method:
    """The method of a bank that holds what the method needs.

    Raises
    ------
    BankError
        The method is not installed here, or the bank lacks something.
    """
    try:
        chosen = method(bank.method)
    except UsageError as e:
        raise BankError(f"the bank cannot be used: {e}") from None
    # Once per bank: rankings are made by thousands.
    if bank.__dict__.get("_checked_for") is not chosen:
        chosen.requires(bank)
        bank.__dict__["_checked_for"] = chosen
    return chosen
