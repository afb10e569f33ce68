#!/usr/bin/env bash
# Adds a node to a run that is under way (train.sh, train-nodes.sh), and gives it back when this job ends: by preemption,
# scancel or its time limit. Submit it with a low priority and it fills idle nodes. The run's bits do not depend on it.
#
#   sbatch [sbatch options] examples/slurm/join.sh RUN_DIR [WORKERS]
#
# WORKERS: CPU workers on this node, a core each; by default as many as cores. No more than the job has ESTs for.

#SBATCH --job-name=estrain-join
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.out

set -u
estrain=${ESTRAIN:-estrain}
at=(${ESTRAIN_INTERFACE:+--interface "$ESTRAIN_INTERFACE"})
if (($# < 1)); then
  echo "usage: sbatch join.sh RUN_DIR [WORKERS]" >&2
  exit 2
fi
run=$1 workers=${2:-$SLURM_CPUS_ON_NODE}
name=$SLURMD_NODENAME-$SLURM_JOB_ID  # a node that joins twice is two hosts

trap : TERM  # Slurm sends it to the agent too, which lets go of the run
"$estrain" agent --run "$run" --name "$name" "${at[@]}" &
agent=$!
for ((i = 0; i < 300; ++i)); do
  [[ -e $run/hosts/$name.json ]] && break
  kill -0 "$agent" 2>/dev/null || exit 1
  sleep 0.1
done

# On the launcher's host, as a step of its job: that is where it can be asked.
owner() { grep -o "\"$1\": *\"\?[^,\"}]*" "$run/lock" | sed 's/.*: *"\?//'; }
ask=()
if [[ $(owner host) != "$(hostname)" && -n $(owner slurm_job) ]]; then
  ask=(srun --overlap --jobid="$(owner slurm_job)" --nodelist="$(owner host)" --nodes=1 --ntasks=1)
fi
"${ask[@]}" "$estrain" resize "$run" --add "$name/cpu*$workers" || {
  kill "$agent"
  exit 1
}
while kill -0 "$agent" 2>/dev/null; do wait "$agent"; done
wait "$agent"
