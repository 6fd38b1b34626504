"""Hash of the files that make the figures of a script: the core of the package, and the script.

``python benchmarks/sources.py benchmarks/looks.py [COMMIT]`` prints it, of the files as they are or
as they were; pages state it beside their figures, and the site says where it is another one now.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Rooms of the package whose code replays run.
CORE = ("bank", "methods", "metrics", "ranker", "scores")


def sources(script: str, root: Path = ROOT) -> str:
    """Of a script, by its path in the project, and of the core."""
    files = [p for room in CORE for p in (root / "lm_eval_ccat" / room).rglob("*.py")]
    content = [p.read_bytes() for p in (*sorted(files), root / script)]
    return hashlib.sha256(b"".join(content)).hexdigest()[:12]


def main(script: str, commit: str = "") -> None:
    if not commit:
        return print(sources(script))
    of = [f"lm_eval_ccat/{room}" for room in CORE]
    done = subprocess.run(
        ["git", "archive", commit, *of, script], cwd=ROOT, capture_output=True, check=True
    )
    with tempfile.TemporaryDirectory() as folder:
        tarfile.open(fileobj=io.BytesIO(done.stdout)).extractall(folder, filter="data")
        print(sources(script, Path(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
