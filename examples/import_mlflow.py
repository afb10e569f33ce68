"""Copies a run's metrics to MLflow: python import_mlflow.py RUN [EXPERIMENT]

Needs `mlflow` (or `mlflow-skinny`). MLFLOW_TRACKING_URI says where to; without it, MLflow's own default.
"""

import pathlib
import sys
import time

import mlflow
from mlflow.entities import Metric, Param
from run_metrics import flat, job_of, read

MOST = 1000  # metrics of one call, as MLflow's servers accept


def copy(run, experiment):
    job = job_of(run)
    path = str(pathlib.Path(run).resolve())
    mlflow.set_experiment(experiment)
    with mlflow.start_run(run_name=job.get("job", {}).get("name", path)) as session:
        client, now = mlflow.MlflowClient(), int(1000 * time.time())
        entries = flat(job) | {"run_directory": path}
        client.log_batch(session.info.run_id, params=[Param(name, str(value)[:6000]) for name, value in entries.items()])
        metrics, steps = [], 0
        for step, values in read(run):
            metrics += [Metric(name, value, now, step) for name, value in values.items()]
            steps += 1
        for begin in range(0, len(metrics), MOST):
            client.log_batch(session.info.run_id, metrics=metrics[begin : begin + MOST])
    return steps


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    print(f"{copy(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else 'estrain')} steps")
