"""Cases of tests/hosts/run about what stands around an agent: its run directory, its name, its name server, strangers."""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from hosts_site import ENDLESS, HEAVY, HEAVY_STEPS, LONG, busy, check, ends_here, events, finish, heavy_reference, reference, refused, steps_of, stop_here, wait_for
from joining import apart, is_listed, listens, said, trains_on


def processes_with(site, host, word):
    """Processes of a host that were started as `estrain WORD`."""
    found = []
    for pid in site.network.processes(host):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if len(words) > 1 and words[1] == word.encode():
            found.append(pid)
    return found


def hosts_files_of(site, host, **files):
    """Words that start a command with other files in /etc: resolv_conf="…" and the like."""
    script = ""
    for name, text in files.items():
        path = site.folder / f"etc-{name}-{host}-{len(site.started)}"
        path.write_text(text)
        script += f'mount --bind "{path}" /etc/{name.replace("_", ".")} && '
    return ["unshare", "--mount", "sh", "-c", script + 'exec "$@"', "sh"]


def start_with_files(site, host, arguments, **files):
    log = site.folder / f"named-{len(site.started)}"
    with open(log, "w") as output:
        process = site.network.start(host, [*hosts_files_of(site, host, **files), site.program, *arguments], stdout=output, stderr=output)
    process.log = str(log)
    site.started.append(process)
    return process


def courier_killed_while_a_host_warms_up(site):
    """The run ends, and so does the agent that it had asked for a worker: it is not left behind with its fork server."""
    run = site.folder / "warming"
    agent = site.agent(1, run)
    job = site.train(run, "cpu,h1/cpu", LONG, "--set", "recovery.retries=0")
    wait_for(lambda: processes_with(site, 1, "fork-server"), "no fork server", job)
    wait_for(lambda: processes_with(site, 0, "courier"), "no courier", job)
    os.kill(processes_with(site, 0, "courier")[0], signal.SIGKILL)
    finish(job, 1)
    ended = time.monotonic()
    wait_for(lambda: agent.poll() is not None, "the agent never ends")
    took = time.monotonic() - ended
    check(agent.returncode in (0, 75), f"{agent.returncode}: {said(agent)}")  # 75: the courier had reached it
    check(took < 10 + 10 * busy(), f"the agent ended {took:.0f} s after the job")
    wait_for(lambda: not site.network.processes(1), "its fork server is left behind")


def relay_killed(site):
    """All workers on other hosts are lost with the relay; others are started by another relay, and the job goes on."""
    run = site.folder / "relayed"
    agents = [site.agent(host, run) for host in (1, 2)]
    job = site.train(run, "cpu,h1/cpu,h2/cpu", ENDLESS)
    wait_for(lambda: steps_of(run) > 20, "no steps", job)
    relays = processes_with(site, 0, "relay")
    check(len(relays) == 1, f"{len(relays)} relays for two workers")
    os.kill(relays[0], signal.SIGKILL)
    wait_for(lambda: events(run, "recovered"), "no recovery", job)
    check(len(events(run, "fault")) == 2, f"{events(run, 'fault')}")
    check({event["cause"] for event in events(run, "fault")} == {"killed"}, f"{events(run, 'fault')}")
    trains_on(run, job, "recovered")
    check(processes_with(site, 0, "relay") not in ([], relays), "no other relay")
    ends_here(site, run, job, *agents)


def relay_stopped(site):
    """A relay that was stopped by a signal is killed, and its workers are replaced: a job and its changes never wait for it."""
    run = site.folder / "stopped-relay"
    agent = site.agent(1, run)
    job = site.train(run, "cpu,h1/cpu", ENDLESS)
    wait_for(lambda: steps_of(run) > 20, "no steps", job)
    relay = processes_with(site, 0, "relay")[0]
    os.kill(relay, signal.SIGSTOP)
    wait_for(lambda: events(run, "recovered"), "no recovery", job)
    check(relay not in processes_with(site, 0, "relay"), "the stopped relay is still there")
    trains_on(run, job, "recovered")
    ends_here(site, run, job, agent)


def cut_off_while_it_waits(site):
    """An agent that only waits for work ends with 75 when it has heard nothing of the coordinator for as long as --patience says."""
    run = site.folder / "waits"
    agent = site.start(1, "agent", "--run", str(run), "--name", "h1", "--address", site.network.address(1), "--patience", "2")
    wait_for(lambda: (run / "hosts" / "h1.json").exists(), "no agent", agent)
    job = site.train(run, "cpu", ENDLESS)
    wait_for(lambda: json.loads(site.run_apart(1, run, "status", str(run), "--json").stdout or "{}").get("state") == "training", "the coordinator does not come", job)
    site.network.cut(1)
    finish(agent, 75)
    check("no coordinator came back" in said(agent), said(agent))
    site.network.mend(1)
    stop_here(site, run, job)


def run_directory_unmounted(site):
    """A host that does not see the run directory any more is set aside when a worker is to start there; the job continues."""
    run = site.folder / "unmounted"
    (run / "hosts").mkdir(parents=True)
    agent = site.network.start(1, ["unshare", "--mount", site.program, "agent", "--run", str(run), "--name", "h1", "--address", site.network.address(1)],
                               stdout=open(site.folder / "unmounted-agent", "w"), stderr=subprocess.STDOUT)
    agent.log = str(site.folder / "unmounted-agent")
    site.started.append(agent)
    wait_for(lambda: (run / "hosts" / "h1.json").exists(), "no agent", agent)
    job = site.train(run, "cpu,h1/cpu*2", LONG)
    wait_for(lambda: steps_of(run) > 30, "no steps", job)
    hidden = subprocess.run(["nsenter", "-t", str(agent.pid), "-m", "mount", "-t", "tmpfs", "-o", "ro,size=4k", "none", str(site.folder)])
    check(hidden.returncode == 0, "cannot hide the run directory")
    os.kill(processes_with(site, 1, "worker")[0], signal.SIGKILL)
    finish(job)
    causes = {event["cause"] for event in events(run, "device_lost")}
    check(causes == {"host_lost"}, f"causes: {causes}")
    check(events(run, "recovered")[-1]["devices"] == "cpu", f"{events(run, 'recovered')}")
    site.same(run, reference(site, LONG))
    finish(agent, 1)
    check("does not see the run directory" in said(agent), said(agent))


def lost_before_its_first_step(site):
    """A host is lost between the change of the workers and its first step: `resize` does not say that the job has it."""

    run = site.folder / "lost-first"
    site.agent(1, run)
    job = site.train(run, "cpu*2", HEAVY_STEPS, *HEAVY)
    wait_for(lambda: steps_of(run) > 2, "no steps", job)
    before = site.network.bytes_to(1)
    resize = site.network.start(0, [site.program, "resize", str(run), "--devices", "cpu*2,h1/cpu"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: site.network.bytes_to(1) > before + (15 << 20), "no state on its way", job)
    site.network.signal(1, signal.SIGKILL)
    out, err = resize.communicate(timeout=60)
    finish(job)
    check(resize.returncode == 1 and "h1/cpu was lost before its first step" in err, f"{resize.returncode}: {out}{err}")
    check(events(run, "resize_failed") and not events(run, "resize"), "it is told as done")
    site.same(run, heavy_reference(site))


def second_agent_of_a_name(site):
    """It is refused, and the first one stays in the run directory; a file that nobody stands behind is in nobody's way."""
    run = site.folder / "twins"
    first = site.agent(1, run)
    file = run / "hosts" / "h1.json"
    before = file.read_text()
    twin = site.start(2, "agent", "--run", str(run), "--name", "h1", "--address", site.network.address(2))
    finish(twin, 2)
    check("has the name h1" in said(twin) and "--name" in said(twin), said(twin))
    check(file.read_text() == before, f"{before} became {file.read_text()}")
    site.network.signal(1, signal.SIGKILL)
    first.wait()
    again = site.start(2, "agent", "--run", str(run), "--name", "h1", "--address", site.network.address(2))
    wait_for(lambda: site.network.address(2) in file.read_text(), "the file of one that is gone is in the way", again)
    again.terminate()
    finish(again)
    check(not file.exists(), "the file is left behind")
    both = [site.start(host, "agent", "--run", str(run), "--name", "h9", "--address", site.network.address(host)) for host in (2, 3)]
    wait_for(lambda: any(one.poll() is not None for one in both), "two agents that start at once have one name")
    both.sort(key=lambda one: one.poll() is None)
    finish(both[0], 2)
    check("has the name h9" in said(both[0]) and both[1].poll() is None, said(both[0]))
    check(json.loads((run / "hosts" / "h9.json").read_text())["address"] in said(both[1]), "the file is not that of the one that lives")
    both[1].terminate()
    finish(both[1])


def sockets_stay_with_the_agent(site):
    """No process that an agent or a courier has started holds one of its connections."""
    run = site.folder / "sockets"
    agent = site.agent(1, run)
    job = site.train(run, "cpu,h1/cpu", ENDLESS)
    wait_for(lambda: steps_of(run) > 20, "no steps", job)
    inodes = lambda pid: {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir() if os.readlink(fd).startswith("socket:")}
    tcp = {f"socket:[{line.split()[9]}]" for line in site.network.run(1, ["cat", "/proc/net/tcp"]).stdout.splitlines()[1:]}
    own = inodes(agent.pid) & tcp
    check(own, "the agent has no connection")
    for word in ("worker", "fork-server"):
        for pid in processes_with(site, 1, word):
            check(not inodes(pid) & tcp, f"{word} {pid} holds {inodes(pid) & tcp}")
    check(processes_with(site, 1, "worker"), "no worker")
    site.network.run(0, [site.program, "stop", str(run)])
    finish(job, 75)
    finish(agent)


def joins_by_name(site):
    """A name that does not resolve yet is looked up again, within --patience; a name server that is silent stops nothing."""
    run = site.folder / "named"
    with apart(site) as other:
        run.mkdir()
        (run / "network.key").write_bytes(os.urandom(32))
        (run / "network.key").chmod(0o600)
        other.take_key(run)
        names = site.folder / "names"
        names.write_text("127.0.0.1 localhost\n")
        join = ["agent", "--join", "launcher.example:7100", "--key-file", str(other.key), "--run", str(other.folder / "logs")]
        begin = time.monotonic()
        nobody = start_with_files(site, 2, [*join, "--name", "h2", "--patience", "3"], hosts="127.0.0.1 localhost\n", resolv_conf="")
        agent = site.network.start(1, ["unshare", "--mount", "sh", "-c", f'mount --bind "{names}" /etc/hosts && exec "$@"', "sh", site.program, *join,
                                       "--name", "h1", "--patience", "60"], stdout=open(site.folder / "named-agent", "w"), stderr=subprocess.STDOUT)
        agent.log = str(site.folder / "named-agent")
        site.started.append(agent)
        finish(nobody, 1)
        check(time.monotonic() - begin >= 3 and "launcher.example" in said(nobody), f"{time.monotonic() - begin:.1f} s: {said(nobody)}")
        job = site.train(run, "cpu", ENDLESS, *listens(site))
        names.write_text(f"127.0.0.1 localhost\n{site.network.address(0)} launcher.example\n")
        wait_for(lambda: is_listed(run, 1), "the agent is not listed", agent)
        site.resize(run, "cpu,h1/cpu")
        trains_on(run, job)
        ends_here(site, run, job, agent)
        for text in ("launcher.example", "launcher.example:", "launcher.example:99999"):
            wrong = start_with_files(site, 2, ["agent", "--join", text, "--key-file", str(other.key), "--name", "h2"])
            finish(wrong, 2)


def silent_name_server(site):
    """A host file with a name, and a name server that does not answer: the courier loses nobody, and looks no name up."""
    run = site.folder / "silent"
    agent = site.agent(1, run)
    job = start_with_files(site, 0, ["train", site.spec(LONG), "--run", str(run), "--devices", "cpu,h1/cpu"],
                           resolv_conf=f"nameserver {site.network.address(3)}\noptions timeout:20 attempts:1\n")
    wait_for(lambda: steps_of(run) > 20, "no steps", job)
    listener = site.network.start(3, [sys.executable, "-c", "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 53)); time.sleep(600)"])
    site.started.append(listener)
    listener.log = "/dev/null"
    (run / "hosts" / "h9.json").write_text(json.dumps({"address": "far.example:7000"}))
    finish(job)
    listener.kill()
    check(not events(run, "host_lost"), f"{events(run, 'host_lost')}")
    finish(agent)
    site.same(run, reference(site, LONG))


def strangers_hold_places(site):
    """One address holds as many connections as it can get: a resize to that host goes on as if nobody were there."""
    run = site.folder / "crowded"
    agent = site.agent(1, run)
    address, port = json.loads((run / "hosts" / "h1.json").read_text())["address"].split(":")
    hold = ("import socket, sys, time\nheld = []\n"
            "while True:\n"
            "    try:\n        s = socket.create_connection((%r, %s), 1); held.append(s)\n"
            "    except OSError: time.sleep(0.05)\n"
            "    if len(held) > 400: held.pop(0).close()\n"
            "    time.sleep(0.002)\n")
    crowd = site.network.start(2, [sys.executable, "-c", hold % (address, port)])
    crowd.log = "/dev/null"
    site.started.append(crowd)
    wait_for(lambda: events(run, "refused_connection"), "nobody came")
    job = site.train(run, "cpu", ENDLESS)
    wait_for(lambda: steps_of(run) > 20, "no steps", job)
    site.resize(run, "cpu,h1/cpu*2")
    trains_on(run, job)
    ends_here(site, run, job, agent)
    crowd.kill()
    lines = len(events(run, "refused_connection"))
    check(0 < lines <= 4 and refused(run) > 50, f"{lines} lines about {refused(run)} strangers")


SURROUNDINGS_CASES = [courier_killed_while_a_host_warms_up, relay_killed, relay_stopped, cut_off_while_it_waits, run_directory_unmounted, lost_before_its_first_step, second_agent_of_a_name,
                      sockets_stay_with_the_agent, joins_by_name, silent_name_server, strangers_hold_places]
