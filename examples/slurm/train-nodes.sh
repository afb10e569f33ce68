#!/usr/bin/env bash
# Trains a job on several nodes under Slurm until it is done. A node may fail: the others go on from the last step, whichever
# node it was. The result has the bits of an undisturbed run.
#
#   sbatch --nodes=3 [sbatch options] examples/slurm/train-nodes.sh SPEC.toml RUN_DIR [more options of `estrain train`]
#
# RUN_DIR lies on a file system that all nodes see. README.md, beside this file, says what to expect; join.sh adds nodes.

#SBATCH --job-name=estrain
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
# With GPUs name each: sbatch --gres=gpu:1 ... train-nodes.sh SPEC.toml RUN_DIR --devices nodeA/cuda:0,nodeB/cuda:0
#SBATCH --time=04:00:00
# A node's failure does not end the job.
#SBATCH --no-kill
#SBATCH --signal=B:USR1@90
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out

set -u
grace=${ESTRAIN_GRACE:-15}  # as in train.sh
estrain=${ESTRAIN:-estrain}
# How hosts reach each other: ESTRAIN_INTERFACE=ib0. Without it, at the address of a node's name.
at=(${ESTRAIN_INTERFACE:+--interface "$ESTRAIN_INTERFACE"})

if (($# < 2)); then
  echo "usage: sbatch train-nodes.sh SPEC.toml RUN_DIR [more options of estrain train]" >&2
  exit 2
fi
spec=$1 run=$2
shift 2
mkdir -p "$run"

# One step for each other node: a step over all of them would end with the first. The launcher is on this one.
agents=()
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
  [[ $node == "$SLURMD_NODENAME" ]] && continue
  srun --nodes=1 --ntasks=1 --nodelist="$node" --cpus-per-task="$SLURM_CPUS_ON_NODE" --overlap --no-kill \
    --kill-on-bad-exit=0 "$estrain" agent --run "$run" --name "$node" "${at[@]}" &
  agents+=($!)
done

# Time is running out: whoever leads is told. While the launcher lives, the agents end with the run.
warned=no
pass_on() {
  warned=yes
  if [[ -n ${launcher:-} ]] && kill -USR1 "$launcher" 2>/dev/null; then return; fi
  for agent in "${agents[@]}"; do kill -USR1 "$agent" 2>/dev/null; done
}
trap pass_on USR1
trap : TERM  # Slurm sends it to all processes by itself

"$estrain" train "$spec" --run "$run" --resume --hosts slurm --grace "$grace" "$@" &
launcher=$!
wait_for() {
  while kill -0 "$1" 2>/dev/null; do wait "$1"; done
  wait "$1"
}
wait_for "$launcher"
code=$?
echo "train-nodes.sh: the launcher has ended with $code"
launcher=

# A launcher that is killed (137) leaves the run to an agent, which leads it to its end under the same process id. Any
# other end is the run's: its agents end by themselves, and those that it never reached are told to.
if ((code <= 128)); then
  sleep 1
  for agent in "${agents[@]}"; do kill -TERM "$agent" 2>/dev/null; done
fi
for agent in "${agents[@]}"; do wait_for "$agent"; done

# The run's own word on how it ended, whoever led it last.
verdict() { grep -o "\"$1\": *\"\?[^,\"}]*" "$run/verdict.json" 2>/dev/null | sed 's/.*: *"\?//'; }
code=$(verdict exit_code)
echo "train-nodes.sh: the run $(verdict outcome) with ${code:=75}: $(verdict cause)"
out_of_time() { [[ $warned == yes || $(verdict cause) == "the allocation ends"* ]]; }
if ((code == 75)) && out_of_time; then
  scontrol requeue "$SLURM_JOB_ID" || echo "train-nodes.sh: could not requeue the job; submit it again to go on" >&2
fi
exit "$code"
