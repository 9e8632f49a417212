# make            build ./cerium
# make run        install what is missing, build, complete real code with the bundled model
# make test       everything that testing needs, and every test
# make bench      measure this machine and this build
# make fuzz       fuzz each parser for FUZZ_SECONDS (60)
# make install    into PREFIX (/usr/local)
# make clean      remove build/ and ./cerium
# make help       this text
# BUILD=asan|tsan|debug and CC=clang-14 work with every target.
BUILD ?= release
CC    := $(if $(filter default,$(origin CC)),cc,$(CC))
O     := build/$(BUILD)
PREFIX ?= /usr/local

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef \
        -Wpointer-arith -Wwrite-strings -Wold-style-definition
CFLAGS_release := -O2 -g
CFLAGS_debug   := -Og -g3
CFLAGS_asan    := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined \
                  -fno-sanitize-recover=undefined
CFLAGS_tsan    := -O1 -g -fsanitize=thread
CFLAGS_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined
# Floating point is specified, not "fast": see docs/numerics.md.
FLOAT := -ffp-contract=off -fno-math-errno -fno-trapping-math
BASE_CFLAGS := -std=c17 -D_GNU_SOURCE -Isrc -Iinclude -fPIC -fvisibility=hidden -pthread -MMD -MP \
               $(WARN) $(FLOAT) $(CFLAGS_$(BUILD)) $(CFLAGS)
LIBS := -lpcre2-8 -lm

# A file named *_<isa>.c is compiled for that ISA, and no other file is.
ISA_avx2       := -mavx2 -mfma -mf16c
ISA_avx512vnni := $(ISA_avx2) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
# AVX-512 registers as plain memory: what gcc says about passing them matters to nobody else.
ISA_emulated   := -Wno-psabi
isa = $(ISA_$(lastword $(subst _, ,$(basename $(notdir $1)))))

LIB_SRC  := $(sort $(filter-out src/programs/%,$(wildcard src/*/*.c src/*/x86/*.c)))
PROG_SRC := $(sort $(wildcard src/programs/*.c))
LIB_OBJ  := $(LIB_SRC:%.c=$O/%.o)
PROG_OBJ := $(PROG_SRC:%.c=$O/%.o)

all: cerium
help: ; @sed -n 's/^# \(make.*\|BUILD.*\)/\1/p' Makefile

cerium: $O/cerium ; @cp -f $< $@
$O/cerium: $(PROG_OBJ) $(LIB_OBJ) ; @echo "  LD  $@"; $(CC) $(BASE_CFLAGS) $(LDFLAGS) $^ -o $@ $(LIBS)
$O/%.o: %.c $O/flags ; @mkdir -p $(@D); echo "  CC  $<"; $(CC) $(BASE_CFLAGS) $(call isa,$<) -c $< -o $@
$O/flags: FORCE ; @mkdir -p $O; echo '$(CC) $(BASE_CFLAGS)' | cmp -s - $@ || echo '$(CC) $(BASE_CFLAGS)' > $@

# ---- tests: a file test_*.c in tests/unit is a program; fuzz_*.c in tests/fuzz a fuzz target ----
UNIT := $(patsubst tests/unit/test_%.c,$O/unit_%,$(sort $(wildcard tests/unit/test_*.c)))
FUZZ := $(patsubst tests/fuzz/fuzz_%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
KC_OBJ := $(patsubst %.c,$O/%.o,$(sort $(wildcard tests/kernelcheck/*.c)))

$O/unit_%: $O/tests/unit/test_%.o $(LIB_OBJ) ; @echo "  LD  $@"; $(CC) $(BASE_CFLAGS) $(LDFLAGS) $^ -o $@ $(LIBS)
$O/kernelcheck: $(KC_OBJ) $(LIB_OBJ) ; @echo "  LD  $@"; $(CC) $(BASE_CFLAGS) $(LDFLAGS) $^ -o $@ $(LIBS)
$O/replay_%: $O/tests/fuzz/fuzz_%.o $O/tests/fuzz/replay.o $(LIB_OBJ) ; @echo "  LD  $@"; $(CC) $(BASE_CFLAGS) $(LDFLAGS) $^ -o $@ $(LIBS)
$O/fuzz_%: $O/tests/fuzz/fuzz_%.o $(LIB_OBJ) ; @echo "  LD  $@"; $(CC) $(BASE_CFLAGS) $(LDFLAGS) -fsanitize=fuzzer $^ -o $@ $(LIBS)
unit: $(UNIT) ; @set -e; for t in $(UNIT); do $$t; done
replay: $(FUZZ:%=$O/replay_%) ; @set -e; for t in $(FUZZ); do echo "$$t"; $O/replay_$$t tests/fuzz/corpus/$$t; done
kernelcheck: $O/kernelcheck ; @$<
$O/tool_%: $O/tools/%.o $(LIB_OBJ) ; @echo "  LD  $@"; $(CC) $(BASE_CFLAGS) $(LDFLAGS) $^ -o $@ $(LIBS)
.SECONDARY:

clean: ; rm -rf build cerium
FORCE:
.PHONY: all help run test bench fuzz install clean unit replay kernelcheck FORCE
-include $(LIB_OBJ:.o=.d) $(PROG_OBJ:.o=.d)
