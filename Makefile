# make            build ./cerium
# make run        install what is missing, build, complete an example, then serve
# make test       everything that testing needs, and every test
# make bench      measure this machine and this build
# make test-clients   install real clients (Codex, SDKs, a browser) and run them; in make test too
# make bench-server   measure the server: round trips, streams, a crowd (LLAMA_SERVER=PATH: beside it)
# make bench-peers    the table beside llama.cpp (LLAMA_BENCH=PATH, IK_BENCH=PATH: its llama-bench)
# make bench-conversation   a conversation: reused and computed tokens, first token, cancel, restart
# make bench-quant  size, speed and quality of each quantization type (QUANT="--set PATH --text FILE")
# make bench-latency  speculative decoding: edits, own text, overhead (LATENCY="--edits FILE")
# make bench-drafts   quality of drafts, without a model (EDITS=FILE, WORKSPACES=FOLDER: see bench/drafts.c)
# make bench-proxy  what HAProxy and Envoy add to the first token
# make bench-recited  drafts beside those of llama.cpp, on edits that a made model recites (LLAMA_SERVER=PATH)
# make soak       an hour (SOAK_SECONDS) of mixed traffic: no error, no growth
# make hostile    10 minutes (HOSTILE_SECONDS) of 1,000 hostile clients beside an honest one
# make documents  sample DOCUMENTS (10,000) under many grammars, for outside validators
# make fuzz       fuzz each parser for FUZZ_SECONDS (60), with clang
# make grammars   fetch those of the watchdog's grammars that are missing (every make does)
# make bench-solve  a thousand variants of a line, a test, lines solved (LINES_OF=HumanEval-SingleLineInfilling.jsonl.gz)
# make bench-agent  tasks for an agent by Harbor and the real Codex, recorded answers (AGENT="-m MODEL": with a model)
# make bench-exists names that are not there: found, raised wrongly, and the cost (EXISTS_DATA=dir EXISTS_ROOT=dir)
# make bench-guard  the watchdog's findings, misses and cost (LIBRARIES="dir dir", PEERS=dir,
#                 BEARER=dir, RSPEC=dir: clones of the examples of other scanners)
# make vscode     the VS Code extension, build/cerium-vscode.vsix (npm fetches its language client)
# make man        the man page, from the tables of the commands
# make install    program, libraries, header, man page and model into PREFIX (/usr/local), DESTDIR
# make package    image, .deb, chart, archive and installers into build/package, and checks of them
# make kernelcheck-arm64   compile the kernels for 64-bit Arm and check them under qemu
# make clean      remove build/ and ./cerium
# make help       this text
# BUILD=asan|tsan|debug and CC=clang-14 work with every target.
BUILD  ?= release
CC     := $(if $(filter default,$(origin CC)),cc,$(CC))
O      := build/$(BUILD)$(patsubst %,-%,$(filter-out cc gcc,$(notdir $(lastword $(CC)))))
PREFIX ?= /usr/local
CLANG  ?= clang-14
FUZZ_SECONDS ?= 60

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef \
        -Wpointer-arith -Wwrite-strings -Wold-style-definition
CFLAGS_release := -O2 -g
CFLAGS_debug   := -Og -g3
CFLAGS_asan    := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined \
                  -fno-sanitize-recover=undefined
CFLAGS_tsan    := -O1 -g -fsanitize=thread
CFLAGS_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined \
                  -fno-sanitize-recover=undefined
# Floating point is specified, not "fast": see docs/numerics.md.
FLOAT := -ffp-contract=off -fno-math-errno -fno-trapping-math
BASE_CFLAGS := -std=c17 -D_GNU_SOURCE -Isrc -Iinclude -isystem /usr/share/include/llhttp -fPIC -fvisibility=hidden -pthread -MMD -MP \
               $(WARN) $(FLOAT) $(CFLAGS_$(BUILD)) $(CFLAGS)
LIBS := -lpcre2-8 -ljansson -lxxhash -lm
SERVER_LIBS := -luv -lwslay -lssl -lsqlite3 -lcrypto -lhwloc -linih -lcurl -lhs -ltree-sitter -lyaml -lseccomp

# A file named *_<isa>.c is compiled for that ISA, and no other file is.  UBSan in unrolled vector
# code costs minutes of compiling; the reference, which is the same arithmetic, has it.
ISA_avx2       := -mavx2 -mfma -mf16c $(if $(filter asan fuzz,$(BUILD)),-fno-sanitize=undefined)
ISA_avx512vnni := $(ISA_avx2) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
ISA_amx        := $(ISA_avx512vnni) -mamx-tile -mamx-int8
ISA_neondot    := -march=armv8.2-a+dotprod
# AVX-512 registers as plain memory: slow to optimize, and gcc warns of passing them.
ISA_emulated   := -O1 -Wno-psabi
isa_of = $(ISA_$(lastword $(subst _, ,$(basename $(notdir $1)))))
# UBSan's checks of every unrolled line make gcc take minutes over the kernels; ASan's do not.
ISA_asan       := -fno-sanitize=undefined
# Vector kernels start no thread.  With CERIUM_CPU=ref TSan sees what kernels touch, too.
ISA_tsan       := -O2 -fno-sanitize=thread
isa  = $(if $(isa_of),$(isa_of) $(ISA_$(BUILD)))
ARCH := $(if $(filter x86_64%,$(shell $(CC) -dumpmachine 2>/dev/null)),x86,arm)

VERSION  := $(shell sed -n 's/^.define CERIUM_VERSION_[MP][A-Z]* //p' include/cerium.h | paste -sd.)
# Before 1.0 structs may change with each minor version: the name of the library says which one.
SOVER    := libcerium.so.$(subst $(eval) ,.,$(wordlist 1,2,$(subst ., ,$(VERSION))))
ALL_SRC  := $(filter-out $(if $(filter arm,$(ARCH)),%_avx2.c),$(wildcard src/*/*.c src/*/$(ARCH)/*.c))
# Whose folders are whose: those that embed a library have no sockets and simulate nothing, and the
# watchdog is a library of its own.
LIB_DIRS    := base gguf kernels template tokenizer sampling model cache cpu speculation reader engine
SERVER_DIRS := convert exists guard lsp net protocol sandbox server snippets store wafer watch
in_dirs      = $(sort $(filter $(foreach d,$1,src/$d/%),$(ALL_SRC)))
LIB_SRC  := $(call in_dirs,$(LIB_DIRS))
SERVER_SRC := $(call in_dirs,$(SERVER_DIRS))
PROG_SRC := $(call in_dirs,programs)
LIB_OBJ  := $(LIB_SRC:%.c=$O/%.o)
# libcerium-watch calls libcerium by cerium.h, and has a copy of what both stand on.
WATCH_OBJ = $(patsubst %.c,$O/%.o,$(call in_dirs,base guard exists watch)) $(GRAMMAR_OBJ)
WATCH_LIBS := -lpcre2-8 -ljansson -lxxhash -lhs -ltree-sitter -lyaml -lm
# The watchdog's grammars are fetched once (tools/fetch_grammars.sh) and compiled once for every build:
# what a generated parser does is no concern of a sanitizer.
GRAMMAR_DIR := build/grammars
# Not by those that first install what this takes, and then run make again.
ifneq ($(filter-out help clean kernelcheck% man-check run test test-clients fuzz package install-files,$(or $(MAKECMDGOALS),all)),)
ifeq ($(findstring aarch64,$(CC)),)
-include $(GRAMMAR_DIR)/grammars.mk
UNITS_MK := $O/units.mk
endif
endif
GRAMMAR_SRC = $(foreach g,$(GRAMMARS),$(wildcard $(addprefix $(GRAMMAR_DIR)/$(lastword $(subst =, ,$g))/,parser.c scanner.c)))
GRAMMAR_OBJ = $(GRAMMAR_SRC:%.c=%.o)
# Debian 12 has llhttp, which reads HTTP, as its source alone; newer ones as a library.
LLHTTP     := $(wildcard /usr/share/llhttp/llhttp.c)
LLHTTP_OBJ := $(if $(LLHTTP),$O/llhttp/llhttp.o $O/llhttp/api.o $O/llhttp/http.o)
SERVER_LIBS += $(if $(LLHTTP),,-lllhttp)
# Lines that are typed are edited with libedit; without it they are as the terminal gives them.
LIBEDIT    := $(shell echo '\#include <histedit.h>' | $(CC) -E -x c - >/dev/null 2>&1 && echo -ledit)
SERVER_OBJ = $(SERVER_SRC:%.c=$O/%.o) $O/page_data.o $(LLHTTP_OBJ) $(GRAMMAR_OBJ)
# The page at /: its folder is named too, so that a file that is added or removed is noticed.
WEB      := $(sort $(wildcard web/*))
PROG_OBJ := $(PROG_SRC:%.c=$O/%.o)
# For recipes that install packages first, and so must run make again; $(MAKE) itself must stand in
# their line, or it would not share the jobs of this one.
ALL_JOBS = --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

all: cerium
help: ; @sed -n 's/^# \(make.*\|BUILD.*\)/\1/p' Makefile

# ---- programs and libraries ----
LINK = @echo "  LD  $@"; $(CC) $(BASE_CFLAGS) -Wl,-z,relro $(LDFLAGS) $^ -o $@ $(LIBS)
cerium: $O/cerium ; @cp -f $< $@
$O/cerium: $(PROG_OBJ) $(SERVER_OBJ) $(LIB_OBJ) ; $(LINK) $(SERVER_LIBS) $(LIBEDIT)
$O/%.o: %.c $O/flags ; @mkdir -p $(@D); echo "  CC  $<"; $(CC) $(BASE_CFLAGS) $(call isa,$<) -c $< -o $@
$O/llhttp/%.o: /usr/share/llhttp/%.c $O/flags ; @mkdir -p $(@D); echo "  CC  $<"; $(CC) -O2 -w -fPIC -fvisibility=hidden $(filter -fsanitize%,$(CFLAGS_$(BUILD))) -I/usr/share/include/llhttp -c $< -o $@
$O/page_data.c: tools/embed.sh $(WEB) web ; @mkdir -p $O; tools/embed.sh $(WEB) > $@.new && mv $@.new $@
$O/page_data.o: $O/page_data.c $O/flags ; @echo "  CC  $<"; $(CC) $(BASE_CFLAGS) -c $< -o $@
# What runs inside of the sandbox: the C library alone, as a program and as a library for Python; no
# sanitizer, whose memory no limit would allow.
GUEST     := $O/guest
GUEST_SRC := $(filter-out %/guest_main.c,$(wildcard src/sandbox/guest/*.c))
GUEST_CC   = $(CC) -std=c17 -O2 -g -D_GNU_SOURCE -Isrc -fvisibility=hidden $(WARN)
GUEST_DEP := src/sandbox/wire.h src/sandbox/guest/guest.h $O/flags
$(GUEST)/runner: $(GUEST_SRC) src/sandbox/guest/guest_main.c $(GUEST_DEP) ; @mkdir -p $(@D); echo "  CC  $@"; $(GUEST_CC) $(filter %.c,$^) -s -o $@
$(GUEST)/guest.so: $(GUEST_SRC) $(GUEST_DEP) ; @mkdir -p $(@D); echo "  CC  $@"; $(GUEST_CC) -fPIC -fvisibility=default -shared $(filter %.c,$^) -s -o $@
$O/src/sandbox/guest_files.o: BASE_CFLAGS += -DGUEST_DIR='"$(GUEST)"'
$O/src/sandbox/guest_files.o: $(GUEST)/runner $(GUEST)/guest.so $(wildcard src/sandbox/guest/*.py src/sandbox/guest/*.cjs)
# While one is missing, each make tries again.
GRAMMARS_TRY := $(if $(shell grep -s '^. missing' $(GRAMMAR_DIR)/grammars.mk),FORCE)
$(GRAMMAR_DIR)/grammars.mk: tools/grammars.list tools/fetch_grammars.sh $(GRAMMARS_TRY) ; @tools/fetch_grammars.sh $(GRAMMAR_DIR)
# Their scanners take memory where tree-sitter does.
GRAMMAR_CFLAGS := -std=c11 -O1 -fPIC -w -DTREE_SITTER_REUSE_ALLOCATOR
$(GRAMMAR_DIR)/%.o: $(GRAMMAR_DIR)/%.c $(GRAMMAR_DIR)/flags ; @echo "  CC  $<"; $(CC) $(GRAMMAR_CFLAGS) -I$(<D) -c $< -o $@
$(GRAMMAR_DIR)/flags: FORCE ; @mkdir -p $(@D); echo '$(GRAMMAR_CFLAGS)' | cmp -s - $@ || echo '$(GRAMMAR_CFLAGS)' > $@
grammars: ; @rm -f $(GRAMMAR_DIR)/grammars.mk; $(MAKE) --no-print-directory $(GRAMMAR_DIR)/grammars.mk
$O/flags: FORCE ; @mkdir -p $O; echo '$(CC) $(BASE_CFLAGS)' | cmp -s - $@ || echo '$(CC) $(BASE_CFLAGS)' > $@
# Variables of a target are private, or what it is made of would have them as well, if it is made for
# that target first.
# Both libraries show cerium_* and nothing else: one object with its hidden symbols made local, and
# a shared object whose hidden symbols stay inside.
$O/libcerium.a: $(LIB_OBJ) ; @echo "  AR  $@"; ld -r $^ -o $O/libcerium.o && objcopy --localize-hidden $O/libcerium.o && rm -f $@ && ar rcs $@ $O/libcerium.o
$O/libcerium.so.$(VERSION): private LDFLAGS += -shared -Wl,-soname,$(SOVER)
$O/libcerium.so.$(VERSION): $(LIB_OBJ) ; $(LINK)
$O/libcerium-watch.o: $(WATCH_OBJ) ; @ld -r $^ -o $@ && objcopy --wildcard --keep-global-symbol='cerium_watch*' $@
$O/libcerium-watch.a: $O/libcerium-watch.o ; @echo "  AR  $@"; rm -f $@ && ar rcs $@ $<
$O/libcerium-watch.so.$(VERSION): private LDFLAGS += -shared -Wl,-soname,$(subst cerium,cerium-watch,$(SOVER))
$O/libcerium-watch.so.$(VERSION): private LIBS := $(WATCH_LIBS)
$O/libcerium-watch.so.$(VERSION): $O/libcerium-watch.o $O/libcerium.so.$(VERSION) ; $(LINK)
lib: $(foreach l,libcerium libcerium-watch,$O/$l.a $O/$l.so.$(VERSION))

# ---- tests: test_*.c and test_*.sh in tests/*, kernelcheck, and the corpora of fuzz_*.c ----
UNIT     := $(patsubst tests/unit/test_%.c,$O/unit_%,$(sort $(wildcard tests/unit/test_*.c)))
GOLDEN   := $(patsubst tests/golden/test_%.c,$O/golden_%,$(sort $(wildcard tests/golden/test_*.c)))
ENGINE   := $(patsubst tests/engine/test_%.c,$O/engine_%,$(sort $(wildcard tests/engine/test_*.c)))
FAULTS   := $(patsubst tests/faults/test_%.c,$O/faults_%,$(sort $(wildcard tests/faults/test_*.c)))
# Models with random weights, large enough for long contexts; the name says the shape.
RANDOM   := $(patsubst %,$O/models/test-%.gguf,llama qwen2 qwen3 qwen3moe gpt-oss)
# And families that those shapes lack: windows, norms behind, shared experts, norms of whole rows.
FAMILIES := $(patsubst %,tests/golden/fixtures/%.gguf,mistral3 smollm3 granitemoe granitehybrid granitehybrid-dense granitehybrid-wide nemotron_h nemotron_h_moe nemotron_h_moe-latent nemotron_h_moe-latent-q8_0 nemotron_h_moe-puzzle mistral4 gemma3 gemma4 gemma4-experts gemma4-inputs laguna mellum maple glm4moe minimax-m2 qwen35-wide qwen35-turned qwen35moe qwen35moe-turned qwen2-pq2_0 qwen3moe-nvfp4 mtp-qwen35 qwen3next deepseek2 deepseek2-yarn deepseek2-q4_0 deepseek2-old-q8_0)
FUZZ     := $(patsubst tests/fuzz/fuzz_%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
EXAMPLES := $(patsubst examples/%.c,$O/example_%,$(sort $(wildcard examples/*.c)))
KC_OBJ   := $(patsubst %.c,$O/%.o,$(sort $(wildcard tests/kernelcheck/*.c)))
KC_LIB   := $(filter-out %/hash.o %/json.o,$(filter $O/src/base/% $O/src/gguf/blocks% $O/src/kernels/%,$(LIB_OBJ)))
# Kernels for another processor need the C library alone, and run where qemu does.
ARM64_CC := aarch64-linux-gnu-gcc
ARM64_KC := build/release-$(ARM64_CC)/kernelcheck
TESTED   := all lib $(UNIT) $O/kernelcheck $(FUZZ:%=$O/replay_%) $(GOLDEN) $(ENGINE) $(FAULTS) $(RANDOM) \
            $O/cerium_blind $O/hostile_clients $O/bench_repairs $(EXAMPLES) $O/protocol_answers $O/template_lines $O/template_forms $O/grammar_sample $O/grammar_match $O/tool_make_wide \
            $(if $(filter release,$(BUILD)),$O/cerium_portable $(if $(shell command -v $(ARM64_CC)),arm64-built))
SHORT    := $(if $(filter release,$(BUILD)),,--short)
REPLAYS   = $(foreach t,$(FUZZ),'$O/replay_$t tests/fuzz/corpus/$t')
GOLDENS   = $(filter-out %_identity,$(GOLDEN)) '$O/golden_identity $(SHORT) $(RANDOM) $(FAMILIES)'
# Some run side by side: those that take long come first.
SUITES    = $(sort $(wildcard tests/*/test_*.sh)) $(GOLDENS) $(ENGINE) $(FAULTS) $O/kernelcheck $(UNIT) $(REPLAYS)

# A unit test links the folders that it includes and those below them, and so shows that they stand
# without the others.  With some folders come objects that are not of src/.
EXTRA_guard  = $(GRAMMAR_OBJ)
EXTRA_net    = $(LLHTTP_OBJ)
EXTRA_server = $O/page_data.o
folder_obj = $(patsubst %.c,$O/%.o,$(sort $(filter-out src/programs/main.c,$(filter $(1:%=src/%/%),$(ALL_SRC))))) $(foreach f,$1,$(EXTRA_$f))
$O/units.mk: layers.txt tools/unit_links $(wildcard tests/unit/*.[ch])
	@mkdir -p $O; tools/unit_links | sed 's|^\(.*\): *\(.*\)|$$O/\1: $$(foreach f,\2,$$(call folder_obj,$$f))|' > $@.$$$$ && mv $@.$$$$ $@
-include $(UNITS_MK)
$O/unit_%: $O/tests/unit/test_%.o ; $(LINK) $(SERVER_LIBS) $(LIBEDIT)
$O/faults_%: $O/tests/faults/test_%.o $(SERVER_OBJ) $(LIB_OBJ) ; $(LINK) $(SERVER_LIBS)
# The program without a grammar, for the tests of what it says then.
$O/cerium_blind: $(PROG_OBJ) $(filter-out $(GRAMMAR_OBJ),$(SERVER_OBJ)) $(LIB_OBJ) ; $(LINK) $(SERVER_LIBS) $(LIBEDIT)
$O/grammar_%: $O/tests/grammar/%.o $(SERVER_OBJ) $(LIB_OBJ) ; $(LINK) $(SERVER_LIBS)
$O/template_%: $O/tests/template/%.o $(SERVER_OBJ) $(LIB_OBJ) ; $(LINK) $(SERVER_LIBS)
$O/protocol_%: $O/tests/protocol/%.o $(SERVER_OBJ) $(LIB_OBJ) ; $(LINK) $(SERVER_LIBS)
$O/models/%.gguf: $O/tool_make_model ; @mkdir -p $(@D); $< --shape $* --context 2048 -o $@
$O/golden_%: $O/tests/golden/test_%.o $(SERVER_OBJ) $(LIB_OBJ) ; $(LINK) $(SERVER_LIBS)
$O/engine_%: $O/tests/engine/test_%.o $(SERVER_OBJ) $(LIB_OBJ) ; $(LINK) $(SERVER_LIBS)
$O/kernelcheck: LIBS := -lm
$O/kernelcheck: $(KC_OBJ) $(KC_LIB) ; $(LINK)
$O/replay_%: $O/tests/fuzz/fuzz_%.o $O/tests/fuzz/replay.o $(SERVER_OBJ) $(LIB_OBJ) ; $(LINK) $(SERVER_LIBS)
$O/fuzz_%: $O/tests/fuzz/fuzz_%.o $(SERVER_OBJ) $(LIB_OBJ) ; $(LINK) $(SERVER_LIBS) -fsanitize=fuzzer
# What it reads is of a program.
PROG_FUZZ := $(foreach t,diffs feedback honest lsp_remote mcp solve,$O/replay_$t $O/fuzz_$t) $O/faults_lsp_remote $O/faults_lsp_candidates
$(PROG_FUZZ): $(filter-out %/main.o,$(PROG_OBJ))
$(PROG_FUZZ): private SERVER_LIBS += $(LIBEDIT)
$O/tool_%: $O/tools/%.o $(LIB_OBJ) ; $(LINK)
$O/bench_%: $O/bench/%.o $(LIB_OBJ) ; $(LINK)
$O/bench_snippets: $(patsubst %.c,$O/%.o,$(call in_dirs,snippets))
$O/example_%: $O/examples/%.o $O/libcerium.a ; $(LINK)
$O/example_watched: private LIBS := $(WATCH_LIBS)
$O/example_watched: $O/libcerium-watch.a

test:
	@echo "make test: about 18 minutes on two idle cores and 12 GB: 2.7 GB of packages, the rest in build/"
	@tools/install_packages.sh build test
	@$(MAKE) $(ALL_JOBS) tested
tested: $(TESTED)
	@O=$O CC='$(CC)' TEST_CFLAGS='$(CFLAGS_$(BUILD))' BUILD=$(BUILD) tools/run_tests.sh $(SUITES)
test-clients:
	@tools/install_packages.sh build
	@$(MAKE) $(ALL_JOBS) all
	@O=$O BUILD=$(BUILD) sh tests/clients/test_clients.sh $(CLIENTS_ONLY)
documents: $O/grammar_sample ; @O=$O sh tests/grammar/test_documents.sh $(or $(DOCUMENTS),10000)
unit: $(UNIT) ; @tools/run_tests.sh $(UNIT)
golden: $(GOLDEN) $(ENGINE) $(RANDOM) ; @tools/run_tests.sh $(GOLDENS) $(ENGINE)
kernelcheck: $O/kernelcheck ; @$<
arm64-built: ; @$(MAKE) --no-print-directory BUILD=release CC=$(ARM64_CC) LDFLAGS=-static $(ARM64_KC)
kernelcheck-arm64: arm64-built ; @qemu-aarch64 $(ARM64_KC)
replay: $(FUZZ:%=$O/replay_%) ; @tools/run_tests.sh $(REPLAYS)
vscode: ; @tools/make_vsix.sh
man: all ; @tools/make_man.sh ./cerium >man/cerium.1.new && mv man/cerium.1.new man/cerium.1
man-check: ; mandoc -T lint -W warning man/cerium.1

fuzz:
	@tools/install_packages.sh build test fuzz
	@$(MAKE) $(ALL_JOBS) BUILD=fuzz CC=$(CLANG) fuzzed
fuzzed: $(FUZZ:%=$O/fuzz_%)
	@for t in $(FUZZ); do mkdir -p $O/corpus/$$t; echo "$$t"; $O/fuzz_$$t -timeout=10 \
	    -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=$O/ -verbosity=0 -print_final_stats=1 \
	    $O/corpus/$$t tests/fuzz/corpus/$$t || exit 1; done

# ---- use ----
run:
	@[ -x cerium ] || echo "make run: the first time it takes about 4 minutes on two cores and 850 MB: 680 MB of packages, 170 MB here"
	@tools/install_packages.sh build
	@$(MAKE) $(ALL_JOBS) all
	@./cerium serve --demo "$$(cat examples/point.py)"
bench: all $O/kernelcheck ; ./cerium bench && $O/kernelcheck --bench

$O/bench_server: private LIBS += -lssl -lcrypto
$O/bench_guard: $O/bench/guard.o $(SERVER_OBJ) $(LIB_OBJ) ; $(LINK) $(SERVER_LIBS)
bench-server: all $O/bench_server $O/tool_make_model
	python3 bench/server.py --cerium ./cerium --client $O/bench_server --make-model $O/tool_make_model
bench-peers: all $O/tool_make_model
	bench/peers.py --make-model $O/tool_make_model -o bench/results/$$(date +%F)-peers.md
$O/bench_corrections: $O/bench/corrections.o $(SERVER_OBJ) $(LIB_OBJ) ; $(LINK) $(SERVER_LIBS)
$O/bench_repairs: $O/bench/repairs.o $(SERVER_OBJ) $(LIB_OBJ) ; $(LINK) $(SERVER_LIBS)
bench-guard: all $O/bench_guard $O/bench_corrections
	python3 bench/guard.py --cerium ./cerium --bench $O/bench_guard $(if $(PEERS),--peers $(PEERS)) $(if $(LIBRARIES),--libraries $(LIBRARIES))
	$O/bench_corrections models/cerium-line.gguf 1000
	$(if $(BEARER)$(RSPEC),python3 bench/guard_others.py --cerium ./cerium $(if $(BEARER),--bearer $(BEARER)) $(if $(RSPEC),--rspec $(RSPEC)))
$O/bench_exists: $O/bench/exists.o $(SERVER_OBJ) $(LIB_OBJ) ; $(LINK) $(SERVER_LIBS)
bench-solve: all $O/unit_sandbox
	@SHOW=1 TEST=many TIMES=10000 $O/unit_sandbox
	@python3 bench/solve_speed.py $(if $(LINES_OF),--lines $(LINES_OF))
bench-agent: all
	@bench/agent/install.sh build/harbor
	@bench/agent/bench.py $(AGENT)
bench-exists: all $O/bench_exists
	@test -n "$(EXISTS_DATA)" -a -n "$(EXISTS_ROOT)" || { echo "EXISTS_DATA=the sets' folder EXISTS_ROOT=their environment"; exit 2; }
	@./cerium scan --exists $(EXISTS_ROOT) --batch $(EXISTS_DATA)/dev.jsonl > $O/exists.jsonl; test $$? -le 1
	@python3 $(EXISTS_DATA)/score.py $(EXISTS_DATA)/dev.jsonl $O/exists.jsonl
	@$O/bench_exists $(EXISTS_ROOT) $(EXISTS_DATA)/dev.jsonl
bench-conversation: $O/bench_conversation $O/tool_make_model
	@mkdir -p $O/models; m=$O/models/bench-0.5b.gguf; \
	test -e $$m || $O/tool_make_model --shape qwen2.5-coder-0.5b --type q4_0 -o $$m; $< $$m
bench-latency: all $O/tool_make_model
	bench/latency.py --make-model $O/tool_make_model $(LATENCY)
bench-proxy: all ; python3 bench/proxy.py
bench-recited: all $O/tool_make_model
	bench/recited.py --make-model $O/tool_make_model $(if $(LLAMA_SERVER),--llama-server $(LLAMA_SERVER)) $(RECITED)
bench-drafts: $O/bench_drafts ; $< $(WORKSPACES:%=-w %) $(or $(EDITS),bench/edits/edits.jsonl)
bench-quant: all ; @python3 bench/quantization.py $(QUANT)
soak: all ; python3 tests/clients/soak.py $(SOAK_SECONDS)
$O/hostile_clients: $O/tests/server/hostile.o $(LIB_OBJ) ; $(LINK)
hostile: all $O/hostile_clients
	python3 tests/server/hostile.py --clients $O/hostile_clients --seconds $(or $(HOSTILE_SECONDS),600)

AT := $(DESTDIR)$(PREFIX)
install: install-program lib
	install -D -m 644 include/cerium.h -t $(AT)/include
	for l in cerium cerium-watch; do \
	    install -D -m 644 $O/lib$$l.a $O/lib$$l.so.$(VERSION) -t $(AT)/lib; \
	    ln -sf lib$$l.so.$(VERSION) $(AT)/lib/$(subst cerium,$$l,$(SOVER)); \
	    ln -sf $(subst cerium,$$l,$(SOVER)) $(AT)/lib/lib$$l.so; done
	install -d $(AT)/lib/pkgconfig
	for l in cerium cerium-watch; do \
	    sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@LIBS@|$(LIBS)|; s|@WATCH_LIBS@|$(WATCH_LIBS)|' \
	        tools/$$l.pc.in > $(AT)/lib/pkgconfig/$$l.pc; done
install-program: all ; @$(MAKE) --no-print-directory install-files
# What is built is put where it belongs, and nothing is built or fetched: several of these, side by
# side, change nothing of each other's.
install-files:
	install -D -m 755 $O/cerium -t $(AT)/bin
	install -d $(AT)/share/cerium/models $(AT)/share/cerium/machines
	install -m 644 machines/*.ini -t $(AT)/share/cerium/machines
	install -D -m 644 man/cerium.1 -t $(AT)/share/man/man1
	install -D -m 644 rules/*.yaml -t $(AT)/share/cerium/rules
	install -m 644 models/models.list -t $(AT)/share/cerium/models
	install -d $(AT)/share/bash-completion/completions $(AT)/share/zsh/site-functions $(AT)/share/fish/vendor_completions.d
	$O/cerium --completion bash >$(AT)/share/bash-completion/completions/cerium
	$O/cerium --completion zsh >$(AT)/share/zsh/site-functions/_cerium
	$O/cerium --completion fish >$(AT)/share/fish/vendor_completions.d/cerium.fish
	$(if $(wildcard models/*.gguf),install -m 644 models/*.gguf -t $(AT)/share/cerium/models)

# The program with its libraries beside it, for systems that lack them: packages/archive.sh.
$O/cerium_portable: $(PROG_OBJ) $(SERVER_OBJ) $(LIB_OBJ) ; $(LINK) $(SERVER_LIBS) $(LIBEDIT) -Wl,-rpath,'$$ORIGIN/../lib/cerium' -Wl,--disable-new-dtags
package:
	@tools/install_packages.sh build package
	@$(MAKE) $(ALL_JOBS) all $O/cerium_portable
	@O=$O VERSION=$(VERSION) packages/build.sh build/package
	@O=$O PACKAGES=build/package tools/run_tests.sh $(patsubst %,'sh %',$(sort $(wildcard tests/packages/test_*.sh)))

clean: ; rm -rf build cerium
FORCE:
.SECONDARY:
.PHONY: all help lib run test tested test-clients bench bench-conversation bench-drafts bench-latency bench-peers bench-proxy bench-recited bench-server \
        soak fuzz fuzzed install clean unit golden replay kernelcheck kernelcheck-arm64 arm64-built man man-check FORCE \
        install-program install-files package vscode grammars documents bench-agent bench-guard bench-solve bench-exists bench-quant hostile
-include $(LIB_OBJ:.o=.d) $(SERVER_SRC:%.c=$O/%.d) $(PROG_OBJ:.o=.d) $(wildcard $O/tests/*/*.d $O/tools/*.d $O/examples/*.d)
