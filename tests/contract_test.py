#!/usr/bin/env python3
"""The ten principles of core/BITS.md: each names a test, and that test is there and is run."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEAD = "## The contract"
TEST = re.compile(r'^ +Test: `([^`]+)`, "([^"]+)"$', re.MULTILINE)


def principles(text):
    """[(number, its text)] of the section."""
    section = text.split(HEAD + "\n", 1)[1].split("\n## ", 1)[0]
    parts = re.split(r"^(\d+)\. ", section, flags=re.MULTILINE)[1:]
    return list(zip(map(int, parts[::2]), parts[1::2]))


def is_run(path):
    """Whether ctest runs the cases of the file: tests/cmd/CMakeLists.txt takes tests/cmd one file at a time, by its name."""
    return path.suffix == ".cpp" and (path.parent.name != "cmd" or path.stem.endswith("_test"))


def cases(path):
    """Names of its test cases that are not skipped everywhere; a name may be written in several pieces."""
    text = re.sub(r'"\s*\n\s*"', "", path.read_text())
    return re.findall(r'^TEST_CASE\(\s*"((?:[^"\\]|\\.)*)"(?! \* doctest::skip\(\))', text, re.MULTILINE)


def faults(text, root):
    found = principles(text)
    wrong = []
    if [number for number, _ in found] != list(range(1, 11)):
        wrong.append(f"the principles are numbered {[number for number, _ in found]}, not 1 to 10")
    for number, words in found:
        tests = TEST.findall(words)
        if not tests:
            wrong.append(f"principle {number} names no test")
        for file, case in tests:
            path = root / file
            if not path.is_file() or not is_run(path):
                wrong.append(f"principle {number}: {file} is no file of tests that ctest runs")
            elif case not in cases(path):
                wrong.append(f'principle {number}: {file} has no test case "{case}"')
    return wrong


def self_test(text):
    """Every way to be wrong is found."""
    first = TEST.search(text)
    plants = {
        "names no test": text.replace(first.group(0), "", 1),
        "has no test case": text.replace(first.group(2), first.group(2) + "!", 1),
        "is no file of tests": text.replace(first.group(1), "tests/cmd/job.cpp", 1),
        "not 1 to 10": text.replace("\n10. **", "\n11. **", 1),
    }
    return [f"a contract that {what} passes" for what, planted in plants.items()
            if not any(what in fault for fault in faults(planted, ROOT))]


def main():
    text = (ROOT / "core/BITS.md").read_text()
    wrong = faults(text, ROOT) or self_test(text)
    print("\n".join(wrong) or "contract: ten principles, and each has its test")
    return 1 if wrong else 0


sys.exit(main())
