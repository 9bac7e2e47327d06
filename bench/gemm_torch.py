"""One matrix product of bench/gemm.ts in PyTorch: operands lie as native/bench/gemm.cc has them.

Answers each line of standard input with one JSON line.
"""

import json
import resource
import sys
import time

import torch


def main() -> None:
    shape = json.loads(sys.argv[1])
    torch.set_num_threads(shape["threads"])
    torch.manual_seed(0)
    m, n, k, form = shape["m"], shape["n"], shape["k"], shape["form"]
    dtype = torch.bfloat16 if shape["precision"] == "bfloat16" else torch.float32
    left = torch.rand(*((k, m) if form == "weights" else (m, k))).to(dtype)
    right = torch.rand(*((n, k) if form == "forward" else (k, n))).to(dtype)
    a = left.T if form == "weights" else left
    b = right.T if form == "forward" else right
    out = torch.empty(m, n, dtype=dtype)
    torch.mm(a, b, out=out)
    print(json.dumps({"version": torch.__version__}), flush=True)
    for _ in sys.stdin:
        cpu, wall = time.process_time(), time.perf_counter()
        torch.mm(a, b, out=out)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"ms": wall * 1e3, "cpuMs": cpu * 1e3, "peak": peak * 1024}), flush=True)


if __name__ == "__main__":
    main()
