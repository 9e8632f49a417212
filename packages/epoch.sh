#!/bin/sh
# epoch.sh - the time that packages have: SOURCE_DATE_EPOCH, else that of the commit, else of the
# changelog.
cd "$(dirname "$0")/.." || exit 1
echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}"
