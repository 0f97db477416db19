"""The checks of symbol-archive."""

import re

from checking import App, field, need, same

SOURCE = """\
static volatile int total;

static void last_resort(int code)
{
    total += code;
    total *= 2;
}

int between(void)
{
    last_resort(3);
    return total;
}

int main(void)
{
    return between();
}
"""
DRIVERS = ("flow.so", "heat.so", "power.so", "tariff.so")
MODULES = {"host": "build/host", **{name: f"drivers/{name}" for name in DRIVERS}}


def printed(app: App, *words: str) -> str:
    done = app.run(*words)
    need(done.code == 0, f"{' '.join(words)[:200]}: {done.err[-300:]}")
    return done.out


def build_id(app: App, path: str) -> str:
    app.data(path)
    found = re.findall(r"Build ID: (\w+)", printed(app, "readelf", "-n", path))
    need(len(found) == 1, f"{path} has {len(found)} build ids")
    return str(found[0])


def symbol_file(name: str) -> str:
    return f"symbols/.build-id/{name[:2]}/{name[2:]}.debug"


def p1_crashes_are_resolved(app: App) -> None:
    with app.scratch("tools") as copy:
        (copy.root / "unseen.c").write_text(SOURCE)
        same_everywhere = f"-ffile-prefix-map={copy.root}=."
        printed(copy, "gcc", "-g", "-O0", same_everywhere, "-Wl,--build-id=sha1", "-o", "unseen", "unseen.c")
        name = build_id(copy, "unseen")
        target = copy.root / "elsewhere" / symbol_file(name).removeprefix("symbols/")
        target.parent.mkdir(parents=True)
        printed(copy, "objcopy", "--only-keep-debug", "unseen", str(target))
        places = re.findall(r"(?m)^(\w+) (\w+) [tT] (\w+)$", printed(copy, "nm", "-S", "unseen"))
        begin = {function: int(address, 16) for address, _, function in places}
        end = {function: int(address, 16) + int(size, 16) for address, size, function in places}
        calls = (begin["last_resort"], end["last_resort"], end["between"], end["main"])
        report = "".join(f"#{number} {name}+{address:#x}\n" for number, address in enumerate(calls))
        (copy.root / "unseen.txt").write_text("unseen 1.0, signal 11\n" + report)
        done = copy.python("tools/resolve.py", "unseen.txt", "elsewhere")
        wanted = "#0 last_resort unseen.c:4\n#1 last_resort unseen.c:7\n#2 between unseen.c:13\n#3 main unseen.c:18\n"
        same(done.out, wanted, f"what a crash is resolved to ({done.err[-300:]})")


def p2_the_modules_are_listed(app: App) -> None:
    found = app.rows("symbols/modules.csv", ("module", "build_id"))
    same(
        found, [{"module": name, "build_id": build_id(app, path)} for name, path in sorted(MODULES.items())], "the list"
    )


def p3_their_symbols_are_kept(app: App) -> None:
    for name, path in MODULES.items():
        kept = symbol_file(build_id(app, path))
        same(build_id(app, kept), build_id(app, path), f"the build id of the symbols of {name}")
        sections = re.findall(r"\.debug_(?:info|line)\b", printed(app, "readelf", "-S", "-W", kept))
        same(sorted(set(sections)), [".debug_info", ".debug_line"], f"the debug information of {name}")
        functions = set(re.findall(r" [tT] (\w+)", printed(app, "nm", kept)))
        same(sorted(set(app.expected["functions"][name]) - functions), [], f"the functions of {name} that are missing")


def p4_the_release_is_stripped(app: App) -> None:
    same(app.names("dist"), sorted(MODULES), "the released files")
    for name, path in MODULES.items():
        released = f"dist/{name}"
        same(build_id(app, released), build_id(app, path), f"the build id of {name}")
        sections = re.findall(r"\.(?:debug_\w+|symtab)\b", printed(app, "readelf", "-S", "-W", released))
        same(sections, [], f"what {name} should not have")


def p5_the_crash_is_resolved(app: App) -> None:
    same(app.text("crash/resolved.txt").splitlines(), app.expected["frames"], "the frames of the crash")


def p6_the_sizes_are_right(app: App) -> None:
    sizes = app.json("sizes.json")
    same(field(sizes, "modules_sha256", str), app.digest("symbols/modules.csv"), "modules_sha256")
    wanted = {
        name: {
            "released": len(app.data(f"dist/{name}")),
            "symbols": len(app.data(symbol_file(build_id(app, path)))),
        }
        for name, path in MODULES.items()
    }
    same(field(sizes, "modules", dict), wanted, "the sizes")


def p7_the_manifest_agrees(app: App) -> None:
    manifest = app.json("manifest.json")
    same(field(manifest, "files", dict), {name: app.digest(f"dist/{name}") for name in MODULES}, "files")
    same(field(manifest, "sizes_sha256", str), app.digest("sizes.json"), "sizes_sha256")
    same(field(manifest, "crash_sha256", str), app.digest("crash/resolved.txt"), "crash_sha256")
