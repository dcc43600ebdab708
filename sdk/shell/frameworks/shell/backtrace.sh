# backtrace [STATUS]
#
# Prints the call stack to stderr, the innermost call last, each with the line of its file, and then STATUS. The ERR
# trap calls it; a trap of your own may call it too.
backtrace() {
  local status=${1:-$?}
  local frame file line
  local -a text
  if [[ -n ${__shell_lib_handler:-} ]]; then
    # The handler is a process of its own and has printed its call stack. Here it is one command that failed.
    hook::_report "$status"
    return 0
  fi
  {
    echo 'A command failed. Calls that led to it, the last one at the end:'
    for ((frame = ${#FUNCNAME[@]} - 1; frame > 0; frame--)); do
      file=${BASH_SOURCE[frame]}
      line=${BASH_LINENO[frame - 1]}
      echo "  $file:$line in ${FUNCNAME[frame]}"
      if [[ -f $file && -r $file ]] && ((line > 0)); then
        mapfile -t -s "$((line - 1))" -n 1 text <"$file"
        text=${text[0]-}
        echo "    ${text#"${text%%[![:space:]]*}"}"
      fi
    done
    echo "exit status $status"
  } >&2
}
