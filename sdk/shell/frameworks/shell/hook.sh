# hook::run [--config]
#
# The last line of a hook: hook::run "$@". With --config it calls __config__, which prints the configuration, and exits.
# Otherwise it calls one handler for each binding context, in order: the first of these functions that the hook defines.
#
#   onStartup                 __on_startup
#   type Synchronization      __on_kubernetes::BINDING::synchronization, __on_kubernetes::BINDING
#   type Event, Added         __on_kubernetes::BINDING::added, …::added_or_modified, __on_kubernetes::BINDING
#   type Event, Modified      __on_kubernetes::BINDING::modified, …::added_or_modified, __on_kubernetes::BINDING
#   type Event, Deleted       __on_kubernetes::BINDING::deleted, __on_kubernetes::BINDING
#   type Event, Deleting      __on_kubernetes::BINDING::deleting, __on_kubernetes::BINDING
#   type Requeue              __on_kubernetes::BINDING::requeue, …::added_or_modified, __on_kubernetes::BINDING, __on_schedule::BINDING,
#                             __main__, …::modified
#   type Group                __on_group::GROUP
#   type Schedule             __on_schedule::BINDING
#   type Validating           __on_validating::BINDING
#   type Mutating             __on_mutating::BINDING
#   type Conversion           __on_conversion::BINDING::FROM::TO, __on_conversion::BINDING
#   type HTTP                 __on_http::BINDING
#   any, as the last choice   __main__
#
# FROM and TO are the versions with a dot for the first slash. A name that cannot be part of a function's name is
# written with _ for each invalid character: __on_schedule::every_hour for "every hour".
#
# A handler runs in a subshell: variables that it sets are lost afterwards. It sees BINDING_CONTEXT_CURRENT_INDEX and
# BINDING_CONTEXT_CURRENT_BINDING. If it fails, the hook ends with its status, and later contexts are not handled.
# A hook that has disabled errexit (set +e) continues with the next context, and ends with the status of the last handler.
hook::run() {
  if [[ ${1:-} == --config ]]; then
    if ! declare -F __config__ >/dev/null; then
      shell_lib::_complain 'the function __config__ is not defined; it has to print the configuration'
      exit 1
    fi
    __config__
    exit 0
  fi
  if [[ -n ${HOOK_WORKER_FD:-} ]]; then
    hook::_serve
  fi

  # Handlers see these variables: bash looks names up in the callers. Hence the long names.
  local -i __shell_lib_index __shell_lib_status=0
  local -a __shell_lib_candidates
  local __shell_lib_handler='' __shell_lib_function=''
  context::_load || return 1
  for ((__shell_lib_index = 0; __shell_lib_index < ${#__shell_lib_elements[@]}; __shell_lib_index++)); do
    hook::_candidates "${__shell_lib_words[__shell_lib_index]}"
    # Neither this nor the handler after "if" or before "||": that would disable errexit.
    hook::_choose
    __shell_lib_status=$?
    if ((__shell_lib_status)); then
      continue
    fi
    (
      __shell_lib_function=$__shell_lib_handler
      __shell_lib_handler=''
      "$__shell_lib_function"
    )
    __shell_lib_status=$?
    # A failure gets here only if the hook has disabled errexit: continue.
    if ((__shell_lib_status)) && [[ -n $__shell_lib_handler ]]; then
      hook::_report "$__shell_lib_status"
    fi
    __shell_lib_handler=''
  done
  return "$__shell_lib_status"
}

# hook::_serve serves runs until the operator closes the socket: the protocol of settings.worker. Each run is a subshell. It uses builtins only.
hook::_serve() {
  local __shell_lib_variable __shell_lib_trap __shell_lib_options=$-
  local -i __shell_lib_channel=$HOOK_WORKER_FD __shell_lib_status
  local -a __shell_lib_variables
  unset HOOK_WORKER_FD
  __shell_lib_trap=$(trap -p ERR)
  # A failed run is no error of the worker.
  trap - ERR
  set +e
  printf 'ready\n' >&"$__shell_lib_channel"
  while :; do
    __shell_lib_variables=()
    while IFS= read -r -d '' __shell_lib_variable <&"$__shell_lib_channel"; do
      if [[ -z $__shell_lib_variable ]]; then
        break
      fi
      __shell_lib_variables+=("$__shell_lib_variable")
    done
    if [[ -n $__shell_lib_variable || ${#__shell_lib_variables[@]} -eq 0 ]]; then
      exit 0
    fi
    (
      exec {__shell_lib_channel}>&-
      export -- "${__shell_lib_variables[@]}"
      # To open a named pipe for writing blocks without a reader: first for both, which does not.
      if [[ -p $HOOK_STDOUT && -p $HOOK_STDERR ]]; then
        exec {__shell_lib_status}<>"$HOOK_STDOUT" >"$HOOK_STDOUT" {__shell_lib_status}>&-
        exec {__shell_lib_status}<>"$HOOK_STDERR" 2>"$HOOK_STDERR" {__shell_lib_status}>&-
      fi
      eval "$__shell_lib_trap"
      if [[ $__shell_lib_options == *e* ]]; then
        set -e
      fi
      hook::run
    )
    __shell_lib_status=$?
    printf '%s %d\n' "${__shell_lib_variables[0]#HOOK_RUN=}" "$__shell_lib_status" >&"$__shell_lib_channel"
  done
}

# hook::_candidates WORDS sets __shell_lib_candidates and the exported variables.
hook::_candidates() {
  local binding type event group from to name
  local -a found=()
  IFS=$'\x1f' read -r binding type event group from to <<<"$1"
  export BINDING_CONTEXT_CURRENT_INDEX=$__shell_lib_index
  export BINDING_CONTEXT_CURRENT_BINDING=${binding//$'\x1e'/$'\n'}
  name=__on_kubernetes::$binding
  if [[ $binding == onStartup ]]; then
    found=(__on_startup)
  else
    case $type:$event in
    Synchronization:*) found=("$name::synchronization" "$name") ;;
    Event:Added) found=("$name::added" "$name::added_or_modified" "$name") ;;
    Event:Modified) found=("$name::modified" "$name::added_or_modified" "$name") ;;
    Event:Deleted) found=("$name::deleted" "$name") ;;
    Event:Deleting) found=("$name::deleting" "$name") ;;
    Requeue:*) found=("$name::requeue" "$name::added_or_modified" "$name" "__on_schedule::$binding") ;;
    Group:*) found=("__on_group::$group") ;;
    Schedule:*) found=("__on_schedule::$binding") ;;
    Validating:*) found=("__on_validating::$binding") ;;
    Mutating:*) found=("__on_mutating::$binding") ;;
    Conversion:*) found=("__on_conversion::$binding::${from/\//.}::${to/\//.}" "__on_conversion::$binding") ;;
    HTTP:*) found=("__on_http::$binding") ;;
    esac
  fi
  found+=(__main__)
  if [[ $type == Requeue ]]; then
    found+=("$name::modified") # a hook without a choice of its own reconciles the object as after a change
  fi
  __shell_lib_candidates=("${found[@]//[[:space:][:cntrl:]\'\"\`\\\$\;\&\|\(\)<>]/_}")
}

# hook::_choose: __shell_lib_handler is the first of __shell_lib_candidates that is a function.
hook::_choose() {
  local candidate list
  for candidate in "${__shell_lib_candidates[@]}"; do
    if declare -F "$candidate" >/dev/null; then
      __shell_lib_handler=$candidate
      return 0
    fi
  done
  printf -v list '%s, ' "${__shell_lib_candidates[@]}"
  shell_lib::_complain "the hook defines none of the functions that may handle the context of binding '$BINDING_CONTEXT_CURRENT_BINDING'; define one of: ${list%, }"
  return 1
}

# hook::_report STATUS prints which handler failed. The name of one for all contexts does not have the binding. A handler that has ended by
# exit is the place of the failure, whatever failed before.
hook::_report() {
  local binding='' REPLY
  local -a record
  shell_lib::_read_failure
  if [[ ${record[1]-} != "$((BASH_SUBSHELL + 1)) $1 "* ]]; then
    shell_lib::json_string "$__shell_lib_handler"
    shell_lib::_write_failure "$1 " "{\"status\":$1,\"function\":$REPLY}"
  fi
  if [[ $__shell_lib_handler == __main__ ]]; then
    binding=" for binding '$BINDING_CONTEXT_CURRENT_BINDING'"
  fi
  echo "hook::run: $__shell_lib_handler failed with exit status $1$binding" >&2
  __shell_lib_handler=''
}
