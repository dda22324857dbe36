# The C core without Python.
#
#   make             $(BUILD)/libpyexfat.a
#   make ctest       builds and runs each tests/c/test_*.c
#   make fuzz        builds each fuzz/fuzz_*.c as a libFuzzer program (needs clang)
#   make clean
#
# Variants, each in a folder of its own: SAN=address,undefined  SAN=thread  COV=1 (gcov).
# Also: BUILD=folder, CC=clang, WERROR= (warnings stay warnings), RUN=prefix (ctest under valgrind).

BUILD   ?= build
CFLAGS  ?= -O2 -g
WERROR  ?= -Werror
AR      ?= ar
SAN     ?=
COV     ?=
RUN     ?=

comma   := ,
variant := $(subst $(comma),-,$(SAN))$(if $(COV),coverage)
out     := $(BUILD)$(if $(variant),/$(variant))

override CFLAGS += -std=c11 -pthread -Icsrc -Wall -Wextra -Wpedantic -Wconversion -Wshadow \
    -Wstrict-prototypes $(WERROR) \
    $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer -O1) \
    $(if $(COV),--coverage -fprofile-update=atomic -O1)
link    := $(if $(SAN),-fsanitize=$(SAN)) $(if $(COV),--coverage)

core    := $(sort $(shell find csrc -name '*.c' -not -path 'csrc/python/*'))
tests   := $(sort $(wildcard tests/c/test_*.c))
support := $(filter-out $(tests),$(sort $(wildcard tests/c/*.c)))
fuzzers := $(sort $(wildcard fuzz/fuzz_*.c))
driver  := $(filter-out $(fuzzers),$(sort $(wildcard fuzz/*.c)))

objects  = $(patsubst %.c,$(out)/%.o,$(1))
lib     := $(out)/libpyexfat.a
programs := $(patsubst tests/c/%.c,$(out)/ctest/%,$(tests))
targets := $(patsubst fuzz/%.c,$(out)/fuzz/%,$(fuzzers))

all: $(lib)

$(lib): $(call objects,$(core))
	@rm -f $@
	$(AR) rcs $@ $^

$(out)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(programs): $(out)/ctest/%: $(out)/tests/c/%.o $(call objects,$(support)) $(lib)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(link) -o $@ $^ $(LDFLAGS)

ctest: $(programs)
	@failed=; for p in $(programs); do \
	    echo "$$(basename $$p)"; $(RUN) $$p || failed="$$failed $$(basename $$p)"; \
	done; test -z "$$failed" || { echo "failed:$$failed"; exit 1; }
	@echo "$(words $(programs)) C test programs ran without failure"

fuzz:
	$(MAKE) CC=clang SAN=fuzzer-no-link,address,undefined fuzz-programs

fuzz-programs: $(targets)

$(targets): $(out)/fuzz/%: $(out)/fuzz/%.o $(call objects,$(driver)) $(lib)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fsanitize=fuzzer,address,undefined -o $@ $^ $(LDFLAGS)

clean:
	rm -rf $(BUILD)

.PHONY: all ctest fuzz fuzz-programs clean
.SECONDARY:
-include $(patsubst %.o,%.d,$(call objects,$(core) $(tests) $(support) $(fuzzers) $(driver)))
