#!/usr/bin/env bash
# Trains a job under Slurm until it is done, in as many pieces as time limits, preemption and node failures make of it.
# The same script serves the first start and every one after a requeue. The result has the bits of an undisturbed run.
#
#   sbatch [sbatch options] examples/slurm/train.sh SPEC.toml RUN_DIR [more options of `estrain train`]
#
# Options on sbatch's command line win over those below. README.md, beside this file, says what to expect.

#SBATCH --job-name=estrain
# One node and one task: estrain starts its own workers. Several nodes are not supported yet.
#SBATCH --nodes=1
#SBATCH --ntasks=1
# Cores for `--devices auto`: as many workers as there are cores for, at most one for each EST. They may differ from one
# start to the next; the bits do not depend on them.
#SBATCH --cpus-per-task=4
# GPUs, instead: a worker on each GPU of the job, on sbatch's command line, or with a second # taken away here.
##SBATCH --gres=gpu:2
#SBATCH --time=04:00:00
# SIGUSR1 90 seconds before the time is up: estrain writes a checkpoint and ends with 75, and this script has itself
# requeued. "B:" sends it to this shell, which is where estrain runs; without it only steps started by srun get it.
# Slurm looks at the time every 30 seconds and may be early by up to a minute, never late.
#SBATCH --signal=B:USR1@90
# Slurm may start the job again by itself after preemption or the failure of a node.
#SBATCH --requeue
# All starts go on in one output file; without this each would empty it.
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out

set -u
# Seconds that estrain waits for the step under way when a signal comes. With the writing of the checkpoint it must stay
# below the 90 above, and below the KillWait of slurm.conf (30 by default), which is all that preemption leaves between
# SIGTERM and SIGKILL.
grace=${ESTRAIN_GRACE:-15}

if (($# < 2)); then
  echo "usage: sbatch train.sh SPEC.toml RUN_DIR [more options of estrain train]" >&2
  exit 2
fi
spec=$1 run=$2
shift 2

# Time is running out: passed on, and remembered, because then it is ours to requeue the job.
warned=no
trap 'warned=yes; [[ -z ${estrain:-} ]] || kill -USR1 "$estrain"' USR1
# SIGTERM comes from scancel, from preemption or with the end of the time. Slurm sends it to all processes, so estrain has
# it already, and a second signal would make it stop at once. The shell only has to stay, to report how estrain ended.
trap : TERM

# --resume: goes on from the newest valid checkpoint if there is a run in RUN_DIR, else begins one.
# No srun: one node needs none, and so nothing stands between Slurm's signals and estrain. In the background, because a
# shell does not hear signals while a command runs in the foreground.
"${ESTRAIN:-estrain}" train "$spec" --run "$run" --resume --devices auto --grace "$grace" "$@" &
estrain=$!

# A signal interrupts `wait`; once estrain has ended, `wait` gives its exit code.
while kill -0 "$estrain" 2>/dev/null; do wait "$estrain"; done
wait "$estrain"
code=$?
echo "train.sh: estrain has ended with $code"

# Whether the time was nearly up: SIGUSR1 said so, or estrain saw it itself (where the options have no --signal).
out_of_time() {
  [[ $warned == yes ]] || grep '"event":"stopped"' "$run/events.jsonl" | tail -n 1 | grep -q '"why":"the allocation ends'
}

# 75: stopped with a checkpoint. (138: SIGUSR1 came before estrain listened for it.) Only when the time was up: after SIGTERM
# Slurm itself requeues what it preempted, and what was cancelled, or stopped with `estrain stop`, shall rest; `scontrol
# requeue` would bring it back.
if ((code == 75 || code == 138)) && out_of_time; then
  scontrol requeue "$SLURM_JOB_ID" || echo "train.sh: could not requeue the job; submit it again to go on" >&2
fi
exit "$code"
