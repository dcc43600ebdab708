# Helpers of the other files. A function that computes a text returns it in REPLY: a command substitution
# would cost a process.

# shell_lib::json_string TEXT
#
# REPLY is TEXT as a JSON string.
shell_lib::json_string() {
  if [[ $1 != *[\\\"[:cntrl:]]* ]]; then
    REPLY="\"$1\""
    return 0
  fi
  # With a locale that is not installed, bash warns each time that it is restored.
  shell_lib::_json_string "$1" 2>/dev/null
}

shell_lib::_json_string() {
  # In other locales replacing is slow: seconds for a large manifest.
  local LC_ALL=C text=$1 octal char
  if ((${#text} > 16384)); then
    REPLY=$(jq -Rs '.[:-1]' <<<"$text") || return 1
    return 0
  fi
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  if [[ $text == *[[:cntrl:]]* ]]; then
    text=${text//$'\n'/\\n}
    text=${text//$'\t'/\\t}
    text=${text//$'\r'/\\r}
    if [[ $text == *[[:cntrl:]]* ]]; then
      for octal in {0..3}{0..7}; do
        if [[ $octal != 00 ]]; then
          printf -v char "\\$octal"
          printf -v octal '\\u%04x' "$((8#$octal))"
          text=${text//"$char"/"$octal"}
        fi
      done
    fi
  fi
  REPLY="\"$text\""
}

# shell_lib::_complain MESSAGE
#
# Prints MESSAGE to stderr, after the name of the function of the library that the hook has called.
shell_lib::_complain() {
  local -i frame=1
  while [[ ${FUNCNAME[frame + 1]:-} == @(context|conversion|kubernetes|metrics|admission|http|run|hook|shell_lib)::* ]]; do
    frame+=1
  done
  echo "${FUNCNAME[frame]}: $1" >&2
}

# shell_lib::_append VARIABLE TEXT
#
# Appends TEXT and a line end to the file that the environment variable names.
shell_lib::_append() {
  shell_lib::_has_file "$1" || return 1
  printf '%s\n' "$2" >>"${!1}"
}

# shell_lib::_replace VARIABLE TEXT
#
# The same, but TEXT becomes the whole content of the file.
shell_lib::_replace() {
  shell_lib::_has_file "$1" || return 1
  printf '%s\n' "$2" >"${!1}"
}

# shell_lib::_has_file VARIABLE
shell_lib::_has_file() {
  if [[ -z ${!1:-} ]]; then
    shell_lib::_complain "$1 is not set; the operator sets it for every run. To try the hook by hand, let it name a file"
    return 1
  fi
}
