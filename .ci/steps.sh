# The steps of .ci/run, a function each (step_NAME); sourced.

python=${PYTHON:-python3}
logs=$PWD/build/ci
export PYEXFAT_REQUIRE_PEERS=1
export PATH=$PATH:/usr/sbin:/sbin
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
jobs=$(nproc)
# What earlier runs of pytest left behind (it clears that up when it ends) is no business of this one.
export PYTEST_DEBUG_TEMPROOT=$logs/tmp
rm -rf "$PYTEST_DEBUG_TEMPROOT"
mkdir -p "$PYTEST_DEBUG_TEMPROOT"

# run_step NAME: the suite's output is for everybody to see, the others' only when they fail.
# Not `step_x || …`: that would switch off errexit inside the function.
run_step() {
    local name=$1 start=$SECONDS status=0
    if [ "$name" = suite ]; then
        step_suite
    else
        set +e
        (set -e; "step_$name") >"$logs/$name.log" 2>&1 </dev/null
        status=$?
        set -e
    fi
    if [ "$status" -ne 0 ]; then
        tail -n 200 "$logs/$name.log"
        echo ".ci/run: step $name failed with status $status after $((SECONDS - start)) s" >&2
        exit 1
    fi
    [ "$name" = suite ] || sed -n 's/^@@ //p' "$logs/$name.log"
    echo ".ci/run: $name ok, $((SECONDS - start)) s"
}

# venv NAME PACKAGES…: a fresh environment in build/ci/NAME with these installed.
venv() {
    local dir=$logs/$1
    shift
    "$python" -m venv --clear "$dir"
    "$dir/bin/pip" install -q "$@"
}

# readme_block MARKER: the lines of the fenced blocks that follow `<!-- MARKER -->` in the README, without "$ ".
# In a console transcript only the lines that begin with "$ " are commands.
readme_block() {
    awk -v marker="<!-- $1 -->" '
        index($0, marker) { armed = 1; next }
        armed && /^```/ { armed = 0; inside = 1; console = ($0 ~ /console/); next }
        inside && /^```/ { inside = 0; next }
        inside && (!console || sub(/^\$ /, "")) { print; found = 1 }
        END { exit !found }' README.md ||
        { echo "README.md has no block marked <!-- $1 -->" >&2; return 1; }
}

step_peers() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q
        apt-get install -q -y --no-install-recommends \
            build-essential python3-dev python3-venv git \
            clang clang-format llvm valgrind \
            exfatprogs exfat-fuse fuse3 fdisk gdisk dosfstools mtools util-linux mount kmod udev \
            qemu-system-x86 busybox-static cpio xz-utils zstd
        apt-get install -q -y --no-install-recommends \
            "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
    else
        echo "@@ not root or no apt-get: the peers must be there already"
    fi
    # The guest's kernel is fetched once, here, and not by two tests at the same time.
    local guest=${PYEXFAT_SHARED:-../shared}/oracle/linux-guest
    if [ -e "$guest" ]; then
        local dir
        dir=$(mktemp -d)
        echo 'echo guest kernel $(uname -r)' >"$dir/script"
        truncate -s 1M "$dir/disk"
        PATH=$PWD/tests/guest:$PATH bash "$guest" "$dir/script" "$dir/disk" | sed 's/^/@@ /'
        rm -r "$dir"
        tests/guest/fetch-modules
    else
        echo "@@ no shared folder: tests against the collected images and the guest kernel are skipped"
    fi
}

step_lint() {
    PYEXFAT_WERROR=1 venv lint '.[dev]'
    local bin=$logs/lint/bin
    "$bin/ruff" check .
    "$bin/ruff" format --check .
    "$bin/mypy"
    (cd "$logs" && "$bin/python" -m mypy.stubtest pyexfat._core)
    find csrc tests/c fuzz -name '*.[ch]' -print0 | xargs -0 clang-format --dry-run -Werror
}

step_core() {
    make -s -j"$jobs" CC=gcc BUILD=build/gcc
    make -s -j"$jobs" CC=clang BUILD=build/clang
    CC=clang PYEXFAT_WERROR=1 venv clang .
    "$logs/clang/bin/python" -P -c 'import pyexfat._core'
}

step_ctest() {
    make -s -j"$jobs" ctest
    make -s -j"$jobs" ctest SAN=address,undefined
    make -s -j"$jobs" ctest SAN=thread RUN="setarch -R"
    make -s ctest RUN="valgrind -q --leak-check=full --errors-for-leak-kinds=definite --error-exitcode=99"
}

# sdist, a wheel from the sdist alone, its stable-ABI promise, and its import in every CPython that is here.
step_package() {
    venv package build abi3audit
    local bin=$logs/package/bin dist=$logs/dist found
    rm -rf "$dist"
    "$bin/python" -m build -q -o "$dist"
    "$bin/abi3audit" --strict "$dist"/*.whl
    for version in 3.11 3.12 3.13 3.14 3.15; do
        found=$(find_python "$version") || continue
        "$found" -m venv --clear "$logs/import"
        "$logs/import/bin/pip" install -q --no-index "$dist"/*.whl
        (cd "$logs" && import/bin/python -c '
import pyexfat, sys, pyexfat._core as core
print("@@ wheel imports in CPython", sys.version.split()[0], core.__file__.rsplit("/")[-1])')
    done
}

# What a new user does, to the letter: the README's commands in a copy of the committed tree, nothing else installed.
step_readme() {
    local copy
    readme_block ci:run >"$logs/readme.sh"
    copy=$(mktemp -d)
    git archive HEAD | tar -x -C "$copy"
    (cd "$copy" && HOME=$copy env -u PYTHONPATH bash -euxo pipefail "$logs/readme.sh")
    rm -rf "$copy"
}

step_suite() {
    readme_block ci:test >"$logs/suite.sh"
    HYPOTHESIS_PROFILE=ci PYTEST_ADDOPTS="-n $jobs" bash -euo pipefail "$logs/suite.sh"
}

# instrumented NAME RUNTIME PYTEST-ARGUMENTS…: the suite in the environment NAME with a sanitizer's runtime loaded first.
# pytest must leave standard error alone, or what a dying process says is lost.
instrumented() {
    local name=$1 runtime
    runtime=$(gcc -print-file-name="$2")
    shift 2
    HYPOTHESIS_PROFILE=slow LD_PRELOAD=$runtime setarch -R \
        "$logs/$name/bin/pytest" -q --capture=sys -p no:cacheprovider "$@" | tee "$logs/$name-pytest.log"
    echo "@@ $name: $(tail -n 1 "$logs/$name-pytest.log")"
}

step_asan() {
    CC=gcc PYEXFAT_SANITIZE=address,undefined venv asan '.[cli,test,peers]'
    # Leaks are valgrind's and ctest's business: the interpreter has its own that would be named here.
    # More memory than there is has to be a null pointer, as without the sanitizer: tests ask for it.
    ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:allocator_may_return_null=1 \
        UBSAN_OPTIONS=print_stacktrace=1 instrumented asan libasan.so -n "$jobs" -m "not guest"
}

step_tsan() {
    CC=gcc PYEXFAT_SANITIZE=thread venv tsan '.[cli,test]'
    TSAN_OPTIONS=halt_on_error=1:exitcode=66:second_deadlock_stack=1 \
        instrumented tsan libtsan.so -m threads
}

step_valgrind() {
    venv valgrind .
    local report=$logs/valgrind.report
    PYTHONMALLOC=malloc valgrind --leak-check=full --show-leak-kinds=definite --num-callers=40 \
        --fullpath-after= --log-file="$report" "$logs/valgrind/bin/python" .ci/representative.py
    # The interpreter has leaks of its own; ours are the records with a frame of the core in them.
    sed -E 's/^==[0-9]+== ?//' "$report" |
        awk 'BEGIN { RS = ""; ORS = "\n\n" } /_core\.|csrc\// { print; bad = 1 } END { exit bad }'
    echo "@@ valgrind: no bad access and no leak with a frame of the core"
}

step_coverage() {
    find build -name '*.gcda' -delete
    CC=gcc PYEXFAT_COVERAGE=1 venv coverage '.[cli,test,peers]' gcovr
    local bin=$logs/coverage/bin
    make -s -j"$jobs" ctest COV=1 CC=gcc
    HYPOTHESIS_PROFILE=slow "$bin/pytest" -q -p no:cacheprovider -n "$jobs" -m "not guest"
    "$bin/gcovr" --root . --filter csrc/ --exclude-unreachable-branches --sort uncovered-number \
        --txt - --fail-under-line 90 build/coverage build/python-gcc-coverage | tee "$logs/coverage.txt"
    sed -n 's/^TOTAL */@@ line coverage of csrc: lines, executed, share: /p' "$logs/coverage.txt"
}

# fuzz NAME ARGUMENTS…: one libFuzzer program for a while; what it finds is left in build/ci.
fuzz() {
    local name=$1
    shift
    mkdir -p "build/corpus/$name"
    "build/fuzzer-no-link-address-undefined/fuzz/$name" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=20 \
        -rss_limit_mb=1024 -artifact_prefix="$logs/$name-" -print_final_stats=1 "$@" >"$logs/$name.log" 2>&1 ||
        { tail -n 60 "$logs/$name.log"; return 1; }
    echo "@@ $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$name.log") inputs"
}

step_fuzz() {
    make -s -j"$jobs" fuzz
    local seeds=$logs/seeds patches images
    rm -rf "$seeds"
    mkdir -p "$seeds"
    for cluster in 512 4096 65536; do
        truncate -s 1M "$seeds/$cluster.img"
        mkfs.exfat -c "$cluster" -b 64K "$seeds/$cluster.img"
    done
    fuzz fuzz_patch -max_len=2000 build/corpus/fuzz_patch &
    patches=$!
    fuzz fuzz_image -max_len=1048576 build/corpus/fuzz_image "$seeds" &
    images=$!
    wait "$patches"
    wait "$images"
}

# The concurrency tests with no GIL at all.
step_freethreaded() {
    local python
    python=$(free_threaded_python)
    # The last hypothesis with a wheel for it; newer ones would have to be compiled.
    PIP_ONLY_BINARY=hypothesis venv freethreaded '.[cli,test]'
    "$logs/freethreaded/bin/python" -P -W error -c '
import sys, pyexfat._core
assert not sys._is_gil_enabled()
print("@@ free-threaded CPython", sys.version.split()[0])'
    HYPOTHESIS_PROFILE=slow "$logs/freethreaded/bin/pytest" -q -p no:cacheprovider -m threads |
        tee "$logs/freethreaded-pytest.log"
    echo "@@ freethreaded: $(tail -n 1 "$logs/freethreaded-pytest.log")"
}
