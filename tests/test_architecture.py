"""The separation of the layout does not erode, and importing stays cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tacit

SOURCE = Path(tacit.__file__).parent
FORBIDDEN = {
    "privacy": {"protocols", "engines", "estimators", "joint", "numerics", "audit"},
    "protocols": {"engines", "estimators", "joint", "audit"},
    "numerics": {"privacy", "protocols", "engines", "estimators", "audit"},
    "engines": {"estimators", "audit"},
    "tasks": {"privacy", "protocols", "engines", "estimators", "numerics"},
}


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    # How a machine computes (threads, warnings) is no business of a layer.
    found = {name for name in found if not name.startswith("tacit.numerics.threads")}
    return {name.split(".")[1] for name in found if name.startswith("tacit.")}


@pytest.mark.parametrize("package", FORBIDDEN)
def test_packages_import_only_what_the_layout_allows(package):
    for path in (SOURCE / package).rglob("*.py"):
        crossed = _imports(path) & FORBIDDEN[package]
        assert not crossed, f"{path.relative_to(SOURCE)} imports {sorted(crossed)}"


def test_ordinary_random_generators_stay_off_privacy_paths():
    allowed = SOURCE / "privacy" / "noise" / "entropy.py"
    for package in ("privacy", "protocols"):
        for path in (SOURCE / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if path != allowed:
                assert "np.random" not in text, path
                assert "default_rng" not in text, path


def test_importing_tacit_loads_nothing_heavy():
    code = "import sys, tacit; print([m for m in ('sklearn','numba','scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("imported", "spared"),
    [
        ("tacit.privacy.mechanisms", ("scipy", "sklearn", "numba", "dp_accounting")),
        ("tacit.neural", ("scipy", "sklearn", "numba", "dp_accounting", "optax")),
    ],
)
def test_training_and_noise_alone_load_no_library_they_do_not_use(imported, spared):
    if imported == "tacit.neural":
        pytest.importorskip("jax", reason="needs the extra neural")
    code = f"import sys, {imported}; print([m for m in {spared} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_release_says_what_it_costs_when_it_is_asked():
    code = (
        "import sys; from tacit.privacy.mechanisms import Gaussian\n"
        "from tacit.privacy import SystemEntropy\n"
        "noise = Gaussian(sensitivity=1.0, noise_multiplier=2.0)\n"
        "release = noise.release([0.0], SystemEntropy())\n"
        "print('dp_accounting' in sys.modules, release.event.noise_multiplier, release.mechanism)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False 2.0 gaussian"


def test_every_public_name_resolves():
    for name in tacit.__all__:
        assert getattr(tacit, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = tacit.Nothing
