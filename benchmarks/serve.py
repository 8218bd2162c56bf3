"""Load of jeanie serve: clients at 30 frames per second, delays, recognitions per second, memory, and killed workers.

    python benchmarks/serve.py --clients 10 20 40 --workers 2 --seconds 20 --kill-seconds 120

Each client streams a synthetic movement with rest, again and again, from a place of its own in this loop. The delay of
an event counts from the last frame that is fast to the arrival of the event; 0.65 s of it are the rest that ends a
movement and the time over which speeds are measured. Clients and service share the processors: client_cores is the
part of the clients. In the last part one worker is killed every ``--kill-every`` seconds under mixed load (streams,
recognitions and enrolments), and every enrolment that was acknowledged must be in the library afterwards.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

import httpx2
import psutil
import torch
import websockets

from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.recogniser.library.library import Library
from jeanie.recogniser.stream.stream import StreamConfig
from jeanie.serve.recordings import find_movement

RATE = 30
REST = 60  # frames between two movements
ENROL_SECONDS = 3  # between two enrolments of a client: a worker that starts encodes all of them again
ACTIONS = ("wave", "bow", "squat", "clap")


def make_frames(action: str, subject: int) -> tuple[list[dict], int]:
    """Return the frames of a movement with rest at both ends, and the number of the frame in which it ends.

    It ends in the last frame that is faster than the speed that starts a movement.
    """
    clips = open_synthetic(subjects=subject + 2, takes=1, actions=[action], noise=0.0, missing=0.0)
    motion = clips[clips.names.index(f"{action}_s{subject:02d}_t00_centre")]
    joints = torch.cat(
        [
            motion.joints[:1].expand(REST, -1, -1, -1),
            motion.joints,
            motion.joints[-1:].expand(REST, -1, -1, -1),
        ]
    )
    rows = [[[round(value, 4) for value in point] for point in pose[0]] for pose in joints.tolist()]
    config = StreamConfig()
    _, end = find_movement(motion.replace(joints=joints, valid=None), config)
    frames = [{"layout": motion.layout.name, "joints": row} for row in rows]
    return frames, end - round(config.margin * RATE)


def add_times(frames: list[dict]) -> list[dict]:
    """Return the frames with the time of each."""
    return [{"t": number / RATE, **frame} for number, frame in enumerate(frames)]


def start_service(library: Path, workers: int) -> tuple[subprocess.Popen, str]:
    """Start the service; return its process and address."""
    command = [
        sys.executable,
        "-m",
        "jeanie",
        "serve",
        "--library",
        str(library),
        "--port",
        "0",
        "--no-browser",
    ]
    process = subprocess.Popen(
        [*command, "--json", "--workers", str(workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return process, json.loads(process.stdout.readline())["url"]


def list_workers(process: subprocess.Popen) -> list[psutil.Process]:
    """Return the processes that serve."""
    parent = psutil.Process(process.pid)
    children = [child for child in parent.children() if "spawn_main" in " ".join(child.cmdline())]
    return [child for child in children if child.memory_info().rss > 2**28] or [parent]


async def stream(url: str, take: tuple[list[dict], int], end: float, results: dict[str, list[float]]) -> None:
    """Stream one movement after the other until a time; note delays of acknowledgements and events."""
    frames, last = take
    texts = [json.dumps(frame)[1:] for frame in frames]  # once: the time is put before each
    address = url.replace("http", "ws", 1) + "api/v1/stream"
    async with websockets.connect(address, max_queue=None, compression=None) as socket:
        sent: deque[float] = deque()  # times of the frames that are not acknowledged
        acknowledged = 0
        ends: dict[float, float] = {}  # of movements: time in the stream, and when that frame was sent

        async def receive() -> None:
            nonlocal acknowledged
            with suppress(websockets.ConnectionClosed):
                async for text in socket:
                    now, answer = time.perf_counter(), json.loads(text)
                    if answer["type"] == "ack":
                        for _ in range(answer["frames"] - acknowledged):
                            results["ack"].append(now - sent.popleft())
                        acknowledged = answer["frames"]
                    elif answer["type"] == "event":
                        near = [end for end in ends if abs(end - answer["end_s"]) < 1]
                        if near:
                            results["event"].append(now - ends.pop(near[0]))

        reader = asyncio.create_task(receive())
        begin, number = time.perf_counter() + random.random(), 0
        first = random.randrange(len(frames))  # people do not move at the same time
        while (now := time.perf_counter()) < end:
            due = begin + number / RATE
            if due > now:
                await asyncio.sleep(due - now)
            place = (first + number) % len(frames)
            number += 1
            sent.append(time.perf_counter())
            if place == last - 1:
                ends[(number - 1) / RATE] = sent[-1]
                results["movements"].append(1)
            await socket.send(f'{{"t": {(number - 1) / RATE}, {texts[place]}')
        reader.cancel()


def quantile(values: list[float], share: float) -> float | None:
    """Return a quantile, or None without values."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else None


def measure_streams(process: subprocess.Popen, url: str, clients: int, seconds: float) -> dict:
    """Return the delays with a number of clients."""
    takes = [
        make_frames(ACTIONS[number % len(ACTIONS)], 1 + number % 3) for number in range(min(clients, 12))
    ]
    results: dict[str, list[float]] = {"ack": [], "event": [], "movements": []}
    workers = list_workers(process)
    before = [(worker.memory_info().rss, sum(worker.cpu_times()[:2])) for worker in workers]

    shares: list[int] = []

    async def count_streams() -> None:
        await asyncio.sleep(seconds / 2)
        shares.extend(
            len(worker.net_connections("tcp")) - 1 for worker in workers
        )  # without the listening socket

    async def run() -> None:
        end = time.perf_counter() + seconds
        streams = (stream(url, takes[n % len(takes)], end, results) for n in range(clients))
        await asyncio.gather(count_streams(), *streams)

    client_start = time.process_time()
    asyncio.run(run())
    memory = sum(worker.memory_info().rss - old for worker, (old, _) in zip(workers, before, strict=True))
    cores = (
        sum(sum(worker.cpu_times()[:2]) - old for worker, (_, old) in zip(workers, before, strict=True))
        / seconds
    )
    return {
        "clients": clients,
        "streams_per_worker": shares,
        "ack_p50_ms": round(1000 * statistics.median(results["ack"]), 1),
        "ack_p95_ms": round(1000 * quantile(results["ack"], 0.95), 1),
        "event_p50_s": round(quantile(results["event"], 0.5), 3),
        "event_p95_s": round(quantile(results["event"], 0.95), 3),
        "movements": len(results["movements"]),
        "events": len(results["event"]),
        "service_cores": round(cores, 2),
        "client_cores": round((time.process_time() - client_start) / seconds, 2),
        "memory_mb_per_client": round(memory / clients / 2**20, 2),
    }


def measure_recognitions(url: str, seconds: float, connections: int = 4) -> dict:
    """Return the number of recognise requests per second."""
    frames, _ = make_frames("bow", 1)
    body = json.dumps({"frames": add_times(frames)})

    async def ask(client: httpx2.AsyncClient, end: float, times: list[float]) -> None:
        while time.perf_counter() < end:
            start = time.perf_counter()
            answer = await client.post(
                "api/v1/recognise", content=body, headers={"content-type": "application/json"}
            )
            if answer.status_code == 200:
                times.append(time.perf_counter() - start)
            else:
                await asyncio.sleep(0.1)

    async def run() -> list[float]:
        times: list[float] = []
        async with httpx2.AsyncClient(base_url=url, timeout=120) as client:
            end = time.perf_counter() + seconds
            await asyncio.gather(*(ask(client, end, times) for _ in range(connections)))
        return times

    times = asyncio.run(run())
    return {
        "per_second": round(len(times) / seconds, 1),
        "p50_ms": round(1000 * quantile(times, 0.5), 1),
        "p95_ms": round(1000 * quantile(times, 0.95), 1),
    }


def measure_kills(
    process: subprocess.Popen, url: str, library: Path, seconds: float, every: float, streams: int
) -> dict:
    """Kill a worker again and again under mixed load; return what was acknowledged and what was lost."""
    frames, _ = make_frames("wave", 1)
    take = add_times(frames)
    acknowledged: list[str] = []
    counts = {"enrolments": 0, "recognitions": 0, "failed_requests": 0, "kills": 0, "stream_ends": 0}
    end = time.perf_counter() + seconds

    async def post(path: str, body: dict) -> int:
        try:
            async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
                return (await client.post(path, json=body)).status_code
        except httpx2.TransportError:
            counts["failed_requests"] += 1
            return 0

    async def enrol(writer: int) -> None:
        while time.perf_counter() < end:
            label = f"label {writer} {counts['enrolments']}"
            counts["enrolments"] += 1
            if await post("api/v1/examples", {"label": label, "frames": take}) == 201:
                acknowledged.append(label)
                await post("api/v1/recognise", {"frames": take})
                counts["recognitions"] += 1
            await asyncio.sleep(ENROL_SECONDS)

    async def keep_streaming(number: int) -> None:
        results: dict[str, list[float]] = {"ack": [], "event": [], "movements": []}
        while time.perf_counter() < end:
            try:
                await stream(url, make_frames(ACTIONS[number % 4], 1), end, results)
            except (OSError, websockets.WebSocketException):
                counts["stream_ends"] += 1
                await asyncio.sleep(0.5)

    async def kill() -> None:
        while time.perf_counter() + every < end:
            await asyncio.sleep(every)
            workers = [worker for worker in list_workers(process) if worker.pid != process.pid]
            if workers:  # none while all of them start
                random.choice(workers).kill()
                counts["kills"] += 1

    async def run() -> None:
        writers = (enrol(number) for number in range(2))
        await asyncio.gather(kill(), *writers, *(keep_streaming(number) for number in range(streams)))

    asyncio.run(run())
    with Library(library) as stored:
        labels = set(stored.labels)
        damaged = len(stored.find_damaged())
    lost = sorted(set(acknowledged) - labels)
    return {
        "streams": streams,
        **counts,
        "acknowledged": len(acknowledged),
        "lost": len(lost),
        "damaged": damaged,
    }


def main() -> None:
    """Run the benchmark and print one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 20, 40], help="numbers of clients")
    parser.add_argument("--workers", type=int, default=2, help="worker processes (default: 2)")
    parser.add_argument(
        "--seconds", type=float, default=30, help="duration of each measurement (default: 30)"
    )
    parser.add_argument(
        "--kill-seconds", type=float, default=1800, help="duration with kills; 0 leaves it out"
    )
    parser.add_argument(
        "--kill-every", type=float, default=60, help="seconds between two kills (default: 60)"
    )
    parser.add_argument(
        "--kill-streams", type=int, default=8, help="streams beside two clients that enrol (default: 8)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "library.db"
        process, url = start_service(library, options.workers)
        try:
            for action in ACTIONS:
                frames, _ = make_frames(action, 0)
                take = add_times(frames)
                body = {"label": action, "frames": take, "trim": True}
                httpx2.post(f"{url}api/v1/examples", json=body, timeout=120).raise_for_status()
            for _ in range(4 * options.workers):  # every worker encodes the examples
                httpx2.post(f"{url}api/v1/recognise", json={"frames": take}, timeout=120)
            load = os.getloadavg()[0]
            result = {
                "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f} before",
                "workers": options.workers,
                "memory_mb_per_worker": [
                    round(worker.memory_info().rss / 2**20) for worker in list_workers(process)
                ],
                "streams": [measure_streams(process, url, n, options.seconds) for n in options.clients],
                "recognise": measure_recognitions(url, options.seconds / 2),
            }
            if options.kill_seconds:
                result["kills"] = measure_kills(
                    process, url, library, options.kill_seconds, options.kill_every, options.kill_streams
                )
            print(json.dumps(result, indent=1), flush=True)
        finally:
            process.terminate()
            process.wait(300)


if __name__ == "__main__":
    main()
