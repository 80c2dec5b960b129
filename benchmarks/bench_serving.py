"""How many sentences a second does the service answer, and how soon? Beside the same model served without batches.

The set-up    on loopback, clients in this process that ask one sentence at a time and wait for the answer, for a few
              seconds each: 1, 8 and 64 of them. Everything shares this machine's processors, clients included.
Servers       attn serve, our engine and CTranslate2 (jobs/serve); the same model in CTranslate2 behind a plain FastAPI
              application, each request by itself; the same with one request at a time, as LibreTranslate has it.
Offline       the sentences in full batches, one process of one thread for each replica of the service: what the
              `translate` job does with as many actors.
The model     --model DIRECTORY, or the demo's in ./workspace (`attn run demo` makes it).

By hand   python benchmarks/bench_serving.py [--model DIRECTORY] [--seconds 6] [--replicas 1] [--ha-proxy]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from fastapi import FastAPI

from jobs.corpora.demo import language as demo_language
from jobs.translate.ctranslate2 import CTranslate2Translator
from transformer.translator import Translator

CLIENTS = (1, 8, 64)
WARM_UP_S = 1.5
ROOT = Path(__file__).resolve().parents[1]
PARTS = {"ray::ProxyActor": "proxy", "ray::ServeReplica:attn:api": "API", "ray::ServeReplica:attn:model": "model"}
HA_PROXY = {"RAY_SERVE_ENABLE_HA_PROXY": "1", "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1"}


class Load(NamedTuple):
    """What clients saw: sentences a second, and how long a sentence took; and what it cost."""

    clients: int
    rate: float
    median_ms: float
    p99_ms: float
    failed: int
    batch: float | None
    processor_ms: float  # of all processes of the server, for a sentence
    parts_ms: dict[str, float]  # the same by what the processes are


# --- the clients -------------------------------------------------------------------------------------------------


async def client(port: int, lines: Sequence[str], number: int, until: float, seen: list[tuple[float, bool]]) -> None:
    """Ask, wait for the answer, ask again, on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    place = number * 7
    while time.perf_counter() < until:
        body = json.dumps({"q": lines[place % len(lines)], "source": "en", "target": "de"}).encode()
        place += 1
        began = time.perf_counter()
        head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        writer.write(head.encode() + b"\r\n\r\n" + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = re.search(rb"content-length: (\d+)", answer)
        await reader.readexactly(int(length[1]) if length else 0)
        seen.append((time.perf_counter() - began, answer.startswith(b"http/1.1 200")))
    writer.close()


async def measure(port: int, pid: int, lines: Sequence[str], clients: int, seconds: float) -> Load:
    before, seen, began = [], [], 0.0
    used: Counter[str] = Counter()
    for duration in (WARM_UP_S, seconds):
        before, seen, began, used = batches(port), [], time.perf_counter(), processor_seconds(pid)
        until = began + duration
        await asyncio.gather(*(client(port, lines, number, until, seen) for number in range(clients)))
    whole = time.perf_counter() - began
    times = sorted(taken for taken, _ in seen)
    after, spent = batches(port), processor_seconds(pid)
    spent.subtract(used)
    batch = (after[0] - before[0]) / max(1.0, after[1] - before[1]) if after else None
    return Load(
        clients,
        len(times) / whole,
        1e3 * times[len(times) // 2],
        1e3 * times[int(0.99 * (len(times) - 1))],
        sum(not good for _, good in seen),
        batch,
        1e3 * spent.total() / len(times),
        {part: 1e3 * spent[part] / len(times) for part in PARTS.values() if part in spent},
    )


def processor_seconds(pid: int) -> Counter[str]:
    """What a process and all that it started have used, by part: on a machine with other work the fairest measure."""
    parents, used = {}, {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
            command = (entry / "cmdline").read_text()
            part = next((part for name, part in PARTS.items() if command.startswith(name)), "")
            used[int(entry.name)] = part, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    tree = {pid}
    while more := {child for child, parent in parents.items() if parent in tree} - tree:
        tree |= more
    seconds: Counter[str] = Counter()
    for each in tree & set(used):
        seconds[used[each][0]] += used[each][1]
    return seconds


def batches(port: int) -> list[float]:
    """Sum and count of the sentences of batches, where a server tells."""
    try:
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    except OSError:
        return []
    return [float(found) for found in re.findall(r"^attn_batch_sentences_(?:sum|count)\S* (\S+)$", text, re.MULTILINE)][
        ::-1
    ]


# --- the servers -------------------------------------------------------------------------------------------------


def plain_server(model: Path, port: int, one_at_a_time: bool) -> None:
    """The model in CTranslate2 behind FastAPI, as one would write it in an afternoon."""
    translator = CTranslate2Translator.load(model, threads=1)
    lock = threading.Lock() if one_at_a_time else contextlib.nullcontext()
    app = FastAPI()

    def translate(body: dict[str, Any]) -> dict[str, str]:
        with lock:
            return {"translatedText": translator.translate([body["q"]])[0].text}

    app.post("/translate")(translate)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


@contextlib.contextmanager
def serving(name: str, args: argparse.Namespace, port: int) -> Iterator[int]:
    """One of the servers, up and answering, in a process of its own: its number."""
    attn = [sys.executable, "-m", "pipelines.cli", "serve", f"model={args.model}", "--port", str(port), "--json"]
    attn += ["--replicas", str(args.replicas)]
    plain = [sys.executable, __file__, "--model", str(args.model), "--plain-port", str(port)]
    command = {
        "attn serve": attn,
        "attn serve, CTranslate2": [*attn, "--engine", "ctranslate2"],
        "CTranslate2 without batches": plain,
        "one request at a time": [*plain, "--one-at-a-time"],
    }[name]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | (HA_PROXY if args.ha_proxy else {})
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                body = json.dumps({"q": "a", "source": "en", "target": "de"}).encode()
                request = urllib.request.Request(
                    f"http://127.0.0.1:{port}/translate", body, {"Content-Type": "application/json"}
                )
                urllib.request.urlopen(request, timeout=30).read()
                break
            time.sleep(0.5)
        yield server.pid
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


def offline(model: Path, engine: str, lines: Sequence[str], batch: int, seconds: float) -> tuple[float, float]:
    """Sentences a second of one process of one thread in such batches, and milliseconds of the processor for each."""
    code = f"""
import json, sys, time, torch
from jobs.translate.ctranslate2 import CTranslate2Translator
from transformer.translator import Translator
torch.set_num_threads(1)
lines = json.load(sys.stdin)
engine = {{"torch": Translator.load, "ctranslate2": lambda model: CTranslate2Translator.load(model, threads=1)}}
translator = engine[{engine!r}]({str(model)!r})
translator.translate(lines[:64])
began, used, done = time.perf_counter(), time.process_time(), 0
while time.perf_counter() - began < {seconds}:
    at = done % len(lines)
    done += len(translator.translate(lines[at:at + {batch}]))
print(done / (time.perf_counter() - began), 1e3 * (time.process_time() - used) / done)
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(lines),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    rate, processor_ms = map(float, done.stdout.split())
    return rate, processor_ms


# --- the table ---------------------------------------------------------------------------------------------------


def demo_model() -> Path:
    found = sorted(Path("workspace/average").glob("*/record.json"))
    if not found:
        sys.exit("There is no model in ./workspace: `attn run demo` makes one, or name one with --model.")
    return found[-1].parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--ha-proxy", action="store_true", help="Ray Serve's HAProxy and throughput mode")
    parser.add_argument("--plain-port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--one-at-a-time", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.model = (args.model or demo_model()).resolve()
    if args.plain_port:
        plain_server(args.model, args.plain_port, args.one_at_a_time)
        return
    lines = [pair.source for pair in demo_language.pairs(1, "test", 0, 256)]
    translator = Translator.load(args.model)
    tokens = sum(found.tokens for found in translator.translate(lines)) / len(lines)
    print(
        f"{'server':<30}{'clients':>8}{'sentences/s':>13}{'p50 ms':>9}{'p99 ms':>9}{'batch':>7}{'CPU ms':>8}"
        f"{'failed':>8}"
    )
    found: dict[tuple[str, int], Load] = {}
    for name in ("attn serve", "attn serve, CTranslate2", "CTranslate2 without batches", "one request at a time"):
        port = free_port()
        with serving(name, args, port) as pid:
            for clients in CLIENTS:
                load = asyncio.run(measure(port, pid, lines, clients, args.seconds))
                found[name, clients] = load
                batch = f"{load.batch:.1f}" if load.batch else "1"
                print(
                    f"{name:<30}{clients:>8}{load.rate:>13.1f}{load.median_ms:>9.0f}{load.p99_ms:>9.0f}{batch:>7}"
                    f"{load.processor_ms:>8.1f}{load.failed:>8}",
                    flush=True,
                )
                if load.parts_ms:
                    parts = ", ".join(f"{part} {spent:.1f}" for part, spent in load.parts_ms.items())
                    print(f"{'':<38}of the CPU ms: {parts}", flush=True)
    rate = 0.0
    for engine, batch in (("torch", 256), ("torch", 26), ("torch", 1), ("ctranslate2", 256), ("ctranslate2", 1)):
        alone, processor_ms = offline(args.model, engine, lines, batch, args.seconds)
        rate = rate or args.replicas * alone
        print(f"{f'offline, {engine}':<38}{alone:>13.1f}{'':>18}{batch:>7}{processor_ms:>8.1f}", flush=True)
    print(f"offline, full batches: {rate * tokens:,.0f} target tokens/s on {args.replicas} threads")
    ours, plain = found["attn serve", 64].rate, found["CTranslate2 without batches", 64].rate
    print(f"\nat 64 clients, against CTranslate2 without batches: {ours / plain:.2f}")
    print(f"at 64 clients, against one request at a time: {ours / found['one request at a time', 64].rate:.2f}")
    print(f"at 64 clients, of offline on as many threads: {ours / rate:.2f}")
    alone = found["attn serve", 1].median_ms
    print(f"the processor's time at 64 clients, of offline: {found['attn serve', 64].processor_ms * rate / 1e3:.2f}")
    print(f"p99 at 8 clients over p50 of one alone: {found['attn serve', 8].p99_ms / alone:.1f}")


if __name__ == "__main__":
    main()
