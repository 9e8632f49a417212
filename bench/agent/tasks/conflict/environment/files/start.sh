#!/bin/bash
set -e
mkdir /app/shop
cd /app/shop
git init -q -b main .
git config user.name shop
git config user.email shop@example.org
say() {
    printf 'def price(%s):\n    """What is to be paid."""\n    return f"%s"\n' "$1" "$2" >price.py
}
say amount '{amount:.2f} EUR'
git add price.py
git commit -qm 'prices'
git checkout -q -b discounts
say 'amount, discount=0' '{amount * (1 - discount):.2f} EUR'
git commit -qam 'discounts'
git checkout -q main
say 'amount, currency="EUR"' '{amount:.2f} {currency}'
git commit -qam 'currencies'
