#!/usr/bin/env bash
# Shows a hook at work on a real control plane, and leaves nothing behind. With HOOKS=dir it runs your hooks instead,
# until Ctrl-C.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/bin/tools:$PATH

say() { printf '\n\e[1m%s\e[0m\n' "$*"; }
[[ -t 1 ]] || say() { printf '\n%s\n' "$*"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }

hooks=${HOOKS:-examples/monitor-pods/hooks}
[[ -d $hooks ]] || fail "HOOKS=$hooks is not a directory"

dir=$(mktemp -d "${TMPDIR:-/tmp}/shell-operator-demo-XXXXXX")
cluster='' operator=''
leave() {
	# The operator first: it would complain of a cluster that has gone.
	for pid in $operator $cluster; do
		kill -TERM "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	operator='' cluster=''
	rm -rf "$dir"
}
trap leave EXIT

say '1. A control plane: etcd, kube-apiserver and kube-controller-manager'
mkfifo "$dir/ready"
bin/testcluster start --dir "$dir/cluster" >"$dir/ready" &
cluster=$!
read -r line <"$dir/ready" || true
[[ ${line:-} == ready ]] || fail 'the control plane did not start'
export KUBECONFIG=$dir/cluster/kubeconfig
kubectl version | sed -n 's/^Server Version: /   ready: Kubernetes /p'

operator_command=(bin/shell-operator start --hooks-dir "$hooks" --tmp-dir "$dir/tmp" --listen-address 127.0.0.1 --listen-port 0)

if [[ -n ${HOOKS:-} ]]; then
	say "2. The operator with the hooks in $hooks, until Ctrl-C. In another terminal:"
	printf '   export KUBECONFIG=%s PATH=%s:$PATH\n   kubectl get pods\n\n' "$KUBECONFIG" "$PWD/bin/tools"
	trap : INT # both programs get it too; bash waits for them
	"${operator_command[@]}" --log-type color || fail 'the operator ended with an error'
	exit
fi

say "2. The operator with the hook $hooks/pods.sh"
mkfifo "$dir/log"
"${operator_command[@]}" >"$dir/log" &
operator=$!

# until_line PATTERN: print the operator's log until a line matches. The line is in REPLY.
until_line() {
	while IFS= read -r -t 60 -u 3; do
		printf '   %s\n' "$REPLY"
		[[ $REPLY =~ $1 ]] && return
	done
	fail "waited for '$1', but it did not come"
}
exec 3<"$dir/log"
until_line 'Unlock kubernetes.Event tasks'

say '3. kubectl create deployment web --image=nginx'
kubectl create deployment web --image=nginx | sed 's/^/   /'
until_line 'Pod .*web-.* added'
[[ $REPLY =~ Pod\ .*\ added ]]
added=${BASH_REMATCH[0]//\\/} # the log escapes quotes

cat <&3 >/dev/null & # the remaining output of the operator
leave
say '4. Everything is stopped. The output of the hook:'
printf '%s\n' "$added"
