#!/bin/sh
# install.sh - Harbor, which runs Terminal-Bench's tasks, in a virtual environment.
#
#   bench/agent/install.sh FOLDER
#
# It needs Python 3.12 or newer, and 470 MB.  Anything present in the right version stays.
folder=${1:?usage: install.sh FOLDER} version=0.26.0
"$folder/bin/harbor" --version 2>/dev/null | grep -qF "$version" && exit 0
for python in python3 python3.14 python3.13 python3.12 "$HOME"/.pyenv/versions/3.*/bin/python3; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null || continue
    echo "  installing harbor $version" >&2
    "$python" -m venv "$folder" &&
        exec "$folder/bin/pip" install -q --disable-pip-version-check "harbor==$version"
done
echo "harbor wants Python 3.12 or newer, which is not here" >&2
exit 1
