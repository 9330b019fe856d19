"""The layers of skdp: imports point down only, and one module draws noise."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "skdp"

# A module may import from strictly lower ranks, or from its own subpackage.
RANKS = {
    "exceptions": 0,
    "validation": 0,
    "lazy_uniform": 0,
    "random_bits": 0.5,
    "datasets": 0,
    "noise": 1,
    "divergences": 1,
    "events": 2,
    "calibration": 3,
    "mechanisms": 4,
    "accounting": 5,
    "erm": 6,
    "inputs": 6,
    "categories": 6.5,
    "base": 7,
    "stats": 7.5,
    "linear_model": 8,
    "preprocessing": 8,
    "decomposition": 8,
    "naive_bayes": 8,
    "cluster": 8,
    "tree": 8,
    "model_selection": 9,
    "pipeline": 9,
    "ensemble": 9,
    "audit": 10,
    "inspection": 10,
    "cli": 10,
    "__main__": 11,
}
LIGHT = 5  # up to this rank, importing needs neither scikit-learn nor dp-accounting

MAY_DRAW = {"noise", "random_bits", "datasets"}
RANDOM_SOURCES = (
    "random",
    "secrets",
    "numpy.random",
    "os.urandom",
    "os.getrandom",
    "sklearn.utils.check_random_state",
)


# --- The checker: pure functions from source text to violations


def layer_of(module: str) -> str:
    """'skdp.erm.losses' -> 'erm'; the package itself is ''."""
    return module.partition(".")[2].partition(".")[0]


def absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """The absolute name that a 'from ... import' starts from."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    keep = len(parts) - node.level + is_package
    return ".".join([*parts[:keep], *([node.module] if node.module else [])])


def dotted(node: ast.expr, aliases: dict[str, str]) -> str | None:
    """'np.random.normal' -> 'numpy.random.normal', for names that were imported."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id)
    if isinstance(node, ast.Attribute):
        base = dotted(node.value, aliases)
        return base and f"{base}.{node.attr}"
    return None


def imports_of(
    tree: ast.AST, module: str, is_package: bool
) -> Iterator[tuple[int, str, str]]:
    """Every imported thing, as (line, absolute dotted name, local name)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield node.lineno, alias.name, alias.asname or top
        elif isinstance(node, ast.ImportFrom):
            start = absolute(node, module, is_package)
            for alias in node.names:
                yield node.lineno, f"{start}.{alias.name}", alias.asname or alias.name


def aliases_of(imports: list[tuple[int, str, str]]) -> dict[str, str]:
    """What each local name stands for; 'import numpy.random' binds 'numpy'."""
    return {
        local: local if name.startswith(f"{local}.") else name
        for _, name, local in imports
    }


def annotations_of(tree: ast.AST) -> set[int]:
    """Nodes inside annotations: naming a type there draws nothing."""
    found = set()
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            if (annotation := getattr(node, field, None)) is not None:
                found.update(id(inner) for inner in ast.walk(annotation))
    return found


def uses_of(tree: ast.AST, aliases: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Every dotted name read from an imported thing, outside annotations."""
    skip = annotations_of(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in skip:
            if name := dotted(node, aliases):
                yield node.lineno, name
            if node.attr == "rvs":  # scipy.stats draws through numpy.random
                yield node.lineno, "numpy.random"


def is_within(name: str, roots: tuple[str, ...]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def is_private_sklearn(name: str) -> bool:
    top, *rest = name.split(".")
    return top == "sklearn" and any(
        part.startswith("_") and not part.startswith("__") for part in rest
    )


def layer_violation(layer: str, name: str) -> str | None:
    """Why a module of ``layer`` may not import ``name``, or None."""
    if not is_within(name, ("skdp",)) or name == "skdp.__version__":
        return None
    target = layer_of(name)
    if target == layer:
        return None
    if target not in RANKS:
        return f"imports {name}, which is not in the table of layers"
    if RANKS[target] >= RANKS[layer]:
        return f"imports {name}: {target} is not below {layer}"
    return None


def dynamic_imports(tree: ast.AST, aliases: dict[str, str]) -> Iterator[int]:
    """Lines that import by a computed name, which this checker cannot follow."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            by_name = isinstance(node.func, ast.Name) and node.func.id == "__import__"
            by_module = dotted(node.func, aliases) == "importlib.import_module"
            if by_name or by_module:
                yield node.lineno


def violations(source: str, module: str, is_package: bool = False) -> list[str]:
    """What ``source`` does that the module of this name may not do."""
    tree = ast.parse(source)
    imports = list(imports_of(tree, module, is_package))
    aliases = aliases_of(imports)
    layer = layer_of(module)
    found: list[tuple[int, str]] = []

    if layer:  # the package itself may import anything
        if layer not in RANKS:
            return [f"{module}: is not in the table of layers"]
        for line, name, _ in imports:
            if reason := layer_violation(layer, name):
                found.append((line, reason))
        found += [(n, "imports by name") for n in dynamic_imports(tree, aliases)]

    seen = [(line, name) for line, name, _ in imports]
    seen += uses_of(tree, aliases)
    for line, name in seen:
        if is_private_sklearn(name):
            found.append((line, f"uses scikit-learn's private {name}"))
        if layer not in MAY_DRAW and is_within(name, RANDOM_SOURCES):
            found.append((line, f"draws random numbers by {name}"))
    return [f"{module}:{line}: {reason}" for line, reason in sorted(set(found))]


def modules() -> dict[str, Path]:
    """Every module of skdp by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        found[".".join(parts)] = path
    return found


# --- skdp itself


def test_there_are_modules():
    assert {"skdp", "skdp.noise", "skdp.events"} <= set(modules())


@pytest.mark.parametrize("module", modules())
def test_module_keeps_to_its_layer(module):
    path = modules()[module]
    source = path.read_text(encoding="utf-8")
    assert violations(source, module, path.name == "__init__.py") == []


def test_light_layers_import_neither_sklearn_nor_dp_accounting():
    light = {m for m in modules() if RANKS.get(layer_of(m), LIGHT + 1) <= LIGHT}
    assert {"skdp.noise", "skdp.events", "skdp.mechanisms"} <= light
    code = (
        "import importlib, sys\n"
        f"for name in {sorted(light)!r}:\n"
        "    importlib.import_module(name)\n"
        "    heavy = {'sklearn', 'dp_accounting'} & set(sys.modules)\n"
        "    assert not heavy, f'{name} imports {sorted(heavy)}'\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr


# --- The checker itself


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("skdp.noise", "from skdp.events import Laplace", "events is not below noise"),
        ("skdp.noise", "from skdp import mechanisms", "mechanisms is not below"),
        ("skdp.noise", "import skdp.calibration as c", "calibration is not below"),
        ("skdp.noise", "from . import events", "events is not below noise"),
        ("skdp.mechanisms.laplace", "from ..base import fit", "base is not below"),
        ("skdp.stats.mean", "from skdp.tree import x", "tree is not below stats"),
        ("skdp.events", "def f():\n    import skdp.mechanisms", "skdp.events:2"),
        ("skdp.events", "from skdp import BudgetAccountant", "not in the table"),
        ("skdp.events", "import skdp", "not in the table"),
        ("skdp.surprise", "", "not in the table"),
        ("skdp.stats.mean", "from sklearn.utils._param import x", "private"),
        ("skdp.stats.mean", "from sklearn.linear_model import _base", "private"),
        ("skdp.stats.mean", "import sklearn\nsklearn.utils._x.f()", "private"),
        ("skdp.events", "import random", "draws random"),
        ("skdp.events", "from secrets import randbits", "draws random"),
        ("skdp.events", "from os import urandom as bits", "draws random"),
        ("skdp.events", "import os\nos.urandom(8)", "os.urandom"),
        ("skdp.events", "import numpy as np\nnp.random.normal()", "numpy.random"),
        ("skdp.events", "from numpy import random as r", "numpy.random"),
        ("skdp.events", "import numpy.random", "numpy.random"),
        ("skdp.events", "from numpy.random import Generator", "numpy.random"),
        ("skdp.events", "from scipy.stats import norm\nnorm.rvs()", "numpy.random"),
        ("skdp.stats.mean", "from sklearn.utils import check_random_state", "draws"),
        ("skdp.events", "import importlib\nimportlib.import_module(x)", "by name"),
        ("skdp.events", "__import__('skdp.mechanisms')", "by name"),
        ("skdp", "import random", "draws random"),
    ],
)
def test_checker_catches(module, source, expected):
    found = violations(source, module)
    assert found and expected in " ".join(found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("skdp.mechanisms.laplace", "from skdp.events import Laplace"),
        ("skdp.mechanisms.laplace", "from skdp.mechanisms.grid import step"),
        ("skdp.mechanisms.laplace", "from .grid import step\nfrom .. import noise"),
        ("skdp.mechanisms.laplace", "import skdp.noise"),
        ("skdp.noise", "import os\nimport numpy as np\nnp.random.Philox(os.urandom)"),
        ("skdp.datasets._census", "import numpy as np\nnp.random.default_rng(0)"),
        ("skdp.events", "import numpy as np\ndef f(r: np.random.Generator): ..."),
        ("skdp.stats.mean", "from sklearn.utils import __version__"),
        ("skdp.cli", "from skdp import __version__"),
        ("skdp.events", "random = 3\nx.random.normal()"),
        ("skdp", "from skdp.mechanisms import Laplace"),
    ],
)
def test_checker_allows(module, source):
    assert violations(source, module) == []


def test_checker_resolves_relative_imports_of_a_package():
    source = "from .laplace import Laplace\nfrom ..accounting import Ledger"
    found = violations(source, "skdp.mechanisms", is_package=True)
    assert found == [
        "skdp.mechanisms:2: imports skdp.accounting.Ledger: "
        "accounting is not below mechanisms"
    ]
