# SPDX-License-Identifier: Apache-2.0
#
# Where Debian's packages come from. Sourced by scripts that need those of another release than this machine's.
#
#   DEBIAN_MIRROR   the mirror to use, in place of the one that apt is set up for

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
