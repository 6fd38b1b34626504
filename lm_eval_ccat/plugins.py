"""Objects looked up by name: the package's own, registered ones and installed ones."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .errors import CcatError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints


def our_extra(name: str) -> str:
    """Return what pip is to install for one of this package's extras.

    If the package was installed from a checkout, that is the extra of the checkout.

    Examples
    --------
    >>> our_extra("api").endswith("[api]")
    True
    """
    # Here, as every command imports this module: these take a third of the time that it starts in.
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    with suppress(PackageNotFoundError, ValueError):
        source = json.loads(distribution("lm-eval-ccat").read_text("direct_url.json") or "{}")
        checkout = urlsplit(source.get("url", ""))
        if checkout.scheme == "file" and Path(url2pathname(checkout.path)).is_dir():
            return f"{url2pathname(checkout.path)}[{name}]"
    return f"lm-eval-ccat[{name}]"


def needed(package: str, what: str, extra: str, refusal: type[CcatError] = UsageError) -> Any:
    """Import a package that is not always installed.

    Parameters
    ----------
    package, what, extra : str
        The package, what needs it, and what pip is to install; for the error.
    refusal : type, optional
        Class of the error.

    Raises
    ------
    CcatError
        The package cannot be imported.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise refusal(f"{what} needs {package}: pip install '{extra}'") from error


T = TypeVar("T")


class Plugins(Generic[T]):
    """Objects of one kind by name.

    Parameters
    ----------
    what : str
        What errors call one of them.
    kind : type
        Type of the objects.
    builtin : callable
        Returns the package's own by name: objects, or ``module:ATTRIBUTE`` to import on use.
    name : str, optional
        Attribute of an object that holds its name.
    classes : bool, optional
        Whether the objects are subclasses of `kind`.

    Attributes
    ----------
    group : str
        Entry-point group in which other packages offer theirs: ``lm_eval_ccat.<what>s``.
    """

    def __init__(
        self,
        what: str,
        kind: type[Any],
        builtin: Callable[[], Mapping[str, T] | Mapping[str, str]],
        name: str = "name",
        classes: bool = False,
    ) -> None:
        self.what = what
        self.group = f"lm_eval_ccat.{what.replace(' ', '_')}s"
        self._kind = kind
        self._builtin = builtin
        self._name, self._classes = name, classes
        self._registered: dict[str, T] = {}

    def names(self) -> tuple[str, ...]:
        """Return all names: the package's own, then the others in alphabetical order."""
        ours = self._builtin()
        theirs = {*self._registered, *_installed(group=self.group).names}
        return *ours, *sorted(theirs - ours.keys())

    def __iter__(self) -> Iterator[T]:
        """Yield the package's own objects, then the others; only then look for installed ones."""
        ours = self._builtin()
        yield from map(self.get, ours)
        yield from (self.get(name) for name in self.names() if name not in ours)

    def register(self, thing: T) -> T:
        """Register an object in this process; it replaces one registered under the same name.

        Raises
        ------
        UsageError
            If the object is of another type, or one of the package's own has the name.
        """
        name = getattr(self._checked(thing, f"what is registered as a {self.what}"), self._name)
        # Else a package could change what a name in a published result means.
        if name in self._builtin():
            raise UsageError(f"{name!r} is a {self.what} of the package; take another name")
        self._registered[name] = thing
        return thing

    def unregister(self, name: str) -> None:
        """Remove what was registered under a name."""
        self._registered.pop(name, None)

    def get(self, name: str) -> T:
        """Return the object of this name.

        Raises
        ------
        UsageError
            If nothing has this name, or the object cannot be loaded or is of another type.
        """
        thing: Any = self._builtin().get(name)
        if thing is not None:
            # Ours are imported on use: each import would slow every command down.
            if isinstance(thing, str):
                module, _, attribute = thing.partition(":")
                thing = getattr(import_module(module), attribute)
            return self._checked(thing, f"{self.what} {name!r}")
        if name in self._registered:
            return self._registered[name]
        points = _installed(group=self.group, name=name)
        if not points:
            raise UsageError(f"unknown {self.what} {name!r}{did_you_mean(name, self.names())}")
        [point, *_] = points
        try:
            thing = point.load()
        except (ImportError, AttributeError) as e:
            raise UsageError(
                f"{self.what} {name!r} ({point.value}) cannot be loaded: {e}"
            ) from None
        return self._checked(thing, f"the entry point of {self.what} {name!r}")

    def _checked(self, thing: Any, what: str) -> T:
        """Return an object of the right type; refuse another, which the error calls `what`."""
        is_class = self._classes and isinstance(thing, type) and issubclass(thing, self._kind)
        if is_class or (not self._classes and isinstance(thing, self._kind)):
            return cast(T, thing)
        raise UsageError(f"{what} is not a {self._kind.__name__}: {thing!r:.60}")


def did_you_mean(name: str, known: Iterable[str], listing: bool = True) -> str:
    """Return the end of an error about an unknown name: the nearest known names, or all of them.

    Names that begin with it are nearest.

    Parameters
    ----------
    name : str
    known : iterable of str
    listing : bool, optional
        Whether to list all names if none is near.

    Examples
    --------
    >>> did_you_mean("papre", ["default", "paper"])
    '; did you mean paper?'
    >>> did_you_mean("--items", ["--filter", "--items_per_model"])
    '; did you mean --items_per_model?'
    >>> did_you_mean("x", ["default", "paper"])
    '; choose from default, paper'
    """
    names = list(known)
    # Many names begin with two or three given letters.
    completions = [candidate for candidate in names if len(name) > 3 and candidate.startswith(name)]
    if close := completions[:2] or get_close_matches(name, names, n=2):
        return f"; did you mean {' or '.join(close)}?"
    # Hundreds of names would bury the error.
    if not listing:
        return ""
    return f"; choose from {', '.join(names)}" if names else "; there are none"


def near_path(path: str | Path) -> str:
    """Return the end of an error about a missing path: the like-named path that exists, if any.

    Examples
    --------
    >>> folder = Path("logs")
    >>> folder.mkdir()
    >>> near_path("lgos")
    '; did you mean logs?'
    """
    parts = Path(path).parts
    for n in range(len(parts)):
        parent = Path(*parts[:n])
        if not (parent / parts[n]).exists() and parent.is_dir():
            close = get_close_matches(parts[n], [file.name for file in parent.iterdir()], n=1)
            nearest = parent.joinpath(*close, *parts[n + 1 :])
            return f"; did you mean {nearest}?" if close and nearest.exists() else ""
    return ""


def existing(path: str | Path, what: str = "file or directory of scores") -> Path:
    """Return a path that a command or argument names; refuse one at which there is nothing.

    Raises
    ------
    UsageError
        There is no such path; the message says `what` it would hold.

    Examples
    --------
    >>> existing("lgos", "folder of logs")
    Traceback (most recent call last):
    lm_eval_ccat.errors.UsageError: lgos: no such folder of logs
    """
    if not Path(path).exists():
        raise UsageError(f"{path}: no such {what}{near_path(path)}")
    return Path(path)


def _installed(group: str, name: str | None = None) -> EntryPoints:
    """Return entry points of installed packages."""
    points = _installed_on(tuple(sys.path), group)
    return points if name is None else points.select(name=name)


@functools.cache
def _installed_on(path: tuple[str, ...], group: str) -> EntryPoints:
    """Look through all packages on a path, once; the slow import waits until it is needed."""
    from importlib.metadata import entry_points

    return entry_points(group=group)
