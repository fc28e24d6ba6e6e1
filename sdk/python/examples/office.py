"""An office that sells seats: it shows which, to a watch.

python3 office.py NUMBER CHECKER [SECRET], then lines: `sell 7 ada`, `cancel 7 ada`.
"""

import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from everhold import Probe  # noqa: E402 (the module is beside this folder)

sold, lock = {}, threading.Lock()


def refresh(probe):
    with lock:
        for seat, name in sold.items():
            probe.add("sold", seat, name)


number, checker, *secret = sys.argv[1:]
with Probe(system="booking", node=int(number), name=f"office-{number}", kind="office",
           checkers=[checker], secret=secret[0] if secret else None, refresh=refresh) as probe:
    for line in sys.stdin:
        word, seat, name = line.split()
        with lock:
            if word == "sell":
                sold[int(seat)] = name
                probe.add("sold", int(seat), name)
            else:
                sold.pop(int(seat), None)
                probe.remove("sold", int(seat), name)
        print("done", flush=True)
