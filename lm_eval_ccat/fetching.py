"""Files of data sets on the Hugging Face hub, fetched by name; huggingface_hub caches them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from .errors import BankError, CcatError, UsageError
from .shown import short

#: Files of a data set that readers of logs look at.
_LOGS = ["*.json", "*.jsonl", "*.json.gz", "*.jsonl.gz", "*.parquet", "*.csv"]
_CHECK_NAME = "check the name at {}, and HF_TOKEN where a token is needed"
_TRY_AGAIN = "check the connection to {} (HF_ENDPOINT, HF_HUB_OFFLINE, proxies) and try again"
_WAIT = "{} limits requests: wait some minutes, or set HF_TOKEN, which allows more, and try again"
_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")


def fetch(name: str, file: str) -> Path:
    """Fetch a file of a data set or, if it lacks this file, all of its logs; return the local copy.

    Parameters
    ----------
    name : str
        ``hub:owner/name`` or ``hub:owner/name@revision``; a revision is a branch, a tag or a
        commit.
    file : str

    Raises
    ------
    BankError
        If the name is invalid, there is no such data set, or the hub does not answer and nothing
        is cached.
    """
    repo, revision = parts_of(name)
    with opened_hub(f"hub:{repo}: the bank cannot be fetched") as hub:
        try:
            download = hub.library.hf_hub_download
            return Path(download(repo, file, revision=revision, **hub.data_set_arguments))
        # A data set may hold logs in place of a bank, which are read as scores.
        except hub.library.errors.EntryNotFoundError:
            return data_set(name)


def data_set(name: str) -> Path:
    """Fetch a data set's logs; return the cached copy.

    Raises
    ------
    BankError
        If it cannot be fetched.
    """
    repo, revision = parts_of(name)
    with opened_hub(f"{name}: the data set cannot be fetched") as hub:
        download = hub.library.snapshot_download
        return Path(
            download(repo, revision=revision, allow_patterns=_LOGS, **hub.data_set_arguments)
        )


def parts_of(name: str) -> tuple[str, str | None]:
    """Return the ``owner/name`` of a data set and its revision, if the name states one.

    Raises
    ------
    BankError
        If the text is not a name of a data set.
    """
    name = name.removeprefix("hub:")
    match = _NAME.fullmatch(name)
    if match is None:
        raise BankError(f"hub:{name}: a bank on the hub is named owner/name or owner/name@revision")
    return match["repo"], match["revision"]


class Hub(NamedTuple):
    """The hub of data sets.

    Attributes
    ----------
    library : module
        ``huggingface_hub``.
    address : str
    """

    library: Any
    address: str

    @property
    def data_set_arguments(self) -> dict[str, str]:
        """Arguments of the library's functions that make them look for data sets on this hub."""
        return {"repo_type": "dataset", "endpoint": self.address}


@contextmanager
def opened_hub(failure: str) -> Iterator[Hub]:
    """Yield the hub; what its library raises becomes a `BankError` that begins with `failure`.

    So does what is raised where an answer of the hub has another form than the library expects. The
    error names the hub's address and what to do.
    """
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.errors
    except ImportError:
        raise BankError("banks by name need huggingface_hub: pip install huggingface_hub") from None
    address = os.environ.get("HF_ENDPOINT") or huggingface_hub.constants.ENDPOINT
    try:
        yield Hub(huggingface_hub, address)
    except CcatError:
        raise
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        reason = f"an answer of another form than the hub's: {type(error).__name__} {error}"
        remedy = _TRY_AGAIN.format(address)
        raise BankError(f"{failure} ({short(reason, 200)}); {remedy}") from error
    except Exception as error:  # of the library, and of whatever it sends requests with
        status = getattr(getattr(error, "response", None), "status_code", None)
        remedy = (
            _CHECK_NAME if status in (401, 403, 404) else _WAIT if status == 429 else _TRY_AGAIN
        )
        remedy = remedy.format(address)
        raise BankError(f"{failure} ({short(error, 200)}); {remedy}") from None


def require_small(name: str, n_models: int, n_bytes: float, max_gb: float) -> None:
    """Refuse to fetch more than the user allows; the error says how many models would be less.

    Parameters
    ----------
    name : str
        What is fetched, for the message.
    n_models : int
    n_bytes : float
        Size of the logs of these models.
    max_gb : float
        Largest size, in 1e9 bytes.

    Raises
    ------
    UsageError

    Examples
    --------
    >>> require_small("helm:lite", 30, 3e9, max_gb=1.0)
    Traceback (most recent call last):
        ...
    lm_eval_ccat.errors.UsageError: helm:lite: 3.00 GB are more than --max_gb 1: take about 10
    --models, or allow more
    """
    if n_bytes <= max_gb * 1e9:
        return
    n_fewer = int(n_models * max_gb * 1e9 / n_bytes)
    # A bank takes two models at least.
    remedy = f"take about {n_fewer} --models, or allow more" if n_fewer > 1 else "allow more"
    raise UsageError(f"{name}: {n_bytes / 1e9:.2f} GB are more than --max_gb {max_gb:g}: {remedy}")
