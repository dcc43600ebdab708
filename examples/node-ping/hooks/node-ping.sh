#!/bin/sh
# Pings each node of the cluster every minute and counts the packets that are lost.
#
# PING_CRONTAB  when to ping; every minute when it is empty
# PING_COUNT    how many packets each node gets; 5 when it is empty
set -eu

if [ "${1-}" = --config ]; then
  # Changes of nodes cause no run. Each tick gets the current nodes as a
  # snapshot. The filter keeps only the used fields of a Node in memory.
  cat <<EOT
configVersion: v1
schedule:
- name: ping
  crontab: "${PING_CRONTAB:-* * * * *}"
  includeSnapshotsFrom: [nodes]
kubernetes:
- name: nodes
  apiVersion: v1
  kind: Node
  executeHookOnEvent: []
  executeHookOnSynchronization: false
  jqFilter: |
    [.status.addresses[]? | select(.type == "InternalIP") | .address] as \$addresses
    | {name: .metadata.name, address: \$addresses[0]}
  keepFullObjectsInMemory: false
EOT
  exit 0
fi

# Ticks that waited for a busy hook are merged. One round handles them all: each has the same snapshot.
nodes=$(jq -c 'map(.snapshots.nodes | values) | last // [] | map(.filterResult)' "$BINDING_CONTEXT_PATH")
printf '%s\n' "$nodes" | jq -r '.[] | select(.address == null) | "Node \u0027\(.name)\u0027 has no address yet"' >&2
nodes=$(printf '%s\n' "$nodes" | jq -r '.[] | select(.address != null) | "\(.name) \(.address)"')

count=${PING_COUNT:-5}

# ping_node NODE ADDRESS adds a line to the metrics. It is one write, so the lines of several nodes do not mix.
ping_node() {
  status=0
  answer=$(LC_ALL=C ping -c "$count" -W 1 -q "$2") || status=$?
  # Both iputils and BusyBox: "5 packets transmitted, 4 received, …", "5 packets transmitted, 4 packets received, …"
  received=$(printf '%s\n' "$answer" | sed -n 's/.* transmitted, \([0-9]*\) .*received.*/\1/p')
  if [ -n "$received" ]; then
    lost=$((count - received))
  elif [ "$status" -ge 126 ]; then
    return "$status" # ping is missing or was killed: no result for the node
  else
    lost=$count # ping has printed the reason, for example an unreachable network
  fi
  [ "$lost" -le 0 ] || echo "Node '$1': $lost of $count packets to $2 are lost"
  printf '{"group":"node-ping","name":"node_packets_lost","action":"add","value":%d,"labels":{"node":"%s"}}\n' \
    "$((lost > 0 ? lost : 0))" "$1" >>"$METRICS_PATH"
}

# A round takes as long as the slowest node: they are pinged concurrently.
pids=
while read -r name address; do
  [ -n "$name" ] || continue # there are no nodes
  ping_node "$name" "$address" &
  pids="$pids $!"
done <<EOT
$nodes
EOT

for pid in $pids; do
  wait "$pid"
done

# A series that a run does not write to its group expires, so those of deleted nodes do. Without nodes there is no line.
[ -n "$nodes" ] || echo '{"group":"node-ping","action":"expire"}' >"$METRICS_PATH"
