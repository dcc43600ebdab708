# backtrace [STATUS [ELEMENTS]]
#
# Prints the functions of the hook that were called, the innermost one last, each with the line of its file, and then STATUS. The
# innermost one is the place of the failure in why, runs and the log: the operator reads it from the file $RUN_FAILURE_PATH. The ERR
# trap calls backtrace with the status and the number of elements of the pipeline; a trap of your own may call it too.
backtrace() {
  local status=${1:-$?} IFS=' '
  local frame file line calls=' ' place='' text='' REPLY
  local -a record=() lines
  if [[ -n ${__shell_lib_handler:-} ]]; then
    # The handler is a process of its own and has printed its call stack. Here it is one command that failed.
    hook::_report "$status"
    return 0
  fi
  for ((frame = ${#FUNCNAME[@]} - 1; frame > 0; frame--)); do
    file=${BASH_SOURCE[frame]}
    line=${BASH_LINENO[frame - 1]}
    calls+="${FUNCNAME[frame]}:$line "
    if [[ ${FUNCNAME[frame]} == hook::run ]]; then
      place='' # calls of a handler follow
    fi
    if [[ ${FUNCNAME[frame]} == *::* && $file == "${BASH_SOURCE[0]%/*}"/* ]]; then
      continue # of this library
    fi
    shell_lib::_below_hooks "$file"
    text+="  $REPLY:$line in ${FUNCNAME[frame]}"$'\n'
    shell_lib::json_string "$file"
    place=",\"file\":$REPLY,\"line\":$line"
    if [[ ${FUNCNAME[frame]} != main ]]; then
      shell_lib::json_string "${FUNCNAME[frame]}"
      place+=",\"function\":$REPLY"
    fi
    if [[ -f $file && -r $file ]] && ((line > 0)); then
      mapfile -t -s "$((line - 1))" -n 1 lines <"$file"
      line=${lines[0]-}
      text+="    ${line#"${line%%[![:space:]]*}"}"$'\n'
    fi
  done
  # A failed subshell of the command has printed its calls, which begin with these. Its line may be another one in a pipeline.
  shell_lib::_read_failure
  if [[ ${record[1]-} == *' '"$status${calls%:*}:"* ]] && ((${record[1]%% *} > BASH_SUBSHELL)); then
    if ((${2:-1} > 1)) || [[ $BASH_COMMAND == '('* || $BASH_COMMAND == *['(`']* && ${record[1]} == *"$calls"* ]]; then
      shell_lib::_write_failure "$status$calls" "${record[0]}"
      return 0
    fi
  fi
  if [[ -z $place && -n ${__shell_lib_function:-} ]]; then
    shell_lib::json_string "$__shell_lib_function"
    place=",\"function\":$REPLY"
    text+="  $__shell_lib_function ended with the status of: ${BASH_COMMAND:0:200}"$'\n'
  fi
  printf '%s\n' "A command failed. Calls that led to it, the last one at the end:" "${text}exit status $status" >&2
  if ((${2:-1} == 1)); then
    shell_lib::json_string "${BASH_COMMAND:0:80}"
    place+=",\"command\":$REPLY"
  fi
  shell_lib::_write_failure "$status$calls" "{\"status\":$status$place}"
}

# shell_lib::_below_hooks FILE
#
# REPLY is the path of FILE below the directory of hooks, if it is there.
shell_lib::_below_hooks() {
  REPLY=$1
  if [[ -n ${HOOK_NAME:-} && $0 == *"/$HOOK_NAME" ]]; then
    REPLY=${1#"${0%"$HOOK_NAME"}"}
  fi
}

# shell_lib::_read_failure
#
# record has the last report of a failure: a JSON object for the operator, and for this library the depth of the subshell, the
# status, and the calls.
shell_lib::_read_failure() {
  record=()
  if [[ -f ${RUN_FAILURE_PATH:-} ]]; then
    mapfile -t record <"$RUN_FAILURE_PATH"
  fi
}

# shell_lib::_write_failure CALLS OBJECT
#
# The operator reads at most 4 KiB.
shell_lib::_write_failure() {
  if [[ -n ${RUN_FAILURE_PATH:-} ]]; then
    printf '%s\n' "$2" "$BASH_SUBSHELL ${1:0:1000}" 2>/dev/null >"$RUN_FAILURE_PATH" || true
  fi
}
