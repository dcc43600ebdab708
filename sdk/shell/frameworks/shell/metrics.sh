# Metrics, served by the operator under /metrics/hooks. It adds the label hook.
#
# NAME consists of letters, digits, _ and :, a label's name of letters, digits and _. Series of the same GROUP expire
# together: the next run removes those that it does not write. Without --group the group is that of the hook.

# metrics::add NAME VALUE [LABEL=VALUE…] [--group GROUP]
#
# Increases a counter.
#
#   metrics::add orders_seen 1 "shop=$namespace"
metrics::add() {
  if [[ ${2:-} == -* ]]; then
    shell_lib::_complain "a counter only grows, so $2 cannot be added; use metrics::set for what also falls"
    return 1
  fi
  metrics::_write add "$@"
}

# metrics::set NAME VALUE [LABEL=VALUE…] [--group GROUP]
#
# Sets a gauge.
#
#   metrics::set pods_not_ready "$n" "namespace=$namespace" --group pods
metrics::set() { metrics::_write set "$@"; }

# metrics::observe NAME VALUE [--buckets 1,2,3] [LABEL=VALUE…] [--group GROUP]
#
# Adds an observation to a histogram. The default buckets are 0.005 to 10.
#
#   metrics::observe probe_seconds 0.42 --buckets 0.1,0.5,1 "target=$host"
metrics::observe() { metrics::_write observe "$@"; }

# metrics::expire [GROUP]
#
# Removes all series of GROUP, by default those that this hook has written without a group.
metrics::expire() {
  local REPLY
  if (($# > 1)) || [[ $# == 1 && -z $1 ]]; then
    shell_lib::_complain 'write metrics::expire GROUP; GROUP is empty or there is more than one'
    return 1
  fi
  local line='{"action":"expire"'
  if (($#)); then
    shell_lib::json_string "$1"
    line+=",\"group\":$REPLY"
  fi
  shell_lib::_append METRICS_PATH "$line}"
}

# metrics::_write ACTION NAME VALUE …
metrics::_write() {
  local REPLY action=$1 group='' buckets='' labels='' bucket
  local -a words=()
  shift
  while (($#)); do
    case $1 in
    --group=* | --buckets=*)
      set -- "${1%%=*}" "${1#*=}" "${@:2}"
      continue
      ;;
    --group | --buckets)
      if [[ -z ${2:-} ]]; then
        shell_lib::_complain "the option $1 needs a value"
        return 1
      fi
      if [[ $1 == --group ]]; then group=$2; else buckets=$2; fi
      shift
      ;;
    --*)
      shell_lib::_complain "there is no option $1; there are --group and, for metrics::observe, --buckets"
      return 1
      ;;
    *) words+=("$1") ;;
    esac
    shift
  done
  if ((${#words[@]} < 2)); then
    shell_lib::_complain "write metrics::$action NAME VALUE [LABEL=VALUE…] [--group GROUP]"
    return 1
  fi
  if [[ ${words[0]} != [a-zA-Z_:]*([a-zA-Z0-9_:]) ]]; then
    shell_lib::_complain "'${words[0]}' cannot be the name of a metric; use letters, digits, _ and :, and no digit at the beginning"
    return 1
  fi
  metrics::_number "${words[1]}" || return 1
  local line="{\"name\":\"${words[0]}\",\"action\":\"$action\",\"value\":${words[1]}"
  if [[ $action == observe ]]; then
    local -a list=()
    IFS=, read -r -a list <<<"$buckets"
    for bucket in "${list[@]}"; do
      metrics::_number "$bucket" || return 1
    done
    line+=",\"buckets\":[$buckets]"
  elif [[ -n $buckets ]]; then
    shell_lib::_complain "only metrics::observe has --buckets"
    return 1
  fi
  local word
  for word in "${words[@]:2}"; do
    if [[ $word != [a-zA-Z_]*([a-zA-Z0-9_])=* || $word == __* ]]; then
      shell_lib::_complain "'$word' is not a label; write LABEL=VALUE, with letters, digits and _ in LABEL, and not __ at its beginning"
      return 1
    fi
    shell_lib::json_string "${word#*=}" || return 1
    labels+=",\"${word%%=*}\":$REPLY"
  done
  if [[ -n $labels ]]; then
    line+=",\"labels\":{${labels:1}}"
  fi
  if [[ -n $group ]]; then
    shell_lib::json_string "$group"
    line+=",\"group\":$REPLY"
  fi
  shell_lib::_append METRICS_PATH "$line}"
}

# metrics::_number TEXT: is it a number in JSON?
metrics::_number() {
  if [[ $1 != ?(-)@(0|[1-9]*([0-9]))?(.+([0-9]))?([eE]?([-+])+([0-9])) ]]; then
    shell_lib::_complain "'$1' is not a number; write it like 3, 0.5 or 1e-3"
    return 1
  fi
}
