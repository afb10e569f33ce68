"""Cases of tests/hosts/run on simulated GPUs (tests/simulated_gpu): the GPUs of a host exchange among themselves, those of several hosts through the hosts' memory."""
import os
import signal
from contextlib import contextmanager
from pathlib import Path

from hosts_site import LONG, ROOT, NotTested, check, events, finish, last_step, steps_of, stop_here, wait_for

MIXED_STEPS = 20
AHEAD = 5  # steps to train between two changes
# A simulated GPU takes a core, and is slow.
SMALL = ("--oversubscribe", "--set", "data.batch=2", "--set", "model.hidden=[32]", "--set", "train.eval_every=40")


# The other host passes on two partial sums of three ESTs: the order in which hosts sum counts.
ON_TWO_HOSTS = "cuda:0=1,cuda:1=1,h1/cuda:0=3"


@contextmanager
def on_gpus(site):
    """All that a site starts meanwhile finds simulated GPUs."""
    build = Path(site.program).parent
    if not (build / "simulated_gpu").is_dir():
        raise NotTested(f"no simulated GPUs in {build}")
    before = site.program, site.through
    site.program, site.through = str(build / "simulated_gpu/estrain"), (str(ROOT / "tests/simulated_gpu/run"), str(build))
    try:
        yield
    finally:
        site.program, site.through = before


def train(site, run, devices, steps, *more, clip=0):
    return site.train(run, devices, steps, *SMALL, *more, clip=clip)


def ends(site, run, leader, *agents):
    """A case has seen enough: the run stops, and has the bits of as many steps on one GPU."""
    stop_here(site, run, leader, *agents)
    steps = max(event["step"] for event in events(run, "stopped"))
    check(0 < steps < LONG, f"stopped at step {steps}")
    alone = site.folder / f"{run.name}-alone"
    finish(train(site, alone, "cuda:0", steps))
    site.same(run, alone)


def goes_on(run, job):
    before = last_step(run)
    wait_for(lambda: last_step(run) >= before + AHEAD, "no steps", job)


def kill_worker(site, host):
    workers = [pid for pid in site.network.processes(host) if b"\0worker\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    check(len(workers) == 1, f"workers of h{host}: {workers}")
    os.kill(workers[0], signal.SIGKILL)


def recoveries(run):
    return events(run, "recovered")


def check_exchanges(run, *expected):
    """Where each stage was to exchange its gradients, in the order of the stages."""
    exchanges = [stage["exchange"] for stage in events(run, "stage")]
    check(exchanges == list(expected), f"exchanges of the stages: {exchanges}, expected {list(expected)}")


def gpus(site):
    """GPUs of one host are joined by another host's; that GPU's worker is killed, then its host. No bit shows it, and a loss costs no step that hosts have agreed on."""
    with on_gpus(site):
        run = site.folder / "gpus"
        job = train(site, run, "cuda:0,cuda:1", LONG)
        wait_for(lambda: steps_of(run) > AHEAD, "no steps", job)
        agent = site.agent(1, run)
        site.resize(run, ON_TWO_HOSTS)
        goes_on(run, job)
        kill_worker(site, 1)
        wait_for(lambda: len(recoveries(run)) == 1, "no step after the loss of a worker", job)
        goes_on(run, job)
        site.network.signal(1, signal.SIGKILL)
        wait_for(lambda: len(recoveries(run)) == 2, "no step after the loss of a host", job)
        goes_on(run, job)
        agent.wait()
        ends(site, run, job)
        check([recovered["committed_steps_redone"] for recovered in recoveries(run)] == [0, 0], f"steps were redone: {recoveries(run)}")
        check_exchanges(run, "GPUs", "hosts", "hosts", "GPUs")


def gpus_and_cpus(site):
    """At D2, RMSprop with clipping on a GPU, two GPUs of another host and a CPU of a third has the bits of one CPU."""
    settings = ("--set", "optimizer.name=rmsprop", "--set", "job.determinism=D2", "--allow-mixed")
    with on_gpus(site):
        run, one = site.folder / "mixed", site.folder / "mixed-alone"
        agents = [site.agent(host, run) for host in (1, 2)]
        finish(train(site, run, "cuda:0,h1/cuda:0,h1/cuda:1,h2/cpu", MIXED_STEPS, *settings, clip=0.5))
        for agent in agents:
            finish(agent)
        finish(train(site, one, "cpu", MIXED_STEPS, *settings, clip=0.5))
        check_exchanges(run, "hosts")
        site.same(run, one)


def loses_gpus(site, name, lose):
    """The host of one GPU of three is lost, and comes back."""
    with on_gpus(site):
        run = site.folder / name
        agents = [site.agent(1, run)]
        job = train(site, run, ON_TWO_HOSTS, LONG)
        wait_for(lambda: steps_of(run) > AHEAD, "no steps", job)
        lose(1)
        wait_for(lambda: recoveries(run), "no step after the loss", job)
        goes_on(run, job)
        site.network.signal(1, signal.SIGCONT)
        site.network.signal(1, signal.SIGKILL)
        site.network.mend(1)
        agents[0].wait()
        agents = [site.agent(1, run)]
        site.resize(run, "cuda:1,h1/cuda:0")
        goes_on(run, job)
        site.resize(run, "cuda:0,cuda:1")
        goes_on(run, job)
        ends(site, run, job, *agents)
        check([event["host"] for event in events(run, "host_lost")] == ["h1"], f"lost: {events(run, 'host_lost')}")
        check(recoveries(run)[0]["committed_steps_redone"] == 0, f"steps were redone: {recoveries(run)}")
        check_exchanges(run, "hosts", "GPUs", "hosts", "GPUs")


def gpus_cut(site):
    loses_gpus(site, "gpus-cut", site.network.cut)


def gpus_stopped(site):
    loses_gpus(site, "gpus-stopped", lambda host: site.network.signal(host, signal.SIGSTOP))


def gpus_led_by_another(site):
    """The coordinator's host is killed: the other host goes on alone, on its GPU."""
    with on_gpus(site):
        run = site.folder / "gpus-led"
        agent = site.agent(1, run)
        job = train(site, run, "cuda:0,h1/cuda:0", LONG)
        wait_for(lambda: steps_of(run) > AHEAD, "no steps", job)
        before = last_step(run)
        site.network.signal(0, signal.SIGKILL)
        job.wait()
        wait_for(lambda: events(run, "takeover"), "nobody went on", agent)
        goes_on(run, agent)
        ends(site, run, agent)
        takeover = events(run, "takeover")
        check(len(takeover) == 1 and takeover[0]["saved"] and takeover[0]["step"] >= before, f"steps were redone: {before}, {takeover}")


GPU_CASES = [gpus, gpus_and_cpus]
GPU_CASES_AT_LENGTH = [gpus_cut, gpus_stopped, gpus_led_by_another]
