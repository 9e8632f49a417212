#!/bin/bash
set -e
cd /app
bash start.sh
cd shop
git merge -q discounts || true
cat >price.py <<'END'
def price(amount, discount=0, currency="EUR"):
    """What is to be paid."""
    return f"{amount * (1 - discount):.2f} {currency}"
END
git commit -qam 'merge discounts'
