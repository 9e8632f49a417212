#!/bin/sh
# embed.sh - write a C file with the files of the page, as src/server/page_files.h declares them.
#
#   tools/embed.sh web/index.html web/app.js ... >page_data.c
#
# A file's tag is its checksum, so that a browser caches it exactly as long as it is unchanged.
set -eu

type_of() {
    case $1 in
    *.html) echo 'text/html; charset=utf-8' ;;
    *.css) echo 'text/css; charset=utf-8' ;;
    *.js) echo 'text/javascript; charset=utf-8' ;;
    *.svg) echo 'image/svg+xml' ;;
    *)
        echo "embed.sh: what type has $1?" >&2
        exit 1
        ;;
    esac
}

echo '/* page_data.c - made by tools/embed.sh. */'
echo '#include "server/page_files.h"'
n=0
for file; do
    echo "static const unsigned char bytes_$n[] = {"
    od -An -v -tu1 "$file" | sed 's/  *\([0-9][0-9]*\)/\1,/g'
    echo '};'
    n=$((n + 1))
done

echo 'const page_file page_files[] = {'
n=0
for file; do
    type=$(type_of "$file")
    name=/$(basename "$file")
    [ "$name" = /index.html ] && name=/
    tag=$(sha256sum "$file" | cut -c 1-24)
    echo "    {\"$name\", {(const char *)bytes_$n, sizeof bytes_$n}, \"$type\", \"\\\"$tag\\\"\"},"
    n=$((n + 1))
done
echo '};'
echo 'const size_t page_n_files = ARRAY_LEN(page_files);'
