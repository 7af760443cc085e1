"""The recipes of CONTRIBUTING.md, each carried out on a scratch copy; and the examples."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tacit

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

CHECKS = {
    "elastic.py": """
import numpy as np
from tacit.elastic import ElasticNet
from tacit.losses import SquaredLoss
from tacit.numerics.descent import proximal_gradient
from tacit.numerics.objective import Objective
from tacit.tasks import TaskSet
rng = np.random.default_rng(0)
tasks = TaskSet.from_arrays(rng.normal(size=(40, 3)), rng.normal(size=40), np.arange(40) % 4)
found = proximal_gradient(Objective(tasks, SquaredLoss()), ElasticNet(0.3))
assert found.W.shape == (4, 3) and (found.W == 0).any()
""",
    "doubled.py": """
import numpy as np
from tacit.privacy import MECHANISMS, Round, Schedule, Unit
from tacit.privacy.bounds import VectorClip
assert "doubled-gaussian" in MECHANISMS
rounds = [Round("mean", VectorClip(1.0), (3,))]
schedule = Schedule.calibrate(rounds, epsilon=1.0, delta=1e-5, mechanism="doubled-gaussian")
plain = Schedule.calibrate(rounds, epsilon=1.0, delta=1e-5)
assert schedule.mechanisms[0].scale == 2 * plain.mechanisms[0].scale
assert schedule.events(Unit.TASK) == plain.events(Unit.TASK)
""",
    "level.py": """
import numpy as np
import tacit
from tacit.privacy import Ledger
rng = np.random.default_rng(0)
X, y, tasks = rng.normal(size=(60, 2)), 3 + rng.normal(size=60), np.arange(60) % 6
assert "LevelRegressor" in tacit.ESTIMATORS
model = tacit.LevelRegressor(epsilon=2.0, random_state=0, ledger=Ledger(":memory:", 2.0, 1e-5))
model.fit(X, y, tasks=tasks)
planned = model.plan(n_tasks=6, n_features=2)
assert [release.name for release in planned.releases] == ["level"]
assert model.privacy_.n_releases == len(model.billboard_) == 1
assert abs(model.privacy_.epsilon - 2.0) < 1e-9 and model.ledger.spent().epsilon <= 2.0
from tacit.cli.run.methods import methods
assert "level" in methods()
""",
    "one_by_one.py": """
import numpy as np
from tacit.engines import Batches, conduct
from tacit.engines.one_by_one import OneByOne
from tacit.losses import SquaredLoss
from tacit.privacy import Billboard, Schedule, SeededEntropy
from tacit.protocols.averaged import AveragedProtocol
from tacit.tasks import TaskSet
rng = np.random.default_rng(0)
tasks = TaskSet.from_arrays(rng.normal(size=(40, 3)), rng.normal(size=40), np.arange(40) % 4)
protocol = AveragedProtocol(SquaredLoss(), 4, 3)
schedule = Schedule.calibrate(protocol.rounds(), epsilon=5.0, delta=1e-5)
models = []
for engine in (Batches, OneByOne):
    parties = engine(protocol, tasks, entropy=SeededEntropy(0))
    outcome = conduct(protocol, schedule, parties, Billboard(), entropy=SeededEntropy(1))
    models.append(np.concatenate(list(parties.finish(outcome.public))))
assert np.array_equal(*models)
""",
}


def _recipes() -> dict[str, str]:
    """Return the files that CONTRIBUTING.md tells to write, by path."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n# (src/\S+)\n(.*?)```", text, flags=re.S)
    return dict(blocks)


@pytest.mark.parametrize("name", CHECKS)
def test_a_recipe_works_by_adding_its_files_and_touching_no_other(name, tmp_path):
    shutil.copytree(Path(tacit.__file__).parent, tmp_path / "src" / "tacit")
    written = {path: body for path, body in _recipes().items() if path.endswith(f"/{name}")}
    assert written, f"CONTRIBUTING.md has no recipe for {name}"
    for path, body in written.items():
        target = tmp_path / path
        assert not target.exists(), f"{path} is there already"
        target.write_text(body, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHECKS[name]],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path):
    source = str(Path(tacit.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "PYTHONPATH": source},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
