"""llama.cpp's own HTTP server, out of the package xllamacpp: MODEL.gguf PORT SLOTS [ngram]."""

import sys
import threading

import xllamacpp
from xllamacpp import common_speculative_type as kinds


def main(model: str, port: str, slots: str, *speculation: str) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {"smollm2"}
    params.port = int(port)
    params.n_parallel = int(slots)
    params.n_ctx = 2048 * int(slots)
    params.cpuparams.n_threads = 1
    params.endpoint_metrics = True
    if speculation:
        params.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        lookup = params.speculative.ngram_simple
        lookup.size_n, lookup.size_m = 2, 4
    server = xllamacpp.Server(params)
    print(f"listening at {server.listening_address}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
