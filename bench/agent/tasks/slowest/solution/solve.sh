#!/bin/bash
set -e
cd /app
python3 - <<'END'
import json

times = {}
for line in open("requests.jsonl"):
    try:
        request = json.loads(line)
    except ValueError:
        continue
    if request["status"] < 500:
        times.setdefault(request["path"], []).append(request["ms"])
with open("slowest.csv", "w") as f:
    f.write("path,requests,mean_ms\n")
    for path, ms in sorted(times.items(), key=lambda item: -sum(item[1]) / len(item[1])):
        f.write("%s,%d,%.1f\n" % (path, len(ms), sum(ms) / len(ms)))
END
