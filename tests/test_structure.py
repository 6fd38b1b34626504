"""The structure holds: parts know only parts to their right."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import lm_eval_ccat

ROOT = Path(lm_eval_ccat.__file__).parent
ROOMS = (  # from the top of the house to its ground; a room imports only from rooms below it
    "cli",
    "demo",
    "board",
    "report",
    "live",
    "integrations",
    "upkeep",
    "testing",
    "simulation",
    "runs",
    "harness",
    "ranker",
    "methods",
    "bank",
    "scores",
    "metrics",
)
FLOOR = {room: i for i, room in enumerate(ROOMS)}
CORE = {"ranker", "methods", "bank", "scores", "metrics"}
#: Imports that still run upward. The list may only grow shorter.
STILL_UPWARD: set[str] = set()


@cache
def tree_of(path: Path) -> ast.Module:
    """A module parsed, once for all tests."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All nodes of a module."""
    return list(ast.walk(tree_of(path)))


def imports(path: Path):
    """Absolute names imported by a module, with relative imports resolved."""
    package = ["lm_eval_ccat", *path.relative_to(ROOT).parts[:-1]]
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{stem}.{a.name}" for a in node.names)


def modules(*rooms: str):
    """Every module of the package, or of some rooms, with the room that it lies in."""
    for path in sorted(ROOT.rglob("*.py")):
        room = path.relative_to(ROOT).parts[0]
        if not rooms or room in rooms:
            yield room, path


def own_imports(path: Path):
    """The rooms that a module imports from."""
    for name in imports(path):
        pieces = name.split(".")
        if pieces[0] == "lm_eval_ccat" and len(pieces) > 1:
            yield pieces[1], name


def test_every_room_has_its_floor():
    rooms = {p.name for p in ROOT.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert rooms - {"task_configs", "banks"} == set(ROOMS)


def test_a_room_imports_only_from_rooms_below_it():
    upward = {
        f"{room} -> {other}": f"{path.relative_to(ROOT)} imports {name}"
        for room, path in modules(*ROOMS)
        for other, name in own_imports(path)
        if other in FLOOR and FLOOR[other] < FLOOR[room]
    }
    assert set(upward) == STILL_UPWARD, {k: upward.get(k) for k in set(upward) ^ STILL_UPWARD}


def test_no_import_is_hidden_in_a_text():
    hidden = [
        f"{path.relative_to(ROOT)} imports {node.args[0].value}"
        for _, path in modules()
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")
        if isinstance(node.args[0], ast.Constant) and node.args[0].value.startswith("lm_eval_ccat")
    ]
    assert not hidden


def test_the_core_knows_nothing_outside_itself():
    banned = {"lm_eval", "time", "datetime", "requests", "urllib", "socket", "http", "asyncio"}
    rooms = set(ROOMS)
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for room, path in modules(*CORE)
        for name in imports(path)
        if name.split(".")[0] in banned
        or (name.startswith("lm_eval_ccat.") and name.split(".")[1] in rooms - CORE)
    ]
    assert not wrong


def test_no_two_modules_import_each_other_in_a_circle():
    edges, known = {}, set()
    for _, path in modules():
        name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        known.add(name.removesuffix(".__init__"))
        if path.name != "__init__.py":  # which gathers what its modules have
            targets = [target.split(".") for target in imports(path)]
            edges[name] = {".".join(t[:k]) for t in targets for k in range(1, len(t) + 1)}
    graph = {name: (wanted & known) - {name} for name, wanted in edges.items()}
    TopologicalSorter(graph).prepare()  # a CycleError names the circle


def test_no_module_is_excepted_from_strict_types():
    settings = (ROOT.parent / "pyproject.toml").read_text(encoding="utf-8").split("[tool.mypy]")[1]
    assert "strict = true" in settings and "overrides" not in settings


def test_a_name_says_what_a_thing_is():
    words, named = {"found", "told", "said", "made", "there", "given", "own"}, set()
    for room, path in modules():
        for node in nodes_of(path):
            match node:
                case (
                    ast.Name(name, ast.Store())
                    | ast.Attribute(_, name, ast.Store())
                    | ast.arg(name)
                    | ast.FunctionDef(name)
                ) if name.strip("_") in words:
                    named.add(f"{room}: {type(node).__name__} {name}")
    # A method's event, and a key of the bank's file.
    assert named == {"methods: FunctionDef told", "ranker: FunctionDef told", "bank: Name made"}


#: Pronouns, particles and participles: they tell a reader in the middle of a file nothing.
VAGUE = frozenset(
    "of one at each both more here kept rest now then every some about by had other others whole "
    "near far most least few wanted chosen shown seen stated found told made own said given there "
    "room had has this these theirs everything nothing anything".split()
)
#: Such bindings per hundred functions. The figure may only fall.
VAGUE_PER_HUNDRED = 1.5


def bindings(nodes: Iterable[ast.AST]):
    """Each name that is assigned among nodes: variables, arguments and attributes."""
    for node in nodes:
        match node:
            case ast.Name(name, ast.Store()) | ast.Attribute(_, name, ast.Store()) | ast.arg(name):
                yield name, node.lineno


def test_bindings_are_nouns_of_the_domain():
    functions, vague = 0, []
    for _, path in modules():
        functions += sum(
            isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) for n in nodes_of(path)
        )
        vague += [
            f"{path.relative_to(ROOT)}:{line} {name}"
            for name, line in bindings(nodes_of(path))
            if name.strip("_") in VAGUE
        ]
    assert 100 * len(vague) <= VAGUE_PER_HUNDRED * functions, "\n".join(vague)


#: Letters that every reader knows: positions and counts, coordinates, and the two of a pair.
KNOWN_LETTERS = frozenset("ijknxyab_")
#: Other single letters per hundred functions that no docstring explains. It may only fall.
LETTERS_PER_HUNDRED = 1


def unexplained_letters(node: ast.AST, docs: str = "") -> list[tuple[str, int]]:
    """Single letters that are bound in functions whose docstrings do not have them."""
    letters = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            own = f"{docs} {ast.get_docstring(child) or ''}"
            if isinstance(child, ast.FunctionDef):
                letters += [
                    (name, line)
                    for name, line in sorted(set(bindings(ast.walk(child))))
                    if len(name) == 1 and name not in KNOWN_LETTERS
                    if not re.search(rf"(?<![A-Za-z]){name}(?![A-Za-z])", own)
                ]
            else:
                letters += unexplained_letters(child, own)
        else:
            letters += unexplained_letters(child, docs)
    return letters


def test_single_letters_stand_where_a_docstring_has_them():
    functions, letters = 0, []
    for _, path in modules():
        tree = tree_of(path)
        functions += sum(isinstance(n, ast.FunctionDef) for n in nodes_of(path))
        letters += [
            f"{path.relative_to(ROOT)}:{line} {name}"
            for name, line in unexplained_letters(tree, ast.get_docstring(tree) or "")
        ]
    assert 100 * len(letters) <= LETTERS_PER_HUNDRED * functions, "\n".join(letters)


def test_a_letter_is_explained_by_its_formula_or_by_use():
    source = 'def f(m):\n    """Return p of m."""\n    p, q = 1, [i for i in range(m)]\n'
    assert unexplained_letters(ast.parse(source)) == [("q", 3)]


def test_the_count_of_vague_bindings_sees_each_kind_of_binding():
    source = "def f(at, *, near=0):\n    [one for one in at]\n    self._seen = other = at\n"
    names = {name for name, _ in bindings(ast.walk(ast.parse(source)))}
    assert names == {"at", "near", "one", "_seen", "other"}


def described(node: ast.ClassDef | ast.FunctionDef, section: str) -> set[str]:
    """The names that a docstring describes in a section."""
    docs = f"{ast.get_docstring(node) or ''}\n\n"
    lines = re.search(rf"^{section}\n-+\n(.*?)(?=\n\n\S+\n-|\n\n\Z)", docs, re.S | re.M)
    heads = re.findall(r"^(\S[^:\n]*)", lines[1], re.M) if lines else []
    return {name.strip("* ") for head in heads for name in head.split(",")}


def test_what_a_docstring_describes_is_there():
    absent = []
    for _, path in modules():
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                arguments = {a.arg for a in ast.walk(node) if isinstance(a, ast.arg)}
                names = {name for name, _ in bindings(ast.walk(node))} | arguments
                names |= {child.name for child in node.body if isinstance(child, ast.FunctionDef)}
                missing = described(node, "Parameters") | described(node, "Attributes")
                absent += [f"{path.relative_to(ROOT)} {node.name}: {n}" for n in missing - names]
    assert not absent


def test_no_two_files_of_the_package_have_one_name():
    named: dict[str, set[str]] = {}
    for room, path in modules():
        # A command's file has the command's name, a method's the name that finds it.
        if room != "cli" and path.name not in ("__init__.py", "method.py"):
            named.setdefault(path.name, set()).add(str(path.relative_to(ROOT)))
    assert not {name: files for name, files in named.items() if len(files) > 1}


def test_a_class_name_stands_for_one_class():
    homes: dict[str, set[str]] = {}
    for _, path in modules():
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, set()).add(str(path.relative_to(ROOT)))
    assert not {name: files for name, files in homes.items() if len(files) > 1}
