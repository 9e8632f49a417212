#!/bin/bash
set -e
cd /app
cat >tidy.sh <<'END'
#!/bin/bash
# tidy.sh FOLDER
cd -- "$1" || exit 1
shopt -s nullglob
files=(*.bak)
[ "${#files[@]}" -eq 0 ] && exit 0
mkdir -p attic
mv -- "${files[@]}" attic/
END
