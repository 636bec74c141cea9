# SPDX-License-Identifier: Apache-2.0
#
# Which folders a script may trust: whoever can prepare or change a folder decides what lies in it. Sourced by scripts
# that run programs from folders, or write to them, as root.

# is_group_of_one USER GROUP: the primary group of a user that nobody else is in, whose members' umask is often 002.
is_group_of_one() {
  local entry
  [[ $(getent passwd "$1" | cut -d: -f4) == "$2" ]] || return 1
  entry=$(getent group "$2") || return 1
  [[ -z ${entry##*:} && $(getent passwd | awk -F: -v group="$2" '$4 == group' | wc -l) == 1 ]]
}

# trusted_folder PATH: whether only root, the caller and the owner of this script can have made this folder and what is
# in it. The folders above belong to them, too, and others may write only to those where nobody can rename or remove
# what is not his (the sticky bit, as /tmp has it). A folder that is not there yet is judged by the ones above it.
trusted_folder() {
  local path first=yes owner group mode others trusted
  trusted="0 $(id -u) $(stat -c %u "${BASH_SOURCE[0]}")"
  path=$(realpath -ms "$1") || return 1
  while :; do
    if [[ -e $path || -L $path ]]; then
      [[ ! -L $path ]] || trusted_folder "$(realpath -m "$path")" || return 1
      read -r owner group mode <<<"$(stat -c '%u %g %a' "$path")"
      [[ " $trusted " == *" $owner "* ]] || return 1
      others=8#022
      if is_group_of_one "$owner" "$group"; then others=8#002; fi
      if (((8#$mode & others) != 0)) && [[ ! -L $path ]]; then # a link has no mode of its own
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
