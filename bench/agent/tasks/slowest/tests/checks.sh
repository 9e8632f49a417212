#!/bin/bash
set -e
cd /app
printf 'path,requests,mean_ms\n/search,2,187.8\n/help,1,40.0\n/,3,7.9\n' >/tmp/expected
tr -d '\r' <slowest.csv | cmp - /tmp/expected
