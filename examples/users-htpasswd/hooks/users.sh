#!/bin/sh
# Keeps the Secret "htpasswd" current: one line for each User of the namespace.
#
# WATCH_NAMESPACE  the namespace of the Users and of the Secret; "default" when it is empty
set -eu

namespace=${WATCH_NAMESPACE:-default}

if [ "${1-}" = --config ]; then
  # The filter takes from a User only what is needed here, so that other changes of a User start nothing. The API
  # server counts the changes of a spec in metadata.generation: while the revision stays, the password does too.
  cat <<EOF
configVersion: v1
kubernetes:
- name: users
  apiVersion: example.com/v1
  kind: User
  namespace:
    nameSelector:
      matchNames: ["$namespace"]
  executeHookOnEvent: [Added, Modified, Deleted]
  jqFilter: |
    {name: .spec.name, password: .spec.password, revision: "\(.metadata.uid)/\(.metadata.generation)"}
  keepFullObjectsInMemory: false
  includeSnapshotsFrom: [users]
EOF
  exit 0
fi

# Say why we run. Passwords are never printed.
jq -r '
  .[]
  | if .type == "Synchronization" then "Start with \(.objects | length) users"
    elif .type == "Event" then "User \u0027\(.filterResult.name)\u0027: \(.watchEvent)"
    else "Look at the users again"
    end
' "$BINDING_CONTEXT_PATH"

# All contexts of a run carry the same snapshot. It holds every User as of now, so whatever has happened, and however
# often, one look at it is enough. Where two Users claim one name, the first one wins.
users=$(jq -c '
  map(.snapshots.users | values) | last
  | map(.filterResult) | group_by(.name) | map(.[0] + {claims: length})
' "$BINDING_CONTEXT_PATH")

printf '%s\n' "$users" |
  jq -r '.[] | select(.claims > 1) | "User \u0027\(.name)\u0027 exists \(.claims) times, only the first one counts"' >&2

# Each line of $plan is a User as JSON. It has .line where the Secret already holds the hash of that revision: hashing
# again would give another hash (bcrypt adds salt) and disturb everyone who mounts the Secret.
secret=$(kubectl -n "$namespace" get secret htpasswd --ignore-not-found -o json)
plan=$(printf '%s\n' "${secret:-null}" "$users" | jq -sc '
  (.[0].metadata.annotations["example.com/revisions"] // "{}" | fromjson) as $revisions
  | (.[0].data.htpasswd // "" | @base64d | split("\n")
     | map(select(contains(":")) | {key: split(":")[0], value: .}) | from_entries) as $lines
  | .[1][]
  | {name, password, line: (if $revisions[.name] == .revision then $lines[.name] else null end)}
')

lines=
while IFS= read -r user; do
  [ -n "$user" ] || continue # there are no Users at all
  line=$(printf '%s\n' "$user" | jq -r '.line // ""')
  if [ -z "$line" ]; then
    name=$(printf '%s\n' "$user" | jq -r .name)
    # By standard input: arguments can be read in the list of processes. An empty line that follows is cut off here.
    line=$(printf '%s\n' "$user" | jq -r .password | htpasswd -niB "$name")
    echo "Hashed the password of '$name'"
  fi
  lines="$lines$line
"
done <<EOF
$plan
EOF

# Hashes go to kubectl by standard input, where no list of processes shows them. Applied again, an unchanged Secret
# stays as it is.
revisions=$(printf '%s\n' "$users" | jq -c 'map({key: .name, value: .revision}) | from_entries')
printf '%s' "$lines" | jq -Rs --arg revisions "$revisions" '{
  apiVersion: "v1",
  kind: "Secret",
  metadata: {name: "htpasswd", annotations: {"example.com/revisions": $revisions}},
  type: "Opaque",
  data: {htpasswd: @base64}
}' | kubectl -n "$namespace" apply --server-side --force-conflicts --field-manager=users-htpasswd -f -
