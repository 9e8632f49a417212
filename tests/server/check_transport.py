"""check_transport.py - HTTP/1.1, WebSocket and their connections: bytes on the wire are
answered by RFC 9110, 9112 and 6455, and no client can hurt another.

    check_transport.py [requests|framing|ends|dialects|large|frames|crowd ...]    default: all"""

import sys

from transport_crowd import check_crowd, raise_limit
from transport_dialects import check_dialects
from transport_ends import check_half_closes, check_large, check_leavers
from transport_frames import check_frames
from transport_framing import check_framing
from transport_requests import check_requests
from wire import SCRIPT, Checks, Server


def check_ends(report, server):
    check_half_closes(report, server)
    check_leavers(report)


PARTS = {"requests": check_requests, "framing": check_framing, "ends": check_ends,
         "dialects": check_dialects, "large": check_large, "frames": check_frames,
         "crowd": check_crowd}


def main():
    report = Checks("transport")
    raise_limit()
    with Server(replay=SCRIPT, args=["--quiet"]) as server:
        for name in sys.argv[1:] or PARTS:
            PARTS[name](report, server)
        with report.check("it shuts down cleanly", server):
            assert server.stop() == 0
    report.end()


main()
