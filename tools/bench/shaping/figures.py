#!/usr/bin/python3
"""Draws what two schedulers do to the same packets: Weir's, and DPDK's rte_sched.

    figures.py FOLDER [--weir PROGRAM] [--only 3.35] [--small]

The plots are those of figures 3.34 to 3.42 of a thesis on a broadband gateway with rte_sched (2014): how long packets of a
user take who keeps to its rate, or does not, and what comes between two packets of a user among 32,768. The packets are made by
`weir gen`, go through `weir run` and through rte-sched-replay.c, and what became of them is told by `weir flowstat`. All of
it is in simulated time, so that the same plots come on every machine.

It takes some minutes, 1 GB in the folder for temporary files, gcc, pkg-config and libdpdk-dev, and writes into FOLDER an SVG for each
figure and figures.html with all of them.
"""

import argparse
import html
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
USERS = 32768
BUFFERS = 131072
MBIT = 1_000_000
OVERHEAD = 24
# EAL without any device, and with memory of its own.
EAL = ["--no-pci", "--no-huge", "-m", "1024", "--no-shconf", "--no-telemetry", "--log-level=lib.eal:4"]


class World(NamedTuple):
    """What is sent: one user so many times its rate of 1 Mbit/s, and all users together so many packets per second."""

    times: int
    others: int
    period: int
    size: int
    seconds: float


class Figure(NamedTuple):
    """A figure: its number, what it shows, and the title of the plot in a report of flowstat."""

    number: str
    what: str
    world: World
    plot: str


def worlds(small):
    """All figures; in small ones there are fewer packets of others, so that tests take seconds."""
    single, many = (1, 0.2) if small else (4, 0.5)
    others = 1_000_000 if small else 8_000_000

    def one(times, period):
        return World(times, 0, period, 64, single)

    def among(times, size):
        return World(times, others, 40, size, many)

    return [
        Figure("3.34", "One user who sends 1 Mbit/s, TC period 240 ms: latency", one(1, 240), "Latency"),
        Figure("3.35", "One user who sends 2 Mbit/s, TC period 240 ms: latency", one(2, 240), "Latency"),
        Figure("3.36", "One user who sends 1 Mbit/s, TC period 40 ms: latency", one(1, 40), "Latency"),
        Figure("3.37", "One user who sends 2 Mbit/s, TC period 40 ms: latency", one(2, 40), "Latency"),
        Figure("3.38", "One of 32,768 users who send evenly: packets of others between two of its own", among(0, 64), "Gaps"),
        Figure("3.39", "The same around the highest peak", among(0, 64), "Gaps around the highest peak"),
        Figure("3.40", "The same user's packets over time", among(0, 64), "Arrival of packets"),
        Figure("3.41", "One user sends 2 Mbit/s among the others, TC period 40 ms: packets of others between two of its own", among(2, 64), "Gaps"),
        Figure("3.42", "The same with packets of 128 bytes", among(2, 128), "Gaps"),
    ]


def packets_per_second(world):
    """Packets of the one user per second."""
    return world.times * MBIT // (8 * (world.size - 4 + OVERHEAD))


def generator(world, sent):
    """The configuration that makes the packets."""
    layers = '{{ {{ ethernet = {{}} }}, {{ ipv4 = {{ destination = "{}" }} }}, {{ udp = {{}} }} }}'
    stream = '{{ port = "wire", size = "{}", rate = "{} pps", duration = "{:.0f} ms", signature = true, layers = {} }}'
    streams = []
    if world.others:
        everybody = layers.format("10.0.0.0-10.0.127.255")
        streams.append(stream.format(world.size, world.others, world.seconds * 1000, everybody))
    if world.times:
        streams.append(stream.format(world.size, packets_per_second(world), world.seconds * 1000, layers.format("10.0.0.9")))
    declared = "".join(f"  {stream},\n" for stream in streams)
    return (
        f'engine {{ clock = "virtual" }}\nport {{ name = "wire", device = "pcap:,{sent}" }}\n'
        f"gen {{ streams = {{\n{declared}}} }}\n"
    )


def shaper(world, sent, received):
    """The configuration of Weir that does what rte-sched-replay.c does."""
    return f"""engine {{ clock = "virtual" }}
port {{ name = "in",  device = "pcap:{sent},timing=clock" }}
port {{ name = "out", device = "pcap:,{received}" }}
qos {{
  from = "in", to = "out", user_by = "destination",
  users = {{ {{ prefix = "10.0.0.0/17", each = 32, profile = "user" }} }},
  scheduler = {{
    rate = "40 Gbit/s", users = {USERS + 1}, buffers = {BUFFERS},
    profiles = {{ user = {{
      tb_rate = "1 Mbit/s", tb_size = "1000000 B",
      classes = {{ {{}}, {{}}, {{}}, {{ tc_rate = "1 Mbit/s", tc_period = "{world.period} ms", queue_size = 64 }} }},
    }} }},
  }},
}}
"""


def run(words, **more):
    """Runs a program; whatever goes wrong ends this one."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(word) for word in words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def compiled(folder):
    """The program around rte_sched."""
    flags = run(["pkg-config", "--cflags", "--libs", "libdpdk"]).split()
    program = folder / "rte-sched-replay"
    run(["gcc", "-O3", "-w", HERE / "rte-sched-replay.c", *flags, "-o", program])
    return program


def plots(page):
    """The plots of the worst stream of a report: those behind the heading of the first one."""
    stream = re.split(r"<h2>dst ", page, maxsplit=1)[1]
    found = re.findall(r"<figcaption>([^<]*).*?(<svg.*?</svg>)", stream.split("<h2>")[0], re.S)
    if not found:
        found = [(title.strip(), svg) for svg, title in re.findall(r"(<svg.*?</svg>).*?<figcaption>([^<]*)", stream, re.S)]
    return {title.strip(): svg for title, svg in found}


def analysed(weir, sent, received, folder):
    """What flowstat says: its figures, and the plots of the user who lost most (the first one, if nobody did)."""
    words = [weir, "flowstat", sent, received, "--model", "signature", "--by", "dst", "--worst", "1", "--json"]
    report = json.loads(run([*words, "--report", folder]))
    return report, plots((folder / "flowstat.html").read_text(encoding="utf-8"))


def measured(weir, replay, world, folder):
    """What both do to the same packets: name, report and plots of each."""
    sent, ours, theirs = (folder / f"{name}.pcap" for name in ("sent", "weir", "rte-sched"))
    for name, text in (("gen", generator(world, sent)), ("run", shaper(world, sent, ours))):
        (folder / f"{name}.lua").write_text(text, encoding="utf-8")
    run([weir, "gen", folder / "gen.lua"])
    run([weir, "run", folder / "run.lua", "--until-drained", "--socket", folder / "weir.sock"])
    run([replay, *EAL, "--", sent, theirs, USERS, world.period, BUFFERS])
    both = [("Weir", ours), ("rte_sched", theirs)]
    found = [(name, *analysed(weir, sent, path, folder / name)) for name, path in both]
    for path in (sent, ours, theirs):
        path.unlink()
    return found


def side_by_side(figure, found):
    """One SVG of both plots, each under its name."""
    parts, left, height = [], 0, 0
    for name, _, drawn in found:
        svg = drawn.get(figure.plot)
        if svg is None:
            # Where all packets have the same value there is nothing to see from near.
            svg = '<svg width="640" height="300" viewBox="0 0 640 300"><text x="60" y="150" font-size="14" font-family="sans-serif">one value only</text></svg>'
        wide, high = (float(re.search(rf'{key}="([0-9.]+)', svg).group(1)) for key in ("width", "height"))
        parts.append(f'<text x="{left + 76}" y="18" font-size="15" font-family="sans-serif" font-weight="bold">{name}</text>')
        parts.append(svg.replace("<svg", f'<svg x="{left}" y="24"', 1))
        left, height = left + wide, max(height, high)
    whole = f"{left:.0f}", f"{height + 24:.0f}"
    return (
        f'<svg width="{whole[0]}" height="{whole[1]}" viewBox="0 0 {whole[0]} {whole[1]}" xmlns="http://www.w3.org/2000/svg">'
        f'<rect width="{whole[0]}" height="{whole[1]}" fill="white"/>' + "\n".join(parts) + "</svg>\n"
    )


def millis(nanos):
    """Nanoseconds as a text in milliseconds."""
    return "-" if nanos is None else f"{nanos / 1e6:.3f}"


def line(figure, name, report):
    """What flowstat says of the one user."""
    stream = report["streams"][0]
    latency, gaps = stream["latency_ns"] or {}, stream["gap_packets"] or {}
    loss = f"{100 * (stream['loss_ratio'] or 0):.1f} %"
    return [
        figure.number, name, str(stream["sent"]), loss, millis(latency.get("p50")), millis(latency.get("p99")), millis(latency.get("max")),
        str(gaps.get("p50", "-")), str(gaps.get("max", "-")),
    ]


HEAD = ["figure", "scheduler", "sent", "lost", "latency p50, ms", "p99, ms", "most, ms", "gap p50, packets", "most, packets"]


def kept(world, report):
    """Whether a scheduler did what it should: nothing is lost of who keeps to the rate, about half of who sends twice as much, and
    nobody else loses anything."""
    stream, total = report["streams"][0], report["total"]
    if world.times < 2:
        return total["lost"] == 0
    # What is in the queue and the buckets when all begins and ends counts little in seconds, and much in less.
    return total["lost"] == stream["lost"] and 0 < stream["loss_ratio"] < 0.56


def main():
    """Draws all figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="where the plots go")
    parser.add_argument("--weir", default="weir", help="the program; weir in PATH when absent")
    parser.add_argument("--only", action="append", help="the number of a figure; all when absent")
    parser.add_argument("--small", action="store_true", help="fewer packets, to see whether it works")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows, drawn, wrong, done = [], [], [], {}
    with tempfile.TemporaryDirectory(prefix="weir-figures-") as name:
        folder = Path(name)
        replay = compiled(folder)
        for figure in worlds(options.small):
            if options.only and figure.number not in options.only:
                continue
            if figure.world not in done:
                print(f"{figure.number}: {figure.what}", file=sys.stderr)
                done[figure.world] = measured(options.weir, replay, figure.world, folder)
            found = done[figure.world]
            svg = side_by_side(figure, found)
            (options.folder / f"figure-{figure.number}.svg").write_text(svg, encoding="utf-8")
            drawn.append((figure, svg))
            rows += [line(figure, who, report) for who, report, _ in found]
            wrong += [f"{figure.number}: {who}" for who, report, _ in found if not kept(figure.world, report)]
    write_page(options.folder / "figures.html", rows, drawn)
    widths = [max(len(row[n]) for row in [HEAD, *rows]) for n in range(len(HEAD))]
    for row in [HEAD, *rows]:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths)))
    if wrong:
        sys.exit(f"not as it should be: {', '.join(wrong)}")


def write_page(path, rows, drawn):
    """All plots on a page that needs nothing else."""
    cells = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>\n" for row in [HEAD, *rows])
    figures = "".join(f"<h2>{figure.number}: {html.escape(figure.what)}</h2>\n{svg}" for figure, svg in drawn)
    command = html.escape(" ".join(sys.argv))
    path.write_text(
        '<!doctype html><meta charset="utf-8"><title>Two schedulers</title><style>body{font-family:sans-serif;margin:2em}'
        "td{padding:0 1em;text-align:right}</style>\n<h1>Two schedulers, the same packets</h1>\n"
        f"<pre>{command}</pre><p>Left Weir, right DPDK's rte_sched, in simulated time.</p>\n{figures}<table>{cells}</table>\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    os.umask(0o022)
    main()
