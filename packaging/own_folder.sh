# SPDX-License-Identifier: Apache-2.0
#
# Which folders a script may trust: what lies in a folder that somebody else can prepare or change, he decides. Sourced
# by scripts that run programs from folders, or write to them, as root.

# trusted_folder PATH: whether only root, the caller and the owner of this script can have made this folder and what is
# in it. The folders above belong to them, too, and others may write only to those where nobody can rename or remove
# what is not his (the sticky bit, as /tmp has it). A folder that is not there yet is judged by the ones above it.
trusted_folder() {
  local path first=yes owner mode trusted
  trusted="0 $(id -u) $(stat -c %u "${BASH_SOURCE[0]}")"
  path=$(realpath -ms "$1") || return 1
  while :; do
    if [[ -e $path || -L $path ]]; then
      [[ ! -L $path ]] || trusted_folder "$(realpath -m "$path")" || return 1
      read -r owner mode <<<"$(stat -c '%u %a' "$path")"
      [[ " $trusted " == *" $owner "* ]] || return 1
      if (((8#$mode & 8#022) != 0)) && [[ ! -L $path ]]; then # a link has no mode of its own
        [[ -z $first ]] && (((8#$mode & 8#1000) != 0)) || return 1
      fi
      first=
    fi
    [[ $path != / ]] || return 0
    path=$(dirname "$path")
  done
}

# need_trusted_folder PATH VARIABLE: ends the script where PATH is not such a folder; VARIABLE names another one.
need_trusted_folder() {
  trusted_folder "$1" && return
  echo "$(basename "$0"): $1 belongs to another user, or others may write there; name a folder of your own in $2" >&2
  exit 1
}
