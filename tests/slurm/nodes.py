"""A job over two nodes (examples/slurm/train-nodes.sh) that a third joins (examples/slurm/join.sh) and leaves by
preemption; one of its nodes is killed, and it is requeued. It must end with the bits of an undisturbed run, and say how each launch ended."""
import json
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "examples/slurm"
SMALL = ["--cpus-per-task=1", "--mem=1024", "--time=10", "--export=ALL,ESTRAIN_INTERFACE=lo"]
PATIENCE = 180


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def events(run, kind):
    return [line for line in lines(run / "events.jsonl") if line["event"] == kind]


def last_step(run):
    return max((line["step"] for line in lines(run / "metrics.jsonl") if "eval" not in line), default=0)


def verdict(run):
    path = run / "verdict.json"
    return json.loads(path.read_text()) if path.exists() else None


def wait_for_steps(cluster, job, more):
    step = last_step(job.run)
    job.wait(f"{more} more steps", lambda _: last_step(job.run) >= step + more, PATIENCE)


def join_and_be_preempted(cluster, folder, report, Job, job):
    joining = Job(cluster, folder, "join", [*SMALL, "--nodelist=n3"], [str(SCRIPTS / "join.sh"), str(job.run), "1"])
    job.wait("a third node", lambda _: events(job.run, "resize"), PATIENCE)
    joined = f"n3-{joining.id}/cpu"
    report.check("a second job joins the run", joined in events(job.run, "resize")[-1]["to"], events(job.run, "resize"))
    wait_for_steps(cluster, job, 50)
    urgent = Job(cluster, folder, "urgent", ["--partition=urgent", "--nodelist=n3", "--mem=4000"], ["--wrap=sleep 1"])
    urgent.wait_for_state("COMPLETED", PATIENCE)
    cluster.run("scancel", joining.id)  # Slurm would start it again
    report.check("it is preempted, and its devices with it",
                 any(joined == lost.get("device") for lost in events(job.run, "device_lost")), events(job.run, "device_lost"))
    wait_for_steps(cluster, job, 50)
    report.equal("the run continues without it", verdict(job.run), None)


def lose_a_node(cluster, report, job):
    before = last_step(job.run)
    report.equal("a node's daemon and processes are killed", cluster.kill_node("n2")[0], 0)
    job.wait("the loss of a node", lambda _: any("n2" in event.get("host", "") for event in events(job.run, "host_lost")))
    wait_for_steps(cluster, job, 50)
    fields = job.show()
    report.equal("the job runs on on the other", (fields.get("JobState"), fields.get("NumNodes")), ("RUNNING", "1"))
    recovered = events(job.run, "recovered")[-1]
    report.check("no committed step is redone", recovered["committed_steps_redone"] == 0 and recovered["step"] >= before,
                 (before, recovered))


def disturb_nodes(cluster, folder, report, Job, spec):
    job = Job(cluster, folder, "nodes", [*SMALL, "--nodes=2", "--nodelist=n1,n2"],
              [str(SCRIPTS / "train-nodes.sh"), spec[0], str(folder / "nodes"), *spec[1]], folder / "nodes")
    wait_for_steps(cluster, job, 50)
    report.equal("a job over two nodes", events(job.run, "start")[0]["devices"], "n1/cpu,n2/cpu")
    join_and_be_preempted(cluster, folder, report, Job, job)
    lose_a_node(cluster, report, job)
    cluster.mend_node("n2")
    report.equal("scancel --batch --signal=USR1", cluster.run("scancel", "--batch", "--signal=USR1", job.id), (0, ""))
    job.wait("the verdict", lambda _: verdict(job.run))
    said = verdict(job.run)
    report.equal("the verdict of a stop", (said["exit_code"], said["outcome"], said["cause"]), (75, "stopped", "SIGUSR1"))
    report.check("it says how to go on", f"--resume --run {job.run}" in said["advice"], said)
    job.wait_for_requeue(1)
    job.wait_for_state("COMPLETED", PATIENCE)
    starts = events(job.run, "start")
    report.equal("after the requeue it is on both nodes again", (len(starts), starts[-1]["devices"]), (2, "n1/cpu,n2/cpu"))
    report.equal("the verdict of the end", (verdict(job.run)["exit_code"], verdict(job.run)["outcome"]), (0, "finished"))
    return job
