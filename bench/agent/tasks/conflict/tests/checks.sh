#!/bin/bash
set -e
cd /app
cd shop
test "$(git rev-parse --abbrev-ref HEAD)" = main
test "$(git rev-list --parents -n 1 HEAD | wc -w)" = 3
git merge-base --is-ancestor discounts HEAD
test "$(git log --format=%s | grep -c -e '^currencies$' -e '^discounts$' -e '^prices$')" = 3
test -z "$(git status --porcelain)"
PYTHONDONTWRITEBYTECODE=1 python3 - <<'END'
from price import price

assert price(10) == "10.00 EUR"
assert price(10, 0.25) == "7.50 EUR"
assert price(4, 0.5, "CHF") == "2.00 CHF"
assert price(8, currency="USD") == "8.00 USD"
END
