#!/usr/bin/env python3
"""Writes C++ definitions of functions that are not simulated: missing.py OUT.cpp SIMULATED.so… -- USING.so…

Defines every function of CUDA's libraries that a USING library calls and no SIMULATED one has; each ends the process
with its name. (All are resolved when the libraries are loaded.) """

import re
import subprocess
import sys
from pathlib import Path

OF_CUDA = re.compile(r"(__)?(cuda|cublas|cudnn|cufft|curand|cusparse|cuFile|nccl|nvshmem)[A-Za-z0-9_]*$")


def names(libraries, *options):
    lines = subprocess.run(["nm", "-D", *options, *libraries], check=True, capture_output=True, text=True).stdout
    words = [line.split()[-1].split("@")[0] for line in lines.splitlines() if line and not line.endswith(":")]
    return {name for name in words if OF_CUDA.match(name)}


def main():
    out, *libraries = sys.argv[1:]
    border = libraries.index("--")
    missing = names(libraries[border + 1 :], "--undefined-only") - names(libraries[:border], "--defined-only")
    calls = "".join(f'void {name}() {{ fail("{name} is not simulated"); }}\n' for name in sorted(missing))
    Path(out).write_text(
        '#include "tests/simulated_gpu/machine.h"\n\n'
        f'using estrain::simulated::fail;\n\nextern "C" {{\n{calls}}}\n'
    )


main()
