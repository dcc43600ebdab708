#!/usr/bin/env bash
# Shows a hook at work on a real control plane, and leaves nothing behind. With HOOKS=dir it runs your hooks instead,
# until Ctrl-C. The API server and etcd are those of KUBEBUILDER_ASSETS, else bin/testcluster if it is built, else those that
# setup-envtest has or can fetch; without them, bin/testcluster is built.
set -euo pipefail
cd "$(dirname "$0")/.."

# Of a download: until the index of the binaries is there, until all is there. Both are reported.
index_seconds=5 download_seconds=60

say() { printf '\n\e[1m%s\e[0m\n' "$*"; }
[[ -t 1 ]] || say() { printf '\n%s\n' "$*"; }
note() { printf 'demo: %s\n' "$*" >&2; }
fail() { note "$@" && exit 1; }

hooks=${HOOKS:-examples/monitor-pods/hooks}
[[ -d $hooks ]] || fail "HOOKS=$hooks is not a directory"

dir=$(mktemp -d "${TMPDIR:-/tmp}/shell-operator-demo-XXXXXX")
session='' download=''
leave() {
	for pid in $session $download; do
		kill -TERM "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	session='' download=''
	rm -rf "$dir"
}
trap leave EXIT

# within SECONDS COMMAND…: replaces the shell by a command that ends after a time with all that it has started. macOS has no timeout.
within() {
	exec python3 -c '
import os, signal, subprocess, sys
def end(*_): sys.exit(143)
signal.signal(signal.SIGTERM, end)
process = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, start_new_session=True)
try:
    sys.exit(process.wait(float(sys.argv[1])))
except subprocess.TimeoutExpired:
    sys.exit("it takes longer than %s s" % sys.argv[1])
except KeyboardInterrupt:
    end()
finally:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
' "$@"
}

# The version of bin/testcluster, in any patch release. ENVTEST_INDEX is a mirror of the index.
kubernetes=$(sed -n 's|^\tk8s.io/kubernetes v\([0-9]*\.[0-9]*\)\..*|\1.x|p' testcluster/go.mod)
tool=$(make --no-print-directory -s envtest-path)
envtest=("$tool" -p path ${ENVTEST_INDEX:+--index "$ENVTEST_INDEX"})

# has DIR: whether it has all programs that the demo needs.
has() {
	for missing in etcd kube-apiserver kubectl; do
		[[ -x $1/$missing ]] || return 1
	done
}

# choose sets the control plane, a program or a directory, and reports why; it is empty while the download is running.
plane=''
choose() {
	if [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
		has "$KUBEBUILDER_ASSETS" || fail "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS has no program $missing: correct the variable, or unset it"
		plane=$KUBEBUILDER_ASSETS
		note "uses etcd and kube-apiserver of KUBEBUILDER_ASSETS=$plane; nothing of Kubernetes is built"
		return
	fi
	if make --no-print-directory -q bin/testcluster &>/dev/null; then
		plane=bin/testcluster
		note 'uses bin/testcluster, which is built already'
		return
	fi
	if ! (within "$download_seconds" make --no-print-directory -s "$tool") &>"$dir/answer"; then
		build "setup-envtest, which fetches binaries, cannot be built ($(last))"
		return
	fi
	if plane=$("${envtest[@]}" -i use "$kubernetes" 2>/dev/null) && has "$plane"; then
		note "uses etcd and kube-apiserver in $plane, which setup-envtest has fetched before; nothing of Kubernetes is built"
		return
	fi
	plane=''
	if ! (within "$index_seconds" "${envtest[@]}" list "$kubernetes") &>"$dir/answer"; then
		build "the list of binaries cannot be fetched, for which the demo waits $index_seconds s ($(last))"
	elif [[ ! -s $dir/answer ]]; then
		build "there are no binaries of Kubernetes $kubernetes for this machine"
	else
		note "fetches etcd and kube-apiserver with setup-envtest, for which it waits $download_seconds s; nothing of Kubernetes is built"
		(within "$download_seconds" "${envtest[@]}" use "$kubernetes") >"$dir/path" 2>"$dir/answer" &
		download=$!
	fi
}

last() { grep . "$dir/answer" | tail -n 1; }

# build REASON: the control plane is built, as for make test.
build() {
	note "builds the control plane, which takes minutes the first time: $1"
	make --no-print-directory testcluster
	plane=bin/testcluster
}

choose
make --no-print-directory build
PATH=$PWD/bin/tools:$PATH
command -v jq >/dev/null || make --no-print-directory -s bin/tools/jq
# What hooks of the examples call.
[[ -z ${HOOKS:-} ]] || make --no-print-directory -s stand-ins
if [[ -n $download ]]; then
	if wait "$download" && has "$(<"$dir/path")"; then
		plane=$(<"$dir/path")
	else
		build "the download failed ($(last))"
	fi
	download=''
fi

mkdir "$dir/bin"
ln -s "$([[ -d $plane ]] && realpath "$plane/kubectl" || echo "$PWD/$plane")" "$dir/bin/kubectl"
export PATH=$dir/bin:$PATH
command=(bin/shell-operator dev --testcluster "$plane" "$hooks")

if [[ -n ${HOOKS:-} ]]; then
	say "${command[*]}, until Ctrl-C"
	trap : INT # the session gets it too; bash waits for it
	"${command[@]}" || fail 'it ended with an error'
	exit
fi

# until_line PATTERN: print lines until one matches. It is in REPLY.
until_line() {
	while IFS= read -r -t 180 -u 3; do
		printf '   %s\n' "$REPLY"
		[[ ! $REPLY =~ export\ (KUBECONFIG=.*) ]] || export "${BASH_REMATCH[1]?}"
		[[ $REPLY =~ $1 ]] && return
	done
	fail "waited for '$1', but it did not come"
}

say "1. ${command[*]}"
mkfifo "$dir/log"
"${command[@]}" >"$dir/log" 2>&1 &
session=$!
exec 3<"$dir/log"
until_line 'ended: succeeded'

say '2. kubectl run web --image=nginx'
kubectl run web --image=nginx | sed 's/^/   /'
until_line "Pod .web. added"
added=${REPLY#*| }

cat <&3 >/dev/null & # the remaining output
leave
say '3. Everything is stopped. The output of the hook:'
printf '%s\n' "$added"
say 'Next:'
cat <<'END'
   bin/shell-operator init hooks/pods.py   # a hook in Python with its tests; hooks/pods.sh is one in sh, which needs jq
   bin/shell-operator test hooks           # its tests, without a cluster
   make demo CONTROL_PLANE=real HOOKS=hooks # the hook on a control plane, with a reload and its tests after each change
END
