"""The bare LibTorch loop (bare_loop.cpp), one or several side by side, asked for so many steps at a time.

`environment`: malloc's settings, those of the worker that it is measured against (EstrainJob.malloc_settings)."""

import os
import subprocess

ONE_THREAD = {"OMP_NUM_THREADS": "1"}


class BareLoops:
    def __init__(self, bench, case, count=1, accumulate=1, *, environment):
        self.micro_batches = accumulate
        command = [bench.build / "scripts/benchmarks/bare_loop", case.to_json(accumulate)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        pipes["env"] = os.environ | ONE_THREAD | environment
        self.loops = [subprocess.Popen(command, **pipes) for _ in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for loop in self.loops:
            loop.stdin.close()
            loop.stdout.close()
            loop.wait()

    def wait_until_ready(self):
        for loop in self.loops:
            if loop.stdout.readline() != "ready\n":
                raise RuntimeError("bare_loop did not start")

    def run(self, warm, steps):
        """Returns the seconds of the slowest loop for `steps` steps after `warm` others."""
        for loop in self.loops:
            loop.stdin.write(f"{warm} {steps}\n")
            loop.stdin.flush()
        return max(float(loop.stdout.readline()) for loop in self.loops)
