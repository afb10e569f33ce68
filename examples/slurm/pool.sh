#!/usr/bin/env bash
# A pool of jobs on the nodes of a Slurm allocation: their cores are the pool's devices, `estrain pool submit` puts jobs on
# them from any shell of the first node (srun --overlap --jobid=ID estrain pool submit DIR job.toml).
#
#   sbatch --nodes=3 [sbatch options] examples/slurm/pool.sh DIR [more options of `estrain pool serve`]
#
# DIR lies on a file system that all nodes see. When the time is up, jobs stop with checkpoints; submitted again, this
# script takes the queue up.

#SBATCH --job-name=estrain-pool
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
# A node's failure does not end the job.
#SBATCH --no-kill
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out

set -u
if (($# < 1)); then
  echo "usage: sbatch pool.sh DIR [more options of estrain pool serve]" >&2
  exit 2
fi
pool=$1
shift
exec "${ESTRAIN:-estrain}" pool serve "$pool" --devices slurm "$@"
