"""Runs what the README of an SDK shows of reading HdrHistogram, as it stands there: readme_test.py LANGUAGE [PYTHON or directory of .pc].

The program is the code block of the README that names HdrHistogram's reader. It gets a line of an interval log as its argument
and has to print how many samples are in it and the edges of their p99.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOG = HERE.parent / "vectors/hdrhistogram/jhiccup.hlog"
# The interval with the greatest value, 960.496 ms: what the Rust crate reads of it.
LINE, EXPECTED = 12, (1397, 0.94, 0.95)
READERS = "decode_hdr|DecodeHdr|HdrCodec|decodeHdr|from_hdr"


def program(language):
    blocks = re.findall(r"```\w+\n(.*?)```", (HERE / language / "README.md").read_text(), re.DOTALL)
    found = [block for block in blocks if re.search(READERS, block)]
    assert len(found) == 1, f"{language}/README.md shows {len(found)} programs that read HdrHistogram"
    return found[0]


def command(language, scratch, options):
    """The arguments that run the program, which is written where its language wants it."""
    name = {"c": "main.c", "go": "main.go", "java": "ReadHdr.java", "js": "main.mjs", "python": "main.py"}[language]
    # A module finds its own package by name from below its directory alone.
    source = (HERE / "js/dist" if language == "js" else scratch) / name
    source.write_text(program(language))
    if language == "c":
        environment = os.environ | {"PKG_CONFIG_PATH": options[0]}
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "ogive_hist"], env=environment, check=True, capture_output=True, text=True)
        built = scratch / "main"
        subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", source, "-o", built, *flags.stdout.split()], check=True)
        return ["env", f"LD_LIBRARY_PATH={options[0]}/..", built]
    return {
        "go": ["go", "run", source],
        "java": ["java", "-cp", HERE / "java/target/classes", source],
        "js": ["node", source],
        "python": [*options, source],
    }[language]


def main():
    language, *options = sys.argv[1:]
    text = LOG.read_text().splitlines()[LINE - 1].rsplit(",", 1)[1]
    with tempfile.TemporaryDirectory() as scratch:
        run = [*command(language, Path(scratch), options), text]
        printed = subprocess.run(run, cwd=HERE / language, check=True, capture_output=True, text=True).stdout
    shown = re.fullmatch(r"(\d+) samples, p99 between (\S+) and (\S+) s\n", printed)
    assert shown, f"{language}: printed {printed!r}"
    found = (int(shown[1]), float(shown[2]), float(shown[3]))
    assert found == EXPECTED, f"{language}: found {found}, expected {EXPECTED}"
    print(f"{language}/README.md: fine")


main()
