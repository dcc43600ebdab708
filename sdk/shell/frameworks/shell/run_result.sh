# The result of a run: when its contexts are delivered again, and what people see of it. A second call for the same key replaces
# the first one.
#
# A DURATION is a number with a unit, such as 90s, 5m or 1h30m.

# run::requeue_after DURATION
#
# After this run has succeeded, delivers what it contained again after DURATION, 1s to 720h. Each successful run decides again: without this
# call the polling ends.
#
#   run::requeue_after 5m
run::requeue_after() { run::_duration "$@" && run::_set requeueAfter "$REPLY"; }

# run::requeue [NAMESPACE/]NAME DURATION
#
# The same for one object of the contexts. It precedes run::requeue_after.
#
#   run::requeue "$namespace/$name" 30s
run::requeue() {
  local REPLY item=''
  if (($# != 2)) || [[ -z ${1##*/} ]]; then
    shell_lib::_complain 'write run::requeue [NAMESPACE/]NAME DURATION'
    return 1
  fi
  if [[ $1 == */* ]]; then
    shell_lib::json_string "${1%/*}" || return 1
    item="\"namespace\":$REPLY,"
  fi
  shell_lib::json_string "${1##*/}" || return 1
  item+="\"name\":$REPLY"
  run::_duration "$2" || return 1
  run::_set requeue "{$item,\"after\":$REPLY}" list
}

# run::keep_finalizer
#
# Keeps the finalizer of the objects that are being deleted: their Deleting is delivered again when run::requeue_after or run::requeue says.
# The run has succeeded, and its operations are applied.
#
#   run::requeue_after 30s
#   run::keep_finalizer
run::keep_finalizer() { run::_set keepFinalizer true; }

# run::retry_after DURATION
#
# If this run fails, the next attempt begins after DURATION, 0s to 24h, instead of the back-off. It does not end the hook.
#
#   run::retry_after 30s
#   exit 1
run::retry_after() { run::_duration "$@" && run::_set retryAfter "$REPLY"; }

# run::give_up REASON
#
# If this run fails, there are no more attempts: the task is parked or dropped. It does not end the hook.
#
#   run::give_up "the shop does not exist"
#   exit 1
run::give_up() {
  local REPLY
  if [[ -z ${1:-} ]]; then
    shell_lib::_complain 'say why: run::give_up REASON'
    return 1
  fi
  shell_lib::json_string "$1" && run::_set giveUp "$REPLY"
}

# run::message TEXT
#
# Shows TEXT, up to 1 KiB, in runs, in why and on the status page.
#
#   run::message "3 of 5 replicas are ready"
run::message() {
  local REPLY
  shell_lib::json_string "${1:-}" && run::_set message "$REPLY"
}

# run::_duration TEXT: REPLY is TEXT in quotes.
run::_duration() {
  if (($# != 1)) || [[ $1 != 0 && $1 != +(+([0-9])?(.*([0-9]))@(ns|us|ms|s|m|h)) ]]; then
    shell_lib::_complain "'${*:-}' is not a duration; write it like 90s, 5m or 1h30m"
    return 1
  fi
  REPLY="\"$1\""
}

# run::_set KEY VALUE [list]: the file is a YAML mapping with one line for each key, whose value is JSON. A list is appended to.
run::_set() {
  local line text='' value=$2
  local -a lines=()
  shell_lib::_has_file RUN_RESULT_PATH || return 1
  if [[ -s $RUN_RESULT_PATH ]]; then
    mapfile -t lines <"$RUN_RESULT_PATH"
  fi
  if [[ -n ${3:-} ]]; then
    value="[$value]"
  fi
  for line in "${lines[@]}"; do
    if [[ $line != "$1: "* ]]; then
      text+=$line$'\n'
    elif [[ -n ${3:-} ]]; then
      value="${line:${#1}+2:-1},$2]"
    fi
  done
  shell_lib::_replace RUN_RESULT_PATH "$text$1: $value"
}
