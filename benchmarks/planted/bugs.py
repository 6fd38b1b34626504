"""The bugs: each was thought of by reading the line it changes; none of them is exotic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """One wrong fragment.

    Attributes
    ----------
    name : str
        The mistake in words.
    room : str
        Folder or module (without ``.py``) in which the fragment stands exactly once.
    old, new : str
        The fragment, right and wrong.
    tests : tuple of str
        The test files or folders that should notice.
    reason : str
        Why it may survive.
    """

    name: str
    room: str
    old: str
    new: str
    tests: tuple[str, ...]
    reason: str = ""


BUGS: tuple[Bug, ...] = (
    Bug(
        "a file is replaced before it is on the disk",
        "lm_eval_ccat/files",
        "            f.flush()\n            sync_file(f.fileno())\n",
        "            f.flush()\n",
        ("tests/test_files.py",),
    ),
    Bug(
        "two texts may get one file name: the hash is left out",
        "lm_eval_ccat/files",
        "    if plain == name:\n        return plain\n",
        "    if plain:\n        return plain\n",
        ("tests/test_files.py",),
    ),
    Bug(
        "only the last part of a credential in a URL is masked",
        "lm_eval_ccat/masking",
        "            yield user\n            yield from",
        "            yield from",
        ("tests/test_masking.py",),
    ),
    Bug(
        "a short credential is searched for everywhere",
        "lm_eval_ccat/masking",
        "if len(v) >= SHORTEST and",
        "if",
        ("tests/test_masking.py",),
    ),
    Bug(
        "a worker starts workers of its own",
        "lm_eval_ccat/parallel",
        "if count <= 1 or _inside_worker:",
        "if count <= 1:",
        ("tests/test_parallel.py",),
    ),
    Bug(
        "a joiner beside ASCII letters stays hidden",
        "lm_eval_ccat/visible",
        "[\\u200c\\u200d](?![^\\x00-\\x7f])",
        "[\\u200c](?![^\\x00-\\x7f])",
        ("tests/test_visible.py",),
    ),
    Bug(
        "an installed plugin hides one of the package's own",
        "lm_eval_ccat/plugins",
        '        if name in self._own():\n            raise UsageError(f"{name!r} is a',
        '        if name in self._registered:\n            raise UsageError(f"{name!r} is a',
        ("tests/methods/test_found_by_name.py",),
    ),
    Bug(
        "samples that an Inspect task drops count as scored 0",
        "lm_eval_ccat/integrations/inspect_ai",
        '            ranker.fail(MODEL, id, "no score")',
        "            ranker.tell(MODEL, id, 0.0)",
        ("tests/integrations/test_inspect.py",),
    ),
    Bug(
        "the bank on the hub is fetched at its newest revision, whatever was asked",
        "lm_eval_ccat/integrations/hub",
        "hf_hub_download(repo, FILE, revision=revision, **place)",
        "hf_hub_download(repo, FILE, **place)",
        ("tests/integrations/test_hub.py",),
    ),
)
