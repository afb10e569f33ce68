"""What depends on the speed of a busy machine may be tried again; bits never are. scripts/test counts the retries."""
import os
import re

# What a failed comparison of results names: in a check of doctest, and where `estrain verify` or a Python test says so.
RESULTS = re.compile(r"bits|digest|fingerprint|loss|weights|metric|evaluation|difference|differ|same|verify", re.IGNORECASE)
FAILED_CHECK = re.compile(r"^.*ERROR: (?:CHECK|REQUIRE)\w*\(.*$", re.MULTILINE)


def compares_results(output):
    """Whether a failed test failed in a comparison of results. Of doctest's output, the failed checks decide."""
    checks = FAILED_CHECK.findall(output)
    return bool(RESULTS.search("\n".join(checks) if checks else output))


def note_retry(what):
    """Reports a retry: a line on stdout, and a line in the file named by ESTRAIN_RETRIES."""
    print(f"tried again: {what}", flush=True)
    if "ESTRAIN_RETRIES" in os.environ:
        with open(os.environ["ESTRAIN_RETRIES"], "a") as file:
            file.write(what + "\n")
