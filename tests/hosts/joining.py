"""Cases of tests/hosts/run: agents that do not see the run directory join by the launcher's address.

In their mount namespace an empty file system that nobody can write to lies over the folder of all runs.
"""
import json
import os
import shutil
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path

from hosts_site import ENDLESS, LONG, check, ends_here, events, finish, last_step, reference, refused, steps_of, wait_for

PORT = 7100


class Apart:
    """A host's own folder, with a copy of the run's key."""

    def __init__(self, site, folder):
        self.site, self.folder = site, folder

    def take_key(self, run, job=None):
        wait_for(lambda: (run / "network.key").exists(), "no network key", job)
        shutil.copy(run / "network.key", self.key)
        self.key.chmod(0o600)

    @property
    def key(self):
        return self.folder / "key"

    def start(self, host, *arguments):
        script = f'mount -t tmpfs -o ro,size=4k none "{self.site.folder}" && export ESTRAIN_PROFILES="{self.folder}/profiles.json" && exec "$@"'
        log = self.site.folder / f"apart-{len(self.site.started)}"
        with open(log, "w") as output:
            process = self.site.network.start(host, ["unshare", "--mount", "sh", "-c", script, "sh", self.site.program, *arguments],
                                              stdout=output, stderr=output, env=os.environ | {"TMPDIR": str(self.folder)})
        process.log = str(log)
        self.site.started.append(process)
        return process

    def joins(self, host, *more, name=None, key=None):
        return self.start(host, "agent", "--join", f"{self.site.network.address(0)}:{PORT}", "--key-file", str(key or self.key),
                          "--name", name or f"h{host}", *more)


@contextmanager
def apart(site):
    folder = Path(tempfile.mkdtemp(prefix="estrain-apart-"))
    try:
        yield Apart(site, folder)
    finally:
        for process in site.started:  # of this case: none writes there any more
            if process.poll() is None and Path(process.log).name.startswith("apart-"):
                process.kill()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def listens(site):
    return ("--listen", f"{site.network.address(0)}:{PORT}")


def said(process):
    return Path(process.log).read_text()


def is_listed(run, host):
    path = run / "hosts" / f"h{host}.json"
    return path.exists() and json.loads(path.read_text()).get("sees_run") is False


def trains_on(run, job, event="resize"):
    wait_for(lambda: steps_of(run) > events(run, event)[-1]["step"] + 20, "no steps", job)


def joins_without_the_run_directory(site):
    """It joins, trains, is killed, comes back, outlives the coordinator, and registers with the one that resumes."""
    run = site.folder / "apart"
    with apart(site) as other:
        job = site.train(run, "cpu", ENDLESS, *listens(site))
        other.take_key(run, job)
        agent = other.joins(1, "--run", str(other.folder / "logs"))
        wait_for(lambda: is_listed(run, 1), "the agent is not listed", agent)
        site.resize(run, "cpu,h1/cpu*2")
        trains_on(run, job)
        check(list((other.folder / "logs").glob("worker-*.log")), f"no logs of its workers: {list(other.folder.rglob('*'))}")
        done = site.network.run(0, [site.program, "check", site.spec(10), "--run", str(run), "--hosts", "h1", "--json"])
        found = {each["check"]: each for each in json.loads(done.stdout)["checks"]}
        check("no other host sees the run directory" in found["takeover"]["seen"] and found["host h1"]["outcome"] == "ok", f"{found}")
        twin = other.joins(2, name="h1")
        finish(twin, 2)
        check("has the name h1" in said(twin), said(twin))
        site.network.signal(1, signal.SIGKILL)
        wait_for(lambda: events(run, "recovered"), "no step after the loss", job)
        check(events(run, "recovered")[0]["committed_steps_redone"] == 0, "steps were redone")
        wait_for(lambda: not is_listed(run, 1), "the agent is still listed", job)
        agent = other.joins(1)
        wait_for(lambda: is_listed(run, 1), "the agent is not listed", agent)
        site.resize(run, "cpu,h1/cpu*2")
        trains_on(run, job)
        joined = len(events(run, "agent_joined"))
        before = last_step(run)
        site.network.signal(0, signal.SIGKILL)
        wait_for(lambda: "does not lead after" in said(agent), "it did not wait", agent)
        check(agent.poll() is None and not events(run, "takeover"), f"it did not wait: {said(agent)}")
        job = site.start(0, "train", "--resume", "--run", str(run), "--devices", "cpu", *listens(site))
        wait_for(lambda: len(events(run, "agent_joined")) > joined, "it did not come again", job)
        site.resize(run, "cpu,h1/cpu*2")
        check(events(run, "resize")[-1]["step"] > 0 and before > 0, "no steps before")
        trains_on(run, job)
        ends_here(site, run, job, agent)
        check(not list(other.folder.glob("estrain-agent-*")), "its own folder is left behind")


def follows_a_coordinator_that_sees_the_run_directory(site):
    """`--hosts` waits for one that joins and one that sees the run directory. The latter takes over, and the former follows it."""
    run = site.folder / "apart-led"
    with apart(site) as other:
        job = site.start(0, "train", site.spec(ENDLESS), "--run", str(run), "--hosts", "h1,h2", "--name", "h0", "--devices", "cpu,h1/cpu,h2/cpu",
                         *listens(site))
        other.take_key(run, job)
        joined = other.joins(1)
        wait_for(lambda: is_listed(run, 1), "the first agent is not listed", joined)
        check(job.poll() is None and not events(run, "start"), "the job did not wait")
        agent = site.agent(2, run)
        wait_for(lambda: steps_of(run) > 60, "no steps", job)
        before = last_step(run)
        site.network.signal(0, signal.SIGKILL)
        wait_for(lambda: events(run, "takeover"), "nobody went on", agent)
        takeover = events(run, "takeover")[0]
        check(takeover["host"] == "h2" and "h1/cpu" in takeover["devices"] and takeover["step"] >= before, f"{before}: {takeover}")
        trains_on(run, agent, "takeover")
        check("follows the next coordinator" in said(joined), said(joined))
        ends_here(site, run, agent, joined)


def comes_back_after_a_cut(site):
    """Both hosts go on: the launcher's alone, though neither of the others is heard, since neither could lead."""
    run = site.folder / "apart-cut"
    with apart(site) as other:
        job = site.train(run, "cpu", ENDLESS, *listens(site))
        other.take_key(run, job)
        agents = [other.joins(host) for host in (1, 2)]
        wait_for(lambda: is_listed(run, 1) and is_listed(run, 2), "the agents are not listed", job)
        site.resize(run, "cpu,h1/cpu,h2/cpu")
        trains_on(run, job)
        joined = len(events(run, "agent_joined"))
        site.network.cut(0)
        wait_for(lambda: events(run, "recovered"), "no step after the loss", job)
        check(events(run, "recovered")[0]["committed_steps_redone"] == 0, "steps were redone")
        wait_for(lambda: "the coordinator is lost" in said(agents[0]), "the loss was not noticed")
        site.network.mend(0)
        wait_for(lambda: len(events(run, "agent_joined")) >= joined + 2, "they did not come again", job)
        site.resize(run, "cpu,h1/cpu,h2/cpu")
        trains_on(run, job)
        ends_here(site, run, job, *agents)


def link_local(site, host):
    """The host's address of its link, once it may be used: "fe80::1%eth0"."""
    def address():
        lines = site.network.run(host, ["ip", "-6", "-json", "address", "show", "dev", "eth0", "scope", "link"]).stdout
        found = [each for link in json.loads(lines or "[]") for each in link.get("addr_info", []) if not each.get("tentative")]
        return found and found[0]["local"] + "%eth0"
    wait_for(address, "no link-local address")
    return address()


def joins_over_one_link(site):
    """By link-local IPv6 addresses alone: they hold with the interface behind them."""
    run = site.folder / "apart-link"
    with apart(site) as other:
        at = f"[{link_local(site, 0)}]:{PORT}"
        own = link_local(site, 1)
        job = site.train(run, "cpu", LONG, "--listen", at)
        other.take_key(run, job)
        agent = other.start(1, "agent", "--join", at, "--key-file", str(other.key), "--name", "h1")
        wait_for(lambda: is_listed(run, 1), "the agent is not listed", agent)
        check(json.loads((run / "hosts" / "h1.json").read_text())["address"].startswith(f"[{own}]:"), "another address")
        site.resize(run, "cpu,h1/cpu*2")
        trains_on(run, job)
        finish(job)
        finish(agent)
        site.same(run, reference(site, LONG))


def joins_nowhere(site):
    """What cannot be done is said, with the exit code of its kind; strangers at the launcher's address disturb nobody."""
    run = site.folder / "apart-nowhere"
    with apart(site) as other:
        (other.folder / "other").write_bytes(os.urandom(32))
        (other.folder / "other").chmod(0o600)
        lonely = other.joins(1, "--patience", "1", key=other.folder / "other")
        job = site.start(0, "train", site.spec(10), "--run", str(run), "--devices", "cpu", "--listen", "10.77.9.9:7100")
        for process, code, words in ((lonely, 1, "cannot join at"), (job, 1, "cannot listen on 10.77.9.9:7100")):
            finish(process, code)
            check(words in said(process), said(process))
        job = site.train(run, "cpu", LONG, *listens(site))
        other.take_key(run, job)
        wait_for(lambda: steps_of(run) > 20, "no steps", job)
        for name, key, code, words in (("h1", "other", 1, "the run's key"), ("h1", "none", 1, "cannot read the network key"),
                                       ("../x", "key", 2, "no host's name")):
            process = other.joins(1, "--patience", "60", name=name, key=other.folder / key)
            finish(process, code)
            check(words in said(process), f"{words}: {said(process)}")
        other.key.chmod(0o644)
        process = other.joins(1)
        finish(process, 2)
        check("no other user may read it" in said(process), said(process))
        process = other.start(1, "agent", "--join", "10.77.0.1:7100")
        finish(process, 2)
        noise = "import socket,os; s=socket.create_connection(('10.77.0.1',%d)); s.sendall(os.urandom(4096)); s.close()" % PORT
        for _ in range(3):
            site.network.run(2, ["python3", "-c", noise])
        finish(job)
        check(refused(run) >= 4 and not events(run, "fault"), "strangers were not told of")
        site.same(run, reference(site, LONG))


def told_of_an_end_before_the_first_step(site):
    """The launcher's worker finds an error of the user: the agent ends with the job, long before its patience does."""
    run = site.folder / "apart-error"
    with apart(site) as other:
        job = site.start(0, "train", site.spec(10), "--run", str(run), "--hosts", "h1", "--name", "h0", "--devices", "cpu,h1/cpu",
                         "--set", 'optimizer.groups=[{match=["nothing"]}]', *listens(site))
        other.take_key(run, job)
        agent = other.joins(1, "--patience", "3600")
        finish(job, 2)
        check("matches no parameter" in said(job), said(job))
        finish(agent)
        check("the run is over" in said(agent), said(agent))


JOINING_CASES = [joins_without_the_run_directory, follows_a_coordinator_that_sees_the_run_directory, comes_back_after_a_cut,
                 joins_over_one_link, joins_nowhere, told_of_an_end_before_the_first_step]
