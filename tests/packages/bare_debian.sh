# Sourced by the tries of packages: a bare Debian in a chroot.
#
#   $work, $root     a folder that goes when the script ends; the chroot in it
#   require TOOL...  skips the script where a tool or root's rights are missing
#   bare_debian SUITE [PACKAGE...]   makes the chroot, with these Debian packages
#   inside COMMAND...                runs there as root
#   files            every file there with its size

work=$(mktemp -d)
root=$work/root
trap 'umount "$root"/{proc,wheels} 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT

require() {
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null || { say "skipped: no $tool" && exit 77; }
  done
  ((EUID == 0)) || { say "skipped: not root" && exit 77; }
}

# The first archive that this machine itself installs from.
archive() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/debian.* 2>/dev/null |
    sed -n -e 's/^URIs: *\([^ ]*\).*/\1/p' -e 's/^deb \(\[[^]]*\] \)\?\([^ ]*\).*/\2/p' | head -1 || true
}

inside() {
  chroot "$root" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"
}

# Leaves out what apt and dpkg keep of any package.
files() {
  inside find / -xdev -path /proc -prune -o -path /tmp -prune -o -path /var/cache -prune -o -path /var/lib/apt -prune \
    -o -path /var/lib/dpkg -prune -o -path /var/log -prune -o -type f -printf '%p %s\n' -o -printf '%p\n' | sort
}

bare_debian() {
  local suite=$1 mirror settings
  shift
  local packages="ca-certificates $*"
  mirror=$(archive)
  debootstrap --variant=minbase --include="${packages// /,}" "$suite" "$root" "${mirror:-http://deb.debian.org/debian}" \
    >"$work/debootstrap.log" 2>&1 || { tail "$work/debootstrap.log" && fail "debootstrap failed"; }
  mkdir -p "$root/etc/apt/apt.conf.d"
  # The machine's way to its mirror. The chroot's own certificates are links that lead out of it.
  for settings in $(grep -l '^Acquire' /etc/apt/apt.conf /etc/apt/apt.conf.d/* 2>/dev/null); do
    cp "$settings" "$root/etc/apt/apt.conf.d/"
  done
  cp --remove-destination -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  mount -t proc proc "$root/proc"
}
