#!/bin/sh
# Make the virtual environment VENV with all that pyproject.toml asks for, and say what is being done: on a terminal on one
# line that changes, elsewhere in a line for each part.
# Usage: setup.sh PYTHON VENV      Everything that pip says is kept in VENV/setup.log.
set -eu
python=$1 venv=$2

"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "Python 3.11, 3.12 or 3.13 is needed, this is "
    + sys.version.split()[0] + ": make PYTHON=python3.11 ...")'
echo "Setting up $venv, once: three or four minutes and 3 GB, or 6 GB where pip takes the CUDA build of torch (README.md)."
test -x "$venv/bin/python" || "$python" -m venv "$venv"

part=
say() {
    if [ -t 1 ]; then
        printf '\r\033[K%s%s' "$1" "${2:+: $2}"
    elif [ "$1" != "$part" ]; then
        part=$1
        echo "$part"
    fi
}

install() {
    "$venv/bin/python" -u -m pip install --disable-pip-version-check --progress-bar off \
        --constraint infra/constraints.txt --editable '.[dev]' 2>&1
}

rm -f "$venv/failed"
{ install || touch "$venv/failed"; } |
    tee "$venv/setup.log" |
    while read -r verb what _; do
        case "$verb $what" in
            Collecting*) say "looking up and downloading packages" "$what" ;;
            Downloading*) say "looking up and downloading packages" "${what##*/}" ;;
            'Installing collected') say "installing them, the last and longest part" ;;
        esac
    done
if [ -t 1 ]; then say ""; fi

if [ -e "$venv/failed" ]; then
    echo "Set-up failed. The end of $venv/setup.log:"
    tail -n 8 "$venv/setup.log"
    exit 1
fi
