# SPDX-License-Identifier: Apache-2.0
#
# Sourced by scripts that run programs for AArch64 on x86-64.

# run_by_qemu: from now on. Needs root and qemu-user-static, whose package leaves the first part to systemd.
run_by_qemu() {
  local binfmt=/proc/sys/fs/binfmt_misc
  command -v qemu-aarch64-static >/dev/null || { echo "qemu-user-static is missing" >&2; return 1; }
  [[ -e $binfmt/register ]] || mount -t binfmt_misc binfmt_misc "$binfmt"
  [[ -e $binfmt/qemu-aarch64 ]] || cat /usr/lib/binfmt.d/qemu-aarch64.conf >"$binfmt/register"
  # QEMU 7 writes down each page of addresses that a program reserves, and the simulated GPU would reserve 1 TiB in
  # each process (128 GiB take 5 s and 0.8 GB of memory). It takes the largest power of two within the limit.
  ulimit -v $((31 << 20))
}
