# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Kernels and programs of other Debian releases and machines, without touching this one's apt. Sourced.
#
# Wants $cache (what is kept) and $work (scratch).

# Suite of Debian that carries a release.
suite_of() {
	case $1 in
	5.10) echo bullseye ;;
	6.1) echo bookworm ;;
	6.12) echo trixie ;;
	*) return 1 ;;
	esac
}

# Where this machine gets its Debian packages: the first source that apt knows.
mirror() {
	grep -hm1 -s '^URIs:' /etc/apt/sources.list.d/*.sources | awk '{print $2}' | grep . ||
		awk '$1 == "deb" {for (i = 2; i <= NF; i++) if ($i ~ /^[a-z]+:/) {print $i; exit}}' \
			/etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null
}

# An apt of its own for a suite and an architecture, in ${apt_opts[@]}.
apt_for() { # SUITE ARCH
	local dir=$work/apt-$1-$2
	apt_opts=(-o Dir::Etc::sourcelist="$dir/sources" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$dir/lists"
		-o Dir::State::status="$dir/status" -o Dir::Cache="$dir/cache" -o APT::Architecture="$2"
		-o APT::Architectures="$2" -o APT::Sandbox::User=root)
	[ -e "$dir/ready" ] && return 0
	mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
	: >"$dir/status"
	echo "deb [arch=$2 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $1 main" >"$dir/sources"
	apt-get "${apt_opts[@]}" update -qq >&2 && touch "$dir/ready"
}

# Download packages of apt_for and keep one of their folders: KEEP/SUBDIR. Whole or not at all.
keep_part() { # SUBDIR KEEP PACKAGE...
	local sub=$1 keep=$2 dir deb
	shift 2
	dir=$(mktemp -d "$work/deb.XXXXXX")
	(
		cd "$dir" || exit 1
		apt-get "${apt_opts[@]}" download -qq "$@" >&2 || exit 1
		for deb in ./*.deb; do dpkg -x "$deb" x || exit 1; done
		# As in a Debian of today, where /lib is /usr/lib.
		[ ! -d x/lib ] || { mkdir -p x/usr/lib && cp -a x/lib/. x/usr/lib/; }
	) || return 1
	mkdir -p "$keep"
	cp -r "$dir/x/$sub" "$keep/.$sub.$$" && mv "$keep/.$sub.$$" "$keep/$sub"
	rm -rf "$dir"
}

# Unpack the newest cloud kernel of a release; prints its image.
fetch_kernel() { # RELEASE ARCH
	local rel=$1 arch=$2 suite pkg
	local keep=$cache/$rel-$arch
	if [ ! -d "$keep/boot" ]; then
		suite=$(suite_of "$rel") && apt_for "$suite" "$arch" || return 1
		pkg=$(apt-cache "${apt_opts[@]}" search --names-only "^linux-image-${rel//./\\.}\\..*-cloud-$arch\$" |
			awk '{print $1}' | grep -v unsigned | sort -V | tail -n 1)
		[ -n "$pkg" ] && keep_part boot "$keep" "$pkg" || return 1
	fi
	find "$keep/boot" -name 'vmlinuz-*' | sort -V | tail -n 1 | grep .
}

# A static busybox for an architecture; prints its path.
fetch_busybox() { # ARCH
	local keep=$cache/busybox-$1
	if [ "$1" = "$(dpkg --print-architecture)" ] && [ -x /bin/busybox ] &&
		! readelf -l /bin/busybox | grep -q INTERP; then
		echo /bin/busybox
		return
	fi
	if [ ! -d "$keep/bin" ]; then
		apt_for bookworm "$1" && keep_part bin "$keep" busybox-static || return 1
	fi
	echo "$keep/bin/busybox"
}

# Modules of the kernel that fetch_kernel gives, by name, unpacked into one folder; prints it.
# A module that is built in has no file.
fetch_modules() { # RELEASE ARCH NAME...
	local rel=$1 arch=$2 image dir name file keep
	shift 2
	image=$(fetch_kernel "$rel" "$arch") || return 1
	keep=$cache/$rel-$arch/modules-${image##*/vmlinuz-}
	if [ ! -d "$keep" ]; then
		apt_for "$(suite_of "$rel")" "$arch" || return 1
		dir=$(mktemp -d "$work/deb.XXXXXX")
		(cd "$dir" && apt-get "${apt_opts[@]}" download -qq "linux-image-${image##*/vmlinuz-}" >&2 &&
			dpkg -x ./*.deb x) || return 1
		mkdir "$dir/keep"
		for name in "$@"; do
			file=$(find "$dir/x" -name "$name.ko" -o -name "$name.ko.xz" | head -n 1)
			case $file in
			*.xz) xz -dc "$file" >"$dir/keep/$name.ko" || return 1 ;;
			?*) cp "$file" "$dir/keep/" || return 1 ;;
			esac
		done
		mv "$dir/keep" "$keep" || return 1
		rm -rf "$dir"
	fi
	echo "$keep"
}

# Unpack Debian's Python with its headers for an architecture; prints the folder.
fetch_python() { # ARCH
	local keep=$cache/python-$1
	if [ ! -d "$keep/usr" ]; then
		apt_for bookworm "$1" && keep_part usr "$keep" python3.11-minimal libpython3.11-minimal \
			libpython3.11-stdlib libpython3.11-dev libffi8 libexpat1 || return 1
	fi
	echo "$keep/usr"
}
