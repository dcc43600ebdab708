#!/bin/sh
# Maintains the Secret "htpasswd": one line for each User of the namespace.
#
# WATCH_NAMESPACE  the namespace of the Users and of the Secret; "default" when it is empty
set -eu

namespace=${WATCH_NAMESPACE:-default}

if [ "${1-}" = --config ]; then
  # The filter keeps only the used fields of a User, so that other changes cause no run. The API
  # server counts the changes of a spec in metadata.generation: while the revision is equal, so is the password.
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

# Log the reason of the run. Passwords are never printed.
jq -r '
  .[]
  | if .type == "Synchronization" then "Start with \(.objects | length) users"
    elif .type == "Event" then "User \u0027\(.filterResult.name)\u0027: \(.watchEvent)"
    else "Look at the users again"
    end
' "$BINDING_CONTEXT_PATH"

# All contexts of a run have the same snapshot, with the current state of every User, so reading it once handles
# any number of events. If two Users have one name, the first one wins.
users=$(jq -c '
  map(.snapshots.users | values) | last
  | map(.filterResult) | group_by(.name) | map(.[0] + {claims: length})
' "$BINDING_CONTEXT_PATH")

printf '%s\n' "$users" |
  jq -r '.[] | select(.claims > 1) | "User \u0027\(.name)\u0027 exists \(.claims) times, only the first one counts"' >&2

# Each line of $plan is a User as JSON. It has .line if the Secret already contains the hash of that revision: hashing
# again would give another hash (bcrypt adds salt) and update all mounts of the Secret.
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
  [ -n "$user" ] || continue # there are no Users
  line=$(printf '%s\n' "$user" | jq -r '.line // ""')
  if [ -z "$line" ]; then
    name=$(printf '%s\n' "$user" | jq -r .name)
    # From standard input, because process lists show arguments. A trailing empty line is removed here.
    line=$(printf '%s\n' "$user" | jq -r .password | htpasswd -niB "$name")
    echo "Hashed the password of '$name'"
  fi
  lines="$lines$line
"
done <<EOF
$plan
EOF

# kubectl reads the hashes from standard input, because process lists show arguments. Applying an unchanged Secret
# changes nothing.
revisions=$(printf '%s\n' "$users" | jq -c 'map({key: .name, value: .revision}) | from_entries')
printf '%s' "$lines" | jq -Rs --arg revisions "$revisions" '{
  apiVersion: "v1",
  kind: "Secret",
  metadata: {name: "htpasswd", annotations: {"example.com/revisions": $revisions}},
  type: "Opaque",
  data: {htpasswd: @base64}
}' | kubectl -n "$namespace" apply --server-side --force-conflicts --field-manager=users-htpasswd -f -
