# SPDX-License-Identifier: Apache-2.0
#
# Where Debian's packages come from. Sourced by scripts that need those of another release than this machine's.
#
#   DEBIAN_MIRROR         the mirror to use, in place of the one that apt is set up for
#   DEBIAN_ARCHITECTURE   whose packages unpack_debian takes, in place of this machine's

# The mirror of this machine's own release. $(...) is for apt-get.
# shellcheck disable=SC2016
debian_mirror() {
  local codename
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  [[ -n ${DEBIAN_MIRROR:-} ]] ||
    DEBIAN_MIRROR=$(apt-get indextargets --format '$(REPO_URI)' "Release: $codename" 'Component: main' | head -n 1)
  [[ -n $DEBIAN_MIRROR ]] || return 1
  echo "${DEBIAN_MIRROR%/}"
}

# unpack_debian LISTS FOLDER SUITE PACKAGE...: unpacks packages of a release into the folder, through apt with lists
# and settings of its own, which it keeps in LISTS, in place of the machine's.
unpack_debian() {
  local apt=$1 folder=$2 suite=$3 mirror package
  shift 3
  mirror=$(debian_mirror) || { echo "no Debian mirror is known; name one in DEBIAN_MIRROR" >&2; return 2; }
  mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
  apt=$(realpath "$apt")
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/sources.list"
  local options=(-q -o "Dir::State=$apt/state" -o Dir::State::status=/dev/null -o "Dir::Cache=$apt/cache"
    -o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "APT::Sandbox::User=$(id -un)")
  if [[ -n ${DEBIAN_ARCHITECTURE:-} ]]; then
    options+=(-o "APT::Architecture=$DEBIAN_ARCHITECTURE" -o "APT::Architectures=$DEBIAN_ARCHITECTURE")
  fi
  [[ -e $apt/updated ]] || { apt-get "${options[@]}" update && touch "$apt/updated"; } || return
  for package; do
    (cd "$folder" && apt-get "${options[@]}" download "$package" && dpkg -x "$package"_*.deb . && rm "$package"_*.deb) ||
      return
  done
}
