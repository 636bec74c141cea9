# SPDX-License-Identifier: Apache-2.0
#
# The steps ./demo and ./check share: packages, configure, build. Sourced by them, from the repository root.
#
# Each step prints one line; what its programs print goes to a log in the build folder, whose end is shown
# when the step fails. Steps that find nothing to do take no time.
#
#   FAIRLEAD_BUILD   build folder (default: build)
#   FAIRLEAD_MPICC   MPI compiler wrappers to build for, before those found on PATH

build=${FAIRLEAD_BUILD:-build}
mpicc=${FAIRLEAD_MPICC:-}
# The library takes FAIRLEAD_* for its options and would warn of these.
unset FAIRLEAD_BUILD FAIRLEAD_MPICC
if [[ -t 1 ]]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi

say() { printf '%s\n' "${bold}==>${plain} $*"; }
die() { printf '%s\n' "$(basename "$0"): $*" >&2; exit 1; }
mistake() { printf '%s\n' "$(basename "$0"): $*" >&2; exit 2; }

# The comment at the head of the script, from its first sentence on.
print_help() { sed -n '4,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

open_build_folder() {
  if ! mkdir -p "$build" 2>/dev/null || [[ ! -w $build ]]; then
    die "cannot write to the build folder $build; name another in FAIRLEAD_BUILD"
  fi
  build=$(cd "$build" && pwd)
}

# show_progress LOG: passes what ninja prints on to the log, and shows how far it is: on a terminal in one line that is
# written over, elsewhere in a line each half minute.
show_progress() {
  local line next=$((SECONDS + 30))
  while IFS= read -r line; do
    printf '%s\n' "$line" >&3
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    if [[ -t 1 ]]; then
      printf '\r    %s of %s\e[K' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
    elif ((SECONDS >= next)); then
      echo "    ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]}"
      next=$((SECONDS + 30))
    fi
  done 3>"$1"
  if [[ -t 1 ]]; then printf '\r\e[K'; fi
}

has_header() {
  local prefixes=${CMAKE_PREFIX_PATH:-} flags=() prefix
  for prefix in ${prefixes//[:;]/ }; do flags+=("-I$prefix/include"); done
  printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" |
    c++ "${flags[@]}" -x c++ -E - >/dev/null 2>&1
}

has_mpi() {
  local wrapper
  for wrapper in ${mpicc//;/ } mpicc mpicc.openmpi mpicc.mpich mpicc_abi; do
    command -v "$wrapper" >/dev/null && return
  done
  return 1
}

# has_clang VERSION: a clang++ at least so new, with its linker.
has_clang() {
  local version newest
  newest=$(clang++ -dumpversion 2>/dev/null | cut -d. -f1) || true
  if ((${newest:-0} >= $1)) && command -v ld.lld >/dev/null; then return; fi
  for version in $(seq "$1" 30); do
    command -v "clang++-$version" >/dev/null && command -v "ld.lld-$version" >/dev/null && return
  done
  return 1
}

# obtainable PACKAGE...: does apt know all of them?
obtainable() {
  local package policy
  for package; do
    policy=$(apt-cache policy "$package" 2>/dev/null) || return 1
    [[ $policy =~ Candidate:\ [^\(] ]] || return 1
  done
}

is_present() { # the words of a requirement's middle column
  case $1 in
    command) command -v "$2" >/dev/null ;;
    header) has_header "$2" ;;
    module) /usr/bin/python3 -c "import $2" 2>/dev/null ;;
    mpi) has_mpi ;;
    clang) has_clang "$2" || { has_clang "$3" && ! obtainable "clang-$2"; } ;;
  esac
}

# missing_packages USE...: the packages of these uses that are not there, each once.
missing_packages() {
  local use probe packages
  while IFS='|' read -r use probe packages; do
    [[ $use == \#* || " $* " != *" ${use// /} "* ]] && continue
    # shellcheck disable=SC2086
    is_present $probe && continue
    if [[ $packages == *' or '* ]]; then
      # shellcheck disable=SC2086
      if obtainable ${packages% or *}; then packages=${packages% or *}; else packages=${packages#* or }; fi
    fi
    # shellcheck disable=SC2086
    printf '%s\n' $packages
  done <packaging/requirements | sort -u | paste -sd' '
}

apt_get() {
  local as_root=()
  (($(id -u) == 0)) || as_root=(sudo -n)
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get "$@"
}

# install_missing USE...: which packages there are is known after the update.
install_missing() {
  apt_get -o Acquire::Retries=0 -o Acquire::http::Timeout=20 update || return
  # shellcheck disable=SC2046
  apt_get install -y --no-install-recommends $(missing_packages "$@")
}

may_install() {
  command -v apt-get >/dev/null || return 1
  (($(id -u) == 0)) || sudo -n true 2>/dev/null
}

# need_packages USE...: installs what is missing. Without the right to do so, stops when the build needs it,
# and otherwise says what will be left out.
need_packages() {
  local missing refused=$build/packages-not-installable
  missing=$(missing_packages "$@")
  if [[ -n $missing ]] && may_install && [[ $(cat "$refused" 2>/dev/null) != "$missing" ]]; then
    say "Install $missing ($build/packages.log)"
    install_missing "$@" >"$build/packages.log" 2>&1 || tail -n 5 "$build/packages.log" >&2
    missing=$(missing_packages "$@")
    # What the build can do without is not asked for again each time.
    [[ -n $(missing_packages build) ]] || echo "$missing" >"$refused"
  fi
  if [[ -z $missing ]]; then
    say "Packages: all present"
    return
  fi
  local remedy="apt-get install $missing"
  command -v apt-get >/dev/null || remedy="$missing (names as in Debian; see docs/use/install.md)"
  if [[ -n $(missing_packages build) ]]; then
    die "packages are missing; install them as root, then call again:
  $remedy"
  fi
  say "Packages: going on without $missing (to have all: $remedy)"
}

# What our own CMake files refused, in one line; CMake breaks it into several and adds where it was called.
cmake_refusal() {
  awk '/^CMake Error at cmake\// { on = 1; next } on && (/^Call Stack/ || /^--/ || /^[^ ]/) { exit } on { print }' "$1" |
    tr -s ' \n' ' ' | sed 's/^ //; s/ $//'
}

# some_test_matches [ctest arguments]
some_test_matches() { (cd "$build" && ctest -N "$@") 2>/dev/null | grep -q '^Total Tests: [1-9]'; }

# configure [-DNAME=VALUE...]
configure() {
  say "Configure ($build/configure.log)"
  local arguments=(-S . -B "$build" -G Ninja)
  [[ -z $mpicc ]] || arguments+=("-DFAIRLEAD_MPICC=$mpicc")
  if ! cmake "${arguments[@]}" "$@" >"$build/configure.log" 2>&1; then
    local reason
    reason=$(cmake_refusal "$build/configure.log")
    [[ -n $reason ]] && die "$reason"
    tail -n 25 "$build/configure.log" >&2
    die "'cmake' failed; the whole log is $build/configure.log"
  fi
  sed -n 's/^-- MPI for ABI \([a-z]*\): \(.*\)$/    MPI \1: \2/p; s/^-- \([^ ]* \)*\(built without device code.*\)/    \2/p' \
    "$build/configure.log"
}

# build_targets [TARGET...]: all where none is named.
build_targets() {
  say "Build: some minutes the first time ($build/build.log)"
  if ! cmake --build "$build" ${1:+--target "$@"} 2>&1 | show_progress "$build/build.log"; then
    tail -n 25 "$build/build.log" >&2
    die "'cmake' failed; the whole log is $build/build.log"
  fi
}
