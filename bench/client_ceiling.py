"""The most chunks a second that one core takes through the load client, with full bookkeeping.

The mock server writes as fast as the socket takes it, one event a write. Server on core 1,
client on core 0. Run: python bench/client_ceiling.py [--lanes 1,16,64]. Results: bench/client.md.
"""

import argparse

from client_truth import closed_loop, mock_server

from loadjudge.client.loop import run


def main() -> None:
    """Prints one line for each lane count: the best and the median of the repeats."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", default="1,16,64")
    parser.add_argument("--replies", type=int, default=3_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    with mock_server() as mock:
        print("lanes | chunks/s: best   median | CPU µs a chunk | streams seen by the server")
        for lanes in map(int, args.lanes.split(",")):
            rates, costs, peak = [], [], 0
            for _ in range(args.repeats):
                mock.configure(ttft_us=0, itl_us=0, per_write=1, tpc=1, ts=1, role=1)
                played = run(closed_loop(mock.url, lanes, [128] * args.replies))
                rates.append(played.chunks / played.wall_s)
                costs.append(1e6 * played.cpu_s / played.chunks)
                peak = mock.stats()["peak"]
            rates.sort()
            best, median = rates[-1], rates[len(rates) // 2]
            print(f"{lanes:5} | {best:14.0f} {median:8.0f} | {min(costs):14.2f} | {peak:5}")


if __name__ == "__main__":
    main()
