#!/usr/bin/env bash
#
# The library for hooks in bash. A hook sources it, defines functions, and ends with hook::run:
#
#   #!/usr/bin/env bash
#   source "${SHELL_LIB:-/shell_lib.sh}"
#
#   __config__() { echo '{"configVersion":"v1", "onStartup":1}'; }
#   __on_startup() { echo 'here we are'; }
#
#   hook::run "$@"
#
# It needs bash 4.4 or later and jq (1.6, 1.7 or gojq), and no other program but cat. It sets these options for the whole hook:
# errexit, errtrace, nounset, pipefail, inherit_errexit, failglob, and an ERR trap that logs where a command failed.
#
# The functions are in frameworks/shell beside this file. Every other *.sh file there and in /frameworks/shell is
# sourced too: put functions that your hooks share there.

if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 404)); then
  echo "shell_lib.sh: bash is $BASH_VERSION, but 4.4 or later is needed; install it and name it in the hook's first line" >&2
  exit 1
fi

set -Eeuo pipefail
shopt -s inherit_errexit failglob
trap 'backtrace "$?" "${#PIPESTATUS[@]}"' ERR

# __shell_lib_find DIR LOADED…: __shell_lib_files are the *.sh files below DIR whose path below it is not LOADED.
__shell_lib_find() {
  local option file
  local -a changed=()
  __shell_lib_files=()
  shopt -u failglob
  for option in globstar nullglob nocaseglob; do
    if ! shopt -q "$option"; then
      shopt -s "$option"
      changed+=("$option")
    fi
  done
  for file in "$1"/**/*.sh; do
    if [[ -f $file && " ${*:2} " != *" ${file#"$1"/} "* ]]; then
      __shell_lib_files+=("$file")
    fi
  done
  if ((${#changed[@]})); then
    shopt -u "${changed[@]}"
  fi
  shopt -s failglob
}

# Sourcing happens outside of functions, so that a declare in a sourced file creates a global variable.
__shell_lib_dir=.
if [[ ${BASH_SOURCE[0]} == */* ]]; then
  __shell_lib_dir=${BASH_SOURCE[0]%/*}
fi
__shell_lib_dir+=/frameworks/shell
__shell_lib_parts=(json.sh backtrace.sh context.sh hook.sh kubernetes.sh metrics.sh admission.sh conversion.sh http.sh run_result.sh)
# Images that copy the program and this file into another base often lack some parts, or have them elsewhere. The
# program contains all of them.
for __shell_lib_file in "${__shell_lib_parts[@]}"; do
  if [[ ! -f $__shell_lib_dir/$__shell_lib_file ]]; then
    if [[ ! -f ${SHELL_LIB:-} || ! -f ${SHELL_LIB%/*}/frameworks/shell/$__shell_lib_file ]]; then
      echo "shell_lib.sh: $__shell_lib_dir/$__shell_lib_file is missing; copy the whole directory /frameworks of the image to /frameworks" >&2
      exit 1
    fi
    __shell_lib_dir=${SHELL_LIB%/*}/frameworks/shell
    break
  fi
done
for __shell_lib_file in "${__shell_lib_parts[@]}"; do
  source "$__shell_lib_dir/$__shell_lib_file"
done
__shell_lib_find "$__shell_lib_dir" "${__shell_lib_parts[@]}"
for __shell_lib_file in "${__shell_lib_files[@]}"; do
  source "$__shell_lib_file"
done
if [[ ! $__shell_lib_dir -ef /frameworks/shell ]]; then
  # Files with the same name are the same library, possibly in another version.
  __shell_lib_find /frameworks/shell "${__shell_lib_parts[@]}" "${__shell_lib_files[@]#"$__shell_lib_dir"/}"
  for __shell_lib_file in "${__shell_lib_files[@]}"; do
    source "$__shell_lib_file"
  done
fi
unset __shell_lib_dir __shell_lib_parts __shell_lib_file __shell_lib_files
unset -f __shell_lib_find
