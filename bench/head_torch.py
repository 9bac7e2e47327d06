"""The head of bench/head.ts in PyTorch: log-probability of one token a row, forward and backward.

Answers a line of standard input, the name of a variant, with one JSON line. `chunk` is the rows of logits that exist at
one time (0: all of them). `float32`, `autocast` and `bfloat16` say where bfloat16 is: nowhere, in the products, in
weights and hidden states too.
"""

import json
import os
import sys
import time
import resource

import torch
import torch.nn.functional as F


def main() -> None:
    shape = json.loads(sys.argv[1])
    torch.set_num_threads(shape["threads"])
    torch.manual_seed(0)
    tokens, width, vocab = shape["tokens"], shape["hidden"], shape["vocabulary"]
    precision, chunk = shape["precision"], shape["chunk"]
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    hidden = torch.randn(tokens, width).to(dtype).requires_grad_()
    weight = (torch.randn(vocab, width) * 0.02).to(dtype).requires_grad_()
    targets = torch.randint(vocab, (tokens,))
    slopes = torch.rand(tokens) / tokens
    rows = chunk if chunk > 0 else tokens
    shape_line = {"version": torch.__version__, "base": base * 1024}

    def loss_of(x, ids, slope):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
            logits = F.linear(x, weight)
        return (F.cross_entropy(logits.float(), ids, reduction="none") * slope).sum()

    def once() -> None:
        hidden.grad = None
        weight.grad = None
        if rows >= tokens:
            loss_of(hidden, targets, slopes).backward()
            return
        # Each chunk's backward pass runs before the next chunk's logits exist; gradients of the weights add up.
        x = hidden.detach()
        gradients = torch.empty_like(x)
        for start in range(0, tokens, rows):
            part = x[start : start + rows].requires_grad_()
            loss_of(part, targets[start : start + rows], slopes[start : start + rows]).backward()
            gradients[start : start + rows] = part.grad
        hidden.grad = gradients

    once()
    print(json.dumps(shape_line), flush=True)
    for _ in sys.stdin:
        cpu, wall = time.process_time(), time.perf_counter()
        once()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"ms": wall * 1e3, "cpuMs": cpu * 1e3, "peak": peak * 1024}), flush=True)


main()
