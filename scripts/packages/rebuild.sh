# Sourced by scripts/packages/hdf5 and scripts/packages/tiff: a library of Debian built again for a wheel, of the same
# source, under the same name and with the same versions of symbols, without parts that the wheel should not carry.
source scripts/locations.sh

# rebuild NAME PACKAGE: prints the folder of the library that `build_into FOLDER` makes in the source's folder. The folder
# lies in the cache, once for each release of PACKAGE, the library's -dev package.
rebuild() {
  local name=$1 version folder
  version=$(dpkg-query -W -f '${source:Version}' "$2")
  folder=$cache/$name-$version
  [[ ! -d $folder ]] || { echo "$folder" && return; }
  mkdir -p "$cache"
  exec 9>"$cache/$name.lock"
  flock 9
  [[ ! -d $folder ]] || { echo "$folder" && return; }
  work=$(mktemp -d "$cache/$name.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  (
    cd "$work"
    own_sources
    own_apt update
    own_apt -o APT::Sandbox::User=root source "$(dpkg-query -W -f '${source:Package}' "$2")=$version"
    mkdir ready
    cd ./*-*/
    export CFLAGS="-O2 -ffile-prefix-map=$PWD=. -fstack-protector-strong" CPPFLAGS=-D_FORTIFY_SOURCE=2 LDFLAGS=-Wl,-z,relro
    build_into "$work/ready"
  ) >"$work/log" 2>&1 || { tail -20 "$work/log" >&2 && fail "$name $version cannot be built"; }
  mv "$work/ready" "$folder"
  echo "$folder"
}

# Sources of the archives that this machine installs from, and nothing of the machine's own settings is changed.
own_sources() {
  local file
  mkdir lists archives sources
  shopt -s nullglob
  for file in /etc/apt/sources.list.d/debian*.sources; do
    sed 's/^Types:.*/Types: deb-src/' "$file" >"sources/$(basename "$file")"
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian*.list; do
    [[ -e $file ]] || continue
    sed -n 's/^deb /deb-src /p' "$file" >"sources/$(basename "$file" .list).list"
  done
}
own_apt() {
  apt-get -qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/sources" -o Dir::State::Lists="$work/lists" \
    -o Dir::Cache="$work/archives" "$@"
}
