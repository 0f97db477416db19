"""The first state: a host program, four drivers that were compiled elsewhere, and the report of a crash in them.

The drivers are compiled here, from sources that stay here. Their bytes depend on the
compiler, what is expected doesn't.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path

from laying import Site

DATE = 1_774_000_000
FLAGS = ("-g", "-gz=none", "-O0", "-fPIC", "-shared", "-Wl,--build-id=sha1", "-frandom-seed=meterd", "-fno-inline")

RELEASE = """\
# Releases of meterd

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits. Paths are relative to the top directory.

## Modules
A release has five modules: `host`, which `make` builds as `build/host`, and the drivers `drivers/*.so`. Every module
has a build id (`readelf -n` shows it), which stripping doesn't change. `symbols/modules.csv`: `module,build_id`, for
each module its file name and its build id in hexadecimal digits, sorted by name.

## Symbol archive
`symbols/.build-id/AB/REST.debug` is the symbol file of the module with the build id `ABREST`: its symbols and its
debug information, as `objcopy --only-keep-debug` makes it. This is the layout that debuggers look for.

## Release
`make dist` strips the modules and copies them into `dist/`. What goes out has neither symbols nor debug information.

## Crashes
A report has a line `#N BUILDID+0xADDRESS` for each frame, the innermost first. Addresses are those of the module's
own file. In frame 0 it is the instruction that crashed. In all others it is the one to which the call was going to
return, so the call itself is what lies right before it; that is where the frame is.

`python3 tools/resolve.py REPORT [SYMBOLS]` prints for each frame of a report a line `#N function file:line`, with the
file name alone, as the archive (`symbols` if none is named) has it. `crash/resolved.txt` is what it prints for
`crash/report.txt`.

## Sizes
`sizes.json`, an object: `modules_sha256` (of `symbols/modules.csv`), and `modules`, an object that has for each
module an object with `released` and `symbols`: how many bytes the file in `dist`, and the symbol file, have.

## Manifest
`manifest.json`, an object: `files` (the digest of each file in `dist`, by its name), `sizes_sha256` (of
`sizes.json`), `crash_sha256` (of `crash/resolved.txt`).
"""

MAKEFILE = """\
CFLAGS = -g -Wall
DRIVERS = $(wildcard drivers/*.so)

build/host: src/host.c
	mkdir -p build
	$(CC) $(CFLAGS) -Wl,--build-id=sha1 -o $@ $< -ldl

dist: build/host
	mkdir -p dist
	strip build/host $(DRIVERS)
	cp build/host $(DRIVERS) dist/

test:
	python3 -m unittest discover -s tests

.PHONY: dist test
"""

HOST = """\
#include <dlfcn.h>
#include <stdio.h>

static void *host_open(const char *path)
{
    void *driver = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!driver)
        fprintf(stderr, "%s\\n", dlerror());
    return driver;
}

int main(int count, char **words)
{
    int failed = 0;
    for (int number = 1; number < count; number++)
        failed += !host_open(words[number]);
    return failed != 0;
}
"""

RESOLVE = '''\
"""Resolves the frames of a crash, see docs/release.md: resolve.py REPORT [SYMBOLS]"""

import pathlib
import re
import subprocess
import sys


def symbol_file(build_id, symbols):
    path = symbols / (build_id + ".debug")
    if not path.exists():
        raise SystemExit(f"no symbols of {build_id}")
    return path


def resolved(report, symbols):
    """A line for each frame."""
    for number, build_id, address in re.findall(r"(?m)^#(\\d+) ([0-9a-f]+)[+](0x[0-9a-f]+)$", report):
        file = symbol_file(build_id, symbols)
        words = ["addr2line", "-f", "-s", "-e", str(file), address]
        function, place = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        yield f"#{number} {function} {place.split(' ')[0]}"


if __name__ == "__main__":
    where = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "symbols")
    for line in resolved(pathlib.Path(sys.argv[1]).read_text(), where):
        print(line)
'''

TESTS = """\
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parent.parent / "tools/resolve.py"
SOURCE = "int second(int x) { return x + 1; }\\n\\nint main(void)\\n{\\n    return second(4);\\n}\\n"


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


class ResolveTest(unittest.TestCase):
    def test_an_instruction_and_a_call(self):
        with tempfile.TemporaryDirectory() as place:
            top = pathlib.Path(place)
            (top / "small.c").write_text(SOURCE)
            run("gcc", "-g", "-O0", "-Wl,--build-id=sha1", "-o", str(top / "small"), str(top / "small.c"))
            build_id = re.search(r"Build ID: (\\w+)", run("readelf", "-n", str(top / "small")))[1]
            target = top / f"symbols/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
            target.parent.mkdir(parents=True)
            run("objcopy", "--only-keep-debug", str(top / "small"), str(target))
            begin, size = re.search(r"(\\w+) (\\w+) T second", run("nm", "-S", str(top / "small"))).groups()
            begin, end = int(begin, 16), int(begin, 16) + int(size, 16)
            (top / "report").write_text(f"#0 {build_id}+{begin:#x}\\n#1 {build_id}+{end:#x}\\n")
            said = subprocess.run([sys.executable, TOOL, str(top / "report"), str(top / "symbols")],
                                  capture_output=True, text=True)
        if said.returncode:
            raise RuntimeError(said.stderr)
        self.assertEqual(said.stdout, "#0 second small.c:1\\n#1 second small.c:1\\n")


if __name__ == "__main__":
    unittest.main()
"""

DRIVERS = {
    "flow": """\
static double flow_window[16];
static int flow_window_place;

static void flow_spill_guard(int place)
{
    flow_window[place & 15] = *(volatile double *)(long)place; /* frame 0 */
}

static void flow_shift_window(double pulse)
{
    flow_window_place++;
    flow_window[flow_window_place & 15] = pulse;
    flow_spill_guard(flow_window_place); /* frame 1 */
}

void flow_pulse(double pulse)
{
    if (pulse > 0)
        flow_shift_window(pulse); /* frame 2 */
}
""",
    "heat": """\
void flow_pulse(double pulse);

static double heat_last_kelvin = 273.15;

static void heat_blend_sensors(double supply, double backflow)
{
    heat_last_kelvin = (supply + backflow) / 2;
    flow_pulse(heat_last_kelvin); /* frame 3 */
}

static void heat_discard_outlier(double supply)
{
    double backflow = supply - 12;
    heat_blend_sensors(supply, backflow); /* frame 4 */
}

void heat_sample(double supply)
{
    heat_discard_outlier(supply); /* frame 5 */
}
""",
    "power": """\
void heat_sample(double supply);

static int power_phase_order;

static void power_rotate_phases(int phase)
{
    power_phase_order = (phase + 1) % 3;
    heat_sample(300 + power_phase_order); /* frame 6 */
}

void power_tick(int phase)
{
    int phase_before = power_phase_order;
    if (phase != phase_before)
        power_rotate_phases(phase); /* frame 7 */
}
""",
    "tariff": """\
void power_tick(int phase);

static int tariff_night_rate;

static void tariff_close_quarter(int minute)
{
    tariff_night_rate = minute < 360;
    power_tick(minute % 3); /* frame 8 */
}

void tariff_minute(int minute)
{
    if (minute % 15 == 0)
        tariff_close_quarter(minute); /* frame 9 */
}
""",
}


def said(*words: str, data: str = "", at: str = ".") -> str:
    """What a program prints."""
    return subprocess.run(words, input=data, cwd=at, capture_output=True, text=True, check=True).stdout


def compiled(name: str, place: str) -> Path:
    Path(place, f"{name}.c").write_text(DRIVERS[name])
    words = ("gcc", *FLAGS, f"-ffile-prefix-map={place}=/acme/drivers", "-o", f"{name}.so", f"{name}.c")
    said(*words, at=place)
    return Path(place, f"{name}.so")


def lines_of(module: Path) -> list[tuple[int, int]]:
    """The line of each address of the module's own functions, in order."""
    addresses = []
    for begin, size in re.findall(rf"(?m)^(\w+) (\w+) [tT] {module.stem}_", said("nm", "-n", "-S", str(module))):
        addresses += range(int(begin, 16), int(begin, 16) + int(size, 16))
    found = said("addr2line", "-e", str(module), data="".join(f"{address:#x}\n" for address in addresses)).splitlines()
    numbers = [int(text.rpartition(":")[2].split(" ")[0].replace("?", "0")) for text in found]
    return list(zip(addresses, numbers, strict=True))


def frames(module: Path) -> dict[int, int]:
    """Where the frames of the crash are that lie in a module: by their number."""
    found = {}
    for line, text in enumerate(DRIVERS[module.stem].splitlines(), 1):
        if mark := re.search(r"/[*] frame (\d+) [*]/", text):
            own = [address for address, number in lines_of(module) if number == line]
            found[int(mark[1])] = min(own) if mark[1] == "0" else max(own) + 1
    return found


def main() -> None:
    site = Site.of(DATE)
    crash = {}
    for name in DRIVERS:
        with tempfile.TemporaryDirectory() as place:
            module = compiled(name, os.path.realpath(place))
            build_id = re.findall(r"Build ID: (\w+)", said("readelf", "-n", str(module)))[0]
            crash.update({number: f"#{number} {build_id}+{where:#x}" for number, where in frames(module).items()})
            site.file(f"drivers/{name}.so", module.read_bytes(), mode=0o755)
    report = ["meterd 3.2-rc1, meter 40117, signal 11", *(crash[number] for number in sorted(crash))]
    site.file("crash/report.txt", "\n".join(report) + "\n")
    site.file("docs/release.md", RELEASE)
    site.file("Makefile", MAKEFILE)
    site.file("src/host.c", HOST)
    site.file("tools/resolve.py", RESOLVE)
    site.file("tests/test_resolve.py", TESTS)
    site.finish()


main()
