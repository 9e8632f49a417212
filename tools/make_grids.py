#!/usr/bin/env python3
"""Write src/gguf/grids.h: the grids of the IQ1, IQ2 and IQ3 formats.

    pip install gguf numpy && tools/make_grids.py > src/gguf/grids.h

They are part of these formats; the `gguf` package has them.  An entry's values are numbers of
levels, the first in the lowest bits.
"""
from gguf import quants


def print_grid(name, kind, bits):
    kind.init_grid()
    levels = list(kind.grid_map)
    entries = [sum(levels.index(int(v)) << bits * i for i, v in enumerate(row))
               for row in kind.grid.reshape(kind.grid_shape)]
    print(f"static const uint16_t {name}[{len(entries)}] = {{")
    for i in range(0, len(entries), 12):
        print("    " + " ".join(f"0x{e:04x}," for e in entries[i:i + 12]))
    print("};")


def main():
    print("/* grids.h - made by tools/make_grids.py: the grids of IQ1 and IQ2 (an entry is 8 "
          "values of 2")
    print(" * bits) and IQ3 (4 of 3). */")
    print("/* clang-format off */")
    for name, kind, bits in (("iq2_xxs_grid", quants.IQ2_XXS, 2), ("iq2_xs_grid", quants.IQ2_XS, 2),
                             ("iq2_s_grid", quants.IQ2_S, 2), ("iq3_xxs_grid", quants.IQ3_XXS, 3),
                             ("iq3_s_grid", quants.IQ3_S, 3), ("iq1_grid", quants.IQ1_S, 2)):
        print_grid(name, kind, bits)


main()
