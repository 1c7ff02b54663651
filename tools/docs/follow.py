#!/usr/bin/python3
"""Follows docs/adding-a-function.md to the letter in a copy of the sources: writes its pieces into the files that stand beside them,
runs its commands, and fails where one fails.

tools/docs/follow.py FOLDER     the copy, which is kept: the next time it builds only what has changed
"""

import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/adding-a-function.md"

# A command that takes longer, in seconds, hangs.
LONGEST = 780


def put(path, content):
    """Writes a file if it differs, so that what did not change is not built again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def steps():
    """The pieces that are to be followed, in order: (line, language, file or `follow`, text)."""
    fence = re.compile(r"^```(\w+) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    text = PAGE.read_text(encoding="utf-8")
    for found in fence.finditer(text):
        language, where, piece = found.groups()
        if (language, where) != ("text", "said"):
            yield text.count("\n", 0, found.start()) + 2, language, where, piece


def patched(text, piece, place):
    """A text with the lines that a piece adds, behind those that it shows, which occur once."""
    lines = piece.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] in " -")
    after = "".join(line[1:] for line in lines if line[0] in " +")
    if text.count(before) != 1:
        sys.exit(f"{place}: these lines occur {text.count(before)} times in the file, and not once:\n{before}")
    return text.replace(before, after)


def copy(folder, touched):
    """Brings the copy up to date: all files of the sources but those that the page itself changes."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        source = ROOT / name
        if name not in touched and source.is_file():
            put(folder / name, source.read_bytes())
            (folder / name).chmod(source.stat().st_mode & 0o777)


def follow(folder):
    """Goes through the page; says what it does."""
    plan = list(steps())
    commands = [step for step in plan if step[1:3] == ("sh", "follow")]
    if len(plan) < 10 or len(commands) < 2:
        sys.exit(f"{PAGE}: only {len(plan)} pieces and {len(commands)} commands are marked to be followed")
    files = {where for _, language, where, _ in plan if language != "sh"}
    copy(folder, files)
    # Anew each time, as whoever follows the page has none of it.
    put(folder / "Cargo.lock", (ROOT / "Cargo.lock").read_bytes())
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in files if (ROOT / name).exists()}
    for line, language, where, piece in plan:
        place = f"{PAGE.relative_to(ROOT)}:{line}"
        if language == "diff":
            texts[where] = patched(texts[where], piece, place)
        elif language != "sh":
            texts[where] = texts[where] + "\n" + piece if where in texts else piece
    # What a command needs may stand behind it: all that is to be written is written first.
    for name, text in texts.items():
        put(folder / name, text.encode())
    for line, _, _, piece in commands:
        for command in piece.splitlines():
            print(f"{PAGE.relative_to(ROOT)}:{line}: {command}", flush=True)
            try:
                done = subprocess.run(shlex.split(command), cwd=folder, timeout=LONGEST, check=False)
            except subprocess.TimeoutExpired:
                sys.exit(f"{PAGE.relative_to(ROOT)}:{line}: {command} took longer than {LONGEST} s and was stopped")
            if done.returncode != 0:
                sys.exit(f"{PAGE.relative_to(ROOT)}:{line}: {command} ended with status {done.returncode}")
    print("the page can be followed")


if __name__ == "__main__":
    follow(pathlib.Path(sys.argv[1]).resolve())
