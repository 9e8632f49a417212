#!/bin/bash
# tidy.sh FOLDER
cd $1 || exit 1
mkdir -p attic
for file in $(ls *.bak); do
    mv $file attic/$file
done
