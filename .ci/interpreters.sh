# Which Python interpreters there are, and how a free-threaded one is made; sourced by .ci/run.

# find_python 3.12: the full path of such an interpreter, from PATH or pyenv; fails when there is none.
find_python() {
    local candidate
    for candidate in "$(command -v "python$1" || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
        if [ -x "$candidate" ] && "$candidate" -c 'import venv' 2>/dev/null; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

# free_threaded_python: the path of a CPython without a GIL. Debian has none as a package, so it is built once from
# Debian's source package of Python 3.13 and kept in the user's cache; prints to stderr all but the path.
free_threaded_python() {
    local found prefix=${XDG_CACHE_HOME:-$HOME/.cache}/pyexfat-ci/python-free-threaded
    for found in "$(command -v python3.14t || true)" "$(command -v python3.13t || true)" \
        "$prefix/bin/python3.13t"; do
        if [ -x "$found" ]; then
            echo "$found"
            return 0
        fi
    done
    build_free_threaded "$prefix" >&2
    echo "$prefix/bin/python3.13t"
}

# debian_source DIR PACKAGE SUITE: downloads a source package of another suite of the mirror that this machine uses,
# with apt's own lists left alone.
debian_source() {
    local dir=$1 package=$2 suite=$3 mirror
    local key=/usr/share/keyrings/debian-archive-keyring.gpg
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | head -n 1)
    [ -n "$mirror" ] || { echo "apt has no Debian mirror configured (or apt-get update never ran)"; return 1; }
    mkdir -p "$dir"/{parts,lists/partial,archives/partial,source}
    echo "deb-src [signed-by=$key] $mirror $suite main" >"$dir/parts/source.list"
    local options=(-o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$dir/parts"
        -o "Dir::State::Lists=$dir/lists" -o "Dir::Cache=$dir" -o APT::Sandbox::User=root)
    apt-get -q "${options[@]}" update
    (cd "$dir/source" && apt-get -q "${options[@]}" source --download-only "$package")
}

build_free_threaded() {
    local prefix=$1 dir
    dir=$(mktemp -d)
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        build-essential pkgconf zlib1g-dev libffi-dev libssl-dev libbz2-dev liblzma-dev libsqlite3-dev
    debian_source "$dir" python3.13 trixie
    mkdir "$dir/tree"
    tar -xf "$dir"/source/python3.13_*.orig.tar.xz --strip-components=1 -C "$dir/tree"
    (cd "$dir/tree" &&
        ./configure -q --disable-gil --prefix="$prefix" --disable-test-modules &&
        make -s -j"$(nproc)" && make -s install)
    rm -rf "$dir"
}
