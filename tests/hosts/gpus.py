"""Cases of tests/hosts/run on simulated GPUs (tests/simulated_gpu): the GPUs of a host exchange among themselves; those of several hosts through the hosts' memory, or, on a network that may see gradients, by NCCL."""
import json
import os
import signal
from contextlib import contextmanager
from pathlib import Path

from hosts_site import ENDLESS, LONG, ROOT, NotTested, check, ests_of, events, finish, last_step, steps_of, stop_here, wait_for

MIXED_STEPS = 20
AHEAD = 5  # steps to train between two changes
# A simulated GPU takes a core, and is slow.
SMALL = ("--oversubscribe", "--set", "data.batch=2", "--set", "model.hidden=[32]", "--set", "train.eval_every=40")


IN_CLEAR = ("--set", "network.secrecy=control")
GROUPS_BEFORE_SILENCE = 150  # of transfers: a step has about ten

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
    os.environ["NCCL_SOCKET_IFNAME"] = "eth0"
    try:
        yield
    finally:
        site.program, site.through = before
        del os.environ["NCCL_SOCKET_IFNAME"]


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
        check("NCCL, which does not encrypt" in Path(job.log).read_text(), "the run does not say why NCCL is not used")


def agent_falling_silent(site, host, run):
    """An agent, and a file that its worker makes when the worker's part in a group of NCCL's transfers never ends: some steps after the worker has met the others."""
    silent = site.folder / f"{run.name}-silent-{len(site.started)}"
    os.environ["ESTRAIN_SIMULATED_FAULT"] = f"silence {GROUPS_BEFORE_SILENCE} {silent}"
    try:
        return site.agent(host, run), silent
    finally:
        del os.environ["ESTRAIN_SIMULATED_FAULT"]


def gpus_by_nccl(site):
    """GPUs of one host are joined by another host's, and all exchange by NCCL. That GPU's worker is killed, then its host while a group of transfers is under way. No bit shows it."""
    with on_gpus(site):
        run = site.folder / "nccl"
        job = train(site, run, "cuda:0,cuda:1", LONG, *IN_CLEAR)
        wait_for(lambda: steps_of(run) > AHEAD, "no steps", job)
        agent, silent = agent_falling_silent(site, 1, run)
        site.resize(run, ON_TWO_HOSTS)
        kill_worker(site, 1)
        wait_for(lambda: len(recoveries(run)) == 1, "no step after the loss of a worker", job)
        wait_for(silent.exists, "no group of transfers is under way", job)
        site.network.signal(1, signal.SIGKILL)
        wait_for(lambda: len(recoveries(run)) == 2, "no step after the loss of a host", job)
        goes_on(run, job)
        agent.wait()
        ends(site, run, job)
        check([recovered["committed_steps_redone"] for recovered in recoveries(run)] == [0, 0], f"steps were redone: {recoveries(run)}")
        check_exchanges(run, "GPUs", "GPUs of hosts", "GPUs of hosts", "GPUs")
        causes = sorted(fault["cause"] for fault in events(run, "fault"))
        check(causes == ["host_lost", "killed"], f"workers waited for a lost one: {causes}")


def nccl_at_d2(site):
    """At D2, RMSprop with clipping on GPUs of three hosts that exchange by NCCL has the bits of one CPU, and so has the exchange through the hosts' memory."""
    settings = ("--set", "optimizer.name=rmsprop", "--set", "job.determinism=D2", "--allow-mixed")
    with on_gpus(site):
        one = site.folder / "nccl-d2-alone"
        finish(train(site, one, "cpu", MIXED_STEPS, *settings, clip=0.5))
        for name, more, exchange in (("nccl-d2", IN_CLEAR, "GPUs of hosts"), ("couriers-d2", (*IN_CLEAR, "--set", "job.exchange=host"), "hosts")):
            run = site.folder / name
            agents = [site.agent(host, run) for host in (1, 2)]
            finish(train(site, run, "cuda:0=1,h1/cuda:0=1,h1/cuda:1=2,h2/cuda:1=1", MIXED_STEPS, *settings, *more, clip=0.5))
            for agent in agents:
                finish(agent)
            check_exchanges(run, exchange)
            site.same(run, one)


def noise_of_gpus(site):
    """A job with a changeable batch measures the noise of its gradients: on GPUs of two hosts as on one CPU, which the pool's choice of a batch depends on."""
    # Each step has all samples, and the parameters stay: the noise hardly depends on the number of steps.
    settings = ("--set", "elastic.batch=adaptive", "--set", "optimizer.name=sgd", "--set", "optimizer.lr=1e-9", "--set", f"data.samples={2 * ests_of(site)}",
                "--set", "model.dropout=0", "--set", "job.determinism=D2", "--allow-mixed")
    enough = 60  # steps

    def noise(run):
        done = site.network.run(0, [site.program, "status", str(run), "--json"])
        found = json.loads(done.stdout).get("gradient_noise") if done.returncode == 0 else None
        return found["scale"] if found and found["steps"] >= enough else None

    found = {}
    with on_gpus(site):
        for name, devices in (("cpu", "cpu"), ("nccl", "cuda:0,h1/cuda:0")):
            run = site.folder / f"noise-{name}"
            agents = [site.agent(1, run)] if name == "nccl" else []
            job = train(site, run, devices, ENDLESS, *IN_CLEAR, *settings)
            wait_for(lambda: noise(run), "the noise is not measured", job)
            found[name] = noise(run)
            stop_here(site, run, job, *agents)
        check_exchanges(run, "GPUs of hosts")
    check(0.8 < found["nccl"] / found["cpu"] < 1.25, f"noise of gradients, in samples: {found}")


def loses_gpus_by_nccl(site, name, lose):
    """The host of one GPU of three is lost while a group of transfers is under way, and comes back. The run stops, and resumes."""
    with on_gpus(site):
        run = site.folder / name
        agent, silent = agent_falling_silent(site, 1, run)
        job = train(site, run, ON_TWO_HOSTS, LONG, *IN_CLEAR)
        wait_for(silent.exists, "no group of transfers is under way", job)
        lose(1)
        wait_for(lambda: recoveries(run), "no step after the loss", job)
        goes_on(run, job)
        site.network.signal(1, signal.SIGCONT)
        site.network.signal(1, signal.SIGKILL)
        site.network.mend(1)
        agent.wait()
        agent = site.agent(1, run)
        site.resize(run, "cuda:1,h1/cuda:0")
        goes_on(run, job)
        stop_here(site, run, job, agent)
        agent = site.agent(1, run)
        job = train(site, run, "cuda:0,h1/cuda:1", LONG, *IN_CLEAR, "--resume")
        goes_on(run, job)
        ends(site, run, job, agent)
        check([event["host"] for event in events(run, "host_lost")] == ["h1"], f"lost: {events(run, 'host_lost')}")
        check(recoveries(run)[0]["committed_steps_redone"] == 0, f"steps were redone: {recoveries(run)}")
        exchanges = [stage["exchange"] for stage in events(run, "stage")]
        check(exchanges[0] == "GPUs of hosts" and exchanges[-2:] == ["GPUs of hosts"] * 2, f"exchanges of the stages: {exchanges}")


def nccl_cut(site):
    loses_gpus_by_nccl(site, "nccl-cut", site.network.cut)


def nccl_stopped(site):
    loses_gpus_by_nccl(site, "nccl-stopped", lambda host: site.network.signal(host, signal.SIGSTOP))


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


def led_by_another(site, name, *more):
    """The coordinator's host is killed: the other host goes on alone, on its GPU."""
    with on_gpus(site):
        run = site.folder / name
        agent = site.agent(1, run)
        job = train(site, run, "cuda:0,h1/cuda:0", LONG, *more)
        wait_for(lambda: steps_of(run) > AHEAD, "no steps", job)
        before = last_step(run)
        site.network.signal(0, signal.SIGKILL)
        job.wait()
        wait_for(lambda: events(run, "takeover"), "nobody went on", agent)
        goes_on(run, agent)
        ends(site, run, agent)
        takeover = events(run, "takeover")
        check(len(takeover) == 1 and takeover[0]["saved"] and takeover[0]["step"] >= before, f"steps were redone: {before}, {takeover}")


def gpus_led_by_another(site):
    led_by_another(site, "gpus-led")


def nccl_led_by_another(site):
    led_by_another(site, "nccl-led", *IN_CLEAR)


GPU_CASES = [gpus, gpus_by_nccl, gpus_and_cpus, noise_of_gpus]
GPU_CASES_AT_LENGTH = [gpus_cut, gpus_stopped, gpus_led_by_another, nccl_at_d2, nccl_cut, nccl_stopped, nccl_led_by_another]
