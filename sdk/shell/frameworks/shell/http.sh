# Responses to an HTTP request, for bindings under http. The default is status 204 without content.

# http::respond STATUS [TEXT [TYPE]]
#
# Responds with a text; for - it is read from stdin. TYPE is the content type, by default text/plain.
#
#   http::respond 404 "there is no such shop"
http::respond() {
  local REPLY text
  if [[ ${1:-} != [2-5][0-9][0-9] ]]; then
    shell_lib::_complain 'begin with a status from 200 to 599: http::respond STATUS [TEXT [TYPE]]'
    return 1
  fi
  text="{\"status\":$1"
  if (($# > 1)); then
    if [[ $2 == - ]]; then
      # The dot preserves trailing line ends.
      REPLY=$(cat && echo .) || return 1
      set -- "$1" "${REPLY%$'.'}" "${@:3}"
    fi
    shell_lib::json_string "$2" || return 1
    text+=",\"body\":$REPLY"
  fi
  if (($# > 2)); then
    shell_lib::json_string "$3" || return 1
    text+=",\"headers\":{\"Content-Type\":$REPLY}"
  fi
  shell_lib::_replace HTTP_RESPONSE_PATH "$text}"
}

# http::json STATUS [JSON]
#
# Responds with JSON; without it, or for -, it is read from stdin.
#
#   context::jq '.snapshots.shops | map(.filterResult)' | http::json 200
http::json() {
  local text
  if [[ ${1:-} != [2-5][0-9][0-9] ]]; then
    shell_lib::_complain 'begin with a status from 200 to 599: http::json STATUS [JSON]'
    return 1
  fi
  if [[ ${2--} == - ]]; then
    text=$(cat) || return 1
  else
    text=$2
  fi
  text=$(jq -cn --argjson status "$1" '
    [inputs]
    | if length == 1 then {$status, json: .[0]} else "http::json: give one JSON text\n" | halt_error(1) end' <<<"$text") || return 1
  shell_lib::_replace HTTP_RESPONSE_PATH "$text"
}
