"""Copies a run's metrics to Weights & Biases: python import_wandb.py RUN [PROJECT]

Needs `wandb`. Without a network: WANDB_MODE=offline, and later `wandb sync`. A run that was copied before is copied
again under the same id, so W&B has it once.
"""

import hashlib
import pathlib
import sys

import wandb
from run_metrics import flat, job_of, read


def copy(run, project):
    job = job_of(run)
    path = str(pathlib.Path(run).resolve())
    with wandb.init(
        project=project,
        name=job.get("job", {}).get("name", path),
        id=hashlib.sha256(path.encode()).hexdigest()[:16],
        resume="allow",
        config=flat(job) | {"run_directory": path},
    ) as session:
        steps = 0
        for step, values in read(run):
            session.log(values, step=step)
            steps += 1
    return steps


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    print(f"{copy(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else 'estrain')} steps")
