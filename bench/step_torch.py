"""The training step of bench/step.ts in PyTorch: forward, cross-entropy, backward and AdamW on packed sequences.

Answers a line of standard input with one JSON line. `float32`, `autocast` and `bfloat16` say where bfloat16 is: nowhere,
in the products, in the parameters too.
"""

import json
import math
import resource
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


def rotate(x, cosine, sine):
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cosine - high * sine, high * cosine + low * sine), dim=-1)


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        width, inner = shape["hidden"], shape["intermediate"]
        self.heads, self.size = shape["heads"], width // shape["heads"]
        self.before, self.after = Norm(width), Norm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, cosine, sine, hidden_keys):
        count, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(count, length, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cosine, sine).to(v.dtype), rotate(k, cosine, sine).to(v.dtype)
        scores = q @ k.transpose(-1, -2) * (1 / math.sqrt(self.size))
        weights = torch.softmax(scores.masked_fill(hidden_keys, -math.inf), dim=-1, dtype=torch.float32)
        attended = (weights.to(v.dtype) @ v).transpose(1, 2).reshape(count, length, width)
        x = x + self.out(attended)
        gate, up = self.gate_up(self.after(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.embedding = nn.Embedding(shape["vocabulary"], shape["hidden"])
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape["layers"]))
        self.norm = Norm(shape["hidden"])
        self.head = nn.Linear(shape["hidden"], shape["vocabulary"], bias=False)

    def forward(self, ids, cosine, sine, hidden_keys):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, cosine, sine, hidden_keys)
        return self.head(self.norm(x))


def main() -> None:
    shape = json.loads(sys.argv[1])
    torch.set_num_threads(shape["threads"])
    torch.manual_seed(0)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    precision, count, length = shape["precision"], shape["sequences"], shape["length"]
    model = Model(shape)
    if precision == "bfloat16":
        model = model.bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01)
    half = shape["hidden"] // shape["heads"] // 2
    angles = torch.outer(torch.arange(length).float(), 10000.0 ** (-torch.arange(half) / half))
    cosine, sine = angles.cos(), angles.sin()
    hidden_keys = torch.ones(length, length, dtype=torch.bool).triu(1)
    ids = torch.randint(shape["vocabulary"], (count, length))

    def once() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
            logits = model(ids, cosine, sine, hidden_keys)
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, shape["vocabulary"]).float(), ids[:, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    once()
    print(json.dumps({"version": torch.__version__, "base": base * 1024}), flush=True)
    for _ in sys.stdin:
        cpu, wall = time.process_time(), time.perf_counter()
        once()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"ms": wall * 1e3, "cpuMs": cpu * 1e3, "peak": peak * 1024}), flush=True)


main()
