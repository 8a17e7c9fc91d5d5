"""ci/patch.py check|names, or NAME: the mutants of ci/mutants/patches.txt, each of which changes one place of a file of the
source. Checks that each place is there once; prints their names; or makes the change in this folder, and prints the file.

An entry is `NAME in FILE`, a line with the reason, and lines of the source: `- ` is replaced by `+ `, others are there
to find the place. Indentation and empty lines do not count, so an entry survives a move of the code.
"""

import pathlib
import sys

entries = {}
for entry in (pathlib.Path(__file__).parent / "mutants/patches.txt").read_text("utf-8").split("\n\n"):
    head, reason, *lines = entry.strip("\n").split("\n")
    name, file = head.split(" in ")
    if not reason.startswith("# ") or name in entries or any(line[:2] not in ("- ", "+ ", "  ") for line in lines):
        sys.exit(f"ci/mutants/patches.txt: {head} is no entry, or there twice")
    entries[name] = file, lines


def changed(name):
    """Returns the file of a mutant, and what is in it after the change."""
    file, lines = entries[name]
    source = pathlib.Path(file).read_text("utf-8").split("\n")
    there = [(number, line.strip()) for number, line in enumerate(source) if line.strip()]
    old = [line[2:].strip() for line in lines if line[0] != "+"]
    starts = [i for i in range(len(there)) if [text for _, text in there[i : i + len(old)]] == old]
    if len(starts) != 1:
        sys.exit(f"{file} has the place of the mutant {name} {len(starts)} times: {old}")
    first, last = there[starts[0]][0], there[starts[0] + len(old) - 1][0]
    return file, "\n".join(source[:first] + [line[2:] for line in lines if line[0] != "-"] + source[last + 1 :])


if sys.argv[1] == "names":
    print("\n".join(entries))
elif sys.argv[1] == "check":
    for name in entries:
        changed(name)
else:
    file, text = changed(sys.argv[1])
    pathlib.Path(file).write_text(text, "utf-8")
    print(file)
