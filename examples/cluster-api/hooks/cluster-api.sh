#!/bin/sh
# Serves HTTP requests about the cluster with the responses of the API server:
#
#   GET    /nodes, /namespaces
#   GET    /deployments, /services        all of them, or with ?ns=NAMESPACE those of one namespace
#   POST   /deployments?ns=NAMESPACE      {"name": "web"}: two times nginx, and a NodePort Service on port 80
#   DELETE /deployments/NAME?ns=NAMESPACE both, if this hook created them
set -eu
export LC_ALL=C

if [ "${1:-}" = --config ]; then
  cat <<'YAML'
configVersion: v1
settings:
  executionTimeout: 30s
http:
- {name: nodes, method: GET, path: /nodes}
- {name: namespaces, method: GET, path: /namespaces}
- {name: deployments, method: GET, path: /deployments}
- {name: services, method: GET, path: /services}
- {name: create, method: POST, path: /deployments}
- {name: delete, method: DELETE, path: "/deployments/{name}"}
YAML
  exit
fi

# The directory of this run is private, and removed at its end.
work=${HTTP_RESPONSE_PATH%/*}
answer=$work/answer error=$work/error ns=''

# request FILTER prints the result of a jq filter on the request.
request() { jq -r ".[0].request | $1" "$BINDING_CONTEXT_PATH"; }

# respond STATUS responds with the JSON from stdin.
respond() { jq -c "{status: $1, json: .}" >"$HTTP_RESPONSE_PATH"; }

# refuse STATUS REASON MESSAGE responds with an error in the form of the API server, and ends the run.
refuse() {
  jq -cn --argjson code "$1" --arg reason "$2" --arg message "$3" \
    '{kind: "Status", apiVersion: "v1", status: "Failure", $message, $reason, $code}' | respond "$1"
  exit
}

# passOn responds with the error of kubectl, and ends the run.
passOn() {
  message=$(cat "$error")
  reason=$(sed -n 's/^Error from server (\([A-Za-z]*\)): .*/\1/p' "$error" | head -n 1)
  message=${message#"Error from server ($reason): "}
  case $reason in
  BadRequest) refuse 400 "$reason" "$message" ;;
  Forbidden) refuse 403 "$reason" "$message" ;;
  NotFound) refuse 404 "$reason" "$message" ;;
  AlreadyExists | Conflict) refuse 409 "$reason" "$message" ;;
  Invalid) refuse 422 "$reason" "$message" ;;
  TooManyRequests) refuse 429 "$reason" "$message" ;;
  esac
  case $message in
  *" is invalid: "*) refuse 422 Invalid "$message" ;;
  esac
  echo "$message" >&2 # for the log only: it contains the address of the API server
  refuse 502 BadGateway "the API server gave no answer that can be passed on"
}

# api VERB PATH [ARGUMENT…] sends a request to the API server; its JSON is in $answer.
api() {
  verb=$1 path=$2
  shift 2
  kubectl "$verb" --raw "$path" "$@" >"$answer" 2>"$error"
}

# name WHAT FILTER sets name to the result of the filter on the request, and rejects invalid names: it becomes a part of paths.
# jq validates it, because the shell would drop a zero byte and a final newline.
name() {
  name=$(request "$2"' | if type == "string" and length > 0 and length < 64
      and (explode | all(. >= 97 and . <= 122 or . >= 48 and . <= 57 or . == 45))
      and (startswith("-") or endswith("-") | not)
    then . else "" end')
  if [ -z "$name" ]; then
    refuse 400 BadRequest "$1 has to be up to 63 lower case letters, digits and -, with - only inside"
  fi
}

# namespace sets ns; "" means all namespaces.
namespace() {
  case $(request '.query.ns // [] | if . == [] or . == [""] then "all" else length end') in
  all) ns='' ;;
  1)
    name ns '.query.ns[0]'
    ns=$name
    ;;
  *) refuse 400 BadRequest "give ns once" ;;
  esac
}

# one is namespace, but requires one.
one() {
  namespace
  if [ -z "$ns" ]; then
    refuse 400 BadRequest "say which namespace: ?ns=NAMESPACE"
  fi
}

# list PREFIX RESOURCE responds with all objects, or with those of the namespace ns.
list() {
  api get "$1${ns:+/namespaces/$ns}/$2" || passOn
  respond 200 <"$answer"
}

create() {
  one
  name name '.json | if type == "object" then .name else null end'
  jq -n --arg name "$name" '{
    apiVersion: "apps/v1", kind: "Deployment",
    metadata: {$name, labels: {app: $name, "app.kubernetes.io/managed-by": "cluster-api"}},
    spec: {
      replicas: 2, selector: {matchLabels: {app: $name}},
      template: {
        metadata: {labels: {app: $name}},
        spec: {containers: [{name: "nginx", image: "nginx:alpine", ports: [{containerPort: 80}]}]}
      }
    }
  }' >"$work/deployment"
  jq -n --arg name "$name" '{
    apiVersion: "v1", kind: "Service",
    metadata: {$name, labels: {app: $name, "app.kubernetes.io/managed-by": "cluster-api"}},
    spec: {type: "NodePort", selector: {app: $name}, ports: [{port: 80, targetPort: 80}]}
  }' >"$work/service"
  api create "/apis/apps/v1/namespaces/$ns/deployments" -f "$work/deployment" || passOn
  mv "$answer" "$work/deployment"
  if ! api create "/api/v1/namespaces/$ns/services" -f "$work/service"; then
    # Both or none. If this fails too, the log has the error.
    kubectl delete --raw "/apis/apps/v1/namespaces/$ns/deployments/$name" >/dev/null || true
    passOn
  fi
  jq -s '{kind: "List", apiVersion: "v1", items: .}' "$work/deployment" "$answer" | respond 201
}

delete() {
  one
  name name .pathValues.name
  ours='.metadata.labels["app.kubernetes.io/managed-by"] == "cluster-api"'
  api get "/apis/apps/v1/namespaces/$ns/deployments/$name" || passOn
  if [ "$(jq "$ours" "$answer")" != true ]; then
    refuse 409 Conflict "deployments.apps \"$name\" was not made here"
  fi
  # The Deployment is deleted last: as long as it exists, the request can be repeated.
  if api get "/api/v1/namespaces/$ns/services/$name" && [ "$(jq "$ours" "$answer")" = true ]; then
    api delete "/api/v1/namespaces/$ns/services/$name" || passOn
  fi
  api delete "/apis/apps/v1/namespaces/$ns/deployments/$name" || passOn
  respond 200 <"$answer"
}

case $(jq -r '.[0].binding' "$BINDING_CONTEXT_PATH") in
nodes) list /api/v1 nodes ;;
namespaces) list /api/v1 namespaces ;;
deployments)
  namespace
  list /apis/apps/v1 deployments
  ;;
services)
  namespace
  list /api/v1 services
  ;;
create) create ;;
delete) delete ;;
esac
