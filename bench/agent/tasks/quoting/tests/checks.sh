#!/bin/bash
set -e
cd /app
folder=$(mktemp -d)/"a folder"
mkdir "$folder"
touch "$folder/a b.bak" "$folder/-v.bak" "$folder/plain.bak" "$folder/kept.txt"
bash tidy.sh "$folder"
test -f "$folder/attic/a b.bak"
test -f "$folder/attic/-v.bak"
test -f "$folder/attic/plain.bak"
test -f "$folder/kept.txt"
test "$(ls "$folder" | wc -l)" = 2
empty=$(mktemp -d)
bash tidy.sh "$empty"
test ! -e "$empty/attic"
