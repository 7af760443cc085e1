"""A protocol of one's own: the average level of all tasks, and a model pulled to it.

What is accounted is the `Round`; what is computed are the five functions; where it runs is the
engine's business. Nothing else has to be written, and a bound that the noise does not cover is
refused.
"""

from dataclasses import dataclass

import numpy as np

from tacit.datasets import load_hospitals
from tacit.engines import Batches, conduct
from tacit.privacy import Billboard, Round, Schedule, SystemEntropy
from tacit.privacy.bounds import VectorClip
from tacit.protocols import Protocol
from tacit.tasks import TaskSet


@dataclass(frozen=True)
class Levels(Protocol):
    """Every task says its mean target, clipped to a public number; everybody hears the average."""

    n_tasks: int
    clip: float

    def rounds(self):
        """Return what is released: one number, in which a task moves at most 2·clip."""
        return (Round("level", VectorClip(self.clip), (1,)),)

    def opening(self):
        """Return what is known before anything is released."""
        return 0.0

    def read(self, public, release, call, noise):
        """Return the average; the divisor is public."""
        return float(release[0]) / self.n_tasks

    def start(self, rows, positions):
        """Keep the rows."""
        return rows

    def speak(self, home, public, call, joined):
        """Say every task's own mean."""
        return home, self._means(home)[:, None]

    def finish(self, home, public):
        """Pull the own mean to the average, the harder the fewer rows there are."""
        weight = home.counts / (home.counts + 5.0)
        return (weight * self._means(home) + (1 - weight) * public)[:, None]

    @staticmethod
    def _means(home):
        return home.task_sums(np.asarray(home.y)) / home.counts


data = load_hospitals()
tasks = TaskSet.from_arrays(data.X, data.y, data.tasks)
protocol = Levels(n_tasks=tasks.n_tasks, clip=30.0)
schedule = Schedule.calibrate(protocol.rounds(), epsilon=1.0, delta=1e-5)
parties = Batches(protocol, tasks, entropy=SystemEntropy())
outcome = conduct(protocol, schedule, parties, Billboard(), entropy=SystemEntropy())
levels = np.concatenate(list(parties.finish(outcome.public)))
print(f"released average {outcome.public:.2f}, noise {schedule.mechanisms[0].scale / 20:.2f}")
print(f"personal levels from {levels.min():.2f} to {levels.max():.2f}")
