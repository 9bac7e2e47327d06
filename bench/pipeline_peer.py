"""The work of bench/pipeline.ts as a plain asyncio program of the standard library: the order of dispatch, groups that
wait for their members, advantages, flat streams of tokens, batches, first-fit decreasing, packed batches, and a trainer
that only counts. Prints rollouts consumed, tokens trained, seconds, and seconds of all processors.

    python3 bench/pipeline_peer.py ROLLOUTS TOKENS
"""

import asyncio
import math
import sys
import time
from dataclasses import dataclass

GROUP_SIZE = 8
OPEN_GROUPS = 64
BATCH = 128
CAPACITY = 16384


@dataclass(slots=True)
class Node:
    sampled: bool
    token_ids: list[int]
    mask: list[int]
    logprobs: list[float]


@dataclass(slots=True)
class Rollout:
    id: str
    sequence: int
    group: str
    reward: float
    nodes: list[Node]


@dataclass(slots=True)
class Sample:
    rollout: str
    token_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    temperatures: list[float]
    advantages: list[float]


@dataclass(slots=True)
class MicroBatch:
    token_ids: list[int]
    position_ids: list[int]
    sequence_lengths: list[int]
    mask: list[int]
    logprobs: list[float]
    temperatures: list[float]
    advantages: list[float]


def rollouts(total: int, tokens: int):
    """Groups that end interleaved: 64 are open at a time, and their members end in turns."""
    prompt = tokens >> 2
    answer = tokens - prompt
    nodes = [
        Node(False, list(range(prompt)), [0] * prompt, []),
        Node(True, list(range(prompt, tokens)), [1] * answer, [-(i % 7) / 4 - 0.1 for i in range(prompt, tokens)]),
    ]
    groups = math.ceil(total / GROUP_SIZE)
    sequence = 0
    for block in range(0, groups, OPEN_GROUPS):
        for member in range(GROUP_SIZE):
            for g in range(block, min(groups, block + OPEN_GROUPS)):
                if sequence < total:
                    yield Rollout(f"g{g}/{member}", sequence, f"g{g}", (member * 7 + g) % 3, nodes)
                    sequence += 1


def trainable_tokens(rollout: Rollout) -> int:
    return sum(sum(node.mask) for node in rollout.nodes)


def advantages_of(group: list[Rollout]) -> list[float]:
    rewards = [rollout.reward for rollout in group]
    if min(rewards) == max(rewards):
        return [0.0] * len(rewards)
    mean = sum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


def sample_of(rollout: Rollout, advantage: float) -> Sample | None:
    if advantage == 0.0:
        return None
    sample = Sample(rollout.id, [], [], [], [], [])
    for node in rollout.nodes:
        length = len(node.token_ids)
        sample.token_ids += node.token_ids
        sample.mask += node.mask
        sample.logprobs += node.logprobs if node.sampled else [0.0] * length
        sample.advantages += [advantage if node.sampled else 0.0] * length
    sample.temperatures = [1.0] * len(sample.token_ids)
    return sample


def first_fit_decreasing(lengths: list[int], capacity: int) -> list[list[int]]:
    bins: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        size = lengths[index]
        for at, left in enumerate(room):
            if left >= size:
                bins[at].append(index)
                room[at] -= size
                break
        else:
            bins.append([index])
            room.append(capacity - size)
    return bins


def pack(samples: list[Sample], capacity: int) -> tuple[list[MicroBatch], int]:
    packed = []
    count = 0
    for members in first_fit_decreasing([len(sample.token_ids) for sample in samples], capacity):
        batch = MicroBatch([], [], [], [], [], [], [])
        for member in members:
            sample = samples[member]
            length = len(sample.token_ids)
            batch.token_ids += sample.token_ids
            batch.position_ids += range(length)
            batch.sequence_lengths.append(length)
            batch.mask += sample.mask
            batch.logprobs += sample.logprobs
            batch.temperatures += sample.temperatures
            batch.advantages += sample.advantages
        count += sum(batch.mask)
        packed.append(batch)
    return packed, count


async def main(total: int, tokens: int) -> tuple[int, int]:
    ended: asyncio.Queue[Rollout | None] = asyncio.Queue(512)
    scored: asyncio.Queue[list[tuple[Rollout, float]] | None] = asyncio.Queue(512)

    async def feed():
        for rollout in rollouts(total, tokens):
            await ended.put(rollout)
        await ended.put(None)

    async def score():
        open_groups: dict[str, list[Rollout]] = {}
        tasks: set[asyncio.Task] = set()

        async def settle(group: list[Rollout]):
            await scored.put(list(zip(group, advantages_of(group))))

        async def in_dispatch_order():
            early: dict[int, Rollout] = {}
            due = 0
            while (rollout := await ended.get()) is not None:
                early[rollout.sequence] = rollout
                while due in early:
                    yield early.pop(due)
                    due += 1

        async for rollout in in_dispatch_order():
            if not math.isfinite(rollout.reward) or trainable_tokens(rollout) == 0:
                continue
            group = open_groups.setdefault(rollout.group, [])
            group.append(rollout)
            if len(group) == GROUP_SIZE:
                del open_groups[rollout.group]
                task = asyncio.create_task(settle(group))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
        await scored.put(None)

    async def train() -> tuple[int, int]:
        consumed = members = 0
        batch: list[Sample | None] = []
        while (group := await scored.get()) is not None:
            for rollout, advantage in group:
                batch.append(sample_of(rollout, advantage))
                if len(batch) == BATCH:
                    _, count = pack([sample for sample in batch if sample is not None], CAPACITY)
                    consumed += len(batch)
                    members += count
                    batch = []
        _, count = pack([sample for sample in batch if sample is not None], CAPACITY)
        return consumed + len(batch), members + count

    results = await asyncio.gather(feed(), score(), train())
    return results[2]


if __name__ == "__main__":
    total, tokens = int(sys.argv[1]), int(sys.argv[2])
    asyncio.run(main(total, tokens))  # the second pass is measured, as on the other side
    started, used = time.perf_counter(), time.process_time()
    consumed, members = asyncio.run(main(total, tokens))
    print(consumed, members, time.perf_counter() - started, time.process_time() - used)
