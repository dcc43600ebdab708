#!/usr/bin/env bash
# Shows two hooks at work on an API server in memory, and leaves nothing behind. With HOOKS=dir it runs your hooks instead, until Ctrl-C.
# Nothing but the program and jq is built; with CONTROL_PLANE=real also bin/testcluster, a control plane that the hooks run on.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n\e[1m%s\e[0m\n' "$*"; }
[[ -t 1 ]] || say() { printf '\n%s\n' "$*"; }
note() { printf 'demo: %s\n' "$*" >&2; }
fail() { note "$@" && exit 1; }

plane=memory
if [[ ${CONTROL_PLANE:-} == real ]]; then
	plane=bin/testcluster
	note 'a real control plane, which takes minutes to build the first time'
else
	note 'an API server in memory, not Kubernetes: no admission, defaults, controllers or permissions'
fi
hooks=${HOOKS:-scripts/demo}
[[ -d $hooks ]] || fail "HOOKS=$hooks is not a directory"

dir=$(mktemp -d "${TMPDIR:-/tmp}/shell-operator-demo-XXXXXX")
session='' building=''
leave() {
	for pid in $building $session; do
		kill -TERM "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	session='' building=''
	rm -rf "$dir"
}
trap leave EXIT

# built TARGET…: make, with a line each 10 s that says which package is built.
built() {
	GOFLAGS="${GOFLAGS:-} -v" make --no-print-directory "$@" >"$dir/build" 2>&1 &
	building=$!
	local start=$SECONDS next=$((SECONDS + 10))
	while kill -0 "$building" 2>/dev/null; do
		sleep 0.5
		((SECONDS < next)) && continue
		next=$((next + 10))
		note "make $*, $((SECONDS - start)) s: $(wc -l <"$dir/build") packages, the last one is $(tail -n 1 "$dir/build")"
	done
	wait "$building" || { tail -n 20 "$dir/build" >&2 && fail "$* cannot be built"; }
	building=''
}
built build
[[ $plane == memory ]] || built testcluster
PATH=$PWD/bin/tools:$PATH
command -v jq >/dev/null || built bin/tools/jq

command=(bin/shell-operator dev --testcluster "$plane" "$hooks")
if [[ -n ${HOOKS:-} ]]; then
	say "${command[*]}, until Ctrl-C"
	trap : INT # the session gets it too; bash waits for it
	"${command[@]}" || fail 'it ended with an error'
	exit
fi

# until_line PATTERN: print lines until one matches. It is in REPLY.
until_line() {
	while IFS= read -r -t 60 -u 3; do
		printf '   %s\n' "$REPLY"
		[[ ! $REPLY =~ export\ (KUBECONFIG=.*) ]] || export "${BASH_REMATCH[1]?}"
		[[ ! $REPLY =~ --debug-unix-socket\ (.*) ]] || socket=${BASH_REMATCH[1]}
		[[ $REPLY =~ $1 ]] && return
	done
	fail "waited for '$1', but it did not come"
}

# request METHOD PATH [BODY]: a request with the token of the kubeconfig, for machines without kubectl.
request() {
	read -r server token < <(jq -r '[.clusters[0].cluster.server, .users[0].user.token] | join(" ")' "$KUBECONFIG")
	jq -r '.clusters[0].cluster["certificate-authority-data"] | @base64d' "$KUBECONFIG" >"$dir/ca.crt"
	curl -fsS --cacert "$dir/ca.crt" -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -X "$1" "$server$2" ${3:+-d "$3"}
}

# kubectl, or requests, for the three things that the demo does.
maps=/api/v1/namespaces/default/configmaps
if ! command -v kubectl >/dev/null; then
	run_pod() { request POST /api/v1/namespaces/default/pods '{"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}' >/dev/null; }
	create_map() { request POST $maps "$1" >/dev/null; }
	delete_map() { request DELETE "$maps/$1" >/dev/null; }
	get_map() { request GET "$maps/$1"; }
else
	run_pod() { kubectl run web --image=nginx | sed 's/^/   /'; }
	create_map() { kubectl create -f - <<<"$1" | sed 's/^/   /'; }
	delete_map() { kubectl delete configmap "$1" --wait=false | sed 's/^/   /'; }
	get_map() { kubectl get configmap "$1" -o json; }
fi

say "1. ${command[*]}"
mkfifo "$dir/log"
"${command[@]}" >"$dir/log" 2>&1 &
session=$!
exec 3<"$dir/log"
until_line 'pods.sh 1-1 ended: succeeded'

say '2. A Pod: a hook reacts'
run_pod
until_line 'Pod web added'

say '3. A ConfigMap that lists pages: a hook makes a child for each'
create_map '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop", "labels": {"site": "yes"}}, "data": {"pages": "home cart"}}'
until_line 'sites.sh .*ended: succeeded'

say '4. A client deletes a child: the operator restores it'
before=$(get_map shop-cart | jq -r .metadata.uid)
delete_map shop-cart
for _ in {1..100}; do
	get_map shop-cart >"$dir/child" 2>/dev/null && [[ $(jq -r .metadata.uid "$dir/child") != "$before" ]] && restored=yes && break
	sleep 0.1
done
[[ -n ${restored:-} ]] || fail 'the child is not restored'
jq -c '{name: .metadata.name, data, owner: .metadata.ownerReferences[0].name}' "$dir/child" | sed 's/^/   /'

say '5. shell-operator why sites.sh'
bin/shell-operator why sites.sh --debug-unix-socket "$socket" | sed 's/^/   /'

cat <&3 >/dev/null & # the remaining output
leave
say 'Everything is stopped. Next:'
cat <<'END'
   bin/shell-operator init                        # hooks/pods.sh: a hook with its tests
   bin/shell-operator dev --testcluster memory    # runs it, reloads it and repeats its tests after each change
END
