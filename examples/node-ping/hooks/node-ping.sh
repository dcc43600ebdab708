#!/usr/bin/env bash
# Pings each node of the cluster every minute and counts the packets that are lost.
#
# PING_CRONTAB  when to ping; every minute when it is empty
# PING_COUNT    how many packets each node gets; 5 when it is empty
source "${SHELL_LIB:-/shell_lib.sh}"

# Changes of nodes cause no run. Each tick gets the current nodes as a snapshot. The filter keeps only the used fields of a
# Node in memory.
__config__() {
  cat <<EOT
configVersion: v1
settings:
  worker: true # bash starts once: each tick is a fork
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
}

# ping_node NODE ADDRESS adds a line to the metrics. It is one write, so the lines of several nodes do not mix.
ping_node() {
  local answer received status=0 count=${PING_COUNT:-5}
  local -i lost
  answer=$(LC_ALL=C ping -c "$count" -W 1 -q "$2") || status=$?
  # Both iputils and BusyBox: "5 packets transmitted, 4 received, …", "5 packets transmitted, 4 packets received, …"
  if [[ $answer =~ \ transmitted,\ ([0-9]+)\ .*received ]]; then
    received=${BASH_REMATCH[1]}
    lost=$((count > received ? count - received : 0))
  elif ((status >= 126)); then
    return "$status" # ping is missing or was killed: no result for the node
  else
    lost=$count # ping has printed the reason, for example an unreachable network
  fi
  if ((lost > 0)); then
    echo "Node '$1': $lost of $count packets to $2 are lost"
  fi
  metrics::add node_packets_lost "$lost" "node=$1" --group node-ping
}

__on_schedule::ping() {
  # Ticks that waited for a busy hook are merged. One round handles them all: each has the same snapshot.
  if ((BINDING_CONTEXT_CURRENT_INDEX > 0)); then
    return 0
  fi

  # A round takes as long as the slowest node: they are pinged concurrently.
  local nodes name address pid
  local -a pids=()
  nodes=$(context::snapshot nodes '.filterResult | "\(.name) \(.address // "")"')
  while read -r name address; do
    if [[ -n $address ]]; then
      { ping_node "$name" "$address" || exit "$?"; } &
      pids+=("$!")
    elif [[ -n $name ]]; then
      echo "Node '$name' has no address yet" >&2
    fi
  done <<<"$nodes"
  for pid in "${pids[@]}"; do
    wait "$pid" || exit "$?"
  done

  # A series that a run does not write to its group expires, so those of deleted nodes do. Without nodes there is no line.
  if ((${#pids[@]} == 0)); then
    metrics::expire node-ping
  fi
}

hook::run "$@"
